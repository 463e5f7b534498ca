#pragma once

// One time step of LSTM, GRU and RNN cells.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// What one step computes. x: the gates' part of the input, biases included; r: the recurrent
/// weights; h, c, z and r * h: states. Gates are in ONNX's order, one after the other along
/// [gates * hidden].
enum class CellKind : std::uint8_t {
  kLstm,      // x, r, h, c, [peepholes] -> h, c. Gates i, o, f, c; peepholes i, o, f
  kRnn,       // x, r, h -> h
  kGruGates,  // x, r, h -> z, r * h. First half of a GRU that resets before its product
  kGruState,  // x, r, h, z, r * h -> h. Second half of that GRU
  /// x, r, h, bias -> h. A GRU that resets after its product; bias [hidden] is the recurrent bias
  /// of gate h.
  kGruLinear,
};

struct CellSpec {
  CellKind kind = CellKind::kLstm;
  std::size_t batch = 1, hidden = 1;
  bool peepholes = false;
};

/// Inputs and outputs as CellKind lists them: x [batch, gates * hidden], r [gates * hidden,
/// hidden], states [batch, hidden], peepholes [3 * hidden]; all fp32; outputs must not overlap
/// inputs. A block computes some of the hidden units for the whole batch. kInvalidArgument if a
/// size is zero or too large.
Result<Kernel> MakeCell(const CellSpec& spec);

}  // namespace lagoon
