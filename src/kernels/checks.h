#pragma once

// Checks that the factories of kernels share. Messages read "depthwise: stride_h is 0, must be at
// least 1".

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kernels/image_window.h"

namespace lagoon {

/// Upper limit for the elements of a tensor, so that offsets, products of counts and costs fit 64
/// bits.
inline constexpr std::size_t kMaxElements = std::size_t{1} << 31;

struct Field {
  std::string_view name;
  std::size_t value;
};

/// kInvalidArgument naming `op` and the first field that is zero or above kMaxElements.
Status CheckPositive(std::string_view op, std::initializer_list<Field> fields);

/// The product of the fields, each at least 1. kInvalidArgument naming `op`, `tensor` and the
/// values if one is zero or the product exceeds kMaxElements.
Result<std::size_t> CheckElements(std::string_view op, std::string_view tensor,
                                  std::initializer_list<Field> fields);
Result<std::size_t> CheckElements(std::string_view op, std::string_view tensor,
                                  std::span<const std::int64_t> dims);

/// Elements of the images that a window reads and writes.
struct ImageElements {
  std::size_t inputs = 0, outputs = 0;
};
/// Counts the elements of x [batch,height,width,in_channels] and y
/// [batch,out_height,out_width,out_channels]. The names of the channels are for messages.
/// kInvalidArgument naming `op` if a size, a stride or a dilation is zero, or as CheckElements().
/// The size of the window itself is not checked.
Result<ImageElements> CheckImages(std::string_view op, const ImageWindow& window,
                                  const Field& in_channels, const Field& out_channels);

/// kInvalidArgument naming `op`: "<op>: <what>".
tl::unexpected<Error> Invalid(std::string_view op, std::string_view what);

/// "[1,3,224,224]".
std::string ShapeText(std::span<const std::int64_t> dims);

}  // namespace lagoon
