// The packed form of weights of a few bits.

#include <cstring>

#include "kernels/nbits/nbits_args.h"
#include "plan/element.h"

namespace lagoon {
namespace {

/// One block of one column, as ONNX has it.
struct Column {
  const NbitsWeights& weights;
  NbitsBlock block;
  std::size_t blocks;     // of a column
  std::size_t column, b;  // which one

  std::size_t index() const { return column * blocks + b; }
  const std::byte* levels() const {
    return weights.levels.data() + index() * block.depth * block.bits / 8;
  }
  int LevelAt(const std::byte* from, std::size_t i) const {
    const std::size_t bit = i * block.bits;
    return std::to_integer<int>(from[bit / 8]) >> bit % 8 & ((1 << block.bits) - 1);
  }
  int zero() const {
    if (weights.zeros.empty()) return 1 << (block.bits - 1);
    const std::size_t row_bytes = (blocks * block.bits + 7) / 8;
    return LevelAt(weights.zeros.data() + column * row_bytes, b);
  }
};

/// Four levels of 4 bits as bytes.
std::uint32_t Spread(std::uint16_t levels) {
  const std::uint32_t bytes = (levels & 0xffU) | (levels & 0xff00U) << 8;
  return (bytes & 0x000f000fU) | (bytes & 0x00f000f0U) << 4;
}

/// The levels of a column of a block.
void PackLevels(const Column& from, std::size_t place, std::byte* to) {
  const std::byte* const levels = from.levels();
  const std::size_t vectors = from.block.field_depth() / 4;
  for (std::size_t v = 0; v < vectors; ++v) {
    std::byte* const at = to + v * kNbitsVector + place * 4;
    if (from.block.bits == 8) {
      std::memcpy(at, levels + v * 4, 4);
    } else if (from.block.bits == 4) {
      std::uint16_t low, high;
      std::memcpy(&low, levels + v * 2, 2);
      std::memcpy(&high, levels + (vectors + v) * 2, 2);
      const std::uint32_t word = Spread(low) | Spread(high) << 4;
      std::memcpy(at, &word, 4);
    } else {
      for (std::size_t i = 0; i < 4 * from.block.fields(); ++i) {
        const std::size_t field = i / 4;
        const int level = from.LevelAt(levels, (field * vectors + v) * 4 + i % 4);
        at[i % 4] |= static_cast<std::byte>(level << (field * from.block.bits));
      }
    }
  }
}

void PackColumn(const Column& from, std::size_t place, std::byte* to) {
  PackLevels(from, place, to);
  const float scale = from.weights.scales[from.index()];
  std::byte* const scales = to + from.block.level_bytes();
  if (from.block.half_scales) {
    const Float16 half = Float16::From(scale);
    std::memcpy(scales + place * sizeof(half), &half, sizeof(half));
  } else {
    std::memcpy(scales + place * sizeof(scale), &scale, sizeof(scale));
  }
  if (from.block.zeros) to[from.block.zeros_at() + place] = static_cast<std::byte>(from.zero());
}

}  // namespace

void PackNbits(const NbitsSpec& spec, const NbitsWeights& weights, std::byte* packed) {
  const NbitsBlock block{static_cast<std::uint32_t>(spec.block),
                         static_cast<std::uint32_t>(spec.bits), spec.half_scales, spec.zeros};
  const std::size_t blocks = CeilDivide(spec.depth, spec.block);
  std::memset(packed, 0, PackedNbitsBytes(spec));
  for (std::size_t column = 0; column < spec.columns; ++column) {
    std::byte* to = packed + column / kNbitsPanel * blocks * block.bytes();
    for (std::size_t b = 0; b < blocks; ++b, to += block.bytes()) {
      PackColumn({weights, block, blocks, column, b}, column % kNbitsPanel, to);
    }
  }
}

void DecodeNbits(const NbitsSpec& spec, const NbitsWeights& weights, float* decoded) {
  const NbitsBlock block{static_cast<std::uint32_t>(spec.block),
                         static_cast<std::uint32_t>(spec.bits), spec.half_scales, spec.zeros};
  const std::size_t blocks = CeilDivide(spec.depth, spec.block);
  for (std::size_t column = 0; column < spec.columns; ++column) {
    for (std::size_t p = 0; p < spec.depth; ++p) {
      const Column from{weights, block, blocks, column, p / spec.block};
      const int level = from.LevelAt(from.levels(), p % spec.block) - from.zero();
      decoded[p * spec.columns + column] = static_cast<float>(level) * weights.scales[from.index()];
    }
  }
}

}  // namespace lagoon
