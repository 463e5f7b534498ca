#pragma once

// A product of quantised activations with constant quantised weights, scaled to floats.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"
#include "plan/tensor.h"

namespace lagoon {

/// y[i, j] = activation(sum over p of (x[i, p] - x zero) * w[p, j] * (x scale * w scale[j]) +
/// bias[j] + residual[i, j]). The sums are exact: they wrap around only beyond 31 bits.
struct IntegerLinearSpec {
  std::size_t rows = 1, depth = 1, columns = 1;
  DataType x_type = DataType::kUInt8;  // or kInt8
  Epilogue epilogue = {};
  bool byte_weights = false;  // the weights are packed as bytes
};

/// Inputs: x [rows, depth] (`x_type`), x zero (one of `x_type`), packed weights, x scale (one
/// fp32), w scale [columns] (fp32), bias [columns] (fp32), and residual [rows, columns] if
/// `epilogue.residual`. Output: y [rows, columns] (fp32). kInvalidArgument if a size is zero or too
/// large; kUnimplemented for other types.
Result<Kernel> MakeIntegerLinear(const IntegerLinearSpec& spec);

/// Whether the kernel takes weights that are packed as bytes, which is then faster.
bool TakesByteWeights(const IntegerLinearSpec& spec);
/// The packed form of bytes. `weights`: [columns, depth].
std::size_t PackedIntegerByteWeightBytes(std::size_t depth, std::size_t columns);
void PackIntegerByteWeights(std::size_t depth, std::size_t columns, const std::int8_t* weights,
                            std::byte* packed);

/// Packed weights, of the level at which the process computes: their size in bytes, and the
/// function that makes them. `weights` [depth, columns]: integers minus their zero point, from -255
/// to 255.
std::size_t PackedIntegerWeightBytes(std::size_t depth, std::size_t columns);
void PackIntegerWeights(std::size_t depth, std::size_t columns, const std::int16_t* weights,
                        void* packed);

}  // namespace lagoon
