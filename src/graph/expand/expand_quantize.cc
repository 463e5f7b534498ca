// Ops of com.microsoft on 8-bit integers. They compute on the floats that the integers stand for,
// and round the result where the op has an 8-bit result. ONNX Runtime computes the same up to the
// rounding of the last step.

#include <fmt/format.h>

#include <algorithm>

#include "graph/expand/expand.h"
#include "graph/expand/expand_attention.h"
#include "graph/expand/parts.h"
#include "graph/import/tensor_import.h"

namespace lagoon {

ValueId Dequantized(Writer& w, const Quantized& from) {
  return w.Op("DequantizeLinear", {from.x, from.scale, from.zero}, {{"axis", from.axis}});
}

ValueId QuantizedTo(Writer& w, ValueId x, ValueId scale, ValueId zero, DataType type) {
  Writer::Attributes attributes;
  if (zero == kNoValue) attributes["output_dtype"] = ToOnnxType(type);
  return w.Op("QuantizeLinear", {x, scale, zero}, std::move(attributes));
}

namespace {

// The float behind the inputs `i` (integers), `i` + 1 (scale) and `i` + 2 (zero point).
ValueId FloatOf(Writer& w, std::size_t i) {
  return Dequantized(w, {w.In(i), w.In(i + 1), w.In(i + 2)});
}

// Output 0 is y in the scale of input `scale` and the zero point behind it.
void SetQuantized(Writer& w, ValueId y, std::size_t scale, std::size_t like = 0) {
  w.SetOutput(0, QuantizedTo(w, y, w.In(scale), w.In(scale + 1), w.TypeOf(w.In(like))));
}

// Two operands, each with scale and zero point.
void ExpandPair(Writer& w, const char* op) {
  const ValueId a = FloatOf(w, 0);
  const ValueId b = FloatOf(w, 3);
  SetQuantized(w, w.Op(op, {a, b}), 6);
}

void ExpandQLinearAdd(Writer& w) { ExpandPair(w, "Add"); }

void ExpandQLinearMul(Writer& w) { ExpandPair(w, "Mul"); }

void ExpandQLinearSigmoid(Writer& w) { SetQuantized(w, w.Op("Sigmoid", {FloatOf(w, 0)}), 3); }

void ExpandQLinearLeakyRelu(Writer& w) {
  SetQuantized(w, w.Op("LeakyRelu", {FloatOf(w, 0)}, w.node().attributes), 3);
}

// The scale and zero point of the output, then integers, scale and zero point of each part.
void ExpandQLinearConcat(Writer& w) {
  if (w.context().input_count() % 3 != 2) {
    return w.Refuse(w.context().Invalid("takes 2 inputs and 3 for each part"));
  }
  std::vector<ValueId> parts;
  for (std::size_t i = 2; i < w.context().input_count(); i += 3) parts.push_back(FloatOf(w, i));
  SetQuantized(w, w.Concat(std::move(parts), w.node().Int("axis", 0)), 0, 2);
}

void ExpandQLinearWhere(Writer& w) {
  SetQuantized(w, w.Op("Where", {w.In(0), FloatOf(w, 1), FloatOf(w, 4)}), 7, 1);
}

void ExpandQLinearReduceMean(Writer& w) {
  std::vector<ValueId> inputs{FloatOf(w, 0)};
  const std::vector<std::int64_t> axes = w.node().Ints("axes", {});
  if (!axes.empty()) inputs.push_back(w.Ints(axes));
  SetQuantized(w, w.Op("ReduceMean", std::move(inputs), AttributesWithout(w, {"axes"})), 3);
}

// Before opset 13 a softmax runs over all axes from `axis` on.
void ExpandQLinearSoftmax(Writer& w) {
  constexpr std::int64_t kOneAxisSince = 13;
  ValueId x = FloatOf(w, 0);
  const Dims dims = w.DimsOf(x);
  std::int64_t axis = w.node().Int("axis", -1);
  const bool flat = w.node().Int("opset", kOneAxisSince) < kOneAxisSince;
  if (flat) {
    const Result<std::int64_t> first = w.context().Axis(axis, dims.size());
    if (!first) return w.Refuse(tl::unexpected(first.error()));
    const std::int64_t rows = ElementCount(Dims(dims.begin(), dims.begin() + *first));
    x = w.Reshape(x, {rows, ElementCount(Dims(dims.begin() + *first, dims.end()))});
    axis = 1;
  }
  ValueId y = w.Op("Softmax", {x}, {{"axis", axis}});
  if (flat) y = w.Reshape(y, dims);
  SetQuantized(w, y, 3);
}

// Writes `op` on images whose channels are the second axis, or the last if channels_last is 1.
template <typename F>
ValueId WithChannelsFirst(Writer& w, ValueId x, F op) {
  if (w.node().Int("channels_last", 0) == 0) return op(x);
  const auto rank = static_cast<std::int64_t>(w.RankOf(x));
  std::vector<std::int64_t> to{0, rank - 1}, back{0};
  for (std::int64_t i = 1; i < rank - 1; ++i) to.push_back(i);
  for (std::int64_t i = 2; i < rank; ++i) back.push_back(i);
  back.push_back(1);
  return w.Transpose(op(w.Transpose(x, to)), back);
}

void ExpandQLinearGlobalAveragePool(Writer& w) {
  SetQuantized(w,
               WithChannelsFirst(w, FloatOf(w, 0),
                                 [&](ValueId x) { return w.Op("GlobalAveragePool", {x}); }),
               3);
}

void ExpandQLinearAveragePool(Writer& w) {
  SetQuantized(w,
               WithChannelsFirst(w, FloatOf(w, 0),
                                 [&](ValueId x) {
                                   return w.Op("AveragePool", {x},
                                               AttributesWithout(w, {"channels_last"}));
                                 }),
               3);
}

void ExpandQLinearConv(Writer& w) {
  w.SetOutput(0, WithChannelsFirst(w, w.In(0), [&](ValueId x) {
                std::vector<ValueId> inputs = w.node().inputs;
                inputs[0] = x;
                return w.Op("QLinearConv", std::move(inputs),
                            AttributesWithout(w, {"channels_last"}));
              }));
}

// a, its scale and zero point, b, its scale and zero point, [c], [scale and zero point of y]. The
// bias c has the scale of the product. Without a scale, y is a float.
void ExpandQGemm(Writer& w) {
  const auto scale_rank = w.RankOf(w.In(4));
  const bool transposed = w.node().Int("transB", 0) != 0;
  const ValueId b = Dequantized(
      w, {w.In(3), w.In(4), w.In(5), scale_rank == 1 && w.Dim(w.In(4), 0) > 1 && !transposed});
  ValueId bias = kNoValue;
  if (w.In(6) != kNoValue) {
    const ValueId scale = w.Mul(w.In(1), w.In(4));
    bias = w.Mul(w.Cast(w.In(6), DataType::kFloat32), scale);
  }
  ValueId y = w.Op("Gemm", {FloatOf(w, 0), b, bias}, AttributesWithout(w, {"alpha"}));
  y = w.Scaled(y, w.node().Float("alpha", 1));
  if (w.In(7) == kNoValue) {
    w.SetOutput(0, y);
  } else {
    SetQuantized(w, y, 7);
  }
}

/// A product of 8-bit integers, as a float: a is scaled per tensor, b per tensor or per column.
struct ByteProduct {
  Quantized a, b;
  ValueId bias = kNoValue;
};

ValueId FloatProduct(Writer& w, const ByteProduct& product) {
  const auto& [a, b, bias] = product;
  const ValueId sums = w.Op("MatMulInteger", {a.x, b.x, a.zero, b.zero});
  const ValueId y = w.Mul(w.Cast(sums, DataType::kFloat32), w.Mul(a.scale, b.scale));
  return w.AddIfAny(y, bias);
}

// a, b, their scales, [their zero points], [bias]
void ExpandMatMulIntegerToFloat(Writer& w) {
  w.SetOutput(0,
              FloatProduct(w, {{w.In(0), w.In(2), w.In(4)}, {w.In(1), w.In(3), w.In(5)}, w.In(6)}));
}

// a (a float), b, its scale, [its zero point], [bias]
void ExpandDynamicQuantizeMatMul(Writer& w) {
  const std::vector<ValueId> a = w.Nodes("DynamicQuantizeLinear", {w.In(0)}, {}, 3);
  w.SetOutput(0, FloatProduct(w, {{a[0], a[1], a[2]}, {w.In(1), w.In(2), w.In(3)}, w.In(4)}));
}

// x, weights, bias, their scales, [mask], [their zero points], [past]
void ExpandQAttention(Writer& w) {
  const ValueId projected =
      FloatProduct(w, {{w.In(0), w.In(3), w.In(6)}, {w.In(1), w.In(4), w.In(7)}, w.In(2)});
  AttendProjected(w, {projected, w.In(5), w.In(8)});
}

// Weights [directions,inputs,gates] with a scale per direction, or per direction and gate, as LSTM
// takes them.
ValueId RecurrentWeights(Writer& w, const Quantized& weights) {
  const auto spread = [&](ValueId x) {
    const std::int64_t gates = w.RankOf(x) == 2 ? w.Dim(x, 1) : 1;
    return w.Reshape(x, {w.Dim(x, 0), 1, gates});
  };
  ValueId x = w.Cast(weights.x, DataType::kFloat32);
  if (weights.zero != kNoValue) {
    x = w.Sub(x, w.Cast(spread(weights.zero), DataType::kFloat32));
  }
  return w.Transpose(w.Mul(x, spread(weights.scale)), {0, 2, 1});
}

// The inputs of an LSTM, then scale and zero point of its two weights.
void ExpandDynamicQuantizeLstm(Writer& w) {
  const ValueId input = RecurrentWeights(w, {w.In(1), w.In(8), w.In(9)});
  const ValueId recurrent = RecurrentWeights(w, {w.In(2), w.In(10), w.In(11)});
  const std::vector<ValueId> y =
      w.Nodes("LSTM", {w.In(0), input, recurrent, w.In(3), w.In(4), w.In(5), w.In(6), w.In(7)},
              w.node().attributes, 3);
  for (std::size_t i = 0; i < 3; ++i) w.SetOutput(i, y[i]);
}

// As the op of ai.onnx.
void ExpandSameQuantize(Writer& w) {
  w.SetOutput(0, w.Op(w.node().op, w.node().inputs, w.node().attributes));
}

// Whether row i of the weights has the scale of block i / block_size, as without input 4.
bool HasRowsInOrder(Writer& w) {
  if (w.In(4) == kNoValue) return true;
  const Constant* const rows = w.ConstantOf(w.In(4));
  const std::int64_t block = w.node().Int("block_size", 0);
  if (rows == nullptr || block < 1) return false;
  if (rows->type != DataType::kInt32 && rows->type != DataType::kInt64) return false;
  const std::vector<std::int64_t> blocks = rows->ToInt64();
  const std::int64_t depth = w.node().Int("K", 0), padded = (depth + block - 1) / block * block;
  const auto count = static_cast<std::int64_t>(blocks.size());
  if (count != depth && count != padded) return false;  // DecodeBlocks refuses it
  std::int64_t row = 0;
  return std::ranges::all_of(blocks, [&](std::int64_t b) { return b == row++ / block; });
}

// Whether a kernel takes the weights as they are.
bool KeepsBlocks(Writer& w) {
  constexpr std::int64_t kMostBlock = 256;
  const auto is_float = [&](ValueId x) {
    return IsFloat(w.TypeOf(x)) && w.TypeOf(x) != DataType::kFloat64;
  };
  const bool zeros = w.In(3) == kNoValue || w.TypeOf(w.In(3)) == DataType::kUInt8;
  return zeros && is_float(w.In(0)) && is_float(w.In(2)) &&
         w.node().Int("block_size", 0) <= kMostBlock && HasRowsInOrder(w);
}

// a, packed weights, scales, [zero points], [block of each row], [bias]
void ExpandMatMulNBits(Writer& w) {
  if (KeepsBlocks(w)) {
    Writer::Attributes attributes = w.node().attributes;
    attributes["half_scales"] = std::int64_t{w.TypeOf(w.In(2)) == DataType::kFloat16};
    return w.SetOutput(0, w.Op("MatMulNBits", {w.In(0), w.In(1), w.In(2), w.In(3), w.In(5)},
                               std::move(attributes)));
  }
  const ValueId weights = w.Op("DecodeBlocks", {w.In(1), w.In(2), w.In(3), w.In(4)},
                               AttributesWithout(w, {"accuracy_level"}));
  const ValueId a = w.In(0);
  w.SetOutput(0, w.AddIfAny(w.MatMul(a, w.Cast(weights, w.TypeOf(a))), w.In(5)));
}

// 4-bit numbers, two in each byte, the first one in its low half: x [.., N] as [.., 2 N].
ValueId Unpacked(Writer& w, ValueId x) {
  Dims dims = w.DimsOf(x);
  const ValueId low = w.Op("BitwiseAnd", {x, w.Number(15, DataType::kUInt8)});
  const ValueId high =
      w.Op("BitShift", {x, w.Number(4, DataType::kUInt8)}, {{"direction", std::string("RIGHT")}});
  const std::int64_t last = static_cast<std::int64_t>(dims.size());
  const ValueId both = w.Concat({w.Unsqueeze(low, {last}), w.Unsqueeze(high, {last})}, last);
  if (!dims.empty()) dims.back() *= 2;
  return w.Reshape(both, dims);
}

bool IsNarrow(const Writer& w, ValueId value) {
  const Constant* const constant = w.ConstantOf(value);
  return constant != nullptr && constant->narrow != 0;
}

// Where GatherBlockQuantized reads its inputs, and how.
struct GatheredBlocks {
  std::int64_t axis = 0, quantized = 0;  // axes of the data: of the indices and of the blocks
  std::int64_t at = 0;                   // the axis of the blocks behind the Gather
  std::int64_t block = 0;
  bool packed = false;  // bytes with two numbers
};

GatheredBlocks ReadBlocks(Writer& w) {
  GatheredBlocks g;
  const std::size_t rank = w.RankOf(w.In(0));
  const auto axis = [&](const char* name, std::int64_t otherwise) {
    const Result<std::int64_t> front = w.context().Axis(w.node().Int(name, otherwise), rank);
    if (!front) w.Refuse(tl::unexpected(front.error()));
    return front.value_or(0);
  };
  g.axis = axis("gather_axis", 0);
  g.quantized = axis("quantize_axis", 1);
  g.block = w.node().Int("block_size", 128);
  g.packed = w.TypeOf(w.In(0)) == DataType::kUInt8 && !IsNarrow(w, w.In(0)) &&
             w.node().Int("bits", 4) == 4;
  const bool fits = g.axis != g.quantized && g.block >= 1 &&
                    (!g.packed || g.quantized + 1 == static_cast<std::int64_t>(rank));
  if (w.status() && !fits) {
    w.Refuse(w.context().Invalid(fmt::format(
        "gathers along axis {} and has blocks of {} along axis {} of {} axes; the axes must "
        "differ, and blocks of 4-bit numbers in bytes lie along the last one",
        g.axis, g.block, g.quantized, rank)));
  }
  const auto indices = static_cast<std::int64_t>(w.RankOf(w.In(1)));
  g.at = g.quantized + (g.quantized > g.axis ? indices - 1 : 0);
  return g;
}

// data, indices, scales, [zero points]: rows of a quantised table as floats
void ExpandGatherBlockQuantized(Writer& w) {
  const GatheredBlocks g = ReadBlocks(w);
  const DataType type = w.TypeOf(w.In(2));
  const auto gathered = [&](ValueId from) {
    const ValueId rows = w.Op("Gather", {from, w.In(1)}, {{"axis", g.axis}});
    return w.Cast(g.packed ? Unpacked(w, rows) : rows, type);
  };
  const ValueId x = gathered(w.In(0));
  const std::int64_t size = w.Dim(x, g.at), blocks = w.Dim(w.In(2), g.quantized);
  if (w.status() && blocks != (size + g.block - 1) / g.block) {
    w.Refuse(w.context().Invalid(
        fmt::format("has {} scales for {} numbers in blocks of {}", blocks, size, g.block)));
  }
  const ValueId block_of = TableOf(w, DataType::kInt64, {size}, [&](std::int64_t i) {
    const std::int64_t block = i / g.block;
    return static_cast<double>(block);
  });
  const auto spread = [&](ValueId blocks_of) {
    return w.Op("Gather", {blocks_of, block_of}, {{"axis", g.at}});
  };
  const ValueId scales = spread(w.Op("Gather", {w.In(2), w.In(1)}, {{"axis", g.axis}}));
  ValueId number = x;
  if (w.In(3) != kNoValue) {
    ValueId zero = gathered(w.In(3));
    if (g.packed) zero = w.Slice(zero, g.at, 0, blocks);
    number = w.Sub(x, spread(zero));
  } else if (w.TypeOf(w.In(0)) == DataType::kUInt8 && !IsNarrow(w, w.In(0))) {
    number = w.Shifted(x, g.packed ? -8 : -128);
  }
  w.SetOutput(0, w.Mul(number, scales));
}

constexpr std::string_view kPoolAttributes =
    "s:auto_pad i:ceil_mode i:channels_last i:count_include_pad I:kernel_shape I:pads I:strides";
constexpr std::string_view kConvAttributes =
    "s:auto_pad i:channels_last I:dilations i:group I:kernel_shape I:pads I:strides";
constexpr std::string_view kQAttentionAttributes =
    "i:do_rotary f:mask_filter_value i:num_heads i:past_present_share_buffer f:scale "
    "i:unidirectional";
constexpr std::string_view kLstmAttributes =
    "F:activation_alpha F:activation_beta S:activations f:clip s:direction i:hidden_size "
    "i:input_forget";

constexpr Expansion kQuantizedExpansions[] = {
    {kMicrosoft, {"QLinearAdd", 1, 7, 8, 1, ""}, ExpandQLinearAdd},
    {kMicrosoft, {"QLinearMul", 1, 7, 8, 1, ""}, ExpandQLinearMul},
    {kMicrosoft, {"QLinearSigmoid", 1, 4, 5, 1, ""}, ExpandQLinearSigmoid},
    {kMicrosoft, {"QLinearLeakyRelu", 1, 4, 5, 1, "f:alpha"}, ExpandQLinearLeakyRelu},
    {kMicrosoft, {"QLinearConcat", 1, 5, kMaxGraphEdges, 1, "i:axis"}, ExpandQLinearConcat},
    {kMicrosoft, {"QLinearWhere", 1, 8, 9, 1, ""}, ExpandQLinearWhere},
    {kMicrosoft, {"QLinearReduceMean", 1, 4, 5, 1, "I:axes i:keepdims"}, ExpandQLinearReduceMean},
    {kMicrosoft, {"QLinearSoftmax", 1, 4, 5, 1, "i:axis i:opset"}, ExpandQLinearSoftmax},
    {kMicrosoft,
     {"QLinearGlobalAveragePool", 1, 4, 5, 1, "i:channels_last"},
     ExpandQLinearGlobalAveragePool},
    {kMicrosoft, {"QLinearAveragePool", 1, 4, 5, 1, kPoolAttributes}, ExpandQLinearAveragePool},
    {kMicrosoft, {"QLinearConv", 1, 8, 9, 1, kConvAttributes}, ExpandQLinearConv},
    {kMicrosoft, {"QGemm", 1, 5, 9, 1, "f:alpha i:transA i:transB"}, ExpandQGemm},
    {kMicrosoft, {"MatMulIntegerToFloat", 1, 4, 7, 1, ""}, ExpandMatMulIntegerToFloat},
    {kMicrosoft, {"DynamicQuantizeMatMul", 1, 3, 5, 1, ""}, ExpandDynamicQuantizeMatMul},
    {kMicrosoft, {"QAttention", 1, 5, 9, 2, kQAttentionAttributes}, ExpandQAttention},
    {kMicrosoft, {"DynamicQuantizeLSTM", 1, 3, 12, 3, kLstmAttributes}, ExpandDynamicQuantizeLstm},
    {kMicrosoft, {"QuantizeLinear", 1, 2, 3, 1, "i:axis i:block_size"}, ExpandSameQuantize},
    {kMicrosoft, {"DequantizeLinear", 1, 2, 3, 1, "i:axis i:block_size"}, ExpandSameQuantize},
    {kMicrosoft,
     {"GatherBlockQuantized", 1, 3, 4, 1, "i:bits i:block_size i:gather_axis i:quantize_axis"},
     ExpandGatherBlockQuantized},
    {kMicrosoft,
     {"MatMulNBits", 1, 3, 6, 1, "i:K i:N i:accuracy_level i:bits i:block_size"},
     ExpandMatMulNBits},
};

}  // namespace

std::span<const Expansion> QuantizedExpansions() { return kQuantizedExpansions; }

}  // namespace lagoon
