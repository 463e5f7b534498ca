#pragma once

// One time step of LSTM, GRU and RNN cells.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// What a step computes from x (the gates' part of the input, biases included), the recurrent
/// weights r and the state. Gates are in ONNX's order, one after the other along [gates * hidden].
enum class CellKind : std::uint8_t {
  kLstm,       // x, r, h, c, [peepholes] -> h, c: gates i, o, f, c; peepholes i, o, f
  kRnn,        // x, r, h -> h
  kGruGates,   // x, r, h -> z, r * h: the first half of a GRU that resets before its product
  kGruState,   // x, r, h, z, r * h -> h: the second half
  kGruLinear,  // x, r, h, bias -> h: a GRU that resets after its product; bias [hidden] is its
               // recurrent bias of gate h
};

struct CellSpec {
  CellKind kind = CellKind::kLstm;
  std::size_t batch = 1, hidden = 1;
  bool peepholes = false;
};

/// Inputs and outputs as CellKind lists them: x [batch, gates * hidden], r [gates * hidden,
/// hidden], states [batch, hidden], peepholes [3 * hidden]; all fp32, no overlap. A block computes
/// some of the hidden units for the whole batch. kInvalidArgument when a size is zero or too large.
Result<Kernel> MakeCell(const CellSpec& spec);

}  // namespace lagoon
