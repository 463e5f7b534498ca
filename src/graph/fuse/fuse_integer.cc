// Linear ops on quantised tensors with constant weights. A product of 8-bit integers with its scale
// becomes one IntegerLinear; a ConvInteger with its scale becomes a DequantizeLinear and a Conv of
// floats. A QLinearConv becomes a convolution of floats between a DequantizeLinear and a
// QuantizeLinear, which later steps fuse.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

ValueId InputOr(const Node& node, std::size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoValue;
}

bool IsByte(DataType type) { return type == DataType::kInt8 || type == DataType::kUInt8; }

bool IsOne(const Graph& graph, ValueId id) { return ElementCount(graph.value(id).dims) == 1; }

bool IsConstant(const Graph& graph, ValueId id) { return graph.value(id).constant.has_value(); }

/// True for a constant with one number, or with one for each of `columns` columns. A left-out one
/// counts.
bool IsPerColumn(const Graph& graph, ValueId id, std::int64_t columns) {
  if (id == kNoValue) return true;
  const Dims& dims = graph.value(id).dims;
  const std::int64_t count = ElementCount(dims);
  return IsConstant(graph, id) && (count == 1 || (count == columns && dims.back() == columns));
}

/// The inputs of an IntegerLinear; its bias comes from other steps.
struct Product {
  ValueId x = kNoValue, w = kNoValue;
  ValueId x_scale = kNoValue, w_scale = kNoValue;
  ValueId x_zero = kNoValue, w_zero = kNoValue;

  std::vector<ValueId> inputs() const { return {x, w, kNoValue, x_scale, w_scale, x_zero, w_zero}; }
};

/// True if the kernel computes the product: bytes, with one matrix of constants on the right.
bool Fits(const Graph& graph, const Product& product) {
  const Value &x = graph.value(product.x), &w = graph.value(product.w);
  if (!IsByte(x.type) || !IsByte(w.type) || !w.constant) return false;
  if (x.dims.size() < 2 || w.dims.size() != 2 || x.dims.back() != w.dims[0]) return false;
  const std::int64_t columns = w.dims[1];
  const bool one_zero = product.x_zero == kNoValue || IsOne(graph, product.x_zero);
  const bool one_scale = product.x_scale == kNoValue || IsOne(graph, product.x_scale);
  return one_zero && one_scale && IsPerColumn(graph, product.w_zero, columns) &&
         IsPerColumn(graph, product.w_scale, columns);
}

/// Splits the factor behind a product into one number for x and numbers for the columns of w.
void SetScales(const GraphEditor& editor, const Graph& graph, ValueId factor, Product& product) {
  product.x_scale = factor;
  if (IsConstant(graph, factor)) return std::swap(product.x_scale, product.w_scale);
  const std::optional<std::size_t> producer = editor.Producer(factor);
  if (!producer || editor.node(*producer).op != "Mul") return;
  const std::vector<ValueId>& sides = editor.node(*producer).inputs;
  for (std::size_t side = 0; side < 2; ++side) {
    const ValueId number = sides[side], constant = sides[1 - side];
    if (!IsOne(graph, number) || IsConstant(graph, number) || !IsConstant(graph, constant)) {
      continue;
    }
    product.x_scale = number;
    product.w_scale = constant;
    return;
  }
}

/// A Mul of a factor with the Cast of a MatMulInteger becomes an IntegerLinear.
void TryFuse(const GraphEditor& editor, Graph& graph, std::size_t mul, std::size_t side) {
  Node& node = graph.nodes[mul];
  const std::optional<std::size_t> cast = editor.SoleProducer(node.inputs[side]);
  if (!cast || editor.node(*cast).op != "Cast") return;
  const std::optional<std::size_t> sum = editor.SoleProducer(editor.node(*cast).inputs[0]);
  if (!sum || editor.node(*sum).op != "MatMulInteger") return;
  const Node& matmul = editor.node(*sum);
  if (graph.value(node.outputs[0]).type != DataType::kFloat32 ||
      graph.value(node.outputs[0]).dims != graph.value(matmul.outputs[0]).dims) {
    return;
  }
  Product product{.x = matmul.inputs[0], .w = matmul.inputs[1]};
  product.x_zero = InputOr(matmul, 2);
  product.w_zero = InputOr(matmul, 3);
  SetScales(editor, graph, node.inputs[1 - side], product);
  if (!Fits(graph, product)) return;
  node.op = "IntegerLinear";
  node.inputs = product.inputs();
  node.packed = true;
}

/// (w - zero) * scale as fp32; zero and scale are one number or one for each output channel. The
/// sources: w, scale, [zero].
ConstantData::Bytes DequantizedWeights(std::span<const Constant> sources) {
  const std::vector<std::int64_t> w = sources[0].ToInt64();
  const std::span<const float> scale = sources[1].floats();
  const std::vector<std::int64_t> zero =
      sources.size() > 2 ? sources[2].ToInt64() : std::vector<std::int64_t>{0};
  const std::size_t per_channel = w.size() / static_cast<std::size_t>(sources[0].dims[0]);
  std::vector<float> floats(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::size_t channel = i / per_channel;
    const std::int64_t level = w[i] - zero[zero.size() == 1 ? 0 : channel];
    floats[i] = static_cast<float>(level) * scale[scale.size() == 1 ? 0 : channel];
  }
  return BytesOf(floats);
}

/// The numbers of a factor behind a convolution, one for each of `channels` output channels, or one
/// for all. Nothing if the factor differs along another axis of the output, which has `rank` axes.
std::optional<Constant> ChannelScales(const Graph& graph, ValueId factor, std::size_t rank,
                                      std::int64_t channels) {
  if (factor == kNoValue) return std::nullopt;
  const Value& value = graph.value(factor);
  if (!value.constant || value.type != DataType::kFloat32) return std::nullopt;
  if (IsOne(graph, factor)) return value.constant;
  const bool reaches = value.dims.size() + 1 >= rank && value.dims.size() <= rank;
  const bool per_channel = reaches && ElementCount(value.dims) == channels &&
                           value.dims[value.dims.size() + 1 - rank] == channels;
  return per_channel ? value.constant : std::nullopt;
}

/// Whether the weights of a ConvInteger and their zero point are constants, one zero point for all
/// channels or one for each, and x has at most one zero point.
bool IsStaticConv(const Graph& graph, const Node& conv) {
  const Value &x = graph.value(conv.inputs[0]), &w = graph.value(conv.inputs[1]);
  const ValueId x_zero = InputOr(conv, 2), w_zero = InputOr(conv, 3);
  if ((x.dims.size() != 3 && x.dims.size() != 4) || w.dims.size() != x.dims.size()) return false;
  if (!IsByte(x.type) || !IsByte(w.type) || !w.constant || x.sizes != kNoValue) return false;
  if (ElementCount(w.dims) == 0 || (x_zero != kNoValue && !IsOne(graph, x_zero))) return false;
  if (w_zero == kNoValue || (IsConstant(graph, w_zero) && IsOne(graph, w_zero))) return true;
  return IsConstant(graph, w_zero) && graph.value(w_zero).dims == Dims{w.dims[0]};
}

/// A Mul of a factor with the Cast of a ConvInteger becomes a Conv, the Cast a DequantizeLinear
/// before the Conv. The products are those of the integers, up to the rounding of fp32.
void TryFuseConv(GraphEditor& editor, Graph& graph, std::size_t mul, std::size_t side) {
  const std::optional<std::size_t> cast = editor.SoleProducer(graph.nodes[mul].inputs[side]);
  if (!cast || editor.node(*cast).op != "Cast") return;
  const std::optional<std::size_t> sum = editor.SoleProducer(editor.node(*cast).inputs[0]);
  if (!sum || editor.node(*sum).op != "ConvInteger") return;
  const Node conv = editor.node(*sum);
  const Value& y = graph.value(graph.nodes[mul].outputs[0]);
  const Dims x_dims = graph.value(conv.inputs[0]).dims;
  if (y.type != DataType::kFloat32 || y.dims != graph.value(conv.outputs[0]).dims) return;
  if (!IsStaticConv(graph, conv)) return;
  Product product{.x = conv.inputs[0], .w = conv.inputs[1]};
  SetScales(editor, graph, graph.nodes[mul].inputs[1 - side], product);
  const Constant w = *graph.value(product.w).constant;
  const auto scales = ChannelScales(graph, product.w_scale, y.dims.size(), w.dims[0]);
  if (!scales) return;
  // The scale of x must be known where the Cast is.
  const std::optional<std::size_t> before =
      product.x_scale == kNoValue ? std::nullopt : editor.Producer(product.x_scale);
  if (before && *before >= *cast) return;
  std::vector<Constant> sources{w, *scales};
  if (const ValueId zero = InputOr(conv, 3); zero != kNoValue) {
    sources.push_back(*graph.value(zero).constant);
  }
  const ValueId weights =
      editor.AddConstant(conv, "_weights",
                         DerivedConstant(DataType::kFloat32, w.dims, "dequantize by channel",
                                         std::move(sources), DequantizedWeights));
  if (product.x_scale == kNoValue) product.x_scale = editor.AddConstant(conv, "_scale", {}, {1});
  Node& dequantize = graph.nodes[*cast];
  dequantize.op = "DequantizeLinear";
  dequantize.inputs = {product.x, product.x_scale, InputOr(conv, 2)};
  dequantize.attributes = {{"axis", std::int64_t{-1}}};
  graph.value(dequantize.outputs[0]).dims = x_dims;
  Node& node = graph.nodes[mul];
  node.op = "Conv";
  node.inputs = {dequantize.outputs[0], weights};
  node.attributes = conv.attributes;
  node.packed = true;
}

ValueId AddLike(Graph& graph, const std::string& name, ValueId like) {
  Value value;
  value.name = name;
  value.dims = graph.value(like).dims;
  value.shape_known = true;
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size() - 1);
}

Node QuantizeOf(const Node& node, ValueId x) {
  return {node.name + "_quantize",
          "QuantizeLinear",
          {x, node.inputs[6], node.inputs[7]},
          node.outputs,
          {{"axis", std::int64_t{-1}}},
          {}};
}

/// QLinearMatMul as IntegerLinear and QuantizeLinear. False: it stays.
bool DivideMatMul(Graph& graph, const Node& node, std::vector<Node>& nodes) {
  const std::vector<ValueId>& in = node.inputs;
  const Product product{
      .x = in[0], .w = in[3], .x_scale = in[1], .w_scale = in[4], .x_zero = in[2], .w_zero = in[5]};
  if (!Fits(graph, product) || !IsOne(graph, in[6]) || !IsOne(graph, in[7])) return false;
  for (const ValueId scale : {in[1], in[4], in[6]}) {
    if (graph.value(scale).type != DataType::kFloat32) return false;
  }
  const ValueId y = AddLike(graph, node.name + "_product", node.outputs[0]);
  Node linear{node.name, "IntegerLinear", product.inputs(), {y}, {}, {}};
  linear.packed = true;
  nodes.push_back(std::move(linear));
  nodes.push_back(QuantizeOf(node, y));
  return true;
}

/// The bias of a QLinearConv in floats: its scale is that of x times that of w.
ValueId FloatBias(Graph& graph, const Node& node) {
  const std::vector<std::int64_t> levels = graph.value(node.inputs[8]).constant->ToInt64();
  const float x_scale = graph.value(node.inputs[1]).constant->floats()[0];
  const std::span<const float> w_scale = graph.value(node.inputs[4]).constant->floats();
  std::vector<float> bias(levels.size());
  for (std::size_t i = 0; i < bias.size(); ++i) {
    bias[i] = static_cast<float>(levels[i]) * (x_scale * w_scale[w_scale.size() == 1 ? 0 : i]);
  }
  return AddFloatConstant(graph, node.name + "_bias", {static_cast<std::int64_t>(bias.size())},
                          bias);
}

/// True if all parameters of a QLinearConv are constants that DequantizedWeights takes.
bool IsStatic(const Graph& graph, const Node& node) {
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != kNoValue && !IsConstant(graph, node.inputs[i])) return false;
  }
  const std::size_t rank = graph.value(node.inputs[0]).dims.size();
  if ((rank != 3 && rank != 4) || !IsByte(graph.value(node.inputs[3]).type)) return false;
  for (const std::size_t i : {1, 4, 6}) {
    if (graph.value(node.inputs[i]).type != DataType::kFloat32) return false;
  }
  for (const std::size_t i : {1, 2, 6, 7}) {
    if (node.inputs[i] == kNoValue || !IsOne(graph, node.inputs[i])) return false;
  }
  return true;
}

/// QLinearConv as DequantizeLinear, Conv and QuantizeLinear. False: it stays.
bool DivideConv(Graph& graph, const Node& node, std::vector<Node>& nodes) {
  if (!IsStatic(graph, node)) return false;
  const ValueId x = AddLike(graph, node.name + "_x", node.inputs[0]);
  const ValueId y = AddLike(graph, node.name + "_y", node.outputs[0]);
  const Constant w = *graph.value(node.inputs[3]).constant;
  std::vector<Constant> sources{w, *graph.value(node.inputs[4]).constant};
  if (node.inputs[5] != kNoValue) sources.push_back(*graph.value(node.inputs[5]).constant);
  Node conv{node.name, "Conv", {x}, {y}, node.attributes, {}};
  conv.packed = true;
  QuantizedConstant quantized{sources[0], sources[1], {}, IsOne(graph, node.inputs[4]) ? -1 : 0};
  if (sources.size() > 2) quantized.zero = sources[2];
  conv.inputs.push_back(
      AddConstant(graph, node.name + "_weights",
                  DerivedConstant(DataType::kFloat32, w.dims, "dequantize by channel",
                                  std::move(sources), DequantizedWeights)));
  graph.value(conv.inputs.back()).quantized =
      std::make_shared<const QuantizedConstant>(std::move(quantized));
  if (InputOr(node, 8) != kNoValue) conv.inputs.push_back(FloatBias(graph, node));
  nodes.push_back({node.name + "_dequantize",
                   "DequantizeLinear",
                   {node.inputs[0], node.inputs[1], node.inputs[2]},
                   {x},
                   {{"axis", std::int64_t{-1}}},
                   {}});
  nodes.push_back(std::move(conv));
  nodes.push_back(QuantizeOf(node, y));
  return true;
}

}  // namespace

void DivideQuantizedOps(Graph& graph) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    if (node.op == "QLinearMatMul" && DivideMatMul(graph, node, nodes)) continue;
    if (node.op == "QLinearConv" && DivideConv(graph, node, nodes)) continue;
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

void FuseIntegerProducts(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (std::size_t side = 0; side < 2 && graph.nodes[i].op == "Mul"; ++side) {
      TryFuse(editor, graph, i, side);
      if (graph.nodes[i].op == "Mul") TryFuseConv(editor, graph, i, side);
    }
  }
  editor.Finish();
}

}  // namespace lagoon
