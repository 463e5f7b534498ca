#pragma once

#include <cstdint>

#include "kernels/image_window.h"
#include "kernels/kernel.h"

namespace lagoon {

/// Max pooling of bytes: x [batch,height,width,channels], y [batch,out_height,out_width,channels],
/// both UINT8. Padding is less than any byte. kInvalidArgument names a field that is zero or too
/// large, and says if a window meets no element or is too long for one block.
struct ByteMaxPoolSpec {
  ImageWindow window = {};
  std::uint32_t channels = 1;
};

Result<Kernel> MakeByteMaxPool(const ByteMaxPoolSpec& spec);

}  // namespace lagoon
