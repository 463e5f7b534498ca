// Pooling, reductions and softmax: ops that combine elements along axes.

#include <fmt/format.h>

#include <algorithm>

#include "kernels/ops.h"
#include "program/lower_nodes.h"

namespace lagoon {
namespace {

Result<std::size_t> AxisOf(std::int64_t axis, const Dims& dims) {
  if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("axis {} is not one of {}", axis, ToString(dims)));
  }
  return static_cast<std::size_t>(axis);
}

ReduceOp ReduceOpOf(const Node& node) {
  if (node.op == "ReduceSum") return ReduceOp::kSum;
  if (node.op == "ReduceMax" || node.op == "GlobalMaxPool") return ReduceOp::kMax;
  if (node.op == "ReduceMin") return ReduceOp::kMin;
  return ReduceOp::kMean;
}

/// Runs of neighbouring physical axes among the reduced ones, leaving unit axes out.
std::vector<std::pair<std::size_t, std::size_t>> RunsOf(std::vector<std::size_t> physical) {
  std::sort(physical.begin(), physical.end());
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (const std::size_t axis : physical) {
    if (!runs.empty() && runs.back().second + 1 == axis) {
      runs.back().second = axis;
    } else {
      runs.emplace_back(axis, axis);
    }
  }
  return runs;
}

/// Reduces logical `axes` of x, which stay as axes of one: one kernel for each run of axes that are
/// neighbours in memory. (A mean of means over equal counts is the mean.)
Result<Tensor> EmitReduce(ProgramBuilder& builder, const Node& node, Tensor x,
                          const std::vector<std::size_t>& axes) {
  std::vector<std::size_t> physical;
  for (const std::size_t axis : axes) {
    physical.push_back(PhysicalAxis(x.dims.size(), x.layout, axis));
  }
  const std::vector<std::int64_t> order = PhysicalOrder(x.dims.size(), x.layout);
  for (const auto& [first, last] : RunsOf(std::move(physical))) {
    const AxisSplit split = SplitAt(x.physical(), first, last);
    if (split.axis == 1) continue;
    Dims dims = x.dims;
    for (std::size_t i = first; i <= last; ++i) dims[static_cast<std::size_t>(order[i])] = 1;
    const Tensor y = builder.NewTensor(node.name, dims, x.layout);
    LAGOON_RETURN_IF_ERROR(builder.Emit(
        node.name, MakeReduce({ReduceOpOf(node), split.outer, split.axis, split.inner}),
        {builder.All(x)}, {builder.All(y)}));
    x = y;
  }
  return x;
}

}  // namespace

Status LowerPool(ProgramBuilder& builder, const Node& node) {
  if (node.outputs.size() > 1 && node.outputs[1] != kNoValue) {
    return Fail(ErrorCode::kUnimplemented, "the output 'Indices' is not supported");
  }
  LAGOON_ASSIGN_OR_RETURN(const ImageShape in, ImageOf(builder.dims(node.inputs[0])));
  LAGOON_ASSIGN_OR_RETURN(const ImageShape out, ImageOf(builder.dims(node.outputs[0])));
  LAGOON_ASSIGN_OR_RETURN(const WindowShape window, WindowOf(node));
  PoolSpec spec;
  if (node.op == "AveragePool") {
    spec.kind = node.Int("count_include_pad", 0) != 0 ? PoolSpec::Kind::kAverageCountPadding
                                                      : PoolSpec::Kind::kAverage;
  }
  spec.batch = in.batch;
  spec.height = in.height;
  spec.width = in.width;
  spec.channels = in.channels;
  spec.out_height = out.height;
  spec.out_width = out.width;
  spec.kernel_h = window.kernel_h;
  spec.kernel_w = window.kernel_w;
  spec.stride_h = window.stride_h;
  spec.stride_w = window.stride_w;
  spec.dilation_h = window.dilation_h;
  spec.dilation_w = window.dilation_w;
  spec.pad_top = window.pad_top;
  spec.pad_left = window.pad_left;
  spec.pad_bottom = window.pad_bottom;
  spec.pad_right = window.pad_right;
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kChannelsLast));
  const Tensor y =
      builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kChannelsLast);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, MakePool(spec), {builder.All(x)}, {builder.All(y)});
}

Status LowerGlobalPool(ProgramBuilder& builder, const Node& node) {
  const Dims& dims = builder.dims(node.inputs[0]);
  if (dims.size() < 3) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("input {} has no axes behind its channels", ToString(dims)));
  }
  std::vector<std::size_t> axes;
  for (std::size_t axis = 2; axis < dims.size(); ++axis) axes.push_back(axis);
  const Layout layout = builder.CheapestLayout(node.inputs);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitReduce(builder, node, x, axes));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerReduce(ProgramBuilder& builder, const Node& node) {
  const Dims in_dims = builder.dims(node.inputs[0]);
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : node.Ints("axes", {})) {
    LAGOON_ASSIGN_OR_RETURN(axes.emplace_back(), AxisOf(axis, in_dims));
  }
  const Layout layout = builder.CheapestLayout(node.inputs);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  LAGOON_ASSIGN_OR_RETURN(const Tensor kept, EmitReduce(builder, node, x, axes));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, builder.Reshape(kept, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerSoftmax(ProgramBuilder& builder, const Node& node) {
  const Dims& dims = builder.dims(node.inputs[0]);
  LAGOON_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(node.Int("axis", -1), dims));
  const Layout layout = builder.CheapestLayout(node.inputs);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  const std::size_t at = PhysicalAxis(x.dims.size(), layout, axis);
  const AxisSplit split = SplitAt(x.physical(), at, at);
  const Tensor y = builder.NewTensor(node.name, x.dims, layout);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name,
                      MakeSoftmax({split.outer, split.axis, split.inner, node.op == "LogSoftmax"}),
                      {builder.All(x)}, {builder.All(y)});
}

}  // namespace lagoon
