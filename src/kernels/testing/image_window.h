#pragma once

// For tests and benchmarks of windows over images.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/window.h"

namespace lagoon::testing {

/// A square window over one square image, with `pad` pixels of padding on every side.
inline ImageWindow SquareWindow(std::uint32_t size, std::uint32_t kernel, std::uint32_t stride = 1,
                                std::uint32_t pad = 0) {
  const std::uint32_t out = (size + 2 * pad - kernel) / stride + 1;
  return {.height = size,
          .width = size,
          .out_height = out,
          .out_width = out,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_top = pad,
          .pad_left = pad};
}

/// Index of the input pixel that tap (ky, kx) of output pixel (oy, ox) reads; none in the padding.
inline std::optional<std::size_t> InputPixelOf(const ImageWindow& w, std::size_t image,
                                               std::size_t oy, std::size_t ox, std::size_t ky,
                                               std::size_t kx) {
  const auto y = static_cast<std::int64_t>(oy * w.stride_h + ky * w.dilation_h) - w.pad_top;
  const auto x = static_cast<std::int64_t>(ox * w.stride_w + kx * w.dilation_w) - w.pad_left;
  if (y < 0 || x < 0 || y >= w.height || x >= w.width) return std::nullopt;
  return (image * w.height + static_cast<std::size_t>(y)) * w.width + static_cast<std::size_t>(x);
}

}  // namespace lagoon::testing
