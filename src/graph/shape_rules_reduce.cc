// Reductions and softmax.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/shape_rules.h"

namespace lagoon {
namespace {

Status InferReduceOver(OpContext& context, std::vector<std::int64_t> axes) {
  const Dims& x = context.dims(0);
  LAGOON_ASSIGN_OR_RETURN(axes, context.Axes(std::move(axes), x.size()));
  const bool keep = context.node().Int("keepdims", 1) != 0;
  Dims out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i));
    if (!reduced) out.push_back(x[i]);
    if (reduced && keep) out.push_back(1);
  }
  context.KeepInputs(1);
  context.SetAttribute("axes", std::move(axes));
  context.SetAttribute("keepdims", std::int64_t{keep ? 1 : 0});
  context.SetOutput(std::move(out));
  return {};
}

std::vector<std::int64_t> AllAxes(std::size_t rank) {
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

}  // namespace

Status InferReduce(OpContext& context) {
  std::vector<std::int64_t> axes = context.node().Ints("axes", {});
  if (axes.empty()) axes = AllAxes(context.rank(0));
  return InferReduceOver(context, std::move(axes));
}

Status InferReduceSum(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const auto given, context.IntsFromInputOrAttribute(1, "axes", 13));
  std::vector<std::int64_t> axes = given.value_or(std::vector<std::int64_t>{});
  const bool keep_all = context.node().Int("noop_with_empty_axes", 0) != 0;
  if (axes.empty() && !keep_all) axes = AllAxes(context.rank(0));
  context.EraseAttribute("noop_with_empty_axes");
  return InferReduceOver(context, std::move(axes));
}

Status InferSoftmax(OpContext& context) {
  const std::int64_t otherwise = context.opset() < 13 ? 1 : -1;
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", otherwise), context.rank(0)));
  context.SetAttribute("axis", axis);
  context.SetOutput(context.dims(0));
  return {};
}

}  // namespace lagoon
