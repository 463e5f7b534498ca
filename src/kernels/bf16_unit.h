#pragma once

// The instructions of a CPU that multiply matrices of bf16 with sums in fp32, and their
// micro-kernel.
//
// A micro-kernel multiplies up to kBf16Rows rows of a matrix by one panel of weights. The depth
// goes in steps of kBf16Step elements; whoever packs fills the last one with zeros.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "kernels/cpu_level.h"
#include "plan/precision.h"

namespace lagoon {

/// The upper half of an fp32: sign, exponent and 7 bits of the mantissa.
enum class Bf16 : std::uint16_t {};

inline constexpr std::uint32_t kBf16Rows = 32;    // of a micro-tile, at most
inline constexpr std::uint32_t kBf16Step = 32;    // elements of the depth
inline constexpr std::uint32_t kBf16Vector = 16;  // columns of half a panel

/// One call of a micro-kernel: sums[row][column] = bias[column] + the products of `steps` steps, or
/// with `resume` the same on top of what `sums` holds.
struct Bf16Tile {
  const Bf16* a;        // row 0 at the first step
  std::size_t a_pitch;  // bytes between rows
  const Bf16* weights;  // [step][half of the panel][pair of the depth][column][2], 64-byte aligned
  std::uint32_t steps;  // at least 1
  std::uint32_t rows;   // 1 to kBf16Rows: what Enter() was told
  const float* bias;    // of all columns of the panel
  float* sums;          // [row][panel width], 64-byte aligned
  bool resume;
};

/// Results of all units are the same for finite numbers up to the order of additions. Lives for
/// ever; any thread.
struct Bf16Unit {
  const char* name;         // "AMX-BF16"
  const char* kernel_name;  // of conv2d on it
  CpuLevel level;           // the lowest that has it
  /// Of one worker, used to size blocks: a step takes row_ns for each row, and step_ns.
  double row_ns, step_ns;
  /// Before the first multiplication and whenever the number of rows changes.
  void (*enter)(std::uint32_t rows);
  /// The micro-kernels, by halves of the panel - 1.
  void (*multiply[2])(const Bf16Tile& tile);
  /// After the last multiplication: this thread holds no state of the unit any more, which the
  /// kernel would otherwise save at every switch.
  void (*leave)();
  /// Rounds to nearest, ties to even; denormals to zero.
  void (*convert)(const float* from, std::size_t count, Bf16* to);
};

/// The units of a CPU of this level, the fastest first. Empty below kAvx512Bf16.
std::span<const Bf16Unit* const> Bf16UnitsOf(CpuLevel level);

/// The fastest of them. kUnimplemented names the level that is needed and `level`.
Result<const Bf16Unit*> FindBf16Unit(CpuLevel level = ActiveCpuLevel());

/// kUnimplemented says what this CPU lacks for `precision`.
Status CheckPrecision(Precision precision);

/// Rounds as Bf16Unit::convert, on any CPU.
Bf16 ToBf16(float value);

}  // namespace lagoon
