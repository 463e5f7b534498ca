// Reductions and softmax.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/fold/evaluate.h"
#include "graph/ops/shape_rules.h"

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

Status InferReduceSince(OpContext& context, std::int64_t input_since) {
  LAGOON_ASSIGN_OR_RETURN(const auto given,
                          context.IntsFromInputOrAttribute(1, "axes", input_since));
  std::vector<std::int64_t> axes = given.value_or(std::vector<std::int64_t>{});
  const bool keep_all = context.node().Int("noop_with_empty_axes", 0) != 0;
  if (axes.empty() && !keep_all) axes = AllAxes(context.rank(0));
  context.EraseAttribute("noop_with_empty_axes");
  return InferReduceOver(context, std::move(axes));
}

Status InferReduce(OpContext& context) { return InferReduceSince(context, 18); }

Status InferReduceSum(OpContext& context) { return InferReduceSince(context, 13); }

Status InferArg(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", 0), context.rank(0)));
  LAGOON_RETURN_IF_ERROR(InferReduceOver(context, {axis}));
  context.SetAttribute("axis", axis);
  context.SetAttribute("select_last_index", context.node().Int("select_last_index", 0));
  context.SetOutput(0, DataType::kInt64, context.output(0).dims);
  return {};
}

// CumSum and CumProd.
Status InferScan(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<std::int64_t> given, context.ConstantInts(1, "axis"));
  if (given.size() != 1)
    return context.Invalid(fmt::format("has {} axes, takes one", given.size()));
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis, context.Axis(given[0], context.rank(0)));
  context.KeepInputs(1);
  context.SetAttribute("axis", axis);
  context.SetOutput(context.dims(0));
  return {};
}

// A computed k: as many elements as the axis has, at most.
Status InferComputedTopK(OpContext& context, std::int64_t axis) {
  if (context.input(1).type != DataType::kInt64 || ElementCount(context.dims(1)) != 1) {
    return context.Invalid(fmt::format("k is {} {}, must be one INT64",
                                       OipName(context.input(1).type), ToString(context.dims(1))));
  }
  const Dims out = context.dims(0);
  context.SetAttribute("axis", axis);
  context.SetAttribute("largest", context.node().Int("largest", 1));
  context.SetOutput(out);
  context.SetOutput(1, DataType::kInt64, out);
  context.SetCapacity({0, 1});
  return {};
}

Status InferTopK(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", -1), context.rank(0)));
  if (context.opset() >= 10 && context.has_input(1) && context.constant(1) == nullptr) {
    return InferComputedTopK(context, axis);
  }
  LAGOON_ASSIGN_OR_RETURN(const auto given, context.IntsFromInputOrAttribute(1, "k", 10));
  std::int64_t k = context.node().Int("k", 0);
  if (given && given->size() == 1) k = given->front();
  Dims out = context.dims(0);
  std::int64_t& length = out[static_cast<std::size_t>(axis)];
  if (k < 0 || k > length) {
    return context.Invalid(
        fmt::format("k is {} along axis {} of {}", k, axis, ToString(context.dims(0))));
  }
  length = k;
  context.KeepInputs(1);
  context.SetAttribute("axis", axis);
  context.SetAttribute("k", k);
  context.SetAttribute("largest", context.node().Int("largest", 1));
  context.SetOutput(out);
  context.SetOutput(1, DataType::kInt64, std::move(out));
  return {};
}

Status InferLpNormalization(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", -1), context.rank(0)));
  const std::int64_t p = context.node().Int("p", 2);
  if (p != 1 && p != 2) return context.Invalid(fmt::format("p is {}, must be 1 or 2", p));
  context.SetAttribute("axis", axis);
  context.SetAttribute("p", p);
  context.SetOutput(context.dims(0));
  return {};
}

Status InferSoftmax(OpContext& context) {
  const std::int64_t otherwise = context.opset() < 13 ? 1 : -1;
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", otherwise), context.rank(0)));
  context.SetAttribute("axis", axis);
  context.SetOutput(context.dims(0));
  return {};
}

constexpr std::string_view kReduceAttributes = "I:axes i:keepdims i:noop_with_empty_axes";

constexpr OpSpec kReduceOps[] = {
    {"LpNormalization", 1, 1, 1, 1, "i:axis i:p", InferLpNormalization},
    {"ReduceMean", 1, 1, 2, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceMax", 1, 1, 2, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceMin", 1, 1, 2, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceProd", 1, 1, 2, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceSum", 1, 1, 2, 1, kReduceAttributes, InferReduceSum, EvaluateReduce},
    {"ReduceL1", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ReduceL2", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ReduceLogSum", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ReduceLogSumExp", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ReduceSumSquare", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ArgMax", 1, 1, 1, 1, "i:axis i:keepdims i:select_last_index", InferArg, EvaluateArg},
    {"ArgMin", 1, 1, 1, 1, "i:axis i:keepdims i:select_last_index", InferArg, EvaluateArg},
    {"CumSum", 11, 2, 2, 1, "i:exclusive i:reverse", InferScan, EvaluateCumSum},
    {"CumProd", 26, 2, 2, 1, "i:exclusive i:reverse", InferScan},
    {"TopK", 1, 1, 2, 2, "i:axis i:k i:largest i:sorted", InferTopK, EvaluateTopK, RunTime::kYes,
     true},
    {"Softmax", 1, 1, 1, 1, "i:axis", InferSoftmax},
    {"LogSoftmax", 1, 1, 1, 1, "i:axis", InferSoftmax},
    {"Hardmax", 1, 1, 1, 1, "i:axis", InferSoftmax},
};

}  // namespace

std::span<const OpSpec> ReduceOps() { return kReduceOps; }

}  // namespace lagoon
