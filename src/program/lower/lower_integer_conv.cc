// Convolutions of integers, computed in fp32.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

/// x - zero point as fp32, which represents every product of two bytes exactly.
Result<ValueId> CenteredFloat(ProgramBuilder& builder, const Node& node, std::size_t x,
                              std::size_t zero, bool per_channel) {
  LAGOON_ASSIGN_OR_RETURN(Tensor tensor, builder.Use(node.inputs[x], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(tensor, EmitCast(builder, node.name, tensor, DataType::kFloat32));
  if (zero < node.inputs.size() && node.inputs[zero] != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(Tensor point, builder.Use(node.inputs[zero], Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(point, EmitCast(builder, node.name, point, DataType::kFloat32));
    if (per_channel && point.dims.size() == 1) {
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
Result<Tensor> ByteConv(ProgramBuilder& builder, const Node& node, ValueId x, ValueId w) {
  Node conv = node;
  conv.inputs = {x, w};
  const Dims dims = builder.dims(node.outputs[0]);
  conv.outputs = {builder.AddValue(node.name, DataType::kFloat32, dims)};
  LAGOON_RETURN_IF_ERROR(LowerConv(builder, conv));
  return builder.Use(conv.outputs[0], Layout::kPlain);
}

/// `count` channels (axis 1) of a value, starting with channel `first`.
Result<ValueId> Channels(ProgramBuilder& builder, const Node& node, ValueId value,
                         std::int64_t first, std::int64_t count) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(value, Layout::kPlain));
  if (count == x.dims[1]) return value;
  Dims dims = x.dims;
  dims[1] = count;
  Ints starts(dims.size(), 0);
  starts[1] = first;
  LAGOON_ASSIGN_OR_RETURN(const Tensor part,
                          EmitSlice(builder, node.name, x, starts, dims, Ints(dims.size(), 1)));
  const ValueId id = builder.AddValue(node.name, part.type, dims);
  builder.Define(id, part);
  return id;
}

/// The number of channels that fp32 sums exactly: 2^24 divided by the greatest product and by the
/// window size.
Result<std::int64_t> ExactChannels(const Dims& w, std::int64_t groups) {
  constexpr std::int64_t kMaxProducts = (1 << 24) / (255 * 255);
  const std::int64_t taps = ElementCount(Dims(w.begin() + 2, w.end()));
  const std::int64_t fit = kMaxProducts / taps;
  if (fit >= w[1] || (fit >= 1 && groups == 1)) return fit;
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("weights {} in {} groups: a sum of {} products is not exact", ToString(w),
                          groups, w[1] * taps));
}

/// Reshapes [M], or one number, to broadcast along the channels of an image of `rank` axes.
Result<Tensor> AlongChannels(ProgramBuilder& builder, const Tensor& x, std::size_t rank) {
  Dims dims(rank - 1, 1);
  dims[0] = ElementCount(x.dims);
  return builder.Reshape(x, dims);
}

Status LowerConvInteger(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const ValueId x, CenteredFloat(builder, node, 0, 2, false));
  LAGOON_ASSIGN_OR_RETURN(const ValueId w, CenteredFloat(builder, node, 1, 3, true));
  const std::int64_t channels = builder.dims(w)[1];
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t step,
                          ExactChannels(builder.dims(w), node.Int("group", 1)));
  std::optional<Tensor> sum;
  for (std::int64_t first = 0; first < channels; first += step) {
    const std::int64_t count = std::min(step, channels - first);
    ValueId image = x;
    if (step < channels) {
      LAGOON_ASSIGN_OR_RETURN(image, Channels(builder, node, x, first, count));
    }
    LAGOON_ASSIGN_OR_RETURN(const ValueId taps, Channels(builder, node, w, first, count));
    LAGOON_ASSIGN_OR_RETURN(Tensor y, ByteConv(builder, node, image, taps));
    LAGOON_ASSIGN_OR_RETURN(y, EmitCast(builder, node.name, y, DataType::kInt32));
    if (sum) {
      LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kAdd, *sum, y));
    }
    sum = y;
  }
  builder.Define(node.outputs[0], *sum);
  return {};
}

Status LowerQLinearConv(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const ValueId x, CenteredFloat(builder, node, 0, 2, false));
  LAGOON_ASSIGN_OR_RETURN(const ValueId w, CenteredFloat(builder, node, 3, 5, true));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, ByteConv(builder, node, x, w));
  const std::size_t rank = y.dims.size();
  if (node.inputs.size() > 8 && node.inputs[8] != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(Tensor bias, builder.Use(node.inputs[8], Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(bias, EmitCast(builder, node.name, bias, DataType::kFloat32));
    LAGOON_ASSIGN_OR_RETURN(bias, AlongChannels(builder, bias, rank));
    LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kAdd, y, bias));
  }
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
