// Ops that rename, permute, join or split dimensions.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "graph/fold/evaluate.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

constexpr std::int64_t kMaxBlock = 1 << 10;
constexpr std::int64_t kMaxSide = 1 << 30;

Status CheckSameExcept(const OpContext& context, std::size_t i, std::size_t axis) {
  const Dims& first = context.dims(0);
  const Dims& other = context.dims(i);
  bool same = first.size() == other.size() && context.input(0).type == context.input(i).type;
  for (std::size_t d = 0; same && d < first.size(); ++d) same = d == axis || first[d] == other[d];
  if (same) return {};
  return context.Invalid(fmt::format("input {} {} {} does not join {} {} along axis {}",
                                     Quoted(context.input(i).name), OipName(context.input(i).type),
                                     ToString(other), OipName(context.input(0).type),
                                     ToString(first), axis));
}

Status InferFlatten(OpContext& context) {
  const Dims& x = context.dims(0);
  const auto rank = static_cast<std::int64_t>(x.size());
  std::int64_t axis = context.node().Int("axis", 1);
  if (axis < -rank || axis > rank) {
    return context.Invalid(
        fmt::format("axis {} is outside a shape of {} dimensions", axis, x.size()));
  }
  if (axis < 0) axis += rank;
  context.SetAttribute("axis", axis);
  const Dims outer(x.begin(), x.begin() + axis);
  const Dims inner(x.begin() + axis, x.end());
  context.SetOutput({ElementCount(outer), ElementCount(inner)});
  return {};
}

Status InferReshape(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(Dims out, context.ConstantInts(1, "shape"));
  const Dims& x = context.dims(0);
  const bool allow_zero = context.node().Int("allowzero", 0) != 0;
  const auto mismatch = [&] {
    return context.Invalid(fmt::format("cannot reshape {} to {}", ToString(x),
                                       ToString(context.constant(1)->ToInt64())));
  };
  if (out.size() > kMaxRank) {
    return context.Invalid(fmt::format("shape has {} dimensions, limit {}", out.size(), kMaxRank));
  }
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == 0 && !allow_zero) {
      if (i >= x.size()) return mismatch();
      out[i] = x[i];
    }
    if (out[i] < -1 || (out[i] == -1 && open)) return mismatch();
    if (out[i] == -1) open = i;
  }
  if (open) out[*open] = 1;
  LAGOON_RETURN_IF_ERROR(context.Bytes(out, context.input(0).type));
  const std::int64_t count = ElementCount(x);
  const std::int64_t rest = ElementCount(out);
  if (open && rest != 0) out[*open] = count / rest;
  if (ElementCount(out) != count) return mismatch();
  context.KeepInputs(1);
  context.EraseAttribute("allowzero");
  context.SetOutput(std::move(out));
  return {};
}

Status InferSqueeze(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(auto given, context.IntsFromInputOrAttribute(1, "axes", 13));
  const Dims& x = context.dims(0);
  std::vector<std::int64_t> axes;
  if (given) {
    LAGOON_ASSIGN_OR_RETURN(axes, context.Axes(*std::move(given), x.size()));
  } else {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == 1) axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  Dims out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i))) {
      out.push_back(x[i]);
    } else if (x[i] != 1) {
      return context.Invalid(fmt::format("axis {} of {} is not 1", i, ToString(x)));
    }
  }
  context.KeepInputs(1);
  context.SetAttribute("axes", std::move(axes));
  context.SetOutput(std::move(out));
  return {};
}

Status InferUnsqueeze(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(auto given, context.IntsFromInputOrAttribute(1, "axes", 13));
  if (!given) return context.Invalid("has no axes");
  const Dims& x = context.dims(0);
  LAGOON_ASSIGN_OR_RETURN(std::vector<std::int64_t> axes,
                          context.Axes(*given, x.size() + given->size()));
  Dims out;
  auto next = x.begin();
  for (std::size_t i = 0; i < x.size() + axes.size(); ++i) {
    const bool added = std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i));
    out.push_back(added ? 1 : *next++);
  }
  context.KeepInputs(1);
  context.SetAttribute("axes", std::move(axes));
  context.SetOutput(std::move(out));
  return {};
}

Status InferTranspose(OpContext& context) {
  const Dims& x = context.dims(0);
  std::vector<std::int64_t> perm(x.size());
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = context.node().Ints("perm", perm);
  if (perm.size() != x.size()) {
    return context.Invalid(fmt::format("perm has {} axes, the input {}", perm.size(), ToString(x)));
  }
  if (const auto sorted = context.Axes(perm, x.size());
      !sorted ||
      std::any_of(perm.begin(), perm.end(), [](std::int64_t axis) { return axis < 0; })) {
    return context.Invalid(fmt::format("perm {} is not a permutation", ToString(perm)));
  }
  Dims out;
  for (const std::int64_t axis : perm) out.push_back(x[static_cast<std::size_t>(axis)]);
  context.SetAttribute("perm", std::move(perm));
  context.SetOutput(std::move(out));
  return {};
}

Status InferConcat(OpContext& context) {
  if (!context.has_attribute("axis")) return context.Invalid("has no axis");
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", 0), context.rank(0)));
  const auto at = static_cast<std::size_t>(axis);
  Dims out = context.dims(0);
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    if (!context.has_input(i)) return context.Invalid(fmt::format("input {} is left out", i));
    LAGOON_RETURN_IF_ERROR(CheckSameExcept(context, i, at));
    if (__builtin_add_overflow(out[at], context.dims(i)[at], &out[at])) {
      return context.Invalid(fmt::format("axis {} overflows", axis));
    }
  }
  context.SetAttribute("axis", axis);
  context.SetOutput(std::move(out));
  return {};
}

Status InferSplit(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(auto given, context.IntsFromInputOrAttribute(1, "split", 13));
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", 0), context.rank(0)));
  const std::size_t parts = context.node().outputs.size();
  const std::int64_t length = context.dims(0)[static_cast<std::size_t>(axis)];
  const std::int64_t asked = context.node().Int("num_outputs", 0);
  if (!given && asked > 0) {
    if (asked != static_cast<std::int64_t>(parts)) {
      return context.Invalid(fmt::format("has {} outputs, num_outputs is {}", parts, asked));
    }
    const std::int64_t size = (length + asked - 1) / asked;  // the last part may be smaller
    given.emplace(parts, size);
    given->back() = length - size * (asked - 1);
  }
  if (!given && length % static_cast<std::int64_t>(parts) == 0) {
    given.emplace(parts, length / static_cast<std::int64_t>(parts));
  }
  if (!given || given->size() != parts) {
    return context.Invalid(fmt::format("axis {} of {} does not part into {} outputs", axis,
                                       ToString(context.dims(0)), parts));
  }
  std::int64_t left = length;
  for (const std::int64_t size : *given) {
    if (size < 0 || size > left) {
      return context.Invalid(fmt::format("sizes in 'split' do not add up to {}", length));
    }
    left -= size;
  }
  if (left != 0)
    return context.Invalid(fmt::format("sizes in 'split' leave {} of {}", left, length));
  Dims out = context.dims(0);
  for (std::size_t i = 0; i < parts; ++i) {
    out[static_cast<std::size_t>(axis)] = (*given)[i];
    context.SetOutput(i, context.input(0).type, out);
  }
  context.KeepInputs(1);
  context.SetAttribute("axis", axis);
  context.SetAttribute("split", *std::move(given));
  context.EraseAttribute("num_outputs");
  return {};
}

Status CheckBlockMode(OpContext& context) {
  const std::string mode = context.node().String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    return context.Invalid(fmt::format("mode is {}, not DCR or CRD", Quoted(mode)));
  }
  context.SetAttribute("mode", mode);
  return {};
}

Status InferDepthToSpace(OpContext& context) {
  const Dims& x = context.dims(0);
  const std::int64_t block = context.node().Int("blocksize", 0);
  LAGOON_RETURN_IF_ERROR(CheckBlockMode(context));
  const bool fits = x.size() == 4 && block >= 1 && block <= kMaxBlock &&
                    x[1] % (block * block) == 0 && x[2] <= kMaxSide && x[3] <= kMaxSide;
  if (!fits) {
    return context.Invalid(fmt::format("a blocksize of {} does not fit {}", block, ToString(x)));
  }
  context.SetOutput({x[0], x[1] / (block * block), x[2] * block, x[3] * block});
  return {};
}

Status InferSpaceToDepth(OpContext& context) {
  const Dims& x = context.dims(0);
  const std::int64_t block = context.node().Int("blocksize", 0);
  LAGOON_RETURN_IF_ERROR(CheckBlockMode(context));
  const bool fits = x.size() == 4 && block >= 1 && block <= kMaxBlock && x[2] % block == 0 &&
                    x[3] % block == 0 && x[1] <= kMaxSide;
  if (!fits) {
    return context.Invalid(fmt::format("a blocksize of {} does not fit {}", block, ToString(x)));
  }
  context.SetOutput({x[0], x[1] * block * block, x[2] / block, x[3] / block});
  return {};
}

constexpr OpSpec kLayoutOps[] = {
    {"Flatten", 1, 1, 1, 1, "i:axis", InferFlatten, EvaluateAlias},
    {"Reshape", 5, 2, 2, 1, "i:allowzero", InferReshape, EvaluateAlias},
    {"Squeeze", 1, 1, 2, 1, "I:axes", InferSqueeze, EvaluateAlias},
    {"Unsqueeze", 1, 1, 2, 1, "I:axes", InferUnsqueeze, EvaluateAlias},
    {"Transpose", 1, 1, 1, 1, "I:perm", InferTranspose, EvaluateTranspose},
    {"Concat", 4, 1, kMaxGraphEdges, 1, "i:axis", InferConcat, EvaluateConcat},
    {"Split", 2, 1, 2, kMaxGraphEdges, "i:axis i:num_outputs I:split", InferSplit, EvaluateSplit},
    {"DepthToSpace", 1, 1, 1, 1, "i:blocksize s:mode", InferDepthToSpace},
    {"SpaceToDepth", 1, 1, 1, 1, "i:blocksize s:mode", InferSpaceToDepth},
};

}  // namespace

std::span<const OpSpec> LayoutOps() { return kLayoutOps; }

}  // namespace lagoon
