#include "kernels/nbits/nbits_unit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu_level.h"
#include "kernels/nbits/nbits_unit_x86.h"
#include "plan/element.h"

namespace lagoon {
namespace nbits {
namespace {

// ---- Portable

/// One block of one column.
struct PlainColumn {
  const NbitsBlock& block;
  const std::byte* packed;
  std::size_t column;

  int Level(std::size_t depth) const {
    const std::size_t field = depth / block.field_depth(), at = depth % block.field_depth();
    const std::byte byte = packed[at / 4 * kNbitsVector + column * 4 + at % 4];
    return std::to_integer<int>(byte) >> (field * block.bits) & ((1 << block.bits) - 1);
  }
  int zero() const {
    if (!block.zeros) return 1 << (block.bits - 1);
    return std::to_integer<int>(packed[block.zeros_at() + column]);
  }
  float scale() const {
    const std::byte* const scales = packed + block.level_bytes();
    if (block.half_scales) {
      Float16 half;
      std::memcpy(&half, scales + column * sizeof(half), sizeof(half));
      return static_cast<float>(half);
    }
    float scale;
    std::memcpy(&scale, scales + column * sizeof(scale), sizeof(scale));
    return scale;
  }
};

/// Calls add(column, block, row, sum) for every block, column and row of a tile.
template <typename Add>
void ForEachColumn(const NbitsTile& tile, Add add) {
  if (!tile.resume) std::fill_n(tile.sums, tile.rows * kNbitsPanel, 0.0F);
  for (std::size_t b = 0; b < tile.blocks; ++b) {
    for (std::size_t c = 0; c < kNbitsPanel; ++c) {
      const PlainColumn column{tile.block, tile.weights + b * tile.block.bytes(), c};
      for (std::size_t row = 0; row < tile.rows; ++row) {
        add(column, b, row, tile.sums[row * kNbitsPanel + c]);
      }
    }
  }
}

void MultiplyBytes(const NbitsTile& tile) {
  const std::size_t depth = tile.block.depth;
  ForEachColumn(tile, [&](const PlainColumn& column, std::size_t b, std::size_t row, float& sum) {
    const std::int8_t* const x = tile.x_bytes + b * depth * tile.rows + row * 4;
    std::int32_t products = -column.zero() * tile.x_sum[b * tile.rows + row];
    for (std::size_t p = 0; p < depth; ++p) {
      products += column.Level(p) * x[p / 4 * 4 * tile.rows + p % 4];
    }
    // As one operation, as on the other levels.
    sum = std::fma(static_cast<float>(products), column.scale() * tile.x_scale[b * tile.rows + row],
                   sum);
  });
}

void MultiplyFloats(const NbitsTile& tile) {
  const std::size_t depth = tile.block.depth;
  ForEachColumn(tile, [&](const PlainColumn& column, std::size_t b, std::size_t row, float& sum) {
    const float* const x = tile.x + b * depth * tile.rows + row;
    float products = 0;
    for (std::size_t p = 0; p < depth; ++p) {
      products += static_cast<float>(column.Level(p) - column.zero()) * x[p * tile.rows];
    }
    sum += products * column.scale();
  });
}

void Round(const NbitsRow& row) {
  for (std::size_t b = 0; b < row.blocks; ++b) {
    const float* const x = row.x + b * row.block;
    std::int8_t* const bytes = row.bytes + b * row.block;
    std::uint32_t most_bits = 0;
    for (std::size_t i = 0; i < row.block; ++i) {
      most_bits = std::max(most_bits, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffff);
    }
    const NbitsFactors factors(most_bits);
    row.scale[b] = factors.scale;
    row.sum[b] = 0;
    for (std::size_t i = 0; i < row.block; ++i) {
      bytes[i] = static_cast<std::int8_t>(factors.counts ? std::nearbyint(x[i] * factors.by) : 0);
      row.sum[b] += bytes[i];
    }
  }
}

constexpr NbitsUnit kPortable = {"portable",      0,     100, 100, 20, &MultiplyBytes,
                                 &MultiplyFloats, &Round};

std::vector<const NbitsUnit*> FindUnits() {
  std::vector<const NbitsUnit*> units;
#ifdef LAGOON_HAS_NBITS_UNITS
  const ByteProducts products = ProcessByteProducts();
  if (products.avx512) units.push_back(&kNbitsVnni512);
  if (products.avx) units.push_back(&kNbitsVnni256);
  if (ActiveCpuLevel() >= CpuLevel::kAvx2) units.push_back(&kNbitsAvx2);
#endif
  units.push_back(&kPortable);
  return units;
}

}  // namespace
}  // namespace nbits

std::span<const NbitsUnit* const> NbitsUnits() {
  static const std::vector<const NbitsUnit*> units = nbits::FindUnits();
  return units;
}

}  // namespace lagoon
