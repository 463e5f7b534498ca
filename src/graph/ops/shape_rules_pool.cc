// Pooling over the spatial axes of [N,C,...].

#include <fmt/format.h>

#include "graph/ops/shape_rules.h"
#include "graph/ops/window.h"

namespace lagoon {
namespace {

Status CheckImage(const OpContext& context) {
  if (context.rank(0) >= 3) return {};
  return context.Invalid(
      fmt::format("input {} has no spatial axes behind [N,C]", ToString(context.dims(0))));
}

Result<Window> InferPool(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckImage(context));
  if (!context.has_attribute("kernel_shape")) return context.Invalid("has no kernel_shape");
  if (context.opset() < 10 &&
      (context.has_attribute("dilations") || context.has_attribute("ceil_mode"))) {
    return context.Invalid("has dilations or ceil_mode, which came with opset 10");
  }
  const Dims x = context.dims(0);
  const std::vector<std::int64_t> image(x.begin() + 2, x.end());
  const std::size_t rank = image.size();
  LAGOON_ASSIGN_OR_RETURN(auto kernel, SpatialInts(context, "kernel_shape", rank, 1));
  LAGOON_ASSIGN_OR_RETURN(const Window window, ResolveWindow(context, image, std::move(kernel)));
  for (std::size_t i = 0; i < 2 * rank; ++i) {
    const std::int64_t extent = (window.kernel[i % rank] - 1) * window.dilations[i % rank] + 1;
    if (window.pads[i] >= extent) {
      return context.Invalid(
          fmt::format("padding of {} is as large as the window of {}", window.pads[i], extent));
    }
  }
  Dims out{x[0], x[1]};
  out.insert(out.end(), window.out.begin(), window.out.end());
  context.SetOutput(out);
  return window;
}

Status InferMaxPool(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(InferPool(context));
  context.SetOutput(1, DataType::kInt64, context.output(0).dims);
  return {};
}

Status InferAveragePool(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const Window window, InferPool(context));
  const bool count_pads = context.node().Int("count_include_pad", 0) != 0;
  // Pixels behind the padding do not count, although ceil_mode makes windows that reach there.
  if (count_pads) context.SetAttribute("counted_pads", window.given_pads);
  context.SetAttribute("count_include_pad", std::int64_t{count_pads ? 1 : 0});
  return {};
}

Status InferLpPool(OpContext& context) {
  constexpr std::int64_t kMaxPower = 1 << 10;
  const std::int64_t p = context.node().Int("p", 2);
  if (p < 1 || p > kMaxPower) {
    return context.Invalid(fmt::format("p is {}, outside 1 to {}", p, kMaxPower));
  }
  context.SetAttribute("p", p);
  LAGOON_RETURN_IF_ERROR(InferPool(context));
  return {};
}

Status InferGlobalPool(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckImage(context));
  Dims out(context.rank(0), 1);
  out[0] = context.dims(0)[0];
  out[1] = context.dims(0)[1];
  context.SetOutput(std::move(out));
  return {};
}

constexpr std::string_view kMaxPoolAttributes =
    "s:auto_pad i:ceil_mode I:dilations I:kernel_shape I:pads i:storage_order I:strides";
constexpr std::string_view kAveragePoolAttributes =
    "s:auto_pad i:ceil_mode i:count_include_pad I:dilations I:kernel_shape I:pads I:strides";
constexpr std::string_view kLpPoolAttributes =
    "s:auto_pad i:ceil_mode I:dilations I:kernel_shape i:p I:pads I:strides";

constexpr OpSpec kPoolOps[] = {
    {"MaxPool", 1, 1, 1, 2, kMaxPoolAttributes, InferMaxPool},
    {"AveragePool", 7, 1, 1, 1, kAveragePoolAttributes, InferAveragePool},
    {"LpPool", 2, 1, 1, 1, kLpPoolAttributes, InferLpPool},
    {"GlobalAveragePool", 1, 1, 1, 1, "", InferGlobalPool},
    {"GlobalMaxPool", 1, 1, 1, 1, "", InferGlobalPool},
    {"GlobalLpPool", 2, 1, 1, 1, "i:p", InferGlobalPool},
};

}  // namespace

std::span<const OpSpec> PoolOps() { return kPoolOps; }

}  // namespace lagoon
