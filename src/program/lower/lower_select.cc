// Ops that choose elements, so that the shape of their output depends on data. Their last outputs
// are the actual sizes (Value::sizes).

#include <fmt/format.h>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

/// A tensor for output `i` of the node, even if nothing reads that output.
Tensor OutputOf(ProgramBuilder& builder, const Node& node, std::size_t i, DataType type,
                const Dims& dims) {
  Tensor tensor = builder.NewTensor(fmt::format("{}.{}", node.name, i), dims, Layout::kPlain, type);
  if (i < node.outputs.size() && node.outputs[i] != kNoValue) {
    builder.Define(node.outputs[i], tensor);
  }
  return tensor;
}

/// The sizes of output `i`, which the graph has, or others of no use.
Tensor SizesOf(ProgramBuilder& builder, const Node& node, std::size_t i, std::size_t rank) {
  Tensor sizes = builder.NewTensor(node.name + ":sizes", {static_cast<std::int64_t>(rank)},
                                   Layout::kPlain, DataType::kInt64);
  if (i >= node.outputs.size() || node.outputs[i] == kNoValue) return sizes;
  const ValueId id = builder.graph().value(node.outputs[i]).sizes;
  if (id != kNoValue) builder.Define(id, sizes);
  return sizes;
}

/// How many elements of each piece of x are not zero.
Result<Tensor> EmitCounts(ProgramBuilder& builder, const Node& node, const Tensor& x,
                          std::int64_t count) {
  const auto piece = static_cast<std::int64_t>(kCountPiece);
  const Tensor counts = builder.NewTensor(node.name + ".counts", {(count + piece - 1) / piece},
                                          Layout::kPlain, DataType::kInt64);
  const CountTrueSpec spec{static_cast<std::size_t>(count), x.type};
  LAGOON_RETURN_IF_ERROR(builder.Emit(node.name, [&](auto& make) { return make.CountTrue(spec); },
                                      {builder.All(x)}, {builder.All(counts)}));
  return counts;
}

Status LowerNonZero(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor counts, EmitCounts(builder, node, x, ElementCount(x.dims)));
  const Tensor y = OutputOf(builder, node, 0, DataType::kInt64, builder.dims(node.outputs[0]));
  const Tensor sizes = SizesOf(builder, node, 0, 2);
  const NonZeroSpec spec{x.dims, x.type};
  return builder.Emit(node.name, [&](auto& make) { return make.NonZero(spec); },
                      {builder.All(x), builder.All(counts)}, {builder.All(y), builder.All(sizes)});
}

/// A node's input 0 as [outer, items, inner]; without an axis as a list.
struct Items {
  Tensor x;
  std::size_t axis = 0;
  AxisSplit split;
};

Result<Items> ItemsOf(ProgramBuilder& builder, const Node& node) {
  Items items;
  LAGOON_ASSIGN_OR_RETURN(items.x, builder.Use(node.inputs[0], Layout::kPlain));
  const std::int64_t axis = node.Int("axis", -1);
  if (axis < 0) {
    LAGOON_ASSIGN_OR_RETURN(items.x, builder.Reshape(items.x, {ElementCount(items.x.dims)}));
  } else {
    items.axis = static_cast<std::size_t>(axis);
  }
  items.split = SplitAt(items.x.dims, items.axis, items.axis);
  return items;
}

Status LowerUnique(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Items items, ItemsOf(builder, node));
  const auto count = static_cast<std::int64_t>(items.split.axis);
  const UniqueSpec spec{items.split.outer, items.split.axis,           items.split.inner,
                        items.x.type,      node.Int("sorted", 1) != 0, items.x.dims,
                        items.axis};
  const Tensor order =
      builder.NewTensor(node.name + ".order", {count}, Layout::kPlain, DataType::kInt32);
  LAGOON_RETURN_IF_ERROR(builder.Emit(node.name, [&](auto& make) { return make.UniqueOrder(spec); },
                                      {builder.All(items.x)}, {builder.All(order)}));
  const Tensor firsts = OutputOf(builder, node, 1, DataType::kInt64, {count});
  const Tensor inverse = OutputOf(builder, node, 2, DataType::kInt64, {count});
  const Tensor counts = OutputOf(builder, node, 3, DataType::kInt64, {count});
  const Tensor sizes = SizesOf(builder, node, 0, items.x.dims.size());
  const bool lists = node.outputs.size() > 1 && node.outputs[1] != kNoValue;
  const Tensor list_sizes = SizesOf(builder, node, lists ? 1 : 3, 1);
  LAGOON_RETURN_IF_ERROR(
      builder.Emit(node.name, [&](auto& make) { return make.UniqueGroups(spec); },
                   {builder.All(items.x), builder.All(order)},
                   {builder.All(firsts), builder.All(inverse), builder.All(counts),
                    builder.All(sizes), builder.All(list_sizes)}));
  const Tensor y = OutputOf(builder, node, 0, items.x.type, items.x.dims);
  return builder.Emit(node.name, [&](auto& make) { return make.UniqueTake(spec); },
                      {builder.All(items.x), builder.All(firsts), builder.All(list_sizes)},
                      {builder.All(y)});
}

Status LowerNonMaxSuppression(ProgramBuilder& builder, const Node& node) {
  const Dims& scores = builder.dims(node.inputs[1]);
  NonMaxSpec spec;
  spec.batch = static_cast<std::size_t>(scores[0]);
  spec.classes = static_cast<std::size_t>(scores[1]);
  spec.boxes = static_cast<std::size_t>(scores[2]);
  spec.most = static_cast<std::size_t>(node.Int("most", 0));
  spec.center = node.Int("center_point_box", 0) != 0;
  std::vector<Operand> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    LAGOON_ASSIGN_OR_RETURN(const Tensor input, builder.Use(node.inputs[i], Layout::kPlain));
    inputs.push_back(builder.All(input));
    if (i == 3) spec.iou_threshold = true;
    if (i == 4) spec.score_threshold = true;
  }
  const Tensor chosen =
      builder.NewTensor(node.name + ".chosen", {scores[0], scores[1], node.Int("most", 0)},
                        Layout::kPlain, DataType::kInt32);
  const Tensor counts = builder.NewTensor(node.name + ".counts", {scores[0], scores[1]},
                                          Layout::kPlain, DataType::kInt64);
  const std::size_t rounds = NonMaxRounds(spec);
  const auto state_bytes = static_cast<std::int64_t>(NonMaxStateBytes(spec));
  for (; spec.round < rounds; ++spec.round) {
    std::vector<Operand> outputs{builder.All(chosen), builder.All(counts)};
    if (spec.round + 1 < rounds) {
      outputs = {builder.All(builder.NewTensor(fmt::format("{}.{}", node.name, spec.round),
                                               {state_bytes}, Layout::kPlain, DataType::kUInt8))};
    }
    LAGOON_RETURN_IF_ERROR(builder.Emit(
        node.name, [&](auto& make) { return make.NonMaxChoose(spec); }, inputs, outputs));
    inputs[1] = outputs[0];
  }
  const Tensor y = OutputOf(builder, node, 0, DataType::kInt64, builder.dims(node.outputs[0]));
  const Tensor sizes = SizesOf(builder, node, 0, 2);
  return builder.Emit(node.name, [&](auto& make) { return make.NonMaxGather(spec); },
                      {builder.All(chosen), builder.All(counts)},
                      {builder.All(y), builder.All(sizes)});
}

constexpr Lowering kSelectLowerings[] = {
    {"NonZero", LowerNonZero},
    {"Unique", LowerUnique},
    {"NonMaxSuppression", LowerNonMaxSuppression},
};

}  // namespace

Status LowerComputedCompress(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Items items, ItemsOf(builder, node));
  LAGOON_ASSIGN_OR_RETURN(const Tensor condition, builder.Use(node.inputs[1], Layout::kPlain));
  const Dims dims = builder.dims(node.outputs[0]);
  const std::int64_t length = dims[items.axis];
  LAGOON_ASSIGN_OR_RETURN(const Tensor counts, EmitCounts(builder, node, condition, length));
  const Tensor y = OutputOf(builder, node, 0, items.x.type, dims);
  const Tensor sizes = SizesOf(builder, node, 0, dims.size());
  const CompressSpec spec{items.x.dims, items.axis, static_cast<std::size_t>(length),
                          SizeOf(items.x.type)};
  return builder.Emit(node.name, [&](auto& make) { return make.Compress(spec); },
                      {builder.All(items.x), builder.All(condition), builder.All(counts)},
                      {builder.All(y), builder.All(sizes)});
}

std::span<const Lowering> SelectLowerings() { return kSelectLowerings; }

}  // namespace lagoon
