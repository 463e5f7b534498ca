#include "program/lower/byte_flow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "kernels/conv/int8/byte_conv.h"
#include "plan/elementwise_ops.h"

namespace lagoon {
namespace {

bool HasInput(const Node& node, std::size_t i) {
  return i < node.inputs.size() && node.inputs[i] != kNoValue;
}

/// Whether all levels of weights minus their zero point are signed bytes.
bool IsCentered(const QuantizedConstant& weights) {
  const bool is_signed = weights.levels.type == DataType::kInt8;
  if (!weights.zero) return is_signed;
  if (weights.zero->type != weights.levels.type) return false;
  const std::vector<std::int64_t> zeros = weights.zero->ToInt64();
  return std::ranges::all_of(zeros,
                             [&](std::int64_t zero) { return zero == (is_signed ? 0 : 128); });
}

/// Whether the scales are usual numbers, one or one for each of the columns along `axis`.
bool HasScales(const QuantizedConstant& weights, std::int64_t axis, std::int64_t columns) {
  const std::span<const float> scales = weights.scale.floats();
  const auto count = static_cast<std::int64_t>(scales.size());
  if (count != 1 && (weights.axis != axis || count != columns)) return false;
  return std::ranges::all_of(
      scales, [](float s) { return s > 0 && s <= std::numeric_limits<float>::max(); });
}

/// Longer chains of nodes become several tables.
constexpr std::size_t kMostTableNodes = 64;

/// Whether each element of the output depends on the same element of the inputs, and on numbers.
bool IsFunctionOfOne(const Graph& graph, const Node& node) {
  const bool elementwise =
      elementwise::FindUnary(node.op) != nullptr || elementwise::FindBinary(node.op) != nullptr;
  if (!elementwise || node.outputs.size() != 1 || node.outputs[0] == kNoValue ||
      node.fused.residual != kNoValue || node.opaque != nullptr) {
    return false;
  }
  const Value& y = graph.value(node.outputs[0]);
  const bool plain = y.type == DataType::kFloat32 && y.sizes == kNoValue && y.shape_known;
  if (!plain || y.dims.empty() || ElementCount(y.dims) == 0) return false;
  return std::ranges::all_of(node.inputs, [&](ValueId id) {
    if (id == kNoValue) return true;
    const Value& x = graph.value(id);
    if (x.type != DataType::kFloat32) return false;
    if (x.constant) return ElementCount(x.dims) == 1 && x.dims.size() <= y.dims.size();
    return x.dims == y.dims && x.sizes == kNoValue;
  });
}

/// Whether a convolution in groups is worth a panel for each few of them: with fewer columns in a
/// group than this most weights are 0. Tiles multiply several times as fast as vectors.
bool FitsPanels(const ByteLinear& linear, std::int64_t channels) {
  const std::size_t fewest_columns = ByteUnits().front()->even ? 4 : 8;
  return linear.groups > 0 && linear.columns % linear.groups == 0 && channels % 4 == 0 &&
         linear.columns / linear.groups >= fewest_columns;
}

}  // namespace

std::optional<ByteGrid> ByteGridOf(float scale, float low) {
  const bool usual = scale >= std::numeric_limits<float>::min() && scale <= 1e30F;
  if (!usual || !(low >= -255 && low <= 0) || low != std::floor(low)) return std::nullopt;
  return ByteGrid{scale, static_cast<std::uint8_t>(-low)};
}

std::optional<ByteGrid> FusedGridOf(const Node& node) {
  const Fused& fused = node.fused;
  if (fused.activation != ActivationKind::kOp || fused.op != "FakeQuantize") return std::nullopt;
  Node fake;
  fake.attributes = fused.attributes;
  return ByteGridOf(fake.Float("scale", 0), fake.Float("low", 1));
}

std::optional<ByteGrid> DequantizedGridOf(const Graph& graph, const Node& node) {
  if (node.op != "DequantizeLinear") return std::nullopt;
  const Value& x = graph.value(node.inputs[0]);
  if (x.constant || (x.type != DataType::kUInt8 && x.type != DataType::kInt8)) return std::nullopt;
  const auto one = [&](std::size_t i, DataType type) -> const Constant* {
    const Value& value = graph.value(node.inputs[i]);
    const bool fits = value.constant && value.type == type && ElementCount(value.dims) == 1;
    return fits ? &*value.constant : nullptr;
  };
  const Constant* const scale = one(1, DataType::kFloat32);
  if (scale == nullptr) return std::nullopt;
  // Signed bytes count from -128.
  float zero = x.type == DataType::kInt8 ? 128 : 0;
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    const Constant* const point = one(2, x.type);
    if (point == nullptr) return std::nullopt;
    const auto byte = std::to_integer<std::uint8_t>((*point->bytes)[0]);
    zero += x.type == DataType::kInt8 ? static_cast<float>(static_cast<std::int8_t>(byte))
                                      : static_cast<float>(byte);
  }
  return ByteGridOf(scale->floats()[0], -zero);
}

bool MovesBytes(const Node& node) {
  constexpr std::array<std::string_view, 12> kOps{
      "Reshape", "Transpose", "Squeeze", "Unsqueeze",    "Flatten",      "MaxPool",
      "Slice",   "Split",     "Gather",  "DepthToSpace", "SpaceToDepth", "Concat"};
  if (node.fused.activation != ActivationKind::kNone || node.fused.residual != kNoValue) {
    return false;
  }
  if (node.op == "MaxPool" && node.outputs.size() > 1) return false;
  return std::ranges::find(kOps, std::string_view(node.op)) != kOps.end();
}

ByteFlow::ByteFlow(const Graph& graph, std::span<const Node> nodes) {
  for (const Node& node : nodes) {
    for (const ValueId input : node.inputs) {
      if (input != kNoValue) readers_[input].push_back(&node);
    }
    if (node.fused.residual != kNoValue) readers_[node.fused.residual].push_back(&node);
    if (node.outputs.empty() || node.outputs[0] == kNoValue ||
        graph.value(node.outputs[0]).type != DataType::kFloat32) {
      continue;
    }
    std::optional<ByteGrid> grid;
    if (node.op == "FakeQuantize") {
      grid = ByteGridOf(node.Float("scale", 0), node.Float("low", 1));
    } else if (node.op == "DequantizeLinear") {
      grid = DequantizedGridOf(graph, node);
    } else if (!node.fused.residual_last) {
      grid = FusedGridOf(node);
    }
    if (!grid && MovesBytes(node)) {
      grid = GridAt(node.inputs[0]);
      const bool all = node.op != "Concat" || std::ranges::all_of(node.inputs, [&](ValueId id) {
                         return GridAt(id) == grid;
                       });
      if (!all) grid.reset();
    }
    for (const ValueId output : node.outputs) {
      if (grid && output != kNoValue) grids_[output] = *grid;
    }
  }
  // An output of the graph has one more reader.
  for (const ValueId output : graph.outputs) readers_[output].push_back(nullptr);
  FindOrigins(graph, nodes);
  FindNeeded(graph, nodes);
}

void ByteFlow::FindOrigins(const Graph& graph, std::span<const Node> nodes) {
  for (const Node& node : nodes) {
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) makers_[output] = &node;
    }
    if (!IsFunctionOfOne(graph, node)) continue;
    std::optional<Origin> origin = OriginOf(graph, node, /*far=*/true);
    if (!origin || origin->nodes > kMostTableNodes) origin = OriginOf(graph, node, /*far=*/false);
    if (origin) origins_[node.outputs[0]] = *origin;
  }
}

std::optional<ByteFlow::Origin> ByteFlow::OriginOf(const Graph& graph, const Node& node,
                                                   bool far) const {
  Origin origin{.nodes = 1};
  for (const ValueId input : node.inputs) {
    if (input == kNoValue || graph.value(input).constant) continue;
    const auto found = far ? origins_.find(input) : origins_.end();
    if (found == origins_.end() && !GridAt(input)) return std::nullopt;
    const Origin from = found == origins_.end() ? Origin{input, 0} : found->second;
    if (origin.of != kNoValue && origin.of != from.of) return std::nullopt;
    origin.of = from.of;
    origin.nodes += from.nodes;
  }
  return origin.of == kNoValue ? std::nullopt : std::optional(origin);
}

/// The time of the nodes and of the table, in passes over the elements: those that convert between
/// bytes and floats count too.
bool ByteFlow::PrefersTable(const Graph& graph, const Node& node) const {
  const ValueId y = node.outputs[0];
  const auto origin = origins_.find(y);
  if (origin == origins_.end() || !GridAt(y)) return false;
  const ValueId x = origin->second.of;
  const auto maker = makers_.find(x);
  const bool has_bytes =
      WantsBytes(x) || (maker != makers_.end() && LinearOf(graph, *maker->second));
  const bool wants_bytes = WantsBytes(y), rounds = node.op != "FakeQuantize";
  const double passes = static_cast<double>(origin->second.nodes) + (has_bytes ? 1 : 0) +
                        (wants_bytes && rounds ? 1 : 0);
  return 0.5 + (has_bytes ? 0 : 1) + (wants_bytes ? 0 : 1) < passes;
}

ByteFunction ByteFlow::FunctionBehind(ValueId value) const {
  ByteFunction function{origins_.at(value).of, {}};
  std::set<const Node*, std::less<>> nodes;  // one array: by address is by time
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const Node* const node = makers_.at(open.back());
    open.pop_back();
    if (!nodes.insert(node).second) continue;
    for (const ValueId input : node->inputs) {
      if (input != function.of && origins_.contains(input)) open.push_back(input);
    }
  }
  function.nodes.assign(nodes.begin(), nodes.end());
  return function;
}

/// Walks backwards, so that what reads a value is known before the node that makes it.
void ByteFlow::FindNeeded(const Graph& graph, std::span<const Node> nodes) {
  std::set<ValueId> needed(graph.outputs.begin(), graph.outputs.end());
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    const bool makes = !node.outputs.empty();
    if (makes && origins_.contains(node.outputs[0]) && !needed.contains(node.outputs[0])) {
      in_tables_.insert(&node);
    } else if (makes && PrefersTable(graph, node)) {
      ByteFunction function = FunctionBehind(node.outputs[0]);
      needed.insert(function.of);
      wanted_.insert(function.of);
      functions_.emplace(node.outputs[0], std::move(function));
    } else {
      needed.insert(node.inputs.begin(), node.inputs.end());
      needed.insert(node.fused.residual);
      if (makes && !node.inputs.empty()) FindWanted(graph, node);
    }
  }
}

const ByteFunction* ByteFlow::FunctionOf(ValueId value) const {
  const auto found = functions_.find(value);
  return found == functions_.end() ? nullptr : &found->second;
}

std::optional<ByteGrid> ByteFlow::GridAt(ValueId value) const {
  const auto found = grids_.find(value);
  return found == grids_.end() ? std::nullopt : std::optional(found->second);
}

bool ByteFlow::IsReadAsImage(ValueId value) const {
  const auto found = readers_.find(value);
  return found != readers_.end() && std::ranges::any_of(found->second, [](const Node* reader) {
           return reader != nullptr && reader->op == "Conv";
         });
}

const Node* ByteFlow::OnlyReader(ValueId value) const {
  const auto found = readers_.find(value);
  return found == readers_.end() || found->second.size() != 1 ? nullptr : found->second.front();
}

const Node* ByteFlow::OnlyFake(ValueId value) const {
  const Node* const reader = OnlyReader(value);
  return reader != nullptr && reader->op == "FakeQuantize" ? reader : nullptr;
}

bool ByteFlow::KeepsFused(const Node& node) const {
  const Fused& fused = node.fused;
  const bool rounds = FusedGridOf(node).has_value();
  if (fused.residual != kNoValue) {
    return fused.residual_last && rounds && GridAt(fused.residual);
  }
  return fused.activation != ActivationKind::kOp || rounds;
}

std::optional<ByteLinear> ByteFlow::LinearOf(const Graph& graph, const Node& node) const {
  if (!node.packed || node.inputs.size() < 2) return std::nullopt;
  if (node.op != "Conv" && node.op != "Gemm" && node.op != "MatMul") return std::nullopt;
  if (!KeepsFused(node)) return std::nullopt;
  const Value& w = graph.value(node.inputs[1]);
  const std::optional<ByteGrid> grid = GridAt(node.inputs[0]);
  if (!grid || !w.constant || w.quantized == nullptr) return std::nullopt;
  if (HasInput(node, 2) && !graph.value(node.inputs[2]).constant) return std::nullopt;
  ByteLinear linear;
  linear.weights = w.quantized.get();
  linear.x = *grid;
  std::int64_t axis = 0;
  if (node.op == "Conv") {
    if (w.dims.size() != 3 && w.dims.size() != 4) return std::nullopt;
    linear.groups = static_cast<std::size_t>(node.Int("group", 1));
    linear.depth =
        static_cast<std::size_t>(ElementCount(w.dims) / std::max<std::int64_t>(1, w.dims[0]));
  } else {
    if (w.dims.size() != 2) return std::nullopt;
    axis = node.op == "Gemm" && node.Int("transB", 0) != 0 ? 0 : 1;
    linear.columns_last = axis == 1;
    linear.depth = static_cast<std::size_t>(w.dims[axis == 1 ? 0 : 1]);
  }
  const std::int64_t columns = w.dims[static_cast<std::size_t>(axis)];
  linear.columns = static_cast<std::size_t>(columns);
  linear.depthwise = linear.groups != 1 && w.dims[1] == 1 && linear.groups == linear.columns;
  if (linear.depthwise) {
    // Only bytes are written by the depthwise kernel.
    if (!FusedGridOf(node) && OnlyFake(node.outputs[0]) == nullptr) return std::nullopt;
  } else if (linear.groups != 1 && !FitsPanels(linear, w.dims[1])) {
    return std::nullopt;
  }
  if (linear.depth > kMaxByteDepth) return std::nullopt;
  if (linear.weights->levels.dims != w.dims || !IsCentered(*linear.weights) ||
      !HasScales(*linear.weights, axis, columns)) {
    return std::nullopt;
  }
  return linear;
}

void ByteFlow::FindWanted(const Graph& graph, const Node& node) {
  const bool linear = LinearOf(graph, node).has_value();
  if (linear) wanted_.insert(node.inputs[0]);
  if (linear && node.fused.residual_last) wanted_.insert(node.fused.residual);
  const bool all = std::ranges::all_of(
      node.inputs, [&](ValueId id) { return id != kNoValue && GridAt(id).has_value(); });
  const bool rounded = FusedGridOf(node) || OnlyFake(node.outputs[0]) != nullptr;
  const bool sum = node.op == "Add" && all && rounded;
  const Node* const fake = node.op == "Concat" ? OnlyFake(node.outputs[0]) : nullptr;
  const bool wanted =
      WantsBytes(node.outputs[0]) || (fake != nullptr && WantsBytes(fake->outputs[0]));
  const bool moves = MovesBytes(node) && wanted;
  if (sum || (moves && all && node.op == "Concat")) {
    wanted_.insert(node.inputs.begin(), node.inputs.end());
  } else if (moves && node.op != "Concat") {
    wanted_.insert(node.inputs[0]);
  }
}

}  // namespace lagoon
