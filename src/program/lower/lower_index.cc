// Gather, Scatter and similar ops.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

Ints RowMajorStrides(const Dims& dims) {
  Ints strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

std::int64_t ProductOf(const Dims& dims, std::size_t first, std::size_t last) {
  return ElementCount(Dims(dims.begin() + static_cast<std::ptrdiff_t>(first),
                           dims.begin() + static_cast<std::ptrdiff_t>(last)));
}

/// Every element of `indices` replaces the coordinate along `axis` of its own position. `indices`
/// is repeated to the shape `entries` where it has a size of 1 (FuseExpandedIndices). Last axes
/// along which both tensors agree and the index is the same are a run.
IndexSpec ByElement(const Dims& x, const Dims& indices, Dims entries, std::size_t axis) {
  IndexSpec spec;
  spec.index_strides = RowMajorStrides(indices);
  spec.base_strides = RowMajorStrides(x);
  spec.sizes = {x[axis]};
  spec.strides = {spec.base_strides[axis]};
  spec.base_strides[axis] = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] == 1) spec.index_strides[i] = 0;
  }
  while (entries.size() > axis + 1 && indices[entries.size() - 1] == 1 &&
         entries.back() == x[entries.size() - 1]) {
    spec.run *= entries.back();
    entries.pop_back();
  }
  spec.index_strides.resize(entries.size());
  spec.base_strides.resize(entries.size());
  spec.entries = std::move(entries);
  return spec;
}

/// Every tuple along the last axis of `indices` selects a part of x by the coordinates of its first
/// axes, after `batch` axes that x and `indices` share.
IndexSpec ByTuple(const Dims& x, const Dims& indices, std::size_t batch) {
  const auto tuple = static_cast<std::size_t>(indices.back());
  const Ints strides = RowMajorStrides(x);
  IndexSpec spec;
  spec.entries = {ProductOf(indices, 0, batch), ProductOf(indices, batch, indices.size() - 1)};
  spec.index_strides = {spec.entries[1] * indices.back(), indices.back()};
  spec.base_strides = {ProductOf(x, batch, x.size()), 0};
  for (std::size_t i = batch; i < batch + tuple; ++i) {
    spec.sizes.push_back(x[i]);
    spec.strides.push_back(strides[i]);
  }
  spec.run = ProductOf(x, batch + tuple, x.size());
  return spec;
}

Result<Tensor> EmitGather(ProgramBuilder& builder, const std::string& name, IndexSpec spec,
                          const Tensor& x, const Tensor& indices, const Dims& dims) {
  spec.tensor = ElementCount(x.dims);
  spec.index_type = indices.type;
  spec.type = x.type;
  const Tensor y = builder.NewTensor(name, dims, Layout::kPlain, x.type);
  LAGOON_RETURN_IF_ERROR(builder.Emit(name, [&](auto& make) { return make.Gather(spec); },
                                      {builder.All(x), builder.All(indices)}, {builder.All(y)}));
  return y;
}

ScatterOp ScatterOpOf(const Node& node) {
  const std::string reduction = node.String("reduction", "none");
  if (reduction == "add") return ScatterOp::kAdd;
  if (reduction == "mul") return ScatterOp::kMul;
  if (reduction == "min") return ScatterOp::kMin;
  return reduction == "max" ? ScatterOp::kMax : ScatterOp::kAssign;
}

Status LowerGatherOf(ProgramBuilder& builder, const Node& node, IndexSpec spec) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor indices, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitGather(builder, node.name, std::move(spec), x,
                                                     indices, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerScatterOf(ProgramBuilder& builder, const Node& node, IndexSpec spec) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor indices, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor updates, builder.Use(node.inputs[2], Layout::kPlain));
  spec.tensor = ElementCount(x.dims);
  spec.index_type = indices.type;
  spec.type = x.type;
  const std::int64_t entries = ElementCount(spec.entries);
  const auto chunk = static_cast<std::int64_t>(kScatterChunk);
  const Tensor targets =
      builder.NewTensor(node.name + ":targets", {entries}, Layout::kPlain, DataType::kInt64);
  const Tensor bounds = builder.NewTensor(node.name + ":bounds", {(entries + chunk - 1) / chunk, 2},
                                          Layout::kPlain, DataType::kInt64);
  LAGOON_RETURN_IF_ERROR(
      builder.Emit(node.name, [&](auto& make) { return make.ScatterTargets(spec); },
                   {builder.All(indices)}, {builder.All(targets), builder.All(bounds)}));
  const Tensor y =
      builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kPlain, spec.type);
  builder.Define(node.outputs[0], y);
  return builder.Emit(
      node.name, [&](auto& make) { return make.Scatter(spec, ScatterOpOf(node)); },
      {builder.All(x), builder.All(targets), builder.All(bounds), builder.All(updates)},
      {builder.All(y)});
}

std::size_t AxisOf(const Node& node) { return static_cast<std::size_t>(node.Int("axis", 0)); }

Status LowerGather(ProgramBuilder& builder, const Node& node) {
  const Dims& x = builder.dims(node.inputs[0]);
  const std::size_t axis = AxisOf(node);
  IndexSpec spec;
  spec.run = ProductOf(x, axis + 1, x.size());
  spec.entries = {ProductOf(x, 0, axis), ElementCount(builder.dims(node.inputs[1]))};
  spec.index_strides = {0, 1};
  spec.base_strides = {x[axis] * spec.run, 0};
  spec.sizes = {x[axis]};
  spec.strides = {spec.run};
  return LowerGatherOf(builder, node, std::move(spec));
}

Status LowerGatherElements(ProgramBuilder& builder, const Node& node) {
  return LowerGatherOf(builder, node,
                       ByElement(builder.dims(node.inputs[0]), builder.dims(node.inputs[1]),
                                 builder.dims(node.outputs[0]), AxisOf(node)));
}

Status LowerGatherND(ProgramBuilder& builder, const Node& node) {
  const auto batch = static_cast<std::size_t>(node.Int("batch_dims", 0));
  return LowerGatherOf(builder, node,
                       ByTuple(builder.dims(node.inputs[0]), builder.dims(node.inputs[1]), batch));
}

Status LowerScatterElements(ProgramBuilder& builder, const Node& node) {
  return LowerScatterOf(builder, node,
                        ByElement(builder.dims(node.inputs[0]), builder.dims(node.inputs[1]),
                                  builder.dims(node.inputs[2]), AxisOf(node)));
}

Status LowerScatterND(ProgramBuilder& builder, const Node& node) {
  return LowerScatterOf(builder, node,
                        ByTuple(builder.dims(node.inputs[0]), builder.dims(node.inputs[1]), 0));
}

constexpr Lowering kIndexLowerings[] = {
    {"Gather", LowerGather, Lowering::kMoves},
    {"GatherElements", LowerGatherElements},
    {"GatherND", LowerGatherND},
    {"ScatterElements", LowerScatterElements},
    {"ScatterND", LowerScatterND},
};

}  // namespace

std::span<const Lowering> IndexLowerings() { return kIndexLowerings; }

}  // namespace lagoon
