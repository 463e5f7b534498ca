// Quantised weights as floats, and floats as quantised weights.

#include <cmath>
#include <cstring>
#include <limits>

#include "graph/fold/evaluate.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using Bytes = std::vector<std::byte>;

/// The elements of a constant as floats.
std::vector<float> FloatsOf(const Constant& constant) {
  const auto count = static_cast<std::size_t>(ElementCount(constant.dims));
  return WithElementType(constant.type, [&]<typename T>(std::type_identity<T>) {
    std::vector<float> floats(count);
    for (std::size_t i = 0; i < count; ++i) {
      T element;
      std::memcpy(&element, constant.bytes->data() + i * sizeof(T), sizeof(T));
      floats[i] = ConvertElement<float>(element);
    }
    return floats;
  });
}

/// Which scale belongs to an element: the tensor is [outer, axis, inner], with one scale for
/// `block` neighbours along the axis.
struct Scales {
  std::size_t outer = 1, axis = 1, inner = 1;
  std::size_t block = 1;
  bool per_inner = false;  // scales per block also differ along the other axes
  std::vector<float> scale, zero;

  std::size_t At(std::size_t o, std::size_t a, std::size_t i) const {
    if (scale.size() == 1) return 0;
    if (!per_inner) return a;
    return (o * ((axis + block - 1) / block) + a / block) * inner + i;
  }
};

Scales ScalesOf(const OpContext& context) {
  Scales scales;
  const Dims& dims = context.dims(0);
  const std::int64_t axis = context.node().Int("axis", -1);  // -1: one scale
  const auto at = axis < 0 ? dims.size() : static_cast<std::size_t>(axis);
  const auto product = [&](std::size_t from, std::size_t to) {
    return static_cast<std::size_t>(
        ElementCount(Dims(dims.begin() + static_cast<std::ptrdiff_t>(from),
                          dims.begin() + static_cast<std::ptrdiff_t>(to))));
  };
  scales.outer = product(0, at);
  if (at < dims.size()) {
    scales.axis = product(at, at + 1);
    scales.inner = product(at + 1, dims.size());
  }
  const std::int64_t block = context.node().Int("block_size", 0);
  scales.per_inner = block > 0;
  scales.block = block > 0 ? static_cast<std::size_t>(block) : 1;
  scales.scale = FloatsOf(*context.constant(1));
  scales.zero = context.has_input(2) ? FloatsOf(*context.constant(2))
                                     : std::vector<float>(scales.scale.size(), 0.0f);
  return scales;
}

/// Calls f(element, scale, zero point) for every element in order.
template <typename F>
void ForEach(const Scales& scales, F&& f) {
  std::size_t element = 0;
  for (std::size_t o = 0; o < scales.outer; ++o) {
    for (std::size_t a = 0; a < scales.axis; ++a) {
      for (std::size_t i = 0; i < scales.inner; ++i) {
        const std::size_t at = scales.At(o, a, i);
        f(element++, scales.scale[at], scales.zero[at]);
      }
    }
  }
}

template <typename From, typename To>
ConstantBytes Dequantize(const OpContext& context, const Scales& scales) {
  const std::byte* from = context.constant(0)->bytes->data();
  auto bytes = std::make_shared<Bytes>(
      static_cast<std::size_t>(ElementCount(context.output(0).dims)) * sizeof(To));
  std::byte* to = bytes->data();
  // A difference of 32-bit integers may need more bits than a float has.
  using Exact = std::conditional_t<sizeof(From) == 4, double, float>;
  ForEach(scales, [&](std::size_t i, float scale, float zero) {
    From element;
    std::memcpy(&element, from + i * sizeof(From), sizeof(From));
    const auto number = static_cast<float>(static_cast<Exact>(element) - static_cast<Exact>(zero));
    const To result = ConvertElement<To>(number * scale);
    std::memcpy(to + i * sizeof(To), &result, sizeof(To));
  });
  return bytes;
}

}  // namespace

Result<ConstantBytes> EvaluateDequantize(const OpContext& context, std::size_t /*output*/) {
  const auto unsupported = [&]() -> Result<ConstantBytes> {
    return context.Unimplemented("is not evaluated on this type");
  };
  const Scales scales = ScalesOf(context);
  return WithElementTypeAmong<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                              Float16>(
      context.input(0).type,
      [&]<typename From>(std::type_identity<From>) -> Result<ConstantBytes> {
        return WithElementTypeAmong<float, Float16, BFloat16>(
            context.output(0).type,
            [&]<typename To>(std::type_identity<To>) -> Result<ConstantBytes> {
              return Dequantize<From, To>(context, scales);
            },
            unsupported);
      },
      unsupported);
}

Result<ConstantBytes> EvaluateQuantize(const OpContext& context, std::size_t /*output*/) {
  const Scales scales = ScalesOf(context);
  const std::span<const float> x = context.constant(0)->floats();
  return WithElementTypeAmong<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t>(
      context.output(0).type,
      [&]<typename To>(std::type_identity<To>) -> Result<ConstantBytes> {
        auto bytes = std::make_shared<Bytes>(x.size() * sizeof(To));
        ForEach(scales, [&](std::size_t i, float scale, float zero) {
          const float level = std::nearbyint(x[i] / scale) + zero;
          const To lowest = std::numeric_limits<To>::lowest();
          const To result = std::isnan(level) ? lowest : ConvertElement<To>(level);
          std::memcpy(bytes->data() + i * sizeof(To), &result, sizeof(To));
        });
        return bytes;
      },
      [&]() -> Result<ConstantBytes> {
        return context.Unimplemented("is not evaluated to this type");
      });
}

namespace {

/// The packed weights of a matrix [K,N]: for each column its blocks, and in a block `bits` for each
/// row, the first one in the lowest bits.
struct BlockWeights {
  std::size_t rows = 0, columns = 0, block = 0, blocks = 0, bits = 0;
  const std::byte* packed = nullptr;
  std::vector<float> scales, zeros;  // by column and block

  unsigned At(std::size_t column, std::size_t row) const {
    const std::size_t bytes = block * bits / 8;
    const std::size_t bit = row % block * bits;
    const std::byte* from = packed + (column * blocks + row / block) * bytes + bit / 8;
    return static_cast<unsigned>(*from) >> bit % 8 & ((1U << bits) - 1);
  }
};

/// Zero points are packed like the weights, or they are numbers like the scales.
std::vector<float> ZeroPoints(const OpContext& context, const BlockWeights& weights) {
  std::vector<float> zeros(weights.columns * weights.blocks,
                           static_cast<float>(1U << (weights.bits - 1)));
  if (!context.has_input(2)) return zeros;
  const Constant& constant = *context.constant(2);
  if (constant.type != DataType::kUInt8) return FloatsOf(constant);
  const std::size_t row_bytes = (weights.blocks * weights.bits + 7) / 8;
  for (std::size_t column = 0; column < weights.columns; ++column) {
    for (std::size_t b = 0; b < weights.blocks; ++b) {
      const std::size_t bit = b * weights.bits;
      const std::byte byte = (*constant.bytes)[column * row_bytes + bit / 8];
      zeros[column * weights.blocks + b] =
          static_cast<float>(static_cast<unsigned>(byte) >> bit % 8 & ((1U << weights.bits) - 1));
    }
  }
  return zeros;
}

/// The block whose scale and zero point each row has.
std::vector<std::size_t> BlocksOfRows(const OpContext& context, const BlockWeights& weights) {
  std::vector<std::size_t> blocks(weights.rows);
  std::vector<std::int64_t> given;
  if (context.has_input(3)) given = context.constant(3)->ToInt64();
  for (std::size_t row = 0; row < blocks.size(); ++row) {
    blocks[row] = given.empty() ? row / weights.block : static_cast<std::size_t>(given[row]);
  }
  return blocks;
}

}  // namespace

Result<ConstantBytes> EvaluateDecodeBlocks(const OpContext& context, std::size_t /*output*/) {
  const Node& node = context.node();
  BlockWeights weights;
  weights.rows = static_cast<std::size_t>(node.Int("K", 0));
  weights.columns = static_cast<std::size_t>(node.Int("N", 0));
  weights.block = static_cast<std::size_t>(node.Int("block_size", 0));
  weights.bits = static_cast<std::size_t>(node.Int("bits", 4));
  weights.blocks = (weights.rows + weights.block - 1) / weights.block;
  weights.packed = context.constant(0)->bytes->data();
  weights.scales = FloatsOf(*context.constant(1));
  weights.zeros = ZeroPoints(context, weights);
  const std::vector<std::size_t> block_of_row = BlocksOfRows(context, weights);
  auto bytes = std::make_shared<Bytes>(weights.rows * weights.columns * sizeof(float));
  constexpr std::size_t kLine = 16;  // floats of a cache line
  for (std::size_t first = 0; first < weights.columns; first += kLine) {
    const std::size_t end = std::min(weights.columns, first + kLine);
    for (std::size_t row = 0; row < weights.rows; ++row) {
      std::byte* to = bytes->data() + (row * weights.columns + first) * sizeof(float);
      for (std::size_t column = first; column < end; ++column, to += sizeof(float)) {
        const std::size_t at = column * weights.blocks + block_of_row[row];
        const float value =
            (static_cast<float>(weights.At(column, row)) - weights.zeros[at]) * weights.scales[at];
        std::memcpy(to, &value, sizeof(float));
      }
    }
  }
  return bytes;
}

}  // namespace lagoon
