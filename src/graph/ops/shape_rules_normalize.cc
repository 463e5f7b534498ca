// Normalisations.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

/// Checks that input `i`, if present, has shape [size].
Status CheckParameter(const OpContext& context, std::size_t i, std::string_view what,
                      std::int64_t size) {
  if (!context.has_input(i)) return {};
  const Value& value = context.input(i);
  if (value.dims == Dims{size}) return {};
  return context.Invalid(fmt::format("{} {} has shape {}, expected [{}]", what, Quoted(value.name),
                                     ToString(value.dims), size));
}

/// Checks that all inputs are floats. Parameters of a batch norm may have another float type than
/// the input.
Status CheckFloats(const OpContext& context) {
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i) || IsFloat(context.input(i).type)) continue;
    return context.Invalid(fmt::format("input {} is {}, it must be a float",
                                       Quoted(context.input(i).name),
                                       OipName(context.input(i).type)));
  }
  return {};
}

Status CheckChannels(const OpContext& context) {
  if (context.rank(0) >= 2) return {};
  return context.Invalid(fmt::format("input {} has no channels", ToString(context.dims(0))));
}

Status InferBatchNormalization(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckChannels(context));
  if (context.node().Int("training_mode", 0) != 0) {
    return context.Unimplemented("training_mode = 1: export the model for inference");
  }
  if (context.node().Int("spatial", 1) != 1) {
    return context.Unimplemented("spatial = 0, statistics per element, is not supported");
  }
  context.EraseAttribute("spatial");
  LAGOON_RETURN_IF_ERROR(CheckFloats(context));
  constexpr std::string_view kNames[] = {"input", "scale", "B", "mean", "var"};
  bool packed = context.input(0).type == DataType::kFloat32;
  for (std::size_t i = 1; i < 5; ++i) {
    LAGOON_RETURN_IF_ERROR(CheckParameter(context, i, kNames[i], context.dims(0)[1]));
    packed =
        packed && context.constant(i) != nullptr && context.input(i).type == DataType::kFloat32;
  }
  if (packed) context.SetPacked();
  context.SetAttribute("epsilon", context.node().Float("epsilon", 1e-5f));
  context.SetOutput(context.dims(0));
  return {};
}

Status InferInstanceNormalization(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckChannels(context));
  if (context.rank(0) < 3) {
    return context.Invalid(
        fmt::format("input {} has no axes behind its channels", ToString(context.dims(0))));
  }
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {1, 2}));
  LAGOON_RETURN_IF_ERROR(CheckParameter(context, 1, "scale", context.dims(0)[1]));
  LAGOON_RETURN_IF_ERROR(CheckParameter(context, 2, "B", context.dims(0)[1]));
  context.SetAttribute("epsilon", context.node().Float("epsilon", 1e-5f));
  context.SetOutput(context.dims(0));
  return {};
}

Status InferGroupNormalization(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckChannels(context));
  const std::int64_t groups = context.node().Int("num_groups", 0);
  const std::int64_t channels = context.dims(0)[1];
  if (groups < 1 || channels % groups != 0) {
    return context.Invalid(fmt::format("{} channels in {} groups", channels, groups));
  }
  constexpr std::int64_t kPerChannelSince = 21;
  const std::int64_t parameters = context.opset() < kPerChannelSince ? groups : channels;
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {1, 2}));
  LAGOON_RETURN_IF_ERROR(CheckParameter(context, 1, "scale", parameters));
  LAGOON_RETURN_IF_ERROR(CheckParameter(context, 2, "bias", parameters));
  context.SetAttribute("epsilon", context.node().Float("epsilon", 1e-5f));
  context.EraseAttribute("stash_type");
  context.SetOutput(context.dims(0));
  return {};
}

Status InferLayerNormalization(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {1, 2}));
  const Dims& x = context.dims(0);
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", -1), x.size()));
  const Dims inner(x.begin() + axis, x.end());
  for (std::size_t i = 1; i < 3; ++i) {
    if (!context.has_input(i)) continue;
    LAGOON_ASSIGN_OR_RETURN(const Dims both, Broadcast(context, inner, context.dims(i)));
    if (both != inner) {
      return context.Invalid(fmt::format("{} {} does not broadcast to {}",
                                         i == 1 ? "scale" : "bias", ToString(context.dims(i)),
                                         ToString(inner)));
    }
  }
  Dims statistics(x.begin(), x.begin() + axis);
  statistics.resize(x.size(), 1);
  context.SetAttribute("axis", axis);
  context.SetAttribute("epsilon", context.node().Float("epsilon", 1e-5f));
  context.EraseAttribute("stash_type");
  context.SetOutput(x);
  context.SetOutput(1, DataType::kFloat32, statistics);
  context.SetOutput(2, DataType::kFloat32, statistics);
  return {};
}

Status InferMeanVarianceNormalization(OpContext& context) {
  std::vector<std::int64_t> axes = context.node().Ints("axes", {0, 2, 3});
  LAGOON_ASSIGN_OR_RETURN(axes, context.Axes(std::move(axes), context.rank(0)));
  context.SetAttribute("axes", std::move(axes));
  context.SetOutput(context.dims(0));
  return {};
}

Status InferLrn(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckChannels(context));
  const std::int64_t size = context.node().Int("size", 0);
  if (size < 1 || size > 1 << 20) return context.Invalid(fmt::format("size is {}", size));
  context.SetAttribute("alpha", context.node().Float("alpha", 1e-4f));
  context.SetAttribute("beta", context.node().Float("beta", 0.75f));
  context.SetAttribute("bias", context.node().Float("bias", 1));
  context.SetOutput(context.dims(0));
  return {};
}

constexpr OpSpec kNormalizeOps[] = {
    {"BatchNormalization", 7, 5, 5, 1, "f:epsilon f:momentum i:spatial i:training_mode",
     InferBatchNormalization},
    {"InstanceNormalization", 6, 3, 3, 1, "f:epsilon", InferInstanceNormalization},
    {"GroupNormalization", 18, 3, 3, 1, "f:epsilon i:num_groups i:stash_type",
     InferGroupNormalization},
    {"LayerNormalization", 1, 2, 3, 3, "i:axis f:epsilon i:stash_type", InferLayerNormalization},
    {"MeanVarianceNormalization", 9, 1, 1, 1, "I:axes", InferMeanVarianceNormalization},
    {"LRN", 1, 1, 1, 1, "f:alpha f:beta f:bias i:size", InferLrn},
};

}  // namespace

std::span<const OpSpec> NormalizeOps() { return kNormalizeOps; }

}  // namespace lagoon
