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

/// kInvalidArgument naming `op`: "<op>: <what>".
tl::unexpected<Error> Invalid(std::string_view op, std::string_view what);

/// "[1,3,224,224]".
std::string ShapeText(std::span<const std::int64_t> dims);

}  // namespace lagoon
