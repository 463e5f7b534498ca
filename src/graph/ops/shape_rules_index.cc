// Ops that read or write at indices that are tensor data: Gather, Scatter and similar ops.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "graph/fold/evaluate.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

constexpr std::int64_t kMaxSide = std::int64_t{1} << 30;

Status CheckReduction(OpContext& context) {
  const std::string reduction = context.node().String("reduction", "none");
  constexpr std::string_view kKnown[] = {"none", "add", "mul", "min", "max"};
  if (std::find(std::begin(kKnown), std::end(kKnown), reduction) == std::end(kKnown)) {
    return context.Invalid(fmt::format("reduction {} is not known", Quoted(reduction)));
  }
  context.SetAttribute("reduction", reduction);
  return {};
}

tl::unexpected<Error> DoNotMatch(const OpContext& context) {
  std::string shapes;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    shapes += (i == 0 ? "" : ", ") + ToString(context.dims(i));
  }
  return context.Invalid(fmt::format("shapes {} do not match", shapes));
}

}  // namespace

Status CheckIndices(const OpContext& context, std::size_t i) {
  const DataType type = context.input(i).type;
  if (type == DataType::kInt64 || type == DataType::kInt32) return {};
  return context.Invalid(fmt::format("indices {} are {}, must be INT64 or INT32",
                                     Quoted(context.input(i).name), OipName(type)));
}

namespace {

Status InferGatherElements(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckIndices(context, 1));
  const Dims& x = context.dims(0);
  const Dims& indices = context.dims(1);
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", 0), x.size()));
  if (indices.size() != x.size()) return DoNotMatch(context);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (static_cast<std::int64_t>(i) != axis && indices[i] > x[i]) return DoNotMatch(context);
  }
  context.SetAttribute("axis", axis);
  context.SetOutput(indices);
  return {};
}

Status InferGatherND(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckIndices(context, 1));
  const Dims& x = context.dims(0);
  const Dims& indices = context.dims(1);
  const std::int64_t given = context.node().Int("batch_dims", 0);
  if (indices.empty() || given < 0 || given >= static_cast<std::int64_t>(indices.size())) {
    return context.Invalid(
        fmt::format("batch_dims is {} for indices {}", given, ToString(indices)));
  }
  const auto batch = static_cast<std::size_t>(given);
  const std::int64_t tuple = indices.back();
  if (tuple < 1 || tuple > static_cast<std::int64_t>(x.size()) - given ||
      !std::equal(indices.begin(), indices.begin() + given, x.begin())) {
    return DoNotMatch(context);
  }
  Dims out(indices.begin(), indices.end() - 1);
  out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(batch) + tuple, x.end());
  context.SetAttribute("batch_dims", given);
  context.SetOutput(std::move(out));
  return {};
}

Status InferScatterElements(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckIndices(context, 1));
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {2}));
  LAGOON_RETURN_IF_ERROR(CheckReduction(context));
  const Dims& x = context.dims(0);
  const Dims& indices = context.dims(1);
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", 0), x.size()));
  if (indices.size() != x.size() || indices != context.dims(2)) return DoNotMatch(context);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (static_cast<std::int64_t>(i) != axis && indices[i] > x[i]) return DoNotMatch(context);
  }
  if (context.node().op == "Scatter") context.SetOp("ScatterElements");
  context.SetAttribute("axis", axis);
  context.SetOutput(x);
  return {};
}

Status InferScatterND(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckIndices(context, 1));
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {2}));
  LAGOON_RETURN_IF_ERROR(CheckReduction(context));
  const Dims& x = context.dims(0);
  const Dims& indices = context.dims(1);
  if (indices.empty()) return DoNotMatch(context);
  const std::int64_t tuple = indices.back();
  if (tuple < 1 || tuple > static_cast<std::int64_t>(x.size())) return DoNotMatch(context);
  Dims updates(indices.begin(), indices.end() - 1);
  updates.insert(updates.end(), x.begin() + tuple, x.end());
  if (updates != context.dims(2)) return DoNotMatch(context);
  context.SetOutput(x);
  return {};
}

/// See graph.h. The caches keep their shapes.
Status InferRotateAppend(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckIndices(context, 1));
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {2, 3, 4, 5}));
  const Dims& x = context.dims(0);
  const Dims& cache = context.dims(2);
  const std::int64_t heads = context.node().Int("heads", 0);
  const std::int64_t key_heads = context.node().Int("key_heads", 0);
  const bool fits = x.size() == 3 && cache.size() == 4 && context.dims(3) == cache && heads > 0 &&
                    heads <= x[2] && key_heads > 0 && cache[0] == x[0] && cache[1] == key_heads &&
                    x[2] == (heads + 2 * key_heads) * cache[3] &&
                    context.dims(1) == Dims{x[0], x[1]};
  if (!fits) return DoNotMatch(context);
  if (context.has_input(4)) {
    const Dims& cos = context.dims(4);
    if (!context.has_input(5) || cos.size() != 2 || context.dims(5) != cos ||
        2 * cos[1] > cache[3]) {
      return DoNotMatch(context);
    }
  }
  const DataType type = context.input(0).type;
  const Dims q{x[0], heads, x[1], cache[3]}, joined = cache;
  context.SetOutput(0, type, q);
  context.SetOutput(1, type, joined);
  context.SetOutput(2, type, joined);
  return {};
}

Status InferTile(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const auto repeats, context.ConstantInts(1, "repeats"));
  Dims out = context.dims(0);
  if (repeats.size() != out.size()) {
    return context.Invalid(fmt::format("has {} repeats for {}", repeats.size(), ToString(out)));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (repeats[i] < 0 || repeats[i] > kMaxSide || out[i] > kMaxSide) {
      return context.Invalid(
          fmt::format("repeats {} {} times", ToString(context.dims(0)), ToString(repeats)));
    }
    out[i] *= repeats[i];
  }
  context.KeepInputs(1);
  context.SetAttribute("repeats", repeats);
  context.SetOutput(std::move(out));
  return {};
}

Status InferTrilu(OpContext& context) {
  if (context.rank(0) < 2) {
    return context.Invalid(fmt::format("takes matrices, not {}", ToString(context.dims(0))));
  }
  std::int64_t k = 0;
  if (context.has_input(1)) {
    LAGOON_ASSIGN_OR_RETURN(const auto given, context.ConstantInts(1, "k"));
    if (given.size() != 1) return context.Invalid(fmt::format("k has {} elements", given.size()));
    k = std::clamp<std::int64_t>(given[0], -kMaxSide, kMaxSide);
  }
  context.KeepInputs(1);
  context.SetAttribute("k", k);
  context.SetAttribute("upper", context.node().Int("upper", 1));
  context.SetOutput(context.dims(0));
  return {};
}

Status InferOneHot(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const Constant depth, context.OneConstant(1, "depth"));
  if (ElementCount(context.dims(2)) != 2 || context.rank(2) != 1) {
    return context.Invalid(fmt::format("values are {}, must be [2]", ToString(context.dims(2))));
  }
  const std::int64_t count = FirstAsInt64(depth);
  if (count < 1 || count > kMaxSide) return context.Invalid(fmt::format("depth is {}", count));
  Dims out = context.dims(0);
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", -1), out.size() + 1));
  out.insert(out.begin() + axis, count);
  context.SetAttribute("axis", axis);
  context.SetOutput(0, context.input(2).type, std::move(out));
  return {};
}

Status InferEyeLike(OpContext& context) {
  if (context.rank(0) != 2) {
    return context.Invalid(fmt::format("takes a matrix, not {}", ToString(context.dims(0))));
  }
  LAGOON_ASSIGN_OR_RETURN(const DataType type,
                          context.TypeAttribute("dtype", context.input(0).type));
  context.SetAttribute("k",
                       std::clamp<std::int64_t>(context.node().Int("k", 0), -kMaxSide, kMaxSide));
  context.SetOutput(0, type, context.dims(0));
  return {};
}

Status InferReverseSequence(OpContext& context) {
  const std::int64_t batch = context.node().Int("batch_axis", 1);
  const std::int64_t time = context.node().Int("time_axis", 0);
  const Dims& x = context.dims(0);
  if (x.size() < 2 || batch < 0 || time < 0 || batch > 1 || time > 1 || batch == time) {
    return context.Invalid(
        fmt::format("batch_axis {} and time_axis {} for {}", batch, time, ToString(x)));
  }
  if (context.dims(1) != Dims{x[static_cast<std::size_t>(batch)]}) return DoNotMatch(context);
  LAGOON_RETURN_IF_ERROR(CheckIndices(context, 1));
  context.SetAttribute("batch_axis", batch);
  context.SetAttribute("time_axis", time);
  context.SetOutput(x);
  return {};
}

constexpr OpSpec kIndexOps[] = {
    {"Tile", 6, 2, 2, 1, "", InferTile, EvaluateTile},
    {"Trilu", 14, 1, 2, 1, "i:upper", InferTrilu, EvaluateTrilu},
    {"ReverseSequence", 10, 2, 2, 1, "i:batch_axis i:time_axis", InferReverseSequence},
    {"GatherElements", 11, 2, 2, 1, "i:axis", InferGatherElements, EvaluateGatherElements},
    {"GatherND", 11, 2, 2, 1, "i:batch_dims", InferGatherND, EvaluateGatherND},
    {"RotateAppend", 1, 4, 6, 3, "i:heads i:interleaved i:key_heads", InferRotateAppend},
    {"Scatter", 9, 3, 3, 1, "i:axis", InferScatterElements, EvaluateScatterElements},
    {"ScatterElements", 11, 3, 3, 1, "i:axis s:reduction", InferScatterElements,
     EvaluateScatterElements},
    {"ScatterND", 11, 3, 3, 1, "s:reduction", InferScatterND, EvaluateScatterND},
    {"OneHot", 9, 3, 3, 1, "i:axis", InferOneHot, EvaluateOneHot},
    {"EyeLike", 9, 1, 1, 1, "i:dtype i:k", InferEyeLike, EvaluateEyeLike},
};

}  // namespace

std::span<const OpSpec> IndexOps() { return kIndexOps; }

}  // namespace lagoon
