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

/// ONNX's activation functions of cells, with their parameters alpha and beta.
enum class CellFunction : std::uint8_t {
  kSigmoid,
  kTanh,
  kRelu,
  kAffine,           // alpha * x + beta
  kLeakyRelu,        // x < 0: alpha * x
  kThresholdedRelu,  // x if x >= alpha, otherwise 0
  kScaledTanh,       // alpha * tanh(beta * x)
  kHardSigmoid,      // alpha * x + beta, limited to [0,1]
  kElu,              // x < 0: alpha * (exp(x) - 1)
  kSoftsign,         // x / (1 + |x|)
  kSoftplus,         // log(1 + exp(x))
};

struct CellActivation {
  CellFunction function = CellFunction::kSigmoid;
  float alpha = 0, beta = 0;
};

struct CellSpec {
  CellKind kind = CellKind::kLstm;
  std::size_t batch = 1, hidden = 1;
  bool peepholes = false;
  CellActivation gate{CellFunction::kSigmoid};    // of i, o, f, z and r
  CellActivation candidate{CellFunction::kTanh};  // of c and h; the only one of kRnn
  CellActivation output{CellFunction::kTanh};     // of the new cell state of kLstm
  /// Above 0: limits what goes into `gate` and `candidate` to [-clip, clip].
  float clip = 0;
  bool coupled = false;  // kLstm: f = 1 - i
  /// The last input is the number of steps of each sequence, [batch] (int32). In a step behind the
  /// last one of a sequence its states stay as they are; this step is number `step`.
  bool lengths = false;
  std::int32_t step = 0;
};

/// Inputs and outputs as CellKind lists them, then the lengths: x [batch, gates * hidden],
/// r [gates * hidden, hidden], states [batch, hidden], peepholes [3 * hidden]; all fp32; outputs
/// must not overlap inputs. A block computes some of the hidden units for the whole batch.
/// kInvalidArgument if a size is zero or too large.
Result<Kernel> MakeCell(const CellSpec& spec);

}  // namespace lagoon
