#include "graph/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/text.h"

namespace lagoon {
namespace {

// Bounds every sum and product below far from overflow.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 30;

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Status ReadPads(const OpContext& context, Window& window) {
  if (!context.has_attribute("pads")) return {};
  const std::vector<std::int64_t> pads = context.node().Ints("pads", {});
  if (pads.size() != 4) {
    return context.Invalid(fmt::format("has {} pads; an image takes 4", pads.size()));
  }
  for (const std::int64_t pad : pads) {
    if (pad < 0 || pad > kMaxExtent) {
      return context.Invalid(fmt::format("pads {} are outside [0, 2^30]", ToString(pads)));
    }
  }
  std::copy(pads.begin(), pads.end(), window.pads.begin());
  return {};
}

Status ResolveAutoPad(const OpContext& context, std::array<std::int64_t, 2> image, Window& window) {
  const std::string mode = context.node().String("auto_pad", "NOTSET");
  if (mode == "NOTSET") return {};
  if (window.pads != std::array<std::int64_t, 4>{}) {
    return context.Invalid(fmt::format("has both auto_pad {} and pads", Quoted(mode)));
  }
  if (mode == "VALID") return {};
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    return context.Unimplemented(fmt::format("auto_pad {} is not known", Quoted(mode)));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t extent = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const std::int64_t out = CeilDiv(image[i], window.strides[i]);
    const std::int64_t total =
        std::max<std::int64_t>((out - 1) * window.strides[i] + extent - image[i], 0);
    const std::int64_t small = total / 2;
    window.pads[i] = mode == "SAME_UPPER" ? small : total - small;
    window.pads[i + 2] = total - window.pads[i];
  }
  return {};
}

Status ResolveOutput(const OpContext& context, std::array<std::int64_t, 2> image, bool ceil,
                     Window& window) {
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t extent = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const std::int64_t stride = window.strides[i];
    const std::int64_t padded = image[i] + window.pads[i] + window.pads[i + 2];
    if (image[i] > kMaxExtent || padded < extent) {
      return context.Invalid(fmt::format("a window of {} does not fit an image of {} padded to {}",
                                         extent, image[i], padded));
    }
    window.out[i] = (padded - extent) / stride + 1;
    if (!ceil) continue;
    std::int64_t out = CeilDiv(padded - extent, stride) + 1;
    // A last window that starts behind the image holds padding only: it does not count.
    if ((out - 1) * stride >= image[i] + window.pads[i]) --out;
    if (out <= window.out[i]) continue;
    window.out[i] = out;
    window.pads[i + 2] += (out - 1) * stride + extent - padded;
    window.ceil_added_pads = true;
  }
  return {};
}

template <std::size_t kSize>
std::vector<std::int64_t> ToVector(const std::array<std::int64_t, kSize>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

Result<std::array<std::int64_t, 2>> Pair(const OpContext& context, const std::string& attribute,
                                         std::int64_t otherwise) {
  if (!context.has_attribute(attribute)) return std::array{otherwise, otherwise};
  const std::vector<std::int64_t> values = context.node().Ints(attribute, {});
  if (values.size() != 2) {
    return context.Unimplemented(
        fmt::format("{} has {} entries; only 2-D images are supported", attribute, values.size()));
  }
  for (const std::int64_t value : values) {
    if (value < 1 || value > kMaxExtent) {
      return context.Invalid(
          fmt::format("{} {} is outside [1, 2^30]", attribute, ToString(values)));
    }
  }
  return std::array{values[0], values[1]};
}

Result<Window> ResolveWindow(OpContext& context, std::array<std::int64_t, 2> image,
                             std::array<std::int64_t, 2> kernel) {
  Window window;
  window.kernel = kernel;
  LAGOON_ASSIGN_OR_RETURN(window.strides, Pair(context, "strides", 1));
  LAGOON_ASSIGN_OR_RETURN(window.dilations, Pair(context, "dilations", 1));
  LAGOON_RETURN_IF_ERROR(ReadPads(context, window));
  LAGOON_RETURN_IF_ERROR(ResolveAutoPad(context, image, window));
  const bool ceil = context.node().Int("ceil_mode", 0) != 0;
  LAGOON_RETURN_IF_ERROR(ResolveOutput(context, image, ceil, window));
  context.SetAttribute("kernel_shape", ToVector(window.kernel));
  context.SetAttribute("strides", ToVector(window.strides));
  context.SetAttribute("dilations", ToVector(window.dilations));
  context.SetAttribute("pads", ToVector(window.pads));
  context.EraseAttribute("auto_pad");
  context.EraseAttribute("ceil_mode");
  return window;
}

}  // namespace lagoon
