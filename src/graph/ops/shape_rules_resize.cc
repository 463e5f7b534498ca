// Resize and Upsample.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "graph/ops/resize.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

constexpr std::int64_t kMaxSide = std::int64_t{1} << 30;

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

/// The fp32 numbers of input `i`; empty if the input is left out or empty.
Result<Floats> ConstantFloats(const OpContext& context, std::size_t i, std::string_view what) {
  if (!context.has_input(i)) return Floats();
  const Constant* value = context.constant(i);
  if (value == nullptr) {
    return context.Unimplemented(fmt::format("{} {} must be constant; it is computed at run time",
                                             what, Quoted(context.input(i).name)));
  }
  if (value->bytes->empty()) return Floats();
  if (value->type != DataType::kFloat32) {
    return context.Invalid(
        fmt::format("{} {} is {}", what, Quoted(context.input(i).name), OipName(value->type)));
  }
  return Floats(value->floats().begin(), value->floats().end());
}

Result<Dims> ScaledDims(const OpContext& context, const Floats& scales) {
  Dims out = context.dims(0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double size = std::floor(static_cast<double>(out[i]) * static_cast<double>(scales[i]));
    if (!(scales[i] > 0) || !(size >= 1) || size > static_cast<double>(kMaxSide)) {
      return context.Invalid(fmt::format("axis {} of {} cannot be scaled by {}", i,
                                         ToString(context.dims(0)), scales[i]));
    }
    out[i] = static_cast<std::int64_t>(size);
  }
  return out;
}

/// For "not_larger" and "not_smaller" gives all axes the same scale.
void KeepAspectRatio(const std::string& policy, const Dims& x, const Ints& axes,
                     ResizeScaling& scaling) {
  if (policy == "stretch") return;
  float common = 0;
  for (const std::int64_t axis : axes) {
    const float scale = scaling.scales[static_cast<std::size_t>(axis)];
    const bool better = policy == "not_larger" ? scale < common : scale > common;
    if (common == 0 || better) common = scale;
  }
  for (const std::int64_t axis : axes) {
    const auto at = static_cast<std::size_t>(axis);
    const double size = static_cast<double>(x[at]) * static_cast<double>(common);
    scaling.scales[at] = common;
    scaling.out[at] = size > static_cast<double>(kMaxSide) ? kMaxSide + 1 : std::llround(size);
  }
}

/// The axes that scales, sizes and roi refer to.
Result<Ints> ScaledAxes(const OpContext& context) {
  Ints axes = context.node().Ints("axes", {});
  if (axes.empty()) {
    axes.resize(context.rank(0));
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  LAGOON_RETURN_IF_ERROR(context.Axes(axes, context.rank(0)));  // fails for duplicates
  for (std::int64_t& axis : axes) {
    LAGOON_ASSIGN_OR_RETURN(axis, context.Axis(axis, context.rank(0)));
  }
  return axes;
}

Status ScaleToSizes(const OpContext& context, const Ints& axes, ResizeScaling& scaling) {
  const Dims& x = context.dims(0);
  LAGOON_ASSIGN_OR_RETURN(const Ints sizes, context.ConstantInts(3, "sizes"));
  if (sizes.size() != axes.size()) {
    return context.Invalid(fmt::format("has {} sizes for {} axes", sizes.size(), axes.size()));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto at = static_cast<std::size_t>(axes[i]);
    if (sizes[i] < 1 || sizes[i] > kMaxSide) {
      return context.Invalid(fmt::format("axis {} cannot be resized to {}", at, sizes[i]));
    }
    scaling.out[at] = sizes[i];
    scaling.scales[at] = static_cast<float>(sizes[i]) / static_cast<float>(x[at]);
  }
  const std::string policy = context.node().String("keep_aspect_ratio_policy", "stretch");
  KeepAspectRatio(policy, x, axes, scaling);
  for (const std::int64_t size : scaling.out) {
    if (size >= 1 && size <= kMaxSide) continue;
    return context.Invalid(fmt::format("{} cannot be resized to {} with policy {}", ToString(x),
                                       ToString(sizes), Quoted(policy)));
  }
  return {};
}

/// Reads the region of interest, which exists in mode "tf_crop_and_resize" only.
Status ReadRegion(const OpContext& context, const Ints& axes, ResizeScaling& scaling) {
  LAGOON_ASSIGN_OR_RETURN(const Floats roi, ConstantFloats(context, 1, "roi"));
  if (roi.size() != 2 * axes.size()) {
    return context.Invalid(fmt::format("roi has {} numbers for {} axes", roi.size(), axes.size()));
  }
  for (const float place : roi) {
    if (!std::isfinite(place)) return context.Invalid(fmt::format("roi has a {}", place));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto at = static_cast<std::size_t>(axes[i]);
    scaling.roi[at] = roi[i];
    scaling.roi[at + context.rank(0)] = roi[i + axes.size()];
  }
  return {};
}

}  // namespace

Result<ResizeScaling> ReadScaling(const OpContext& context, std::size_t scales_input) {
  const Dims& x = context.dims(0);
  LAGOON_ASSIGN_OR_RETURN(const Ints axes, ScaledAxes(context));
  LAGOON_ASSIGN_OR_RETURN(const Floats scales, ConstantFloats(context, scales_input, "scales"));
  if (std::find(x.begin(), x.end(), 0) != x.end()) {
    return context.Invalid(fmt::format("nothing can be sampled from {}", ToString(x)));
  }
  ResizeScaling scaling{Floats(x.size(), 1), x, Floats(2 * x.size(), 0)};
  std::fill(scaling.roi.begin() + static_cast<std::ptrdiff_t>(x.size()), scaling.roi.end(), 1.0f);
  if (!scales.empty()) {
    if (scales.size() != axes.size()) {
      return context.Invalid(fmt::format("has {} scales for {} axes", scales.size(), axes.size()));
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      scaling.scales[static_cast<std::size_t>(axes[i])] = scales[i];
    }
    LAGOON_ASSIGN_OR_RETURN(scaling.out, ScaledDims(context, scaling.scales));
  } else if (context.has_input(3)) {
    LAGOON_RETURN_IF_ERROR(ScaleToSizes(context, axes, scaling));
  } else {
    return context.Invalid("has neither scales nor sizes");
  }
  const bool crops =
      context.node().String("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
  if (crops) LAGOON_RETURN_IF_ERROR(ReadRegion(context, axes, scaling));
  return scaling;
}

namespace {

Status SetResize(OpContext& context, ResizeScaling scaling) {
  context.KeepInputs(1);
  context.EraseAttribute("axes");
  context.EraseAttribute("keep_aspect_ratio_policy");
  context.SetAttribute("scales", std::move(scaling.scales));
  context.SetAttribute("roi", std::move(scaling.roi));
  context.SetOutput(std::move(scaling.out));
  return {};
}

Status CheckWord(const OpContext& context, const char* attribute, const std::string& otherwise,
                 std::initializer_list<std::string_view> known) {
  const std::string word = context.node().String(attribute, otherwise);
  if (std::find(known.begin(), known.end(), word) != known.end()) return {};
  return context.Unimplemented(fmt::format("{} {} is not supported", attribute, Quoted(word)));
}

Status InferResize(OpContext& context) {
  constexpr std::int64_t kSizesSince = 11;
  LAGOON_RETURN_IF_ERROR(CheckWord(context, "mode", "nearest", {"nearest", "linear", "cubic"}));
  LAGOON_RETURN_IF_ERROR(
      CheckWord(context, "coordinate_transformation_mode", "half_pixel",
                {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                 "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"}));
  LAGOON_RETURN_IF_ERROR(CheckWord(context, "nearest_mode", "round_prefer_floor",
                                   {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  LAGOON_RETURN_IF_ERROR(CheckWord(context, "keep_aspect_ratio_policy", "stretch",
                                   {"stretch", "not_larger", "not_smaller"}));
  const bool old = context.opset() < kSizesSince;
  if (old) {
    context.SetAttribute("coordinate_transformation_mode", std::string("asymmetric"));
    context.SetAttribute("nearest_mode", std::string("floor"));
  }
  LAGOON_ASSIGN_OR_RETURN(ResizeScaling scaling, ReadScaling(context, old ? 1 : 2));
  return SetResize(context, std::move(scaling));
}

Status InferUpsample(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckWord(context, "mode", "nearest", {"nearest", "linear"}));
  context.SetOp("Resize");
  context.SetAttribute("coordinate_transformation_mode", std::string("asymmetric"));
  context.SetAttribute("nearest_mode", std::string("floor"));
  LAGOON_ASSIGN_OR_RETURN(ResizeScaling scaling, ReadScaling(context, 1));
  return SetResize(context, std::move(scaling));
}

constexpr std::string_view kResizeAttributes =
    "i:antialias I:axes s:coordinate_transformation_mode f:cubic_coeff_a i:exclude_outside "
    "f:extrapolation_value s:keep_aspect_ratio_policy s:mode s:nearest_mode";

constexpr OpSpec kResizeOps[] = {
    {"Resize", 10, 1, 4, 1, kResizeAttributes, InferResize},
    {"Upsample", 9, 2, 2, 1, "s:mode", InferUpsample},
};

}  // namespace

std::span<const OpSpec> ResizeOps() { return kResizeOps; }

}  // namespace lagoon
