// Images sampled at computed places: RoiAlign, GridSample.

#include <numeric>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

Status LowerRoiAlign(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kChannelsLast));
  LAGOON_ASSIGN_OR_RETURN(const Tensor regions, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor images, builder.Use(node.inputs[2], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const ImageShape in, ImageOf(x.dims));
  LAGOON_ASSIGN_OR_RETURN(const ImageShape out, ImageOf(builder.dims(node.outputs[0])));
  RoiAlignSpec spec;
  spec.batch = in.batch;
  spec.height = in.height;
  spec.width = in.width;
  spec.channels = in.channels;
  spec.regions = out.batch;
  spec.out_height = out.height;
  spec.out_width = out.width;
  spec.samples = static_cast<std::size_t>(node.Int("sampling_ratio", 0));
  spec.scale = node.Float("spatial_scale", 1);
  spec.half_pixel = node.String("coordinate_transformation_mode", "") == "half_pixel";
  spec.maximum = node.String("mode", "avg") == "max";
  const Tensor y =
      builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kChannelsLast);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, [&](auto& make) { return make.RoiAlign(spec); },
                      {builder.All(x), builder.All(regions), builder.All(images)},
                      {builder.All(y)});
}

Status LowerGridSample(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor grid, builder.Use(node.inputs[1], Layout::kPlain));
  const std::size_t rank = x.dims.size();
  // kChannelsLast has no such order for volumes.
  std::vector<std::int64_t> to(rank), back(rank);
  std::iota(to.begin(), to.end(), 1);
  to[0] = 0;
  to[rank - 1] = 1;
  std::iota(back.begin(), back.end(), -1);
  back[0] = 0;
  back[1] = static_cast<std::int64_t>(rank) - 1;
  LAGOON_ASSIGN_OR_RETURN(x, builder.Transpose(x, to, Layout::kPlain));
  Dims dims = builder.dims(node.outputs[0]);
  dims.erase(dims.begin() + 1);
  dims.push_back(x.dims.back());
  GridSampleSpec spec;
  spec.batch = static_cast<std::size_t>(x.dims[0]);
  spec.channels = static_cast<std::size_t>(x.dims.back());
  spec.axes = rank - 2;
  for (std::size_t i = 1; i < rank - 1; ++i) {
    spec.in[4 - rank + i] = static_cast<std::size_t>(x.dims[i]);
  }
  spec.places = static_cast<std::size_t>(ElementCount(dims)) / spec.batch / spec.channels;
  const std::string mode = node.String("mode", "linear"),
                    padding = node.String("padding_mode", "zeros");
  if (mode == "nearest") spec.mode = SampleMode::kNearest;
  if (mode == "cubic") spec.mode = SampleMode::kCubic;
  if (padding == "border") spec.padding = SamplePadding::kBorder;
  if (padding == "reflection") spec.padding = SamplePadding::kReflection;
  spec.align_corners = node.Int("align_corners", 0) != 0;
  const Tensor sampled = builder.NewTensor(node.name, dims, Layout::kPlain);
  LAGOON_RETURN_IF_ERROR(builder.Emit(node.name, [&](auto& make) { return make.GridSample(spec); },
                                      {builder.All(x), builder.All(grid)}, {builder.All(sampled)}));
  const Layout layout = rank == 4 ? Layout::kChannelsLast : Layout::kPlain;
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, builder.Transpose(sampled, back, layout));
  builder.Define(node.outputs[0], y);
  return {};
}

constexpr Lowering kSampleLowerings[] = {
    {"RoiAlign", LowerRoiAlign, Lowering::kFloat},
    {"GridSample", LowerGridSample, Lowering::kFloat},
};

}  // namespace

std::span<const Lowering> SampleLowerings() { return kSampleLowerings; }

}  // namespace lagoon
