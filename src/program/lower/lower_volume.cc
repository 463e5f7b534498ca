// Convolutions over volumes [N,C,D,H,W]: as convolutions over the N * D' images [H,W] that the
// output has, each with as many times the channels as the window has pixels along D.

#include <vector>

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

/// A volume, of which a convolution reads a window along the first spatial axis.
struct Depths {
  std::int64_t images, in, out, pixels, channels;  // pixels: of one image
  std::int64_t groups, taps, stride, dilation, pad_begin, pad_end;
};

/// x [N,D,pixels,C] with `pad_begin` and `pad_end` images of zeros around each volume.
Result<Tensor> Padded(ProgramBuilder& builder, const std::string& name, const Depths& d,
                      const Tensor& x) {
  if (d.pad_begin == 0 && d.pad_end == 0) return x;
  const Dims padded{d.images, d.pad_begin + d.in + d.pad_end, d.pixels, d.channels};
  LAGOON_RETURN_IF_ERROR(CheckTable(padded));
  std::vector<Ints> maps(padded.size());
  for (std::size_t axis = 0; axis < maps.size(); ++axis) {
    for (std::int64_t at = 0; at < padded[axis]; ++at) {
      const std::int64_t from = axis == 1 ? at - d.pad_begin : at;
      maps[axis].push_back(from < x.dims[axis] ? from : -1);
    }
  }
  return EmitTake(builder, name + ".pad", x, std::move(maps));
}

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

/// The weights [M, C / groups, depth, height, width] as [M, (depth, C / groups), height, width].
Constant DepthWeights(const Constant& w) {
  const auto in = static_cast<std::size_t>(w.dims[1]), taps = static_cast<std::size_t>(w.dims[2]);
  const auto window = static_cast<std::size_t>(w.dims[3] * w.dims[4]);
  const auto order = [in, taps, window](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> to;
    to.reserve(from.size());
    for (std::size_t begin = 0; begin < from.size(); begin += in * taps * window) {
      for (std::size_t tap = 0; tap < taps; ++tap) {
        for (std::size_t c = 0; c < in; ++c) {
          const auto row = from.subspan(begin + (c * taps + tap) * window, window);
          to.insert(to.end(), row.begin(), row.end());
        }
      }
    }
    return BytesOf(to);
  };
  return DerivedConstant(DataType::kFloat32,
                         {w.dims[0], w.dims[1] * w.dims[2], w.dims[3], w.dims[4]}, "depth", {w},
                         order);
}

}  // namespace

Result<Tensor> UseChannelsLast(ProgramBuilder& builder, ValueId value) {
  if (builder.dims(value).size() != 5) return builder.Use(value, Layout::kChannelsLast);
  ValueId flat = builder.FlatOf(value);
  if (flat == kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor plain, builder.Use(value, Layout::kPlain));
    flat = AddFlat(builder, value);
    builder.Define(flat, plain);
  }
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
  const Depths depths{.images = x[0],
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
  images.dims = {x[0], x[2], depths.pixels, x[1]};
  images.layout = Layout::kPlain;
  LAGOON_ASSIGN_OR_RETURN(images, Padded(builder, node.name, depths, images));
  LAGOON_ASSIGN_OR_RETURN(images, DepthTaps(builder, node.name, depths, images));
  Node conv = node;
  conv.inputs[0] = builder.AddValue(node.name + ".images", DataType::kFloat32,
                                    {x[0] * y[2], kernel[0] * x[1], x[3], x[4]});
  DefineChannelsLast(builder, conv.inputs[0], images);
  conv.inputs[1] =
      builder.AddValue(node.name + ".weights", DepthWeights(*builder.constant(node.inputs[1])));
  conv.attributes["kernel_shape"] = Ints{kernel[1], kernel[2]};
  conv.attributes["strides"] = Ints{strides[1], strides[2]};
  conv.attributes["dilations"] = Ints{dilations[1], dilations[2]};
  conv.attributes["pads"] = Ints{pads[1], pads[2], pads[4], pads[5]};
  const Dims image{x[0] * y[2], y[1], y[3], y[4]};
  if (node.fused.residual != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor residual, UseChannelsLast(builder, node.fused.residual));
    conv.fused.residual = builder.AddValue(node.name + ".residual", DataType::kFloat32, image);
    DefineChannelsLast(builder, conv.fused.residual, residual);
  }
  conv.outputs[0] = builder.AddValue(node.name, DataType::kFloat32, image);
  LAGOON_RETURN_IF_ERROR(LowerConv(builder, conv));
  LAGOON_ASSIGN_OR_RETURN(const Tensor made, UseChannelsLast(builder, conv.outputs[0]));
  DefineChannelsLast(builder, node.outputs[0], made);
  return {};
}

}  // namespace lagoon
