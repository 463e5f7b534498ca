// Ops that read or add a region: Pad, Slice, Gather, Expand.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/text.h"
#include "graph/fold/evaluate.h"
#include "graph/ops/shape_rules.h"
#include "plan/element.h"

namespace lagoon {
namespace {

constexpr std::int64_t kMaxPad = std::int64_t{1} << 30;

using Ints = std::vector<std::int64_t>;

// The range of one axis, clamped to that axis. For step < 0 the range ends before `end`, which may
// be -1.
struct Range {
  std::int64_t start = 0, end = 0, step = 1;

  std::int64_t count() const {
    const std::int64_t span = step > 0 ? end - start : start - end;
    if (span <= 0) return 0;
    // -(step + 1) + 1 avoids the overflow for the smallest integer.
    const auto stride =
        step > 0 ? static_cast<std::uint64_t>(step) : static_cast<std::uint64_t>(-(step + 1)) + 1;
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / stride + 1);
  }
};

Range Clamp(Range range, std::int64_t dim) {
  if (range.start < 0) range.start += dim;
  if (range.end < 0) range.end += dim;
  const std::int64_t low = range.step > 0 ? 0 : -1;
  const std::int64_t high = range.step > 0 ? dim : dim - 1;
  range.start = std::clamp<std::int64_t>(range.start, std::min<std::int64_t>(0, high), high);
  range.end = std::clamp(range.end, low, high);
  return range;
}

struct SliceLists {
  Ints starts, ends, axes, steps;
};

Result<SliceLists> ReadSlice(const OpContext& context) {
  constexpr std::int64_t kInputsSince = 10;
  SliceLists lists;
  LAGOON_ASSIGN_OR_RETURN(auto starts, context.IntsFromInputOrAttribute(1, "starts", kInputsSince));
  LAGOON_ASSIGN_OR_RETURN(auto ends, context.IntsFromInputOrAttribute(2, "ends", kInputsSince));
  LAGOON_ASSIGN_OR_RETURN(auto axes, context.IntsFromInputOrAttribute(3, "axes", kInputsSince));
  LAGOON_ASSIGN_OR_RETURN(auto steps, context.IntsFromInputOrAttribute(4, "steps", kInputsSince));
  if (!starts || !ends) return context.Invalid("has no starts or no ends");
  const std::size_t count = starts->size();
  if (count > context.rank(0)) {
    return context.Invalid(fmt::format("slices {} axes of {}", count, ToString(context.dims(0))));
  }
  if (!axes) {
    axes.emplace();
    for (std::size_t i = 0; i < count; ++i) axes->push_back(static_cast<std::int64_t>(i));
  }
  if (!steps) steps.emplace(count, 1);
  if (ends->size() != count || axes->size() != count || steps->size() != count) {
    return context.Invalid("starts, ends, axes and steps differ in length");
  }
  LAGOON_RETURN_IF_ERROR(context.Axes(*axes, context.rank(0)));  // fails for duplicates
  return SliceLists{*std::move(starts), *std::move(ends), *std::move(axes), *std::move(steps)};
}

/// The pads for every axis of input 0: all begins, then all ends.
Result<Ints> ReadPads(const OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(auto given, context.IntsFromInputOrAttribute(1, "pads", 11));
  const std::size_t rank = context.rank(0);
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (context.has_input(3)) {
    LAGOON_ASSIGN_OR_RETURN(axes, context.ConstantInts(3, "axes"));
    LAGOON_RETURN_IF_ERROR(context.Axes(axes, rank));  // fails for duplicates
  }
  if (!given || given->size() != 2 * axes.size()) {
    return context.Invalid(fmt::format("has {} pads for {} axes of {}", given ? given->size() : 0,
                                       axes.size(), ToString(context.dims(0))));
  }
  Ints pads(2 * rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis, context.Axis(axes[i], rank));
    pads[static_cast<std::size_t>(axis)] = (*given)[i];
    pads[static_cast<std::size_t>(axis) + rank] = (*given)[i + axes.size()];
  }
  return pads;
}

/// The constant for the padding, of input 0's type; zero if left out.
Result<Constant> PadValue(const OpContext& context) {
  const DataType type = context.input(0).type;
  if (context.has_input(2)) {
    const Constant* value = context.constant(2);
    if (value == nullptr) {
      return context.Unimplemented(
          fmt::format("constant_value {} must be constant; it is computed "
                      "at run time",
                      Quoted(context.input(2).name)));
    }
    if (value->type != type || ElementCount(value->dims) != 1) {
      return context.Invalid(fmt::format("constant_value {} is {} {}, takes one {}",
                                         Quoted(context.input(2).name), OipName(value->type),
                                         ToString(value->dims), OipName(type)));
    }
    return *value;
  }
  const float number = context.node().Float("value", 0);
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) {
    const T element = ConvertElement<T>(number);
    auto bytes = std::make_shared<std::vector<std::byte>>(sizeof(T));
    std::memcpy(bytes->data(), &element, sizeof(T));
    return Result<Constant>(Constant{type, {}, std::move(bytes)});
  });
}

Status InferPad(OpContext& context) {
  const std::string mode = context.node().String("mode", "constant");
  const std::size_t rank = context.rank(0);
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return context.Unimplemented(fmt::format("mode {} is not known", Quoted(mode)));
  }
  LAGOON_ASSIGN_OR_RETURN(Ints pads, ReadPads(context));
  LAGOON_ASSIGN_OR_RETURN(Constant value, PadValue(context));
  Dims out = context.dims(0);
  for (std::size_t i = 0; i < pads.size(); ++i) {
    const std::int64_t pad = pads[i];
    if (pad > kMaxPad || pad < -kMaxPad || out[i % rank] > kMaxPad) {
      return context.Invalid(
          fmt::format("pads axis {} of {} by {}", i % rank, ToString(context.dims(0)), pad));
    }
    out[i % rank] += pad;
  }
  const Dims& x = context.dims(0);
  for (std::size_t i = 0; mode != "constant" && i < pads.size(); ++i) {
    if (x[i % rank] != 0 || pads[i] <= 0) continue;
    return context.Invalid(fmt::format("mode {} has nothing to repeat in axis {} of {}",
                                       Quoted(mode), i % rank, ToString(x)));
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (out[i] >= 0) continue;
    return context.Invalid(fmt::format("pads {} leave {} of axis {}", ToString(pads), out[i], i));
  }
  context.KeepInputs(1);
  context.SetAttribute("pads", std::move(pads));
  context.SetAttribute("value", std::move(value));
  context.SetAttribute("mode", mode);
  context.SetOutput(std::move(out));
  return {};
}

Status InferSlice(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const SliceLists lists, ReadSlice(context));
  const Dims& x = context.dims(0);
  Ints starts(x.size(), 0);
  Ints ends = x;
  Ints axes(x.size());
  Ints steps(x.size(), 1);
  Dims out = x;
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = 0; i < lists.axes.size(); ++i) {
    if (lists.steps[i] == 0) return context.Invalid("has a step of 0");
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis, context.Axis(lists.axes[i], x.size()));
    const auto at = static_cast<std::size_t>(axis);
    const Range range = Clamp({lists.starts[i], lists.ends[i], lists.steps[i]}, x[at]);
    starts[at] = range.start;
    ends[at] = range.end;
    steps[at] = range.step;
    out[at] = range.count();
  }
  context.KeepInputs(1);
  context.SetAttribute("starts", std::move(starts));
  context.SetAttribute("ends", std::move(ends));
  context.SetAttribute("axes", std::move(axes));
  context.SetAttribute("steps", std::move(steps));
  context.SetOutput(std::move(out));
  return {};
}

Status InferGather(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckIndices(context, 1));
  const Dims& x = context.dims(0);
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", 0), x.size()));
  Dims out(x.begin(), x.begin() + axis);
  out.insert(out.end(), context.dims(1).begin(), context.dims(1).end());
  out.insert(out.end(), x.begin() + axis + 1, x.end());
  context.SetAttribute("axis", axis);
  context.SetOutput(std::move(out));
  return {};
}

Status InferExpand(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const Dims shape, context.ConstantInts(1, "shape"));
  LAGOON_RETURN_IF_ERROR(context.Bytes(shape, context.input(0).type));
  LAGOON_ASSIGN_OR_RETURN(Dims out, Broadcast(context, context.dims(0), shape));
  context.KeepInputs(1);
  context.SetOutput(std::move(out));
  return {};
}

constexpr OpSpec kRegionOps[] = {
    {"Pad", 2, 1, 4, 1, "s:mode I:pads f:value", InferPad},
    {"Slice", 1, 1, 5, 1, "I:axes I:ends I:starts", InferSlice, EvaluateSlice},
    {"Expand", 8, 2, 2, 1, "", InferExpand, EvaluateExpand},
    {"Gather", 1, 2, 2, 1, "i:axis", InferGather, EvaluateGather},
};

}  // namespace

std::span<const OpSpec> RegionOps() { return kRegionOps; }

}  // namespace lagoon
