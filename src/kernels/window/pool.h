#pragma once

// Max and average pooling.

#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// Shapes in elements, NHWC.
struct PoolSpec {
  enum class Kind : std::uint8_t {
    kMax,
    kAverage,  // over the window's elements inside the image
    /// Padding counts as zeros (ONNX's count_include_pad); positions beyond the padding do not
    /// count.
    kAverageCountPadding,
  } kind = Kind::kMax;
  std::uint32_t batch = 1, height = 1, width = 1, channels = 1, out_height = 1, out_width = 1;
  std::uint32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0;
  std::uint32_t pad_bottom = 0, pad_right = 0;  // read only for kAverageCountPadding
  std::uint32_t dilation_h = 1, dilation_w = 1;
};

/// Input: x [batch,height,width,channels]. Output: y [batch,out_height,out_width,channels], which
/// must not overlap x. kInvalidArgument names the field if a size is zero, a product overflows, or
/// a window would lie wholly outside the image. A NaN in a window of kMax gives an unspecified
/// element of that window.
Result<Kernel> MakePool(const PoolSpec& spec);

}  // namespace lagoon
