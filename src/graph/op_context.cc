#include "graph/op_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/budget.h"
#include "graph/text.h"

namespace lagoon {

void OpContext::SetOutput(std::size_t i, DataType type, Dims dims) {
  if (!has_output(i)) return;
  Value& value = graph_.value(node_.outputs[i]);
  value.type = type;
  value.dims = std::move(dims);
  value.shape_known = true;
}

Result<std::vector<std::int64_t>> OpContext::ConstantInts(std::size_t i,
                                                          std::string_view what) const {
  const Constant* value = constant(i);
  if (value == nullptr) {
    return Unimplemented(fmt::format("{} {} must be constant; it is computed at run time", what,
                                     Quoted(input(i).name)));
  }
  if ((value->type != DataType::kInt64 && value->type != DataType::kInt32) ||
      value->dims.size() > 1) {
    return Invalid(fmt::format("{} {} must be a list of INT64, it is {} {}", what,
                               Quoted(input(i).name), OipName(value->type), ToString(value->dims)));
  }
  return value->ToInt64();
}

Result<float> OpContext::ConstantFloat(std::size_t i, std::string_view what) const {
  const Constant* value = constant(i);
  if (value == nullptr) {
    return Unimplemented(fmt::format("{} {} must be constant; it is computed at run time", what,
                                     Quoted(input(i).name)));
  }
  if (value->type != DataType::kFloat32 || ElementCount(value->dims) != 1) {
    return Invalid(fmt::format("{} {} must be one FP32 number, it is {} {}", what,
                               Quoted(input(i).name), OipName(value->type), ToString(value->dims)));
  }
  return value->floats()[0];
}

Result<std::optional<std::vector<std::int64_t>>> OpContext::IntsFromInputOrAttribute(
    std::size_t i, const std::string& attribute, std::int64_t input_since) const {
  using Found = std::optional<std::vector<std::int64_t>>;
  if (opset() < input_since) {
    if (has_input(i)) {
      return Invalid(fmt::format("takes '{}' as an attribute, not as input {}", attribute, i));
    }
    return has_attribute(attribute) ? Found(node_.Ints(attribute, {})) : Found();
  }
  if (has_attribute(attribute)) {
    return Invalid(fmt::format("takes '{}' as input {}, not as an attribute", attribute, i));
  }
  if (!has_input(i)) return Found();
  LAGOON_ASSIGN_OR_RETURN(std::vector<std::int64_t> values, ConstantInts(i, attribute));
  return Found(std::move(values));
}

Result<std::int64_t> OpContext::Axis(std::int64_t axis, std::size_t rank) const {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    return Invalid(fmt::format("axis {} is outside a shape of {} dimensions", axis, rank));
  }
  return axis < 0 ? axis + signed_rank : axis;
}

Result<std::vector<std::int64_t>> OpContext::Axes(std::vector<std::int64_t> axes,
                                                  std::size_t rank) const {
  // Bounds the message as well as the work: more axes than dimensions cannot be distinct.
  if (axes.size() > rank) {
    return Invalid(fmt::format("{} axes for a shape of {} dimensions", axes.size(), rank));
  }
  for (std::int64_t& axis : axes) {
    LAGOON_ASSIGN_OR_RETURN(axis, Axis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    return Invalid(fmt::format("axes {} name one twice", ToString(axes)));
  }
  return axes;
}

Result<std::size_t> OpContext::Bytes(const Dims& dims, DataType type) const {
  Result<std::size_t> bytes = CheckedBytes(dims, type);
  if (!bytes) return tl::unexpected(Named(std::move(bytes).error()));
  return bytes;
}

tl::unexpected<Error> OpContext::Invalid(std::string_view message) const {
  return tl::unexpected(Named({ErrorCode::kInvalidArgument, std::string(message)}));
}

tl::unexpected<Error> OpContext::Unimplemented(std::string_view message) const {
  return tl::unexpected(Named({ErrorCode::kUnimplemented, std::string(message)}));
}

Error OpContext::Named(Error error) const {
  error.message = fmt::format("node {} ({}, opset {}): {}", Quoted(node_.name), Shown(node_.op),
                              graph_.opset, error.message);
  return error;
}

}  // namespace lagoon
