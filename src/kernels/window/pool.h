#pragma once

// Max and average pooling.

#include <cstdint>

#include "kernels/image_window.h"
#include "kernels/kernel.h"

namespace lagoon {

struct PoolSpec {
  enum class Kind : std::uint8_t {
    kMax,
    kAverage,  // over the window's elements inside the image
    /// Padding counts as zeros (ONNX's count_include_pad); positions beyond the padding do not
    /// count.
    kAverageCountPadding,
  } kind = Kind::kMax;
  ImageWindow window = {};
  std::uint32_t channels = 1;
  std::uint32_t pad_bottom = 0, pad_right = 0;  // read only for kAverageCountPadding
};

/// Input: x [batch,height,width,channels]. Output: y [batch,out_height,out_width,channels], which
/// must not overlap x. kInvalidArgument names the field if a size is zero, a product overflows, or
/// a window would lie wholly outside the image. kMax of a NaN is NaN.
Result<Kernel> MakePool(const PoolSpec& spec);

}  // namespace lagoon
