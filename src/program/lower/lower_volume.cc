// Nodes on volumes [N,C,D,H,W], as nodes on images. With the channels last in memory, a volume is
// N * D images [H,W], or N images [D,H*W], or N images [D*H,W], without a byte moved. A convolution
// is one over the N * D' images that the output has, each with as many times the channels as the
// window has pixels along D.

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "plan/elementwise_ops.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

ValueId AddFlat(ProgramBuilder& builder, ValueId value) {
  const Dims dims = builder.dims(value);
  const ValueId flat = builder.AddValue(builder.graph().value(value).name, builder.type(value),
                                        {dims[0], dims[1], dims[2] * dims[3], dims[4]});
  builder.DefineFlat(value, flat);
  return flat;
}

/// The volume as images [N,C,D*H,W].
Result<ValueId> FlatOf(ProgramBuilder& builder, ValueId volume) {
  if (const ValueId known = builder.FlatOf(volume); known != kNoValue) return known;
  LAGOON_ASSIGN_OR_RETURN(const Tensor plain, builder.Use(volume, Layout::kPlain));
  const ValueId flat = AddFlat(builder, volume);
  builder.Define(flat, plain);
  return flat;
}

/// A volume, of which a convolution reads a window along the first spatial axis.
struct Depths {
  std::int64_t images, in, out, pixels, channels;  // pixels: of one image
  std::int64_t groups, taps, stride, dilation, pad_begin, pad_end;
};

/// The images [N * D', (group, tap, C / groups), H, W] that the convolution reads. A padded tensor
/// [N,D,pixels,C] goes in.
Result<Tensor> DepthTaps(ProgramBuilder& builder, const std::string& name, const Depths& d,
                         const Tensor& x) {
  if (d.taps == 1 && d.stride == 1) return x;
  const auto image = static_cast<std::ptrdiff_t>(d.pixels * d.channels);
  StridedCopySpec spec;
  spec.element_bytes = SizeOf(x.type);
  for (const std::int64_t size :
       {d.images, d.out, d.pixels, d.groups, d.taps, d.channels / d.groups}) {
    spec.out.push_back(static_cast<std::size_t>(size));
  }
  spec.strides = {x.dims[1] * image,     d.stride * image,   d.channels,
                  d.channels / d.groups, d.dilation * image, 1};
  const Tensor y = builder.NewTensor(
      name + ".taps", {d.images, d.out, d.pixels, d.taps * d.channels}, Layout::kPlain, x.type);
  LAGOON_RETURN_IF_ERROR(builder.Emit(name + ".taps",
                                      [&](auto& make) { return make.StridedCopy(spec); },
                                      {builder.All(x)}, {builder.All(y)}));
  return y;
}

/// The weights [M, C / groups, depth, height, width] from tap `first` of the depth on, `count` of
/// them, as [M, (tap, C / groups), height, width].
Constant DepthWeights(const Constant& w, std::int64_t first, std::int64_t count) {
  const auto in = static_cast<std::size_t>(w.dims[1]), taps = static_cast<std::size_t>(w.dims[2]);
  const auto begin_tap = static_cast<std::size_t>(first);
  const auto end_tap = begin_tap + static_cast<std::size_t>(count);
  const auto window = static_cast<std::size_t>(w.dims[3] * w.dims[4]);
  const auto order = [=](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> to;
    to.reserve(from.size() / taps * (end_tap - begin_tap));
    for (std::size_t begin = 0; begin < from.size(); begin += in * taps * window) {
      for (std::size_t tap = begin_tap; tap < end_tap; ++tap) {
        for (std::size_t c = 0; c < in; ++c) {
          const auto row = from.subspan(begin + (c * taps + tap) * window, window);
          to.insert(to.end(), row.begin(), row.end());
        }
      }
    }
    return BytesOf(to);
  };
  return DerivedConstant(DataType::kFloat32, {w.dims[0], w.dims[1] * count, w.dims[3], w.dims[4]},
                         fmt::format("depth {} {}", first, count), {w}, order);
}

/// Leaves out the taps at both ends that read only padding, as those of thin volumes do. Returns
/// the first that stays.
std::int64_t DropPaddingTaps(Depths& d) {
  const auto reads = [&d](std::int64_t tap) {
    const std::int64_t at_first = tap * d.dilation - d.pad_begin;  // of the first output
    const std::int64_t out = at_first >= 0 ? 0 : (d.stride - 1 - at_first) / d.stride;
    return out < d.out && at_first + out * d.stride < d.in;
  };
  std::int64_t first = 0, last = d.taps - 1;
  // The padding must not become negative; it is an unsigned number in kernels.
  while (last > first && d.pad_end >= d.dilation && !reads(last)) {
    --last;
    d.pad_end -= d.dilation;
  }
  while (first < last && d.pad_begin >= d.dilation && !reads(0)) {
    ++first;
    d.pad_begin -= d.dilation;  // the next tap is number 0 now
  }
  d.taps = last - first + 1;
  return first;
}

/// A window over images, of the spatial axes `rows` and `columns` of a window over volumes; an axis
/// of kNone has one pixel.
constexpr std::size_t kNone = 3;
void SetImageWindow(const Node& volume, std::size_t rows, std::size_t columns, Node& image) {
  for (const char* name : {"kernel_shape", "strides", "dilations", "pads", "counted_pads"}) {
    if (!volume.attributes.contains(name)) continue;
    const Ints values = volume.Ints(name, {});
    const bool pads = values.size() == 6;
    const auto at = [&](std::size_t axis) { return axis == kNone ? (pads ? 0 : 1) : values[axis]; };
    const auto end = [&](std::size_t axis) { return axis == kNone ? 0 : values[axis + 3]; };
    Ints both{at(rows), at(columns)};
    if (pads) both.insert(both.end(), {end(rows), end(columns)});
    image.attributes[name] = both;
  }
}

/// A new value of images, which lie in `tensor`.
ValueId ImagesIn(ProgramBuilder& builder, const std::string& name, const Tensor& tensor,
                 const Dims& dims) {
  const ValueId images = builder.AddValue(name, DataType::kFloat32, dims);
  DefineChannelsLast(builder, images, tensor);
  return images;
}

/// Whether the window has one pixel along both other axes than D, so that it is one over the images
/// [D, H * W].
bool IsAlongDepth(const Node& node) {
  const Ints kernel = node.Ints("kernel_shape", {}), strides = node.Ints("strides", {}),
             pads = node.Ints("pads", {});
  return kernel[1] == 1 && kernel[2] == 1 && strides[1] == 1 && strides[2] == 1 && pads[1] == 0 &&
         pads[2] == 0 && pads[4] == 0 && pads[5] == 0;
}

/// Lowers `node` on images as `image`, which has all but inputs, residual and outputs. `in`, `out`:
/// the images of its input and its output.
Status LowerOnImages(ProgramBuilder& builder, const Node& node, Node image, const Tensor& x,
                     const Dims& in, const Dims& out, LowerFunction lower) {
  image.inputs[0] = ImagesIn(builder, node.name + ".images", x, in);
  if (node.fused.residual != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor residual, UseChannelsLast(builder, node.fused.residual));
    image.fused.residual = ImagesIn(builder, node.name + ".residual", residual, out);
  }
  image.outputs[0] = builder.AddValue(node.name, DataType::kFloat32, out);
  LAGOON_RETURN_IF_ERROR(lower(builder, image));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, UseChannelsLast(builder, image.outputs[0]));
  DefineChannelsLast(builder, node.outputs[0], y);
  return {};
}

}  // namespace

Result<Tensor> UseChannelsLast(ProgramBuilder& builder, ValueId value) {
  if (builder.dims(value).size() != 5) return builder.Use(value, Layout::kChannelsLast);
  LAGOON_ASSIGN_OR_RETURN(const ValueId flat, FlatOf(builder, value));
  return builder.Use(flat, Layout::kChannelsLast);
}

void DefineChannelsLast(ProgramBuilder& builder, ValueId value, Tensor tensor) {
  tensor.layout = Layout::kChannelsLast;
  builder.Define(builder.dims(value).size() == 5 ? AddFlat(builder, value) : value, tensor);
}

Status LowerVolumeConv(ProgramBuilder& builder, const Node& node) {
  // Of what the images of all pixels of the window take; above, the plain body is used.
  constexpr double kMaxElements = 1 << 28;
  const Dims x = builder.dims(node.inputs[0]), y = builder.dims(node.outputs[0]);
  const Ints kernel = node.Ints("kernel_shape", {}), strides = node.Ints("strides", {}),
             dilations = node.Ints("dilations", {}), pads = node.Ints("pads", {});
  if (kernel.size() != 3 || strides.size() != 3 || dilations.size() != 3 || pads.size() != 6) {
    return LowerDirectConv(builder, node);  // says what is wrong
  }
  Depths depths{.images = x[0],
                .in = x[2],
                .out = y[2],
                .pixels = x[3] * x[4],
                .channels = x[1],
                .groups = node.Int("group", 1),
                .taps = kernel[0],
                .stride = strides[0],
                .dilation = dilations[0],
                .pad_begin = pads[0],
                .pad_end = pads[3]};
  const double elements = static_cast<double>(ElementCount(x)) / static_cast<double>(x[2]) *
                          static_cast<double>(y[2]) * static_cast<double>(kernel[0]);
  if (elements > kMaxElements) return LowerDirectConv(builder, node);
  LAGOON_ASSIGN_OR_RETURN(Tensor images, UseChannelsLast(builder, node.inputs[0]));
  Node conv = node;
  if (IsAlongDepth(node)) {
    Constant weights = *builder.constant(node.inputs[1]);
    weights.dims.pop_back();
    conv.inputs[1] = builder.AddValue(node.name + ".weights", std::move(weights));
    SetImageWindow(node, 0, kNone, conv);
    return LowerOnImages(builder, node, conv, images, {x[0], x[1], x[2], x[3] * x[4]},
                         {y[0], y[1], y[2], y[3] * y[4]}, LowerConv);
  }
  const std::int64_t first = DropPaddingTaps(depths);
  images.dims = {x[0], x[2], depths.pixels, x[1]};
  images.layout = Layout::kPlain;
  LAGOON_ASSIGN_OR_RETURN(
      images, EmitPadding(builder, node.name + ".pad", images, Ints{0, depths.pad_begin, 0, 0},
                          Ints{0, depths.pad_end, 0, 0}));
  LAGOON_ASSIGN_OR_RETURN(images, DepthTaps(builder, node.name, depths, images));
  conv.inputs[1] = builder.AddValue(
      node.name + ".weights", DepthWeights(*builder.constant(node.inputs[1]), first, depths.taps));
  SetImageWindow(node, 1, 2, conv);
  return LowerOnImages(builder, node, conv, images, {x[0] * y[2], depths.taps * x[1], x[3], x[4]},
                       {y[0] * y[2], y[1], y[3], y[4]}, LowerConv);
}

Status LowerVolumePool(ProgramBuilder& builder, const Node& node, LowerFunction lower) {
  const Dims x = builder.dims(node.inputs[0]), y = builder.dims(node.outputs[0]);
  LAGOON_ASSIGN_OR_RETURN(const Tensor volume, UseChannelsLast(builder, node.inputs[0]));
  // First over each image, then over the images at the same place of each volume.
  Node image = node;
  SetImageWindow(node, 1, 2, image);
  image.inputs[0] =
      ImagesIn(builder, node.name + ".images", volume, {x[0] * x[2], x[1], x[3], x[4]});
  image.outputs[0] =
      builder.AddValue(node.name + ".pooled", DataType::kFloat32, {x[0] * x[2], x[1], y[3], y[4]});
  LAGOON_RETURN_IF_ERROR(lower(builder, image));
  LAGOON_ASSIGN_OR_RETURN(const Tensor pooled, UseChannelsLast(builder, image.outputs[0]));
  SetImageWindow(node, 0, kNone, image);
  return LowerOnImages(builder, node, image, pooled, {x[0], x[1], x[2], y[3] * y[4]},
                       {y[0], y[1], y[2], y[3] * y[4]}, lower);
}

Result<std::optional<Node>> OnFlatVolumes(ProgramBuilder& builder, const Node& node) {
  const std::optional<Node> kNotOnFlat;
  if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) return kNotOnFlat;
  if (node.fused.residual != kNoValue) return kNotOnFlat;
  const Dims dims = builder.dims(node.outputs[0]);
  const bool join = node.op == "Concat" && node.Int("axis", 0) == 1;
  const bool elementwise =
      elementwise::FindUnary(node.op) != nullptr || elementwise::FindBinary(node.op) != nullptr;
  if (dims.size() != 5 || (!join && !elementwise)) return kNotOnFlat;
  if (builder.type(node.outputs[0]) != DataType::kFloat32) return kNotOnFlat;
  bool any = false;
  for (const ValueId input : node.inputs) {
    if (input == kNoValue || builder.type(input) != DataType::kFloat32) return kNotOnFlat;
    const Dims& in = builder.dims(input);
    const bool whole = in.size() == 5 && in[2] == dims[2] && in[3] == dims[3] && in[4] == dims[4];
    const bool channels = in.size() == 5 && in[2] == 1 && in[3] == 1 && in[4] == 1;
    if (!whole && !(elementwise && channels)) return kNotOnFlat;
    any = any || builder.FlatOf(input) != kNoValue;
  }
  if (!any) return kNotOnFlat;
  Node flat = node;
  for (ValueId& input : flat.inputs) {
    LAGOON_ASSIGN_OR_RETURN(input, FlatOf(builder, input));
  }
  flat.outputs[0] = AddFlat(builder, node.outputs[0]);
  return std::optional(std::move(flat));
}

}  // namespace lagoon
