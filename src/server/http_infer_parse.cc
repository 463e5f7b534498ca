#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <utility>

#include "server/http_infer_codec.h"
#include "server/tensor_codec.h"

namespace lagoon {
namespace {

// Keeps the body, and the tensors that came as JSON, as long as the request.
struct HttpPayload {
  std::shared_ptr<const void> body;
  std::vector<std::unique_ptr<std::byte[]>> converted;
};

// The greatest whole number up to which a double holds every one.
constexpr double kMaxExact = 9007199254740992.0;

template <typename T>
bool Fits(double value) {
  if constexpr (std::floating_point<T>) {
    return std::abs(value) <= static_cast<double>(std::numeric_limits<T>::max());
  } else {
    // min() and max()+1 are powers of two: exact as doubles, which max() of 64 bits is not.
    constexpr double kMin = static_cast<double>(std::numeric_limits<T>::min());
    constexpr T kHalf = std::numeric_limits<T>::max() / 2 + 1;
    constexpr double kEnd = static_cast<double>(kHalf) * 2;
    return value >= kMin && value < kEnd && std::abs(value) <= kMaxExact &&
           value == std::floor(value);
  }
}

template <typename T>
Status Convert(std::span<const double> values, std::string_view type, std::byte* out) {
  for (const double value : values) {
    if (!Fits<T>(value)) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("'data' holds {}, which {} cannot hold exactly in JSON", value, type));
    }
    const T converted = static_cast<T>(value);
    std::memcpy(out, &converted, sizeof(T));
    out += sizeof(T);
  }
  return {};
}

Status ConvertTo(DataType type, const JsonInput& input, std::byte* out) {
  const std::string_view name = OipName(type);
  switch (type) {
    case DataType::kFloat32:
      return Convert<float>(input.data, name, out);
    case DataType::kFloat64:
      return Convert<double>(input.data, name, out);
    case DataType::kInt8:
      return Convert<std::int8_t>(input.data, name, out);
    case DataType::kInt16:
      return Convert<std::int16_t>(input.data, name, out);
    case DataType::kInt32:
      return Convert<std::int32_t>(input.data, name, out);
    case DataType::kInt64:
      return Convert<std::int64_t>(input.data, name, out);
    case DataType::kUInt8:
    case DataType::kBool:
      return Convert<std::uint8_t>(input.data, name, out);
    case DataType::kUInt16:
      return Convert<std::uint16_t>(input.data, name, out);
    case DataType::kUInt32:
      return Convert<std::uint32_t>(input.data, name, out);
    case DataType::kUInt64:
      return Convert<std::uint64_t>(input.data, name, out);
    case DataType::kFloat16:
    case DataType::kBFloat16:
    case DataType::kString:
      break;
  }
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("{} cannot travel as JSON, send it as binary data", name));
}

Status CheckData(DataType type, const JsonInput& input) {
  const auto count = static_cast<std::size_t>(ElementCount(input.shape));
  if (input.data.size() != count) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'data' has {} elements, shape {} needs {}", input.data.size(),
                            ToString(input.shape), count));
  }
  if (input.nesting.size() > 1 && input.nesting != input.shape) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'data' is nested as {}, the shape is {}", ToString(input.nesting),
                            ToString(input.shape)));
  }
  const bool is_bool = type == DataType::kBool;
  if (is_bool ? input.has_numbers : input.has_bools) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'data' holds {}, the datatype is {}",
                            is_bool ? "numbers" : "true or false", OipName(type)));
  }
  return {};
}

// Consumes the input's part of `tail` if it is binary.
Result<InputTensor> BindInput(JsonInput& input, std::span<const std::byte>& tail,
                              HttpPayload& payload) {
  const auto type = ParseOipType(input.datatype);
  if (!type) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'datatype' is '{}', which is no type of the protocol", input.datatype));
  }
  if (!input.has_shape) return Fail(ErrorCode::kInvalidArgument, "'shape' is missing");
  LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, TensorBytes(*type, input.shape));
  if (input.has_data == input.binary_bytes.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                "needs either 'data' or the parameter 'binary_data_size', and not both");
  }
  InputTensor tensor{std::move(input.name), *type, input.shape, {}};
  if (input.binary_bytes) {
    if (*input.binary_bytes != bytes) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("'binary_data_size' is {}, {} of shape {} needs {} bytes",
                              *input.binary_bytes, OipName(*type), ToString(input.shape), bytes));
    }
    if (bytes > tail.size()) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("needs {} bytes of binary data, the body has {} left", bytes, tail.size()));
    }
    tensor.data = tail.first(bytes);
    tail = tail.subspan(bytes);
    return tensor;
  }
  LAGOON_RETURN_IF_ERROR(CheckData(*type, input));
  payload.converted.push_back(std::make_unique<std::byte[]>(bytes));
  LAGOON_RETURN_IF_ERROR(ConvertTo(*type, input, payload.converted.back().get()));
  input.data = {};
  tensor.data = {payload.converted.back().get(), bytes};
  return tensor;
}

}  // namespace

Result<HttpInfer> ParseHttpInfer(std::span<const std::byte> body,
                                 std::optional<std::size_t> json_bytes,
                                 std::shared_ptr<const void> payload) {
  if (json_bytes.value_or(0) > body.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("Inference-Header-Content-Length is {}, the body has {} bytes",
                            *json_bytes, body.size()));
  }
  LAGOON_ASSIGN_OR_RETURN(JsonInfer json,
                          ParseInferJson(body.first(json_bytes.value_or(body.size()))));
  std::span<const std::byte> tail = body.subspan(json_bytes.value_or(body.size()));
  HttpInfer parsed;
  auto owner = std::make_shared<HttpPayload>();
  owner->body = std::move(payload);
  parsed.request.inputs.reserve(json.inputs.size());
  for (JsonInput& input : json.inputs) {
    const std::string name = input.name;
    auto tensor = BindInput(input, tail, *owner);
    if (!tensor) return Annotate(fmt::format("input '{}'", name), std::move(tensor).error());
    parsed.request.inputs.push_back(*std::move(tensor));
  }
  if (!tail.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the body has {} bytes after the last binary input", tail.size()));
  }
  LAGOON_ASSIGN_OR_RETURN(parsed.request.timeout, TimeoutFromMicroseconds(json.timeout_us));
  parsed.request.id = std::move(json.id);
  parsed.request.priority = json.priority;
  for (const JsonOutput& output : json.outputs) parsed.request.outputs.push_back(output.name);
  parsed.request.payload = std::move(owner);
  parsed.format = {json.binary_outputs, std::move(json.outputs), json.stages};
  return parsed;
}

Result<HttpInfer> ParseRawInfer(std::span<const std::byte> body, const ModelMetadata& model,
                                std::shared_ptr<const void> payload) {
  if (model.inputs.size() != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model '{}': a raw body needs a model with one input, it has {}",
                            model.name, model.inputs.size()));
  }
  const TensorSpec& input = model.inputs.front();
  if (body.size() != input.bytes()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model '{}': the raw body has {} bytes, input '{}' {} {} needs {}",
                            model.name, body.size(), input.name, OipName(input.type),
                            ToString(input.dims), input.bytes()));
  }
  HttpInfer parsed;
  parsed.request.inputs.push_back({input.name, input.type, input.dims, body});
  parsed.request.payload = std::move(payload);
  parsed.format.binary = true;
  return parsed;
}

}  // namespace lagoon
