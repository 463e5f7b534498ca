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

bool IsConstantOrNone(const ProgramBuilder& builder, const Node& node, std::size_t i) {
  return i >= node.inputs.size() || node.inputs[i] == kNoValue ||
         builder.constant(node.inputs[i]) != nullptr;
}

/// Whether a product is worth the memory of its columns: several outputs share them, and neither
/// they nor the padded input are huge.
bool SuitsProduct(const Node& node, const Tensor& x, const Tensor& w, const Dims& dims) {
  constexpr std::int64_t kLeastRows = 4;
  constexpr double kMaxElements = 1 << 28;
  if (w.dims[0] / node.Int("group", 1) < kLeastRows) return false;
  const Ints pads = node.Ints("pads", {});
  const double planes = static_cast<double>(x.dims[0]) * static_cast<double>(x.dims[1]);
  double padded = planes, columns = planes;
  for (std::size_t axis = 2; axis < dims.size(); ++axis) {
    padded *= static_cast<double>(x.dims[axis]) + static_cast<double>(pads[axis - 2]) +
              static_cast<double>(pads[axis - 2 + pads.size() / 2]);
    columns *= static_cast<double>(w.dims[axis]) * static_cast<double>(dims[axis]);
  }
  return padded <= kMaxElements && columns <= kMaxElements;
}

/// The product with the bias.
Result<Tensor> EmitProduct(ProgramBuilder& builder, const Node& node, const Tensor& x,
                           const Tensor& w, const Tensor* bias, const Dims& dims) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitConvProduct(builder, node, x, w));
  if (bias == nullptr) return y;
  LAGOON_ASSIGN_OR_RETURN(const Tensor addend, AlongChannels(builder, *bias, dims.size()));
  return EmitBinary(builder, node.name, BinaryOp::kAdd, y, addend);
}

/// Emits a convolution whose weights are a plain tensor.
Result<Tensor> EmitDirectConv(ProgramBuilder& builder, const Node& node, const Tensor& x,
                              const Tensor& w, const Tensor* bias, const Dims& dims) {
  const auto groups = static_cast<std::size_t>(node.Int("group", 1));
  DirectConvSpec spec;
  LAGOON_ASSIGN_OR_RETURN(spec.window, WindowOver(node, x.dims, dims));
  if (SuitsProduct(node, x, w, dims)) return EmitProduct(builder, node, x, w, bias, dims);
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

}  // namespace

Status LowerAsImage(ProgramBuilder& builder, const Node& node, LowerFunction lower) {
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

Status LowerDirectConv(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor w, builder.Use(node.inputs[1], Layout::kPlain));
  Tensor bias;
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
  if (has_bias) {
    LAGOON_ASSIGN_OR_RETURN(bias, builder.Use(node.inputs[2], Layout::kPlain));
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitDirectConv(builder, node, x, w, has_bias ? &bias : nullptr,
                                                   builder.dims(node.outputs[0])));
  const auto add_residual = [&]() -> Status {
    if (node.fused.residual == kNoValue) return {};
    LAGOON_ASSIGN_OR_RETURN(const Tensor addend, builder.Use(node.fused.residual, Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kAdd, y, addend));
    return {};
  };
  if (!node.fused.residual_last) LAGOON_RETURN_IF_ERROR(add_residual());
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
  if (node.fused.residual_last) LAGOON_RETURN_IF_ERROR(add_residual());
  builder.Define(node.outputs[0], y);
  return {};
}

namespace {

Status LowerPool(ProgramBuilder& builder, const Node& node) {
  const bool indices = node.outputs.size() > 1 && node.outputs[1] != kNoValue;
  const std::size_t rank = builder.dims(node.inputs[0]).size();
  const bool fp32 = builder.type(node.inputs[0]) == DataType::kFloat32;
  if (indices || !fp32 || node.op == "LpPool") return LowerWindowPool(builder, node);
  if (rank == 5 && node.Ints("kernel_shape", {}).size() == 3) {
    return LowerVolumePool(builder, node, LowerImagePool);
  }
  if (rank > 4) return LowerWindowPool(builder, node);
  return rank == 3 ? LowerAsImage(builder, node, LowerImagePool) : LowerImagePool(builder, node);
}

}  // namespace

Status LowerConv(ProgramBuilder& builder, const Node& node) {
  const std::size_t rank = builder.dims(node.inputs[0]).size();
  const bool packed = IsConstantOrNone(builder, node, 1) && IsConstantOrNone(builder, node, 2);
  if (packed && rank == 5) return LowerVolumeConv(builder, node);
  if (!packed || rank > 4) return LowerDirectConv(builder, node);
  return rank == 3 ? LowerAsImage(builder, node, LowerImageConv) : LowerImageConv(builder, node);
}

namespace {

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
    {"ConvTranspose", LowerConvTranspose, Lowering::kFloat, true},
    {"MaxPool", LowerMaxPool},
    {"AveragePool", LowerPool, Lowering::kFloat},
    {"LpPool", LowerPool, Lowering::kFloat},
    {"GlobalLpPool", LowerGlobalLpPool, Lowering::kFloat},
};

}  // namespace

std::span<const Lowering> WindowLowerings() { return kWindowLowerings; }

}  // namespace lagoon
