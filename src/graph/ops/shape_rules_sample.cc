// Ops that sample images at computed places.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

/// Fails unless the attribute is one of these words; sets it, so that it has no default any more.
Status OneOf(OpContext& context, const char* attribute, const std::string& otherwise,
             std::initializer_list<std::string_view> known) {
  const std::string word = context.node().String(attribute, otherwise);
  if (std::find(known.begin(), known.end(), word) == known.end()) {
    return context.Invalid(fmt::format("{} {} is not known", attribute, Quoted(word)));
  }
  context.SetAttribute(attribute, word);
  return {};
}

Status InferRoiAlign(OpContext& context) {
  constexpr std::int64_t kHalfPixelSince = 16;
  constexpr std::int64_t kMostSide = 1 << 14, kMostSamples = 1 << 10;
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {1}));
  const Dims& x = context.dims(0);
  const Dims& regions = context.dims(1);
  const Dims& images = context.dims(2);
  if (x.size() != 4 || regions.size() != 2 || regions[1] != 4 || images != Dims{regions[0]}) {
    return context.Invalid(
        fmt::format("X {}, rois {} and batch_indices {} must be [N,C,H,W], [R,4] and [R]",
                    ToString(x), ToString(regions), ToString(images)));
  }
  if (context.input(2).type != DataType::kInt64) {
    return context.Invalid(fmt::format("batch_indices {} is {}, must be INT64",
                                       Quoted(context.input(2).name),
                                       OipName(context.input(2).type)));
  }
  const std::int64_t height = context.node().Int("output_height", 1);
  const std::int64_t width = context.node().Int("output_width", 1);
  const std::int64_t samples = context.node().Int("sampling_ratio", 0);
  if (height < 1 || width < 1 || height > kMostSide || width > kMostSide || samples < 0 ||
      samples > kMostSamples) {
    return context.Invalid(
        fmt::format("output_height {} and output_width {} must be 1 to {}, sampling_ratio {} must "
                    "be 0 to {}",
                    height, width, kMostSide, samples, kMostSamples));
  }
  const float scale = context.node().Float("spatial_scale", 1);
  if (!std::isfinite(scale)) return context.Invalid(fmt::format("spatial_scale is {}", scale));
  LAGOON_RETURN_IF_ERROR(OneOf(context, "mode", "avg", {"avg", "max"}));
  if (context.opset() < kHalfPixelSince) {
    context.SetAttribute("coordinate_transformation_mode", std::string("output_half_pixel"));
  }
  LAGOON_RETURN_IF_ERROR(OneOf(context, "coordinate_transformation_mode", "half_pixel",
                               {"half_pixel", "output_half_pixel"}));
  context.SetOutput({regions[0], x[1], height, width});
  return {};
}

Status InferGridSample(OpContext& context) {
  if (!IsFloat(context.input(1).type)) {
    return context.Invalid(fmt::format("grid {} is {}, must be a float",
                                       Quoted(context.input(1).name),
                                       OipName(context.input(1).type)));
  }
  const Dims& x = context.dims(0);
  const Dims& grid = context.dims(1);
  const std::size_t rank = x.size();
  if (rank < 3 || grid.size() != rank || grid[0] != x[0] ||
      grid.back() != static_cast<std::int64_t>(rank) - 2) {
    return context.Invalid(
        fmt::format("X {} and grid {} do not fit: must be [N,C,spatial...] and [N,places...,{}]",
                    ToString(x), ToString(grid), rank < 2 ? 0 : rank - 2));
  }
  if (rank != 4 && rank != 5) {
    return context.Unimplemented(
        fmt::format("samples X {}, supported are 2 and 3 spatial axes", ToString(x)));
  }
  // Opset 20 renamed two of the modes.
  const std::string mode = context.node().String("mode", "linear");
  if (mode == "bilinear") context.SetAttribute("mode", std::string("linear"));
  if (mode == "bicubic") context.SetAttribute("mode", std::string("cubic"));
  LAGOON_RETURN_IF_ERROR(OneOf(context, "mode", "linear", {"linear", "nearest", "cubic"}));
  LAGOON_RETURN_IF_ERROR(
      OneOf(context, "padding_mode", "zeros", {"zeros", "border", "reflection"}));
  if (rank == 5 && context.node().String("mode", "") == "cubic") {
    return context.Unimplemented("mode \"cubic\" is supported on 2 spatial axes only");
  }
  Dims out{x[0], x[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  const bool nothing = std::find(x.begin() + 2, x.end(), 0) != x.end() && ElementCount(out) != 0;
  if (nothing) return context.Invalid(fmt::format("nothing can be sampled from {}", ToString(x)));
  context.SetOutput(std::move(out));
  return {};
}

constexpr OpSpec kSampleOps[] = {
    {"RoiAlign", 10, 3, 3, 1,
     "s:coordinate_transformation_mode s:mode i:output_height i:output_width i:sampling_ratio "
     "f:spatial_scale",
     InferRoiAlign},
    {"GridSample", 16, 2, 2, 1, "i:align_corners s:mode s:padding_mode", InferGridSample},
};

}  // namespace

std::span<const OpSpec> SampleOps() { return kSampleOps; }

}  // namespace lagoon
