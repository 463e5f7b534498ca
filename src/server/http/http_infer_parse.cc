#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <utility>

#include "base/text.h"
#include "plan/bytes_tensor.h"
#include "plan/element.h"
#include "server/http/http_infer_codec.h"
#include "server/tensors/tensor_codec.h"

namespace lagoon {
namespace {

// Owns the body, and the tensors that came as JSON, as long as the request lives.
struct HttpPayload {
  std::shared_ptr<const void> body;
  std::vector<std::unique_ptr<std::byte[]>> converted;
  std::vector<std::vector<std::byte>> texts;  // tensors of BYTES
};

// The value as an element of type T; nullopt: T cannot hold the value.

template <typename T>
std::optional<T> As(double value) {
  if constexpr (std::floating_point<T>) {
    // The nearest float. Not a range check on `value`: the largest float is often written with
    // digits that are slightly above it.
    const T nearest = static_cast<T>(value);
    return std::isfinite(nearest) ? std::optional(nearest) : std::nullopt;
  } else {
    // Only below kFirstInexact is it certain that the text had exactly this whole number.
    if (std::abs(value) >= static_cast<double>(kFirstInexact) || value != std::floor(value))
      return std::nullopt;
    const auto whole = static_cast<std::int64_t>(value);
    return std::in_range<T>(whole) ? std::optional(static_cast<T>(whole)) : std::nullopt;
  }
}

template <typename T>
std::optional<T> As(const JsonWhole& whole) {
  if (whole.negative) {
    const auto value = static_cast<std::int64_t>(whole.bits);
    return std::in_range<T>(value) ? std::optional(static_cast<T>(value)) : std::nullopt;
  }
  return std::in_range<T>(whole.bits) ? std::optional(static_cast<T>(whole.bits)) : std::nullopt;
}

std::string Digits(const JsonWhole& whole) {
  return whole.negative ? std::to_string(static_cast<std::int64_t>(whole.bits))
                        : std::to_string(whole.bits);
}

tl::unexpected<Error> CannotHold(std::string_view type, const std::string& value) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("'data' holds {}, which {} cannot hold", value, type));
}

template <typename T>
Status Convert(const JsonInput& input, std::string_view type, std::byte* out) {
  auto whole = input.wholes.begin();
  for (std::size_t i = 0; i < input.data.size(); ++i) {
    const double value = input.data[i];
    const bool exact = !std::floating_point<T> && whole != input.wholes.end() && whole->index == i;
    std::optional<T> converted;
    if constexpr (!std::floating_point<T>) {
      if (exact) converted = As<T>(*whole);
    }
    if (!exact) converted = As<T>(value);
    if (!converted && exact) return CannotHold(type, Digits(*whole));
    if (!converted && !std::floating_point<T> &&
        std::abs(value) >= static_cast<double>(kFirstInexact)) {
      return CannotHold(type, fmt::format("{}, not written as a whole number of 64 bits", value));
    }
    if (!converted) return CannotHold(type, fmt::format("{}", value));
    if (exact) ++whole;
    std::memcpy(out, &*converted, sizeof(T));
    out += sizeof(T);
  }
  return {};
}

Status ConvertTo(DataType type, const JsonInput& input, std::byte* out) {
  const std::string_view name = OipName(type);
  const auto not_as_json = [&]() -> Status {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{} cannot travel as JSON, send it as binary data", name));
  };
  return WithNativeType(
      type, [&]<typename T>(std::type_identity<T>) { return Convert<Stored<T>>(input, name, out); },
      not_as_json);
}

Status CheckData(DataType type, const JsonInput& input) {
  const auto count = static_cast<std::size_t>(ElementCount(input.shape));
  if (input.data.size() != count) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'data': expected {} elements for shape {}, got {}", count,
                            ToString(input.shape), input.data.size()));
  }
  if (input.nesting.size() > 1 && input.nesting != input.shape) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'data' is nested as {}, the shape is {}", ToString(input.nesting),
                            ToString(input.shape)));
  }
  const bool is_bool = type == DataType::kBool;
  const bool is_text = type == DataType::kString;
  std::string_view wrong;
  if (input.has_numbers && (is_bool || is_text)) wrong = "numbers";
  if (input.has_bools && !is_bool) wrong = "true or false";
  if (input.has_texts && !is_text) wrong = "strings";
  if (wrong.empty()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("'data' holds {}, the datatype is {}", wrong, OipName(type)));
}

/// The part of a region that holds the tensor; nullopt: the tensor is elsewhere.
Result<std::optional<RegionPart>> PartOf(JsonShared& shared) {
  if (shared.region.empty()) return std::optional<RegionPart>();
  if (!shared.bytes) {
    return Fail(ErrorCode::kInvalidArgument,
                "the parameter 'shared_memory_region' needs 'shared_memory_byte_size' beside it");
  }
  return std::optional(RegionPart{std::move(shared.region), shared.offset, *shared.bytes});
}

// If the input is binary, consumes its part of `tail`. The data of one in shared memory is missing.
Result<InputTensor> BindInput(JsonInput& input, std::span<const std::byte>& tail,
                              HttpPayload& payload) {
  const auto type = ParseOipType(input.datatype);
  if (!type) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'datatype' is {}, which is no type of the protocol", Quoted(input.datatype)));
  }
  if (!input.has_shape) return Fail(ErrorCode::kInvalidArgument, "'shape' is missing");
  LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, TensorBytes(*type, input.shape));
  InputTensor tensor{std::move(input.name), *type, input.shape, {}};
  const bool is_text = *type == DataType::kString;
  if (!input.shared.region.empty()) {
    if (input.has_data || input.binary_bytes) {
      return Fail(ErrorCode::kInvalidArgument, "has data beside 'shared_memory_region'");
    }
    const std::uint64_t given = input.shared.bytes.value_or(bytes);
    // The elements of BYTES are checked when they are there.
    if (given == bytes || is_text) return tensor;
    return Fail(ErrorCode::kInvalidArgument, UnexpectedBytes(given, *type, input.shape, bytes));
  }
  if (input.has_data == input.binary_bytes.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                "needs either 'data' or the parameter 'binary_data_size', and not both");
  }
  if (input.binary_bytes) {
    const std::size_t size = *input.binary_bytes;
    if (!is_text && size != bytes) {
      return Fail(ErrorCode::kInvalidArgument, UnexpectedBytes(size, *type, input.shape, bytes));
    }
    if (size > tail.size()) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("needs {} bytes of binary data, the body has {} left", size, tail.size()));
    }
    tensor.data = tail.first(size);
    tail = tail.subspan(size);
    if (is_text) LAGOON_RETURN_IF_ERROR(CheckBytesElements(tensor.data, bytes));
    return tensor;
  }
  LAGOON_RETURN_IF_ERROR(CheckData(*type, input));
  if (is_text) {
    tensor.data = payload.texts.emplace_back(std::move(input.texts));
    return tensor;
  }
  payload.converted.push_back(std::make_unique<std::byte[]>(bytes));
  LAGOON_RETURN_IF_ERROR(ConvertTo(*type, input, payload.converted.back().get()));
  std::exchange(input.data, {});  // frees them before the next input is converted
  std::exchange(input.wholes, {});
  tensor.data = {payload.converted.back().get(), bytes};
  return tensor;
}

// The shape of a raw body, of which strings are one element. `max_batch`: as in ModelMetadata.
Result<Dims> DimsOfRaw(const TensorSpec& input, std::int64_t max_batch, std::size_t body_bytes) {
  Dims dims = input.dims;
  if (max_batch > 0 && !dims.empty()) dims.front() = 1;
  const auto refuse = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the raw body has {} bytes, input '{}' {} {} {}", body_bytes,
                            input.name, OipName(input.type), ToString(dims), why));
  };
  if (input.type == DataType::kString) {
    std::ranges::replace_if(
        dims, [](std::int64_t dim) { return dim < 0; }, 1);
    if (ElementCount(dims) != 1)
      return refuse("has more than one string; send them with their shape");
    return dims;
  }
  const auto open = std::ranges::find_if(dims, [](std::int64_t dim) { return dim < 0; });
  if (open == dims.end()) {
    const std::size_t needed = TensorSpec{"", input.type, dims}.bytes();
    if (body_bytes != needed) return refuse(fmt::format("needs {}", needed));
    return dims;
  }
  if (std::find_if(open + 1, dims.end(), [](std::int64_t dim) { return dim < 0; }) != dims.end()) {
    return refuse("has more than one open dimension; send the shape with the request");
  }
  *open = 1;
  const std::size_t step = TensorSpec{"", input.type, dims}.bytes();
  *open = step == 0 ? 0 : static_cast<std::int64_t>(body_bytes / step);
  if (static_cast<std::size_t>(*open) * step == body_bytes) return dims;
  *open = -1;
  return refuse(fmt::format("needs a multiple of {}", step));
}

}  // namespace

Result<HttpInfer> ParseHttpInfer(std::span<const std::byte> body,
                                 std::optional<std::size_t> json_bytes,
                                 std::shared_ptr<const void> payload, const JsonBounds& bounds) {
  if (json_bytes.value_or(0) > body.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("Inference-Header-Content-Length is {}, the body has {} bytes",
                            *json_bytes, body.size()));
  }
  LAGOON_ASSIGN_OR_RETURN(JsonInfer json,
                          ParseInferJson(body.first(json_bytes.value_or(body.size())), bounds));
  std::span<const std::byte> tail = body.subspan(json_bytes.value_or(body.size()));
  HttpInfer parsed;
  auto owner = std::make_shared<HttpPayload>();
  owner->body = std::move(payload);
  parsed.request.inputs.reserve(json.inputs.size());
  for (JsonInput& input : json.inputs) {
    const std::string name = input.name;
    auto tensor = BindInput(input, tail, *owner);
    if (!tensor) return Annotate(fmt::format("input {}", Quoted(name)), std::move(tensor).error());
    auto part = PartOf(input.shared);
    if (!part) return Annotate(fmt::format("input {}", Quoted(name)), std::move(part).error());
    if (*part) parsed.shared.inputs.push_back({parsed.request.inputs.size(), **std::move(part)});
    parsed.request.inputs.push_back(*std::move(tensor));
  }
  if (!tail.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the body has {} bytes after the last binary input", tail.size()));
  }
  LAGOON_ASSIGN_OR_RETURN(parsed.request.timeout, TimeoutFromMicroseconds(json.timeout_us));
  parsed.request.id = std::move(json.id);
  parsed.request.priority = json.priority;
  parsed.request.sequence = std::move(json.sequence);
  parsed.request.via = std::move(json.via);
  parsed.request.tenant_of_parameter = std::move(json.tenant);
  parsed.request.parameters = std::move(json.parameters);
  const auto form = [](bool binary) { return binary ? OutputForm::kBytes : OutputForm::kText; };
  parsed.request.form = form(json.binary_outputs);
  for (JsonOutput& output : json.outputs) {
    auto part = PartOf(output.shared);
    if (!part) {
      return Annotate(fmt::format("output {}", Quoted(output.name)), std::move(part).error());
    }
    const bool bytes = *part || output.binary.value_or(json.binary_outputs);
    if (*part) parsed.shared.outputs.push_back({output.name, **std::move(part)});
    parsed.request.outputs.push_back(output.name);
    parsed.request.forms.push_back(form(bytes));
    parsed.request.classes.push_back(output.classes);
  }
  parsed.request.payload = std::move(owner);
  parsed.format = {json.binary_outputs, std::move(json.outputs), json.stages};
  return parsed;
}

JsonBounds BoundsOf(const ModelMetadata& model) {
  std::size_t most = 0;
  for (const TensorSpec& input : model.inputs) {
    std::size_t count = 1;
    for (std::size_t i = 0; i < input.dims.size(); ++i) {
      const std::int64_t dim = i == 0 && model.max_batch > 0 ? model.max_batch : input.dims[i];
      if (dim < 0) return {};
      if (__builtin_mul_overflow(count, static_cast<std::size_t>(dim), &count)) return {};
    }
    if (__builtin_add_overflow(most, count, &most)) return {};
  }
  return {most};
}

Result<HttpInfer> ParseRawInfer(std::span<const std::byte> body, const ModelMetadata& model,
                                std::shared_ptr<const void> payload) {
  if (model.inputs.size() != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model '{}': a raw body needs a model with one input, it has {}",
                            model.name, model.inputs.size()));
  }
  const TensorSpec& input = model.inputs.front();
  auto dims = DimsOfRaw(input, model.max_batch, body.size());
  if (!dims) return Annotate(fmt::format("model '{}'", model.name), std::move(dims).error());
  HttpInfer parsed;
  parsed.format.binary = true;
  if (input.type == DataType::kString) {
    const auto text = std::make_shared<std::vector<std::byte>>();
    AppendBytesElement({reinterpret_cast<const char*>(body.data()), body.size()}, *text);
    parsed.request.inputs.push_back({input.name, input.type, *std::move(dims), *text});
    parsed.request.payload = text;
    return parsed;
  }
  parsed.request.inputs.push_back({input.name, input.type, *std::move(dims), body});
  parsed.request.payload = std::move(payload);
  return parsed;
}

}  // namespace lagoon
