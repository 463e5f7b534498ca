#include "graph/ops/window.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;
using Sizes = std::span<const std::int64_t>;

// Keeps every sum and product below far from overflow.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 30;

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t Extent(const Window& window, std::size_t i) {
  return (window.kernel[i] - 1) * window.dilations[i] + 1;
}

Status ReadWindow(const OpContext& context, Sizes image, Window& window) {
  const std::size_t rank = image.size();
  for (std::size_t i = 0; i < rank; ++i) {
    if (image[i] > kMaxExtent) {
      return context.Invalid(fmt::format("the input has an axis of {}, above 2^30", image[i]));
    }
  }
  LAGOON_ASSIGN_OR_RETURN(window.strides, SpatialInts(context, "strides", rank, 1));
  LAGOON_ASSIGN_OR_RETURN(window.dilations, SpatialInts(context, "dilations", rank, 1));
  window.pads.assign(2 * rank, 0);
  if (!context.has_attribute("pads")) return {};
  window.pads = context.node().Ints("pads", {});
  if (window.pads.size() != 2 * rank) {
    return context.Invalid(
        fmt::format("has {} pads; {} spatial axes take {}", window.pads.size(), rank, 2 * rank));
  }
  for (const std::int64_t pad : window.pads) {
    if (pad < 0 || pad > kMaxExtent) {
      return context.Invalid(fmt::format("pads {} are outside [0, 2^30]", ToString(window.pads)));
    }
  }
  return {};
}

/// Splits `total` pixels of padding along axis `i` according to `mode`.
void SetSamePads(const std::string& mode, std::int64_t total, std::size_t i, Window& window) {
  const std::int64_t small = total >= 0 ? total / 2 : (total - 1) / 2;
  window.pads[i] = mode == "SAME_UPPER" ? small : total - small;
  window.pads[i + window.kernel.size()] = total - window.pads[i];
}

/// The auto_pad mode; "NOTSET" if pads are given.
Result<std::string> AutoPad(const OpContext& context, const Window& window) {
  const std::string mode = context.node().String("auto_pad", "NOTSET");
  if (mode == "NOTSET") return mode;
  if (std::any_of(window.pads.begin(), window.pads.end(), [](auto pad) { return pad != 0; })) {
    return context.Invalid(fmt::format("has both auto_pad {} and pads", Quoted(mode)));
  }
  if (mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    return context.Unimplemented(fmt::format("auto_pad {} is not known", Quoted(mode)));
  }
  return mode;
}

Status ResolveOutput(const OpContext& context, Sizes image, bool ceil, Window& window) {
  const std::size_t rank = image.size();
  window.out.resize(rank);
  window.given_pads = window.pads;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t extent = Extent(window, i);
    const std::int64_t stride = window.strides[i];
    const std::int64_t padded = image[i] + window.pads[i] + window.pads[i + rank];
    if (padded < extent) {
      return context.Invalid(fmt::format("a window of {} does not fit an image of {} padded to {}",
                                         extent, image[i], padded));
    }
    window.out[i] = (padded - extent) / stride + 1;
    if (!ceil) continue;
    std::int64_t out = CeilDiv(padded - extent, stride) + 1;
    // A last window that starts behind the image covers only padding and does not count.
    if ((out - 1) * stride >= image[i] + window.pads[i]) --out;
    if (out <= window.out[i]) continue;
    window.out[i] = out;
    window.pads[i + rank] += (out - 1) * stride + extent - padded;
  }
  return {};
}

void WriteBack(OpContext& context, const Window& window) {
  context.SetAttribute("kernel_shape", window.kernel);
  context.SetAttribute("strides", window.strides);
  context.SetAttribute("dilations", window.dilations);
  context.SetAttribute("pads", window.pads);
  context.EraseAttribute("auto_pad");
}

}  // namespace

Result<Ints> SpatialInts(const OpContext& context, const std::string& attribute, std::size_t count,
                         std::int64_t otherwise) {
  if (!context.has_attribute(attribute)) return Ints(count, otherwise);
  Ints values = context.node().Ints(attribute, {});
  if (values.size() != count) {
    return context.Invalid(
        fmt::format("{} has {} entries for {} spatial axes", attribute, values.size(), count));
  }
  for (const std::int64_t value : values) {
    if (value < 1 || value > kMaxExtent) {
      return context.Invalid(
          fmt::format("{} {} is outside [1, 2^30]", attribute, ToString(values)));
    }
  }
  return values;
}

Result<Window> ResolveWindow(OpContext& context, Sizes image, Ints kernel) {
  Window window;
  window.kernel = std::move(kernel);
  LAGOON_RETURN_IF_ERROR(ReadWindow(context, image, window));
  LAGOON_ASSIGN_OR_RETURN(const std::string mode, AutoPad(context, window));
  for (std::size_t i = 0; mode.starts_with("SAME") && i < image.size(); ++i) {
    const std::int64_t out = CeilDiv(image[i], window.strides[i]);
    const std::int64_t total = (out - 1) * window.strides[i] + Extent(window, i) - image[i];
    SetSamePads(mode, std::max<std::int64_t>(total, 0), i, window);
  }
  const bool ceil = context.node().Int("ceil_mode", 0) != 0;
  LAGOON_RETURN_IF_ERROR(ResolveOutput(context, image, ceil, window));
  WriteBack(context, window);
  context.EraseAttribute("ceil_mode");
  return window;
}

Result<Window> ResolveTransposedWindow(OpContext& context, Sizes image, Ints kernel) {
  const std::size_t rank = image.size();
  Window window;
  window.kernel = std::move(kernel);
  LAGOON_RETURN_IF_ERROR(ReadWindow(context, image, window));
  LAGOON_ASSIGN_OR_RETURN(const std::string mode, AutoPad(context, window));
  const Ints added = context.node().Ints("output_padding", Ints(rank, 0));
  Ints shape = context.node().Ints("output_shape", {});
  if (shape.size() == rank + 2) shape.erase(shape.begin(), shape.begin() + 2);
  if (added.size() != rank || (!shape.empty() && shape.size() != rank)) {
    return context.Invalid(fmt::format("output_padding {} or output_shape {} is not of {} axes",
                                       ToString(added), ToString(shape), rank));
  }
  for (std::size_t i = 0; i < rank; ++i) {
    const bool fits = added[i] >= 0 && added[i] <= kMaxExtent &&
                      (shape.empty() || (shape[i] >= 1 && shape[i] <= kMaxExtent));
    if (!fits) {
      return context.Invalid(fmt::format("output_padding {} or output_shape {} is out of range",
                                         ToString(added), ToString(shape)));
    }
    const std::int64_t full = (image[i] - 1) * window.strides[i] + Extent(window, i) + added[i];
    if (!shape.empty() || mode.starts_with("SAME")) {
      const std::int64_t out = shape.empty() ? image[i] * window.strides[i] : shape[i];
      // Without a mode the larger half comes first, as in the specification. What output_shape has
      // more than the image gives lies at the end, as in ONNX Runtime.
      if (full < out) {
        window.pads[i] = 0;
        window.pads[i + rank] = full - out;
      } else {
        SetSamePads(mode == "SAME_UPPER" ? "SAME_UPPER" : "SAME_LOWER", full - out, i, window);
      }
    }
    window.out.push_back(full - window.pads[i] - window.pads[i + rank]);
    if (window.out[i] < 1) {
      return context.Invalid(
          fmt::format("spatial axis {} of the output would be {}", i, window.out[i]));
    }
  }
  WriteBack(context, window);
  context.EraseAttribute("output_padding");
  context.EraseAttribute("output_shape");
  return window;
}

}  // namespace lagoon
