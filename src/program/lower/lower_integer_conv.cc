// Convolutions of integers. Those whose sums fp32 represents exactly, and those whose result is
// rounded to a byte anyway, are computed in fp32; the others as products of matrices of integers.

#include <fmt/format.h>

#include <cstdint>
#include <memory>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

bool HasInput(const Node& node, std::size_t i) {
  return i < node.inputs.size() && node.inputs[i] != kNoValue;
}

/// Constant weights - zero point (one number, or one per output channel) as fp32 constants, so that
/// kernels can pack them.
Constant CenteredConstant(const Constant& w, const Constant* zero) {
  const bool is_signed = w.type == DataType::kInt8;
  const auto center = [is_signed](std::span<const Constant> sources) {
    const auto number = [is_signed](const Constant& from, std::size_t i) {
      const auto byte = std::to_integer<std::uint8_t>((*from.bytes)[i]);
      return is_signed ? static_cast<float>(static_cast<std::int8_t>(byte))
                       : static_cast<float>(byte);
    };
    const std::size_t count = sources[0].bytes->size();
    const std::size_t channels = static_cast<std::size_t>(sources[0].dims[0]);
    std::vector<float> centered(count);
    for (std::size_t i = 0; i < count; ++i) {
      float zero_point = 0;
      if (sources.size() > 1) {
        const std::size_t points = sources[1].bytes->size();
        zero_point = number(sources[1], points == 1 ? 0 : i / (count / channels));
      }
      centered[i] = number(sources[0], i) - zero_point;
    }
    return BytesOf(centered);
  };
  std::vector<Constant> sources{w};
  if (zero != nullptr) sources.push_back(*zero);
  return DerivedConstant(DataType::kFloat32, w.dims, "center", std::move(sources), center);
}

/// x - zero point as fp32, which represents every product of two bytes exactly. Images stay in
/// their layout.
Result<ValueId> CenteredFloat(ProgramBuilder& builder, const Node& node, std::size_t x,
                              std::size_t zero, bool weights) {
  const ValueId from = node.inputs[x];
  const Constant* const constant = builder.constant(from);
  const Constant* const constant_zero =
      HasInput(node, zero) ? builder.constant(node.inputs[zero]) : nullptr;
  if (weights && constant != nullptr && (!HasInput(node, zero) || constant_zero != nullptr)) {
    const std::string key =
        fmt::format("{} - {}", builder.KeyOf(from),
                    constant_zero == nullptr ? "0" : builder.KeyOf(node.inputs[zero]));
    return builder.AddValue(node.name + ".weights", CenteredConstant(*constant, constant_zero),
                            key);
  }
  const Layout layout =
      weights ? Layout::kPlain : builder.CheapestLayout(std::span(node.inputs).subspan(x, 1));
  LAGOON_ASSIGN_OR_RETURN(Tensor tensor, builder.Use(from, layout));
  LAGOON_ASSIGN_OR_RETURN(tensor, EmitCast(builder, node.name, tensor, DataType::kFloat32));
  if (HasInput(node, zero)) {
    LAGOON_ASSIGN_OR_RETURN(Tensor point, builder.Use(node.inputs[zero], Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(point, EmitCast(builder, node.name, point, DataType::kFloat32));
    if (weights && point.dims.size() == 1) {
      Dims dims(tensor.dims.size(), 1);
      dims[0] = point.dims[0];
      LAGOON_ASSIGN_OR_RETURN(point, builder.Reshape(point, dims));
    }
    LAGOON_ASSIGN_OR_RETURN(tensor, EmitBinary(builder, node.name, BinaryOp::kSub, tensor, point));
  }
  const ValueId id = builder.AddValue(node.name, DataType::kFloat32, tensor.dims);
  builder.Define(id, tensor);
  return id;
}

/// The convolution of centred bytes `x` and `w`. fp32 sums are exact up to 2^24; larger sums have
/// the rounding error of fp32.
Result<Tensor> ByteConv(ProgramBuilder& builder, const Node& node, ValueId x, ValueId w,
                        ValueId bias) {
  Node conv = node;
  conv.inputs = {x, w};
  if (bias != kNoValue) conv.inputs.push_back(bias);
  const Dims dims = builder.dims(node.outputs[0]);
  conv.outputs = {builder.AddValue(node.name, DataType::kFloat32, dims)};
  LAGOON_RETURN_IF_ERROR(LowerConv(builder, conv));
  return builder.Use(conv.outputs[0], builder.CheapestLayout(conv.outputs));
}

/// True if fp32 sums the products of one window exactly, whatever the bytes are.
bool IsExactInFloat(const Dims& w) {
  constexpr std::int64_t kMostProducts = (1 << 24) / (255 * 255);
  return ElementCount(Dims(w.begin() + 1, w.end())) <= kMostProducts;
}

/// Limits the columns of WindowColumns(), which repeat each pixel for each place of the window.
Status CheckColumns(const Dims& columns) {
  constexpr double kMaxElements = 1 << 28;
  double elements = 1;
  for (const std::int64_t size : columns) elements *= static_cast<double>(size);
  if (elements <= kMaxElements) return {};
  return Fail(
      ErrorCode::kResourceExhausted,
      fmt::format("the windows side by side are {}, above 2^28 elements", ToString(columns)));
}

/// The windows of x [N,C,...] (integers, 0 where padded) as matrices [N,groups,places,products].
Result<Tensor> WindowColumns(ProgramBuilder& builder, const Node& node, const Tensor& x,
                             std::int64_t groups) {
  const Dims y = builder.dims(node.outputs[0]);
  const std::size_t rank = x.dims.size() - 2;
  const Ints kernel = node.Ints("kernel_shape", {}), strides = node.Ints("strides", {}),
             dilations = node.Ints("dilations", {}), pads = node.Ints("pads", {});
  if (kernel.size() != rank || strides.size() != rank || dilations.size() != rank ||
      pads.size() != 2 * rank) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the window is not one over {} axes", rank));
  }
  const std::int64_t channels = x.dims[1] / groups;
  const std::int64_t places = ElementCount(Dims(y.begin() + 2, y.end()));
  const std::int64_t taps = ElementCount(kernel);
  const Dims columns{x.dims[0], groups, places, channels * taps};
  LAGOON_RETURN_IF_ERROR(CheckColumns(columns));
  std::vector<Ints> maps(2);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    for (std::int64_t i = 0; i < x.dims[axis]; ++i) maps[axis].push_back(i);
  }
  // [N, groups, channels, tap, place, tap, place, ...]
  Dims split{x.dims[0], groups, channels};
  Ints order{0, 1};
  for (std::size_t i = 0; i < rank; ++i) {
    Ints& map = maps.emplace_back();
    for (std::int64_t tap = 0; tap < kernel[i]; ++tap) {
      for (std::int64_t place = 0; place < y[i + 2]; ++place) {
        const std::int64_t at = place * strides[i] + tap * dilations[i] - pads[i];
        map.push_back(at >= 0 && at < x.dims[i + 2] ? at : -1);
      }
    }
    split.push_back(kernel[i]);
    split.push_back(y[i + 2]);
    order.push_back(static_cast<std::int64_t>(4 + 2 * i));
  }
  order.push_back(2);
  for (std::size_t i = 0; i < rank; ++i) order.push_back(static_cast<std::int64_t>(3 + 2 * i));
  const std::string name = node.name + ".windows";
  LAGOON_ASSIGN_OR_RETURN(Tensor taken, EmitTake(builder, name, x, std::move(maps)));
  LAGOON_ASSIGN_OR_RETURN(taken, builder.Reshape(taken, split));
  LAGOON_ASSIGN_OR_RETURN(taken, builder.Transpose(taken, order, Layout::kPlain));
  return builder.Reshape(taken, columns);
}

/// As a product of the windows with the weights, which sums in integers.
Status LowerAsProduct(ProgramBuilder& builder, const Node& node) {
  const auto centered = [&](std::size_t i) -> Result<Tensor> {
    LAGOON_ASSIGN_OR_RETURN(const Tensor tensor, builder.Use(node.inputs[i], Layout::kPlain));
    if (!HasInput(node, i + 2)) return EmitCentered(builder, node.name, tensor, nullptr);
    LAGOON_ASSIGN_OR_RETURN(Tensor zero, builder.Use(node.inputs[i + 2], Layout::kPlain));
    if (i == 1 && zero.dims.size() == 1) {
      Dims dims(tensor.dims.size(), 1);
      dims[0] = zero.dims[0];
      LAGOON_ASSIGN_OR_RETURN(zero, builder.Reshape(zero, dims));
    }
    return EmitCentered(builder, node.name, tensor, &zero);
  };
  const std::int64_t groups = node.Int("group", 1);
  const Dims dims = builder.dims(node.outputs[0]);
  const std::int64_t out = dims[1] / groups;
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, centered(0));
  LAGOON_ASSIGN_OR_RETURN(Tensor w, centered(1));
  LAGOON_ASSIGN_OR_RETURN(const Tensor columns, WindowColumns(builder, node, x, groups));
  LAGOON_ASSIGN_OR_RETURN(w, builder.Reshape(w, {groups, out, columns.dims[3]}));
  LAGOON_ASSIGN_OR_RETURN(w, builder.Transpose(w, Ints{0, 2, 1}, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitMatMul(builder, node.name, columns, w));
  LAGOON_ASSIGN_OR_RETURN(y, builder.Transpose(y, Ints{0, 1, 3, 2}, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(y, builder.Reshape(y, dims));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerConvInteger(ProgramBuilder& builder, const Node& node) {
  if (!IsExactInFloat(builder.dims(node.inputs[1]))) return LowerAsProduct(builder, node);
  LAGOON_ASSIGN_OR_RETURN(const ValueId x, CenteredFloat(builder, node, 0, 2, false));
  LAGOON_ASSIGN_OR_RETURN(const ValueId w, CenteredFloat(builder, node, 1, 3, true));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, ByteConv(builder, node, x, w, kNoValue));
  LAGOON_ASSIGN_OR_RETURN(y, EmitCast(builder, node.name, y, DataType::kInt32));
  builder.Define(node.outputs[0], y);
  return {};
}

/// The bias as fp32: a constant if it is one, so that the convolution packs.
Result<ValueId> FloatBias(ProgramBuilder& builder, const Node& node) {
  constexpr std::size_t kBias = 8;
  if (!HasInput(node, kBias)) return kNoValue;
  const ValueId bias = node.inputs[kBias];
  if (const Constant* const constant = builder.constant(bias)) {
    std::vector<float> floats;
    for (const std::int64_t number : constant->ToInt64()) {
      floats.push_back(static_cast<float>(number));
    }
    Constant converted{DataType::kFloat32, constant->dims,
                       std::make_shared<ConstantData::Bytes>(BytesOf(floats))};
    return builder.AddValue(node.name + ".bias", std::move(converted),
                            builder.KeyOf(bias) + " fp32");
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor computed, builder.Use(bias, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(computed, EmitCast(builder, node.name, computed, DataType::kFloat32));
  const ValueId id = builder.AddValue(node.name + ".bias", DataType::kFloat32, computed.dims);
  builder.Define(id, computed);
  return id;
}

Status LowerQLinearConv(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const ValueId x, CenteredFloat(builder, node, 0, 2, false));
  LAGOON_ASSIGN_OR_RETURN(const ValueId w, CenteredFloat(builder, node, 3, 5, true));
  LAGOON_ASSIGN_OR_RETURN(const ValueId bias, FloatBias(builder, node));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, ByteConv(builder, node, x, w, bias));
  const std::size_t rank = y.dims.size();
  LAGOON_ASSIGN_OR_RETURN(const Tensor x_scale, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(Tensor scale, builder.Use(node.inputs[4], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(scale, EmitBinary(builder, node.name, BinaryOp::kMul, scale, x_scale));
  LAGOON_ASSIGN_OR_RETURN(scale, AlongChannels(builder, scale, rank));
  LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kMul, y, scale));
  LAGOON_ASSIGN_OR_RETURN(y, EmitQuantize(builder, node, y, node.inputs[6], node.inputs[7]));
  builder.Define(node.outputs[0], y);
  return {};
}

constexpr Lowering kIntegerConvLowerings[] = {
    {"ConvInteger", LowerConvInteger},
    {"QLinearConv", LowerQLinearConv},
};

}  // namespace

std::span<const Lowering> IntegerConvLowerings() { return kIntegerConvLowerings; }

}  // namespace lagoon
