// Pooling over images.

#include <fmt/format.h>

#include "graph/shape_rules.h"
#include "graph/window.h"

namespace lagoon {
namespace {

Status CheckImage(const OpContext& context) {
  if (context.rank(0) == 4) return {};
  return context.Unimplemented(fmt::format(
      "input {} is not [N,C,H,W]; only 2-D pooling is supported", ToString(context.dims(0))));
}

Result<Window> InferPool(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckImage(context));
  if (!context.has_attribute("kernel_shape")) return context.Invalid("has no kernel_shape");
  if (context.opset() < 10 &&
      (context.has_attribute("dilations") || context.has_attribute("ceil_mode"))) {
    return context.Invalid("has dilations or ceil_mode, which came with opset 10");
  }
  LAGOON_ASSIGN_OR_RETURN(const auto kernel, Pair(context, "kernel_shape", 1));
  const Dims& x = context.dims(0);
  LAGOON_ASSIGN_OR_RETURN(const Window window, ResolveWindow(context, {x[2], x[3]}, kernel));
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t extent = (kernel[i % 2] - 1) * window.dilations[i % 2] + 1;
    if (window.pads[i] >= extent) {
      return context.Invalid(
          fmt::format("padding of {} is as large as the window of {}", window.pads[i], extent));
    }
  }
  context.SetOutput({x[0], x[1], window.out[0], window.out[1]});
  return window;
}

}  // namespace

Status InferMaxPool(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(InferPool(context));
  context.EraseAttribute("storage_order");  // the order of Indices, an output that is refused
  return {};
}

Status InferAveragePool(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const Window window, InferPool(context));
  const bool count_pads = context.node().Int("count_include_pad", 0) != 0;
  if (count_pads && window.ceil_added_pads) {
    return context.Unimplemented(
        "count_include_pad with a ceil_mode that takes the window over the padded input");
  }
  context.SetAttribute("count_include_pad", std::int64_t{count_pads ? 1 : 0});
  return {};
}

Status InferGlobalPool(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckImage(context));
  const Dims& x = context.dims(0);
  context.SetOutput({x[0], x[1], 1, 1});
  return {};
}

}  // namespace lagoon
