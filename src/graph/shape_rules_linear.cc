// Conv, Gemm, MatMul and BatchNormalization.

#include <fmt/format.h>

#include "graph/shape_rules.h"
#include "graph/text.h"
#include "graph/window.h"

namespace lagoon {
namespace {

// A parameter that the kernels pack when the model is loaded.
Status CheckWeights(const OpContext& context, std::size_t i, std::string_view what) {
  const Value& value = context.input(i);
  if (!value.constant) {
    return context.Unimplemented(fmt::format("{} {} is computed at run time; it must be constant",
                                             what, Quoted(value.name)));
  }
  if (value.type != DataType::kFloat32) {
    return context.Unimplemented(fmt::format("{} {} is {}; only FP32 is supported", what,
                                             Quoted(value.name), OipName(value.type)));
  }
  return {};
}

Status CheckVector(const OpContext& context, std::size_t i, std::string_view what,
                   std::int64_t size) {
  LAGOON_RETURN_IF_ERROR(CheckWeights(context, i, what));
  if (context.dims(i) != Dims{size}) {
    return context.Invalid(fmt::format("{} {} has shape {}, expected [{}]", what,
                                       Quoted(context.input(i).name), ToString(context.dims(i)),
                                       size));
  }
  return {};
}

Status CheckConvChannels(const OpContext& context, std::int64_t group) {
  const std::int64_t channels = context.dims(0)[1];
  const std::int64_t outputs = context.dims(1)[0];
  const std::int64_t per_group = context.dims(1)[1];
  // Divisions, not products: group may be anything.
  if (group < 1 || outputs < 1 || channels % group != 0 || outputs % group != 0 ||
      channels / group != per_group) {
    return context.Invalid(fmt::format("input {} does not match weights {} in {} groups",
                                       ToString(context.dims(0)), ToString(context.dims(1)),
                                       group));
  }
  return {};
}

}  // namespace

Status InferConv(OpContext& context) {
  if (context.rank(0) != 4) {
    return context.Unimplemented(
        fmt::format("input {} is not [N,C,H,W]; only 2-D convolution is "
                    "supported",
                    ToString(context.dims(0))));
  }
  LAGOON_RETURN_IF_ERROR(CheckWeights(context, 1, "weights"));
  const Dims weights = context.dims(1);
  if (weights.size() != 4) {
    return context.Invalid(fmt::format("weights {} are not [M,C,H,W]", ToString(weights)));
  }
  const std::int64_t group = context.node().Int("group", 1);
  LAGOON_RETURN_IF_ERROR(CheckConvChannels(context, group));
  LAGOON_ASSIGN_OR_RETURN(const auto kernel, Pair(context, "kernel_shape", 0));
  const std::array<std::int64_t, 2> actual{weights[2], weights[3]};
  if (context.has_attribute("kernel_shape") ? kernel != actual : actual[0] < 1 || actual[1] < 1) {
    return context.Invalid(fmt::format("kernel_shape [{},{}] does not match weights {}", kernel[0],
                                       kernel[1], ToString(weights)));
  }
  if (context.has_input(2)) {
    LAGOON_RETURN_IF_ERROR(CheckVector(context, 2, "bias", weights[0]));
  } else {
    context.KeepInputs(2);
  }
  context.SetAttribute("group", group);
  const Dims& x = context.dims(0);
  LAGOON_ASSIGN_OR_RETURN(const Window window, ResolveWindow(context, {x[2], x[3]}, actual));
  context.SetOutput({x[0], weights[0], window.out[0], window.out[1]});
  return {};
}

Status InferGemm(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckWeights(context, 1, "B"));
  const Dims& x = context.dims(0);
  const Dims& w = context.dims(1);
  if (x.size() != 2 || w.size() != 2) {
    return context.Invalid(fmt::format("A {} and B {} must be matrices", ToString(x), ToString(w)));
  }
  if (context.node().Int("transA", 0) != 0) {
    return context.Unimplemented("transA = 1 is not supported");
  }
  const bool transposed = context.node().Int("transB", 0) != 0;
  const std::int64_t inner = w[transposed ? 1 : 0];
  const std::int64_t columns = w[transposed ? 0 : 1];
  if (x[1] != inner) {
    return context.Invalid(fmt::format("A {} does not match B {}, transB = {}", ToString(x),
                                       ToString(w), transposed ? 1 : 0));
  }
  if (context.has_input(2)) {
    LAGOON_RETURN_IF_ERROR(CheckWeights(context, 2, "C"));
    const Dims& c = context.dims(2);
    const bool row = c.size() < 2 || (c.size() == 2 && c[0] == 1);
    const bool fits = c.empty() || c.back() == 1 || c.back() == columns;
    if (!row || !fits) {
      return context.Unimplemented(
          fmt::format("C {} is not one row of the output's {} columns", ToString(c), columns));
    }
  } else {
    context.KeepInputs(2);
  }
  context.SetAttribute("transA", std::int64_t{0});
  context.SetAttribute("transB", std::int64_t{transposed ? 1 : 0});
  context.SetAttribute("alpha", context.node().Float("alpha", 1));
  context.SetAttribute("beta", context.node().Float("beta", 1));
  context.SetOutput({x[0], columns});
  return {};
}

Status InferMatMul(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckWeights(context, 1, "the right side"));
  const Dims& x = context.dims(0);
  const Dims& w = context.dims(1);
  if (x.size() < 2 || w.size() != 2) {
    return context.Unimplemented(
        fmt::format("{} x {}: the left side must have at least 2 dimensions, the right side 2",
                    ToString(x), ToString(w)));
  }
  if (x.back() != w[0]) {
    return context.Invalid(fmt::format("{} does not match {}", ToString(x), ToString(w)));
  }
  Dims out = x;
  out.back() = w[1];
  context.SetOutput(std::move(out));
  return {};
}

Status InferBatchNormalization(OpContext& context) {
  if (context.rank(0) < 2) {
    return context.Invalid(fmt::format("input {} has no channels", ToString(context.dims(0))));
  }
  if (context.node().Int("training_mode", 0) != 0) {
    return context.Unimplemented("training_mode = 1: export the model for inference");
  }
  constexpr std::string_view kNames[] = {"input", "scale", "B", "mean", "var"};
  for (std::size_t i = 1; i < 5; ++i) {
    LAGOON_RETURN_IF_ERROR(CheckVector(context, i, kNames[i], context.dims(0)[1]));
  }
  context.SetAttribute("epsilon", context.node().Float("epsilon", 1e-5f));
  context.SetOutput(context.dims(0));
  return {};
}

}  // namespace lagoon
