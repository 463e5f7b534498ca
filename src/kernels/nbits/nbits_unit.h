#pragma once

// The instructions that multiply weights of a few bits: micro-kernels for some rows of x and a
// panel of 16 columns.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace lagoon {

inline constexpr std::size_t kNbitsPanel = 16;      // columns of a panel
inline constexpr std::size_t kNbitsGroup = 12;      // most rows that share a level in a register
inline constexpr std::size_t kNbitsVector = 64;     // bytes: 4 of the depth for each column
inline constexpr std::size_t kNbitsMaxBlock = 256;  // depth of a block
inline constexpr std::size_t kNbitsPrefetchBytes = 4096;  // ahead of the stream of weights

/// The rows that a group for `rows` more rows has; what is not there counts as zeros.
constexpr std::size_t NbitsGroupRows(std::size_t rows) {
  for (const std::size_t group : {1, 2, 4, 8}) {
    if (rows <= group) return group;
  }
  return kNbitsGroup;
}

/// The packed form of a block of a panel: the levels, then 16 scales, then 16 zero points of a byte
/// if there are any. The levels lie in vectors [column][4 bytes]. A byte has one level for each
/// field of `bits`: field f of byte i of vector v is that of depth f * field_depth() + 4 * v + i.
struct NbitsBlock {
  std::uint32_t depth, bits;
  bool half_scales, zeros;

  constexpr std::size_t fields() const { return 8 / bits; }
  constexpr std::size_t field_depth() const { return depth / fields(); }
  constexpr std::size_t level_bytes() const { return depth * bits / 8 * kNbitsPanel; }
  constexpr std::size_t zeros_at() const {
    return level_bytes() + kNbitsPanel * (half_scales ? 2 : 4);
  }
  constexpr std::size_t bytes() const { return zeros_at() + (zeros ? kNbitsPanel : 0); }
};

/// One call of a micro-kernel: sums[row][column] = the products of some blocks. With `resume` they
/// are added to the contents of `sums`.
struct NbitsTile {
  NbitsBlock block;
  std::size_t blocks;
  const std::byte* weights;
  std::size_t rows;  // NbitsGroupRows() of something
  /// Floats [depth][row], or bytes [depth / 4][row][4] with a scale and a sum for each block and
  /// row.
  const float* x;
  const std::int8_t* x_bytes;
  const float* x_scale;
  const std::int32_t* x_sum;
  bool resume;
  float* sums;
};

/// One row of x in whole blocks as bytes, with scale and sum of each block. Blocks without a number
/// that counts have the scale 0; with an infinity or a NaN the scale is NaN, and all bytes are 0.
struct NbitsRow {
  const float* x;
  std::size_t blocks, block;
  std::int8_t* bytes;
  float* scale;
  std::int32_t* sum;
};

/// One kind of instructions. Static lifetime; any thread.
struct NbitsUnit {
  const char* name;
  /// Time on one compute unit: of a field of a vector (its levels), of its products with a row, and
  /// to scale the sums of a block and row.
  double field_ns, bytes_ns, floats_ns, scale_ns;
  void (*multiply_bytes)(const NbitsTile& tile);
  void (*multiply_floats)(const NbitsTile& tile);
  void (*round)(const NbitsRow& row);
};

/// The units that this process may use, the fastest first. Not empty: the last one is portable.
std::span<const NbitsUnit* const> NbitsUnits();

/// How a block of x becomes bytes.
struct NbitsFactors {
  static constexpr float kMost = 127;  // the largest byte
  /// Less is nothing: the inverse of the scale would be infinite.
  static constexpr float kLeast = 1e-36F;

  bool counts;      // false: all bytes are 0
  float by, scale;  // the bytes are x * by, and stand for byte * scale

  /// `most_bits`: the bits of the largest magnitude, by which a NaN is above all numbers.
  explicit NbitsFactors(std::uint32_t most_bits) {
    const auto most = std::bit_cast<float>(most_bits);
    const bool finite = most_bits < 0x7f800000;
    counts = finite && most >= kLeast;
    by = counts ? kMost / most : 0;
    scale = counts ? most / kMost : finite ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
};

}  // namespace lagoon
