#pragma once

// What is compiled once per instruction set: the arithmetic of conv2d, and the matrix-vector body.

#include <cstddef>
#include <cstdint>

#include "device/block.h"
#include "kernels/conv2d_micro.h"
#include "kernels/cpu_level.h"

namespace lagoon {

/// Rows of the largest micro-tile of any instruction set.
inline constexpr std::uint32_t kMaxMicroRows = 14;

struct ConvTarget {
  CpuLevel level;          // the lowest that runs these bodies
  std::uint32_t lanes;     // floats of a vector
  std::uint32_t max_rows;  // of a micro-tile
  double flops_per_us;     // of one unit in the micro-kernel; measured, used to size blocks
  /// The micro-kernels, by [vectors - 1][rows - 1].
  void (*multiply[2][kMaxMicroRows])(MicroTile&);
  /// Stores `rows` rows of sums, of which `columns` columns of a panel of `vectors` vectors exist.
  void (*store)(const float* sums, std::size_t rows, std::size_t vectors, std::size_t columns,
                const ConvStore& store);
  Body gemv;       // arguments: GemvArgs
  Body gemv_bf16;  // the same with weights of bf16
};

/// For the level of this process; lives for ever. Any thread.
const ConvTarget& ChosenConvTarget();

}  // namespace lagoon
