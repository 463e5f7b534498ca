#pragma once

// Products with constant weights of 2, 4 or 8 bits in blocks along the depth, as the op MatMulNBits
// of com.microsoft has them. The weights keep their bits in memory: a product of one row takes the
// time to read them.

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernel.h"

namespace lagoon {

/// y[i, j] = sum over p of x[i, p] * (level[p, j] - zero[p / block, j]) * scale[p / block, j] +
/// bias[j].
struct NbitsSpec {
  std::size_t rows = 1, depth = 1, columns = 1;
  std::size_t bits = 4;    // of a level: 2, 4 or 8
  std::size_t block = 32;  // 16 to 256, a multiple of 16
  /// x is rounded to 8 bits, with a scale for each row and block. The sums of a block are then
  /// exact, and all instruction-set levels give the same bits. A block with an infinity or a NaN
  /// makes its row NaN.
  bool bytes = false;
  bool half_scales = false;  // the packed form has the scales in fp16
  bool zeros = false;        // the packed form has zero points; without: 2^(bits - 1)
  bool bias = false;
};

/// Whether the kernel takes x in a form of its own, which another kernel makes.
bool NeedsNbitsX(const NbitsSpec& spec);
std::size_t NbitsXBytes(const NbitsSpec& spec);

/// Input: x [rows, depth] (fp32). Output: x as MakeNbits() takes it, NbitsXBytes() bytes. Errors as
/// there.
Result<Kernel> MakeNbitsX(const NbitsSpec& spec);

/// Inputs: x (see NeedsNbitsX), the packed weights, and bias [columns] if `bias`. Output: y [rows,
/// columns] (fp32). kInvalidArgument if a size is zero or too large, or for other bits or blocks.
Result<Kernel> MakeNbits(const NbitsSpec& spec);

/// Weights as ONNX has them.
struct NbitsWeights {
  std::span<const std::byte> levels;  // [columns][blocks]: `block` levels, the first one lowest
  std::span<const float> scales;      // [columns][blocks]
  /// Empty, or [columns]: the zero points of the blocks, packed like levels, to the next byte.
  std::span<const std::byte> zeros;
};

std::size_t PackedNbitsBytes(const NbitsSpec& spec);
/// Writes PackedNbitsBytes() bytes.
void PackNbits(const NbitsSpec& spec, const NbitsWeights& weights, std::byte* packed);
/// Writes the weights [depth, columns] as floats.
void DecodeNbits(const NbitsSpec& spec, const NbitsWeights& weights, float* decoded);

}  // namespace lagoon
