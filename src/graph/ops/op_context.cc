#include "graph/ops/op_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/text.h"
#include "graph/budget.h"
#include "graph/import/tensor_import.h"
#include "plan/element.h"

namespace lagoon {

void OpContext::SetOutput(std::size_t i, DataType type, Dims dims) {
  if (!has_output(i)) return;
  Value& value = graph_.value(node_.outputs[i]);
  value.type = type;
  value.dims = std::move(dims);
  value.shape_known = true;
}

void OpContext::SetCapacity(std::initializer_list<std::size_t> outputs) {
  const OpSpec* spec = FindOp(node_.op);
  LAGOON_CHECK(spec != nullptr && spec->data_dependent);
  const auto present =
      std::find_if(outputs.begin(), outputs.end(), [&](std::size_t i) { return has_output(i); });
  if (present == outputs.end() || ElementCount(output(*present).dims) == 0) return;
  const std::size_t first = *outputs.begin();
  Value sizes;
  sizes.name = node_.name + (first == 0 ? ":sizes" : fmt::format(":sizes.{}", first));
  sizes.type = DataType::kInt64;
  sizes.dims = {static_cast<std::int64_t>(output(*present).dims.size())};
  sizes.shape_known = true;
  const auto id = static_cast<ValueId>(graph_.values.size());
  for (const std::size_t i : outputs) {
    if (has_output(i)) graph_.value(node_.outputs[i]).sizes = id;
  }
  graph_.values.push_back(std::move(sizes));
  node_.outputs.resize(std::max(node_.outputs.size(), spec->max_outputs), kNoValue);
  node_.outputs.push_back(id);
}

Result<std::vector<std::int64_t>> OpContext::ConstantInts(std::size_t i,
                                                          std::string_view what) const {
  const Constant* value = constant(i);
  if (value == nullptr) {
    Misses(i);
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

Result<Constant> OpContext::OneConstant(std::size_t i, std::string_view what) const {
  const Constant* value = constant(i);
  if (value == nullptr) {
    Misses(i);
    return Unimplemented(fmt::format("{} {} must be constant; it is computed at run time", what,
                                     Quoted(input(i).name)));
  }
  if (ElementCount(value->dims) == 1 && value->type != DataType::kString) return *value;
  return Invalid(fmt::format("{} {} is {} {}, takes one number", what, Quoted(input(i).name),
                             OipName(value->type), ToString(value->dims)));
}

Result<DataType> OpContext::TypeAttribute(const std::string& name, DataType otherwise) const {
  if (!has_attribute(name)) return otherwise;
  const std::int64_t onnx = node_.Int(name, 0);
  const std::optional<DataType> type = onnx >= 0 && onnx <= onnx::TensorProto::DataType_MAX
                                           ? ToDataType(static_cast<int>(onnx))
                                           : std::nullopt;
  if (type && *type != DataType::kString) return *type;
  return Unimplemented(
      fmt::format("{} is ONNX element type {}, which is not supported", name, onnx));
}

std::int64_t FirstAsInt64(const Constant& constant) {
  if (constant.type == DataType::kString) return 0;
  return WithElementType(constant.type, [&]<typename T>(std::type_identity<T>) {
    T element;
    std::memcpy(&element, constant.bytes->data(), sizeof(T));
    return ConvertElement<std::int64_t>(element);
  });
}

Result<float> OpContext::ConstantFloat(std::size_t i, std::string_view what) const {
  const Constant* value = constant(i);
  if (value == nullptr) {
    Misses(i);
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
  // Limits the message as well as the work: more axes than dimensions cannot be distinct.
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

Status OpContext::SameType(std::size_t first, std::initializer_list<std::size_t> others) const {
  for (const std::size_t i : others) {
    if (!has_input(i) || input(i).type == input(first).type) continue;
    return Invalid(fmt::format("input {} is {}, input {} is {}", Quoted(input(first).name),
                               OipName(input(first).type), Quoted(input(i).name),
                               OipName(input(i).type)));
  }
  return {};
}

Status OpContext::Float32(std::size_t i) const {
  if (!has_input(i) || input(i).type == DataType::kFloat32) return {};
  return Unimplemented(fmt::format("input {} is {}, only FP32 is supported", Quoted(input(i).name),
                                   OipName(input(i).type)));
}

Status OpContext::NumberOr(std::size_t i, std::optional<std::int64_t> size) const {
  if (!has_input(i) || dims(i).empty() || dims(i) == Dims{1}) return {};
  if (size && dims(i) == Dims{*size}) return {};
  const std::string vector = size ? fmt::format(" or [{}]", *size) : std::string();
  return Unimplemented(fmt::format("input {} has shape {}, supported are one number{}",
                                   Quoted(input(i).name), ToString(dims(i)), vector));
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
                              opset(), error.message);
  return error;
}

}  // namespace lagoon
