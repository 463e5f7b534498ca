// Pooling and convolution over windows. Images with two spatial axes use the image bodies, others
// the general bodies.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

/// The window of a node over the spatial axes of x and y, which are their last axes.
Result<SpatialWindow> WindowOver(const Node& node, const Dims& x, const Dims& y) {
  const std::size_t rank = x.size() - 2;
  if (rank < 1 || rank > kSpatialAxes) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("takes 1 to {} spatial axes, not {}", kSpatialAxes, ToString(x)));
  }
  const Ints kernel = node.Ints("kernel_shape", {}), strides = node.Ints("strides", {}),
             dilations = node.Ints("dilations", {}), pads = node.Ints("pads", {});
  if (kernel.size() != rank || strides.size() != rank || dilations.size() != rank ||
      pads.size() != 2 * rank) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the window is not one over {} axes", rank));
  }
  SpatialWindow window;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t to = kSpatialAxes - rank + i;
    window.in[to] = static_cast<std::size_t>(x[i + 2]);
    window.out[to] = static_cast<std::size_t>(y[i + 2]);
    window.kernel[to] = static_cast<std::size_t>(kernel[i]);
    window.stride[to] = static_cast<std::size_t>(strides[i]);
    window.dilation[to] = static_cast<std::size_t>(dilations[i]);
    window.pad_begin[to] = static_cast<std::size_t>(pads[i]);
  }
  return window;
}

/// The padding that counts in an average. That of a ceil_mode does not.
Ints CountedPads(const Node& node) { return node.Ints("counted_pads", node.Ints("pads", {})); }

Status LowerImagePool(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const ImageNode image, ImageNodeOf(builder, node));
  PoolSpec spec;
  if (node.op == "AveragePool") {
    spec.kind = node.Int("count_include_pad", 0) != 0 ? PoolSpec::Kind::kAverageCountPadding
                                                      : PoolSpec::Kind::kAverage;
  }
  spec.window = image.window;
  spec.channels = image.in_channels;
  const Ints counted = CountedPads(node);
  spec.pad_bottom = static_cast<std::uint32_t>(counted[2]);
  spec.pad_right = static_cast<std::uint32_t>(counted[3]);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kChannelsLast));
  const Tensor y =
      builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kChannelsLast);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, [&](auto& make) { return make.Pool(spec); }, {builder.All(x)},
                      {builder.All(y)});
}

WindowPool KindOf(const Node& node) {
  if (node.op == "MaxPool") return WindowPool::kMax;
  if (node.op == "LpPool") return WindowPool::kLp;
  return node.Int("count_include_pad", 0) != 0 ? WindowPool::kAverageCountPadding
                                               : WindowPool::kAverage;
}

Status LowerWindowPool(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  const Dims dims = builder.dims(node.outputs[0]);
  WindowPoolSpec spec;
  spec.kind = KindOf(node);
  spec.type = x.type;
  spec.images = static_cast<std::size_t>(dims[0] * dims[1]);
  spec.p = static_cast<int>(node.Int("p", 2));
  spec.indices = node.outputs.size() > 1 && node.outputs[1] != kNoValue;
  spec.column_major = node.Int("storage_order", 0) != 0;
  LAGOON_ASSIGN_OR_RETURN(spec.window, WindowOver(node, x.dims, dims));
  const Ints counted = CountedPads(node);
  for (std::size_t i = counted.size() / 2; i < counted.size(); ++i) {
    spec.pad_end[kSpatialAxes - counted.size() + i] = static_cast<std::size_t>(counted[i]);
  }
  const Tensor y = builder.NewTensor(node.name, dims, Layout::kPlain, x.type);
  builder.Define(node.outputs[0], y);
  std::vector<Operand> outputs{builder.All(y)};
  if (spec.indices) {
    const Tensor indices =
        builder.NewTensor(node.name + ".indices", dims, Layout::kPlain, DataType::kInt64);
    builder.Define(node.outputs[1], indices);
    outputs.push_back(builder.All(indices));
  }
  return builder.Emit(
      node.name, [&](auto& make) { return make.WindowPool(spec); }, {builder.All(x)},
      std::move(outputs));
}

Constant WidenedConstant(const Constant& constant) {
  Constant wide = constant;
  wide.dims = Widened(constant.dims);
  return wide;
}

/// [N,C,L] as the image [N,C,1,L]; in kChannelsLast no byte moves.
Result<ValueId> AsImage(ProgramBuilder& builder, const Node& node, ValueId value) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(value, Layout::kChannelsLast));
  const ValueId image = builder.AddValue(node.name + ".image", x.type, Widened(x.dims));
  builder.Define(image, x);
  return image;
}

/// Lowers a node with one spatial axis as a node on images of one row.
Status LowerAsImage(ProgramBuilder& builder, const Node& node,
                    Status (*lower)(ProgramBuilder&, const Node&)) {
  Node image = WithImageWindow(node);
  LAGOON_ASSIGN_OR_RETURN(image.inputs[0], AsImage(builder, node, node.inputs[0]));
  if (node.fused.residual != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(image.fused.residual, AsImage(builder, node, node.fused.residual));
  }
  if (image.inputs.size() > 1) {
    const Constant* weights = builder.constant(node.inputs[1]);
    LAGOON_CHECK(weights != nullptr);
    image.inputs[1] = builder.AddValue(node.name + ".weights", WidenedConstant(*weights));
  }
  const DataType type = builder.type(node.outputs[0]);
  image.outputs = {builder.AddValue(node.name, type, Widened(builder.dims(node.outputs[0])))};
  LAGOON_RETURN_IF_ERROR(lower(builder, image));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          builder.Use(image.outputs[0], builder.CheapestLayout(image.outputs)));
  builder.Define(node.outputs[0], y);
  return {};
}

bool IsConstantOrNone(const ProgramBuilder& builder, const Node& node, std::size_t i) {
  return i >= node.inputs.size() || node.inputs[i] == kNoValue ||
         builder.constant(node.inputs[i]) != nullptr;
}

/// Emits a convolution whose weights are a plain tensor.
Result<Tensor> EmitDirectConv(ProgramBuilder& builder, const Node& node, const Tensor& x,
                              const Tensor& w, const Tensor* bias, const Dims& dims) {
  const auto groups = static_cast<std::size_t>(node.Int("group", 1));
  DirectConvSpec spec;
  LAGOON_ASSIGN_OR_RETURN(spec.window, WindowOver(node, x.dims, dims));
  spec.batch = static_cast<std::size_t>(dims[0]);
  spec.groups = groups;
  spec.in_channels = static_cast<std::size_t>(w.dims[1]);
  spec.out_channels = static_cast<std::size_t>(dims[1]) / groups;
  spec.bias = bias != nullptr;
  const Tensor y = builder.NewTensor(node.name, dims, Layout::kPlain);
  std::vector<Operand> inputs{builder.All(x), builder.All(w)};
  if (bias != nullptr) inputs.push_back(builder.All(*bias));
  LAGOON_RETURN_IF_ERROR(builder.Emit(node.name, [&](auto& make) { return make.DirectConv(spec); },
                                      std::move(inputs), {builder.All(y)}));
  return y;
}

/// The weights of a transposed convolution [C, M/group, ...] as weights [M, C/group, ...],
/// mirrored, of a convolution over its input with zeros between the pixels.
Constant MirroredWeights(const Constant& w, std::int64_t groups) {
  const std::int64_t in = w.dims[0] / groups, out = w.dims[1];
  const std::int64_t taps = ElementCount(Dims(w.dims.begin() + 2, w.dims.end()));
  const auto mirror = [groups, in, out, taps](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> to(from.size());
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t i = 0; i < in; ++i) {
        for (std::int64_t o = 0; o < out; ++o) {
          for (std::int64_t t = 0; t < taps; ++t) {
            to[static_cast<std::size_t>(((g * out + o) * in + i) * taps + taps - 1 - t)] =
                from[static_cast<std::size_t>(((g * in + i) * out + o) * taps + t)];
          }
        }
      }
    }
    return BytesOf(to);
  };
  Dims dims = w.dims;
  dims[0] = groups * out;
  dims[1] = in;
  return DerivedConstant(DataType::kFloat32, std::move(dims), fmt::format("mirror {}", groups), {w},
                         mirror);
}

/// The same for computed weights.
Result<Tensor> MirrorWeights(ProgramBuilder& builder, const std::string& name, const Tensor& w,
                             std::int64_t groups) {
  std::vector<Ints> maps;
  for (std::size_t axis = 0; axis < w.dims.size(); ++axis) {
    Ints& map = maps.emplace_back();
    for (std::int64_t i = 0; i < w.dims[axis]; ++i) {
      map.push_back(axis < 2 ? i : w.dims[axis] - 1 - i);
    }
  }
  const std::int64_t in = w.dims[0] / groups, out = w.dims[1];
  const std::int64_t taps = ElementCount(w.dims) / (w.dims[0] * out);
  Dims dims = w.dims;
  dims[0] = groups * out;
  dims[1] = in;
  LAGOON_ASSIGN_OR_RETURN(Tensor mirrored, EmitTake(builder, name, w, std::move(maps)));
  LAGOON_ASSIGN_OR_RETURN(mirrored, builder.Reshape(mirrored, {groups, in, out, taps}));
  LAGOON_ASSIGN_OR_RETURN(
      mirrored,
      builder.Transpose(mirrored, std::array<std::int64_t, 4>{0, 2, 1, 3}, Layout::kPlain));
  return builder.Reshape(mirrored, dims);
}

/// Limits the spread image of a transposed convolution, which may be far larger than input and
/// output.
Status CheckSpread(const Dims& x, const Dims& out, const Ints& kernel, const Ints& dilations) {
  constexpr double kMaxElements = 1 << 28;
  Dims dims(x.begin(), x.begin() + 2);
  double elements = static_cast<double>(x[0]) * static_cast<double>(x[1]);
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    dims.push_back(out[i + 2] + (kernel[i] - 1) * dilations[i]);
    elements *= static_cast<double>(dims.back());
  }
  if (elements > kMaxElements) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("input {} spread for the window is {}, above 2^28 elements",
                            ToString(x), ToString(dims)));
  }
  return CheckTable(dims);
}

/// x with zeros between its pixels and around them, as a transposed convolution needs it. `conv`:
/// receives the node that convolves the result.
Result<Tensor> Spread(ProgramBuilder& builder, const Node& node, const Dims& out, Node& conv) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  const std::size_t rank = x.dims.size() - 2;
  const Ints kernel = node.Ints("kernel_shape", {}), strides = node.Ints("strides", {}),
             dilations = node.Ints("dilations", {}), pads = node.Ints("pads", {});
  LAGOON_RETURN_IF_ERROR(CheckSpread(x.dims, out, kernel, dilations));
  std::vector<Ints> maps(2);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    for (std::int64_t i = 0; i < x.dims[axis]; ++i) maps[axis].push_back(i);
  }
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t extent = (kernel[i] - 1) * dilations[i];
    Ints& map = maps.emplace_back();
    for (std::int64_t at = 0; at < out[i + 2] + extent; ++at) {
      const std::int64_t from = at - extent + pads[i];
      const bool pixel = from >= 0 && from % strides[i] == 0 && from / strides[i] < x.dims[i + 2];
      map.push_back(pixel ? from / strides[i] : -1);
    }
  }
  conv.attributes["strides"] = Ints(rank, 1);
  conv.attributes["pads"] = Ints(2 * rank, 0);
  return EmitTake(builder, node.name + ".spread", x, std::move(maps));
}

}  // namespace

Status LowerDirectConv(ProgramBuilder& builder, const Node& node) {
  if (node.fused.residual != kNoValue) return CheckNotFused(node);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor w, builder.Use(node.inputs[1], Layout::kPlain));
  Tensor bias;
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
  if (has_bias) {
    LAGOON_ASSIGN_OR_RETURN(bias, builder.Use(node.inputs[2], Layout::kPlain));
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitDirectConv(builder, node, x, w, has_bias ? &bias : nullptr,
                                                   builder.dims(node.outputs[0])));
  const Epilogue epilogue = EpilogueOf(node.fused);
  if (epilogue.activation == Activation::kRelu) {
    LAGOON_ASSIGN_OR_RETURN(y, EmitUnary(builder, node.name, UnaryOp::kRelu, y));
  } else if (epilogue.activation == Activation::kClip) {
    LAGOON_ASSIGN_OR_RETURN(
        y, EmitUnary(builder, node.name, UnaryOp::kClip, y, epilogue.low, epilogue.high));
  } else if (epilogue.activation == Activation::kUnary) {
    LAGOON_ASSIGN_OR_RETURN(
        y, EmitUnary(builder, node.name, epilogue.unary, y, epilogue.alpha, epilogue.beta));
  }
  builder.Define(node.outputs[0], y);
  return {};
}

namespace {

Status LowerPool(ProgramBuilder& builder, const Node& node) {
  const bool indices = node.outputs.size() > 1 && node.outputs[1] != kNoValue;
  const std::size_t rank = builder.dims(node.inputs[0]).size();
  const bool fp32 = builder.type(node.inputs[0]) == DataType::kFloat32;
  if (indices || !fp32 || node.op == "LpPool" || rank > 4) return LowerWindowPool(builder, node);
  return rank == 3 ? LowerAsImage(builder, node, LowerImagePool) : LowerImagePool(builder, node);
}

}  // namespace

Status LowerConv(ProgramBuilder& builder, const Node& node) {
  const std::size_t rank = builder.dims(node.inputs[0]).size();
  const bool packed = IsConstantOrNone(builder, node, 1) && IsConstantOrNone(builder, node, 2);
  if (!packed || rank > 4) return LowerDirectConv(builder, node);
  return rank == 3 ? LowerAsImage(builder, node, LowerImageConv) : LowerImageConv(builder, node);
}

namespace {

/// Whether every output pixel of a transposed convolution has one input pixel: the window is as
/// large as the stride.
bool IsTiled(const ProgramBuilder& builder, const Node& node) {
  const Dims &x = builder.dims(node.inputs[0]), &y = builder.dims(node.outputs[0]);
  const bool constant = builder.constant(node.inputs[1]) != nullptr &&
                        IsConstantOrNone(builder, node, 1) && IsConstantOrNone(builder, node, 2);
  if (!constant || x.size() != 4 || node.Int("group", 1) != 1) return false;
  if (node.fused.residual != kNoValue) return false;
  const Ints kernel = node.Ints("kernel_shape", {});
  return kernel == node.Ints("strides", {}) && node.Ints("pads", {}) == Ints(4, 0) &&
         node.Ints("dilations", {}) == Ints(2, 1) && y[2] == x[2] * kernel[0] &&
         y[3] == x[3] * kernel[1];
}

/// The weights of a transposed convolution [C, M, height, width] as those of a convolution of
/// single pixels [(height, width, M), C, 1, 1].
Constant TiledWeights(const Constant& w) {
  const auto in = static_cast<std::size_t>(w.dims[0]), out = static_cast<std::size_t>(w.dims[1]);
  const auto taps = static_cast<std::size_t>(w.dims[2] * w.dims[3]);
  const auto order = [in, out, taps](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> to(from.size());
    for (std::size_t i = 0; i < in; ++i) {
      for (std::size_t o = 0; o < out; ++o) {
        for (std::size_t t = 0; t < taps; ++t) {
          to[(t * out + o) * in + i] = from[(i * out + o) * taps + t];
        }
      }
    }
    return BytesOf(to);
  };
  return DerivedConstant(DataType::kFloat32, {w.dims[1] * w.dims[2] * w.dims[3], w.dims[0], 1, 1},
                         "tile", {w}, order);
}

Constant RepeatedBias(const Constant& bias, std::int64_t times) {
  const auto repeat = [times](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> to;
    for (std::int64_t i = 0; i < times; ++i) to.insert(to.end(), from.begin(), from.end());
    return BytesOf(to);
  };
  return DerivedConstant(DataType::kFloat32, {times * bias.dims[0]},
                         fmt::format("repeat {}", times), {bias}, repeat);
}

/// A transposed convolution as a convolution of single pixels, whose channels become tiles.
Status LowerTiles(ProgramBuilder& builder, const Node& node) {
  const Dims x = builder.dims(node.inputs[0]), y = builder.dims(node.outputs[0]);
  const Ints kernel = node.Ints("kernel_shape", {});
  const std::int64_t taps = kernel[0] * kernel[1];
  Node conv = node;
  conv.inputs[1] =
      builder.AddValue(node.name + ".tiles", TiledWeights(*builder.constant(node.inputs[1])));
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    conv.inputs[2] = builder.AddValue(node.name + ".bias",
                                      RepeatedBias(*builder.constant(node.inputs[2]), taps));
  }
  conv.attributes["kernel_shape"] = conv.attributes["strides"] = Ints(2, 1);
  conv.outputs[0] =
      builder.AddValue(node.name, DataType::kFloat32, {x[0], taps * y[1], x[2], x[3]});
  LAGOON_RETURN_IF_ERROR(LowerConv(builder, conv));
  // Pixels of the input, each with the rows of its tile, become rows of the output.
  LAGOON_ASSIGN_OR_RETURN(Tensor tiles, builder.Use(conv.outputs[0], Layout::kChannelsLast));
  tiles.dims = {x[0] * x[2], x[3], kernel[0], kernel[1] * y[1]};
  tiles.layout = Layout::kPlain;
  LAGOON_ASSIGN_OR_RETURN(
      Tensor rows,
      builder.Transpose(tiles, std::array<std::int64_t, 4>{0, 2, 1, 3}, Layout::kPlain));
  rows.dims = y;
  rows.layout = Layout::kChannelsLast;
  builder.Define(node.outputs[0], rows);
  return {};
}

Status LowerConvTranspose(ProgramBuilder& builder, const Node& node) {
  if (IsTiled(builder, node)) return LowerTiles(builder, node);
  const Dims dims = builder.dims(node.outputs[0]);
  const std::int64_t groups = node.Int("group", 1);
  Node conv = node;
  LAGOON_ASSIGN_OR_RETURN(const Tensor spread, Spread(builder, node, dims, conv));
  conv.inputs[0] = builder.AddValue(node.name + ".spread", DataType::kFloat32, spread.dims);
  builder.Define(conv.inputs[0], spread);
  if (const Constant* constant = builder.constant(node.inputs[1])) {
    conv.inputs[1] = builder.AddValue(node.name + ".mirrored", MirroredWeights(*constant, groups));
  } else {
    LAGOON_ASSIGN_OR_RETURN(const Tensor w, builder.Use(node.inputs[1], Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(const Tensor mirrored, MirrorWeights(builder, node.name, w, groups));
    conv.inputs[1] = builder.AddValue(node.name + ".mirrored", DataType::kFloat32, mirrored.dims);
    builder.Define(conv.inputs[1], mirrored);
  }
  return LowerConv(builder, conv);
}

Status LowerGlobalLpPool(ProgramBuilder& builder, const Node& node) {
  const std::int64_t p = node.Int("p", 2);
  if (p != 1 && p != 2) {
    return Fail(ErrorCode::kUnimplemented, fmt::format("p is {}; 1 and 2 are supported", p));
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  std::vector<std::size_t> axes;
  for (std::size_t axis = 2; axis < x.dims.size(); ++axis) axes.push_back(axis);
  LAGOON_ASSIGN_OR_RETURN(
      const Tensor y, EmitFold(builder, node.name, p == 1 ? FoldOp::kL1 : FoldOp::kL2, x, axes));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerMaxPool(ProgramBuilder& builder, const Node& node) {
  const DataType type = builder.type(node.inputs[0]);
  const bool converts = IsFloat(type) && type != DataType::kFloat32;
  return converts ? LowerConverted(builder, node, LowerPool) : LowerPool(builder, node);
}

constexpr Lowering kWindowLowerings[] = {
    {"Conv", LowerConv, Lowering::kFloat, true},
    {"ConvTranspose", LowerConvTranspose, Lowering::kFloat},
    {"MaxPool", LowerMaxPool},
    {"AveragePool", LowerPool, Lowering::kFloat},
    {"LpPool", LowerPool, Lowering::kFloat},
    {"GlobalLpPool", LowerGlobalLpPool, Lowering::kFloat},
};

}  // namespace

std::span<const Lowering> WindowLowerings() { return kWindowLowerings; }

}  // namespace lagoon
