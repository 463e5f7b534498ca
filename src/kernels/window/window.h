#pragma once

// One axis of a sliding window: which of its taps meet the image.

#include <algorithm>
#include <cstddef>

namespace lagoon {

struct WindowAxis {
  std::size_t size = 1, taps = 1, stride = 1, dilation = 1, pad = 0;
};

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
