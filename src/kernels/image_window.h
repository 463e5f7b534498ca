#pragma once

// Also for device code: plain data, and of the standard library only this type (op_program.cc).
#include <cstdint>

namespace lagoon {

/// A window that slides over images in the layout NHWC. Sizes, strides, dilations and paddings are
/// in pixels. For output pixel (row, column), tap (r, s) of the window reads input pixel
/// (row * stride_h + r * dilation_h - pad_top, column * stride_w + s * dilation_w - pad_left) of
/// the same image; a pixel outside the image is padding. The padding at the bottom and right
/// follows from the output size. Sizes, strides and dilations are at least 1; factories check this.
struct ImageWindow {
  std::uint32_t batch = 1;                      // number of images
  std::uint32_t height = 1, width = 1;          // size of an input image
  std::uint32_t out_height = 1, out_width = 1;  // size of an output image
  std::uint32_t kernel_h = 1, kernel_w = 1;     // number of taps
  std::uint32_t stride_h = 1, stride_w = 1;
  std::uint32_t dilation_h = 1, dilation_w = 1;
  std::uint32_t pad_top = 0, pad_left = 0;
};

}  // namespace lagoon
