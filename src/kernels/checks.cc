#include "kernels/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lagoon {
namespace {

tl::unexpected<Error> TooLarge(std::string_view op, std::string_view tensor,
                               std::string_view sizes) {
  return Invalid(op,
                 fmt::format("{} has {} elements, the most is {}", tensor, sizes, kMaxElements));
}

/// Returns false if the product would exceed kMaxElements. `value` must be at least 1.
bool Multiply(std::size_t value, std::size_t& product) {
  if (value > kMaxElements / product) return false;
  product *= value;
  return true;
}

}  // namespace

tl::unexpected<Error> Invalid(std::string_view op, std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", op, what));
}

Status CheckPositive(std::string_view op, std::initializer_list<Field> fields) {
  for (const Field& field : fields) {
    if (field.value == 0)
      return Invalid(op, fmt::format("{} is 0, must be at least 1", field.name));
    if (field.value > kMaxElements) {
      return Invalid(
          op, fmt::format("{} is {}, the most is {}", field.name, field.value, kMaxElements));
    }
  }
  return {};
}

Result<std::size_t> CheckElements(std::string_view op, std::string_view tensor,
                                  std::initializer_list<Field> fields) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(op, fields));
  std::size_t product = 1;
  for (const Field& field : fields) {
    if (Multiply(field.value, product)) continue;
    std::string sizes;
    for (const Field& each : fields) {
      sizes += fmt::format("{}{} {}", sizes.empty() ? "" : " x ", each.name, each.value);
    }
    return TooLarge(op, tensor, sizes);
  }
  return product;
}

Result<std::size_t> CheckElements(std::string_view op, std::string_view tensor,
                                  std::span<const std::int64_t> dims) {
  std::size_t product = 1;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] < 1) {
      return Invalid(
          op, fmt::format("axis {} of {} is {}, must be at least 1", axis, tensor, dims[axis]));
    }
    if (!Multiply(static_cast<std::size_t>(dims[axis]), product)) {
      return TooLarge(op, tensor, ShapeText(dims));
    }
  }
  return product;
}

Result<ImageElements> CheckImages(std::string_view op, const ImageWindow& window,
                                  const Field& in_channels, const Field& out_channels) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(op, {{"stride_h", window.stride_h},
                                            {"stride_w", window.stride_w},
                                            {"dilation_h", window.dilation_h},
                                            {"dilation_w", window.dilation_w}}));
  ImageElements elements;
  LAGOON_ASSIGN_OR_RETURN(elements.inputs, CheckElements(op, "x",
                                                         {{"batch", window.batch},
                                                          {"height", window.height},
                                                          {"width", window.width},
                                                          in_channels}));
  LAGOON_ASSIGN_OR_RETURN(elements.outputs, CheckElements(op, "y",
                                                          {{"batch", window.batch},
                                                           {"out_height", window.out_height},
                                                           {"out_width", window.out_width},
                                                           out_channels}));
  return elements;
}

std::string ShapeText(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ","));
}

}  // namespace lagoon
