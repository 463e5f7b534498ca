#pragma once

// Sliding windows on the CPU: counts, and which taps of an axis meet the image.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/image_window.h"

namespace lagoon {

/// Pixels of all input images, pixels of all output images, and taps of the window.
inline std::size_t InputPixels(const ImageWindow& window) {
  return std::size_t{window.batch} * window.height * window.width;
}
inline std::size_t OutputPixels(const ImageWindow& window) {
  return std::size_t{window.batch} * window.out_height * window.out_width;
}
inline std::size_t WindowTaps(const ImageWindow& window) {
  return std::size_t{window.kernel_h} * window.kernel_w;
}

/// Makes a row of an image that is one column of pixels, and of its window: kernels take neighbours
/// from one row. In memory both are the same, and so are the weights.
inline void LayDownColumn(ImageWindow& w) {
  if (w.width != 1 || w.out_width != 1 || w.kernel_w != 1 || w.pad_left != 0) return;
  std::swap(w.height, w.width);
  std::swap(w.out_height, w.out_width);
  std::swap(w.kernel_h, w.kernel_w);
  std::swap(w.stride_h, w.stride_w);
  std::swap(w.dilation_h, w.dilation_w);
  std::swap(w.pad_top, w.pad_left);
}

struct WindowAxis {
  std::size_t size = 1, taps = 1, stride = 1, dilation = 1, pad = 0;
};

/// The two axes of a window over images.
inline WindowAxis RowAxis(const ImageWindow& window) {
  return {.size = window.height,
          .taps = window.kernel_h,
          .stride = window.stride_h,
          .dilation = window.dilation_h,
          .pad = window.pad_top};
}
inline WindowAxis ColumnAxis(const ImageWindow& window) {
  return {.size = window.width,
          .taps = window.kernel_w,
          .stride = window.stride_w,
          .dilation = window.dilation_w,
          .pad = window.pad_left};
}

/// Tap t of the output reads index t * dilation + origin. The taps [first, first + count) lie in
/// [0, size).
struct AxisTaps {
  std::ptrdiff_t origin = 0;
  std::size_t first = 0, count = 0;

  /// The index that tap `first` reads; 0 if there is no tap.
  std::size_t start(std::size_t dilation) const {
    return count == 0
               ? 0
               : static_cast<std::size_t>(origin + static_cast<std::ptrdiff_t>(first * dilation));
  }
};

inline AxisTaps TapsOf(const WindowAxis& axis, std::size_t output) {
  const auto step = static_cast<std::ptrdiff_t>(axis.dilation);
  AxisTaps taps;
  taps.origin =
      static_cast<std::ptrdiff_t>(output * axis.stride) - static_cast<std::ptrdiff_t>(axis.pad);
  const std::ptrdiff_t left = static_cast<std::ptrdiff_t>(axis.size) - taps.origin;
  const std::ptrdiff_t first = taps.origin < 0 ? (-taps.origin + step - 1) / step : 0;
  const std::ptrdiff_t end =
      left <= 0 ? 0 : std::min(static_cast<std::ptrdiff_t>(axis.taps), (left + step - 1) / step);
  taps.first = static_cast<std::size_t>(first);
  taps.count = end > first ? static_cast<std::size_t>(end - first) : 0;
  return taps;
}

}  // namespace lagoon
