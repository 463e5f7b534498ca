#pragma once

// What is compiled once per instruction set: the arithmetic of conv2d, and the matrix-vector body.

#include <cstddef>
#include <cstdint>

#include "device/block.h"
#include "kernels/conv/conv2d_micro.h"
#include "kernels/cpu_level.h"

namespace lagoon {

/// Rows of the largest micro-tile of any instruction set.
inline constexpr std::uint32_t kMaxMicroRows = 14;

struct ConvTarget {
  CpuLevel level;          // the lowest level that runs these bodies
  std::uint32_t lanes;     // floats per vector
  std::uint32_t max_rows;  // most rows of a micro-tile
  double flops_per_us;     // of the micro-kernel on one compute unit; measured, sizes blocks
  /// The micro-kernels, indexed by [rows are a list][vectors - 1][rows - 1].
  void (*multiply[2][2][kMaxMicroRows])(MicroTile&);
  /// Stores `rows` rows of sums of a panel of `vectors` vectors, of which the first `columns`
  /// columns exist.
  void (*store)(const float* sums, std::size_t rows, std::size_t vectors, std::size_t columns,
                const ConvStore& store);
  Body gemv;       // arguments: GemvArgs
  Body gemv_bf16;  // the same with bf16 weights
};

/// The target for the level of this process. Static lifetime; any thread.
const ConvTarget& ChosenConvTarget();

}  // namespace lagoon
