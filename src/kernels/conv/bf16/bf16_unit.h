#pragma once

// The CPU instructions that multiply matrices of bf16 with sums in fp32, and the micro-kernels that
// use them.
//
// A micro-kernel multiplies up to kBf16Rows rows of a matrix by one panel of weights. It walks the
// depth in steps of kBf16Step elements; the packing functions fill the last step with zeros.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "kernels/cpu_level.h"
#include "plan/precision.h"

namespace lagoon {

/// The upper half of an fp32: sign, exponent and 7 bits of the mantissa.
enum class Bf16 : std::uint16_t {};

inline constexpr std::uint32_t kBf16Rows = 32;    // most rows of a micro-tile
inline constexpr std::uint32_t kBf16Step = 32;    // elements of the depth in one step
inline constexpr std::uint32_t kBf16Vector = 16;  // columns of half a panel

/// One call of a micro-kernel: sums[row][column] = bias[column] + the products of `steps` steps.
/// With `resume` the products are added to the contents of `sums` instead.
struct Bf16Tile {
  const Bf16* a;        // row 0 at the first step
  std::size_t a_pitch;  // bytes between rows
  const Bf16* weights;  // [step][half of the panel][pair of the depth][column][2], 64-byte aligned
  std::uint32_t steps;  // at least 1
  std::uint32_t rows;   // 1 to kBf16Rows, the number that was passed to enter()
  const float* bias;    // for all columns of the panel
  float* sums;          // [row][panel width], 64-byte aligned
  bool resume;
};

/// One kind of bf16 instructions. For finite numbers all units give the same results, up to the
/// order of additions. Static lifetime; any thread.
struct Bf16Unit {
  const char* name;         // "AMX-BF16"
  const char* kernel_name;  // name of the conv2d kernel on this unit
  CpuLevel level;           // the lowest level that has this unit
  /// Time of one step on one compute unit: step_ns plus row_ns for each row. Used to size blocks.
  double row_ns, step_ns;
  /// Call before the first multiplication and whenever the number of rows changes.
  void (*enter)(std::uint32_t rows);
  /// The micro-kernels, indexed by (halves of the panel) - 1.
  void (*multiply[2])(const Bf16Tile& tile);
  /// Call after the last multiplication. The thread then holds no state of the unit, which the
  /// operating system would otherwise save at every context switch.
  void (*leave)();
  /// Rounds to nearest, ties to even; denormals become zero.
  void (*convert)(const float* from, std::size_t count, Bf16* to);
};

/// The units of a CPU of this level, the fastest first. Empty below kAvx512Bf16.
std::span<const Bf16Unit* const> Bf16UnitsOf(CpuLevel level);

/// The fastest unit of the level. The kUnimplemented message names the required level and `level`.
Result<const Bf16Unit*> FindBf16Unit(CpuLevel level = ActiveCpuLevel());

/// The kUnimplemented message says what this CPU lacks for `precision`.
Status CheckPrecision(Precision precision);

/// Rounds as Bf16Unit::convert, on any CPU.
Bf16 ToBf16(float value);

}  // namespace lagoon
