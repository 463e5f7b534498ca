#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/text.h"
#include "plan/bytes_tensor.h"
#include "plan/element.h"
#include "server/grpc/grpc_codec.h"
#include "server/tensors/tensor_codec.h"
#include "serving/core/request.h"

namespace lagoon {
namespace {

using inference::InferParameter;
using inference::InferTensorContents;
using InputMessage = inference::ModelInferRequest::InferInputTensor;
using Parameters = google::protobuf::Map<std::string, InferParameter>;
using Bytes = std::span<const std::byte>;

// Owns the tensors: those in the message, and those that had to be converted.
struct GrpcPayload {
  std::shared_ptr<const InferMessage> message;
  std::vector<std::vector<std::byte>> converted;
};

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<std::uint64_t> WholeNumber(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return 0;
  const InferParameter& value = found->second;
  if (value.has_uint64_param()) return value.uint64_param();
  if (value.has_int64_param() && value.int64_param() >= 0) {
    return static_cast<std::uint64_t>(value.int64_param());
  }
  return Invalid(fmt::format("parameter '{}' is not a whole number from 0", name));
}

Result<bool> Flag(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return false;
  if (!found->second.has_bool_param()) {
    return Invalid(fmt::format("parameter '{}' is not true or false", name));
  }
  return found->second.bool_param();
}

Result<std::string> Text(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return std::string();
  if (!found->second.has_string_param()) {
    return Invalid(fmt::format("parameter '{}' is not a text", name));
  }
  return found->second.string_param();
}

/// The parameters that the server does not read itself, by their names.
Status KeepOthers(const Parameters& parameters, std::vector<RequestParameter>& kept) {
  for (const auto& [name, value] : parameters) {
    if (IsServerParameter(name)) continue;
    if (kept.size() >= kMostRequestParameters) {
      return Invalid(fmt::format("more than {} parameters", kMostRequestParameters));
    }
    switch (value.parameter_choice_case()) {
      case InferParameter::kBoolParam:
        kept.push_back({name, value.bool_param()});
        break;
      case InferParameter::kInt64Param:
        kept.push_back({name, std::int64_t{value.int64_param()}});
        break;
      case InferParameter::kUint64Param:
        kept.push_back({name, std::uint64_t{value.uint64_param()}});
        break;
      case InferParameter::kDoubleParam:
        if (!std::isfinite(value.double_param())) {
          return Invalid(fmt::format("parameter {} is {}; only finite numbers are taken",
                                     Quoted(name), value.double_param()));
        }
        kept.push_back({name, value.double_param()});
        break;
      case InferParameter::kStringParam:
        kept.push_back({name, value.string_param()});
        break;
      case InferParameter::PARAMETER_CHOICE_NOT_SET:
        break;
    }
  }
  std::ranges::sort(kept, {}, &RequestParameter::name);
  return {};
}

template <typename Field>
Bytes InPlace(const Field& field) {
  return std::as_bytes(std::span(field.data(), static_cast<std::size_t>(field.size())));
}

// Types narrower than 32 bits are sent as 32-bit fields.
template <typename To, typename Field>
Result<Bytes> Narrow(const Field& field, GrpcPayload& payload) {
  std::vector<std::byte> narrow(static_cast<std::size_t>(field.size()) * sizeof(To));
  auto* out = reinterpret_cast<To*>(narrow.data());
  for (const auto value : field) {
    if (!std::in_range<To>(value)) {
      return Invalid(fmt::format("contents hold {}, which does not fit the datatype", value));
    }
    *out++ = static_cast<To>(value);
  }
  payload.converted.push_back(std::move(narrow));
  return Bytes(payload.converted.back());
}

/// The names of the fields of `contents` that are not empty: "fp32_contents, int64_contents".
std::vector<std::string_view> FieldsOf(const InferTensorContents& contents) {
  std::vector<std::string_view> fields;
  const auto add = [&](std::string_view name, int size) {
    if (size > 0) fields.push_back(name);
  };
  add("bool_contents", contents.bool_contents_size());
  add("int_contents", contents.int_contents_size());
  add("int64_contents", contents.int64_contents_size());
  add("uint_contents", contents.uint_contents_size());
  add("uint64_contents", contents.uint64_contents_size());
  add("fp32_contents", contents.fp32_contents_size());
  add("fp64_contents", contents.fp64_contents_size());
  add("bytes_contents", contents.bytes_contents_size());
  return fields;
}

// The field that carries elements of type T.
template <typename T>
const auto& FieldFor(const InferTensorContents& contents) {
  if constexpr (std::is_same_v<T, bool>) {
    return contents.bool_contents();
  } else if constexpr (std::is_same_v<T, float>) {
    return contents.fp32_contents();
  } else if constexpr (std::is_same_v<T, double>) {
    return contents.fp64_contents();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return contents.int64_contents();
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return contents.uint64_contents();
  } else if constexpr (std::is_signed_v<T>) {
    return contents.int_contents();
  } else {
    return contents.uint_contents();
  }
}

Result<Bytes> TypedContents(DataType type, const InferTensorContents& contents,
                            GrpcPayload& payload) {
  if (type == DataType::kString) {
    std::vector<std::byte>& data = payload.converted.emplace_back();
    for (const std::string& element : contents.bytes_contents()) AppendBytesElement(element, data);
    return Bytes(data);
  }
  const auto no_contents = [&]() -> Result<Bytes> {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{} has no typed contents, use raw_input_contents", OipName(type)));
  };
  const auto read = [&]<typename T>(std::type_identity<T>) -> Result<Bytes> {
    if constexpr (sizeof(T) < 4 && !std::is_same_v<T, bool>) {
      return Narrow<T>(FieldFor<T>(contents), payload);
    } else {
      return InPlace(FieldFor<T>(contents));
    }
  };
  return WithNativeType(type, read, no_contents);
}

/// The part of a region that the parameters name; nullopt: they name none.
Result<std::optional<RegionPart>> PartOf(const Parameters& parameters) {
  const auto found = parameters.find("shared_memory_region");
  if (found == parameters.end()) return std::optional<RegionPart>();
  if (!found->second.has_string_param() || found->second.string_param().empty()) {
    return Invalid("parameter 'shared_memory_region' is not the name of a region");
  }
  if (!parameters.contains("shared_memory_byte_size")) {
    return Invalid(
        "the parameter 'shared_memory_region' needs 'shared_memory_byte_size' beside it");
  }
  RegionPart part{found->second.string_param(), 0, 0};
  LAGOON_ASSIGN_OR_RETURN(part.bytes, WholeNumber(parameters, "shared_memory_byte_size"));
  LAGOON_ASSIGN_OR_RETURN(part.offset, WholeNumber(parameters, "shared_memory_offset"));
  return std::optional(std::move(part));
}

// Null `raw`: the request has no raw_input_contents. Null `part`: the tensor is in the message;
// otherwise its data is missing.
Result<InputTensor> BindInput(const InputMessage& input, const Bytes* raw, const RegionPart* part,
                              GrpcPayload& payload) {
  const auto type = ParseOipType(input.datatype());
  if (!type) {
    return Invalid(
        fmt::format("datatype is {}, which is no type of the protocol", Quoted(input.datatype())));
  }
  InputTensor tensor{input.name(), *type, {input.shape().begin(), input.shape().end()}, {}};
  if (part != nullptr) {
    if (input.has_contents()) return Invalid("has contents beside 'shared_memory_region'");
    LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, TensorBytes(*type, tensor.dims));
    // The elements of BYTES are checked when they are there.
    if (part->bytes == bytes || *type == DataType::kString) return tensor;
    return Invalid(UnexpectedBytes(part->bytes, *type, tensor.dims, bytes));
  }
  if (raw != nullptr) {
    tensor.data = *raw;
  } else {
    if (const auto fields = FieldsOf(input.contents()); fields.size() > 1) {
      return Invalid(
          fmt::format("its contents have {}; a tensor has one of them", fmt::join(fields, ", ")));
    }
    LAGOON_ASSIGN_OR_RETURN(tensor.data, TypedContents(*type, input.contents(), payload));
  }
  LAGOON_RETURN_IF_ERROR(CheckTensorBytes(*type, tensor.dims, tensor.data));
  return tensor;
}

/// Inputs in shared memory have no entry in raw_input_contents.
Status ParseInputs(const InferMessage& read, GrpcPayload& payload, std::vector<InputTensor>& inputs,
                   SharedTensors& shared) {
  const inference::ModelInferRequest& message = read.message;
  const std::vector<Bytes>& raws = read.raws;
  inputs.reserve(static_cast<std::size_t>(message.inputs_size()));
  auto raw = raws.begin();
  std::size_t in_message = 0;
  for (const InputMessage& input : message.inputs()) {
    const auto annotate = [&](Error error) {
      return Annotate(fmt::format("input {}", Quoted(input.name())), std::move(error));
    };
    auto part = PartOf(input.parameters());
    if (!part) return annotate(std::move(part).error());
    in_message += *part ? 0 : 1;
    if (!*part && !raws.empty() && raw == raws.end()) continue;  // refused below
    if (!*part && !raws.empty() && input.has_contents()) {  // the words that Triton's clients know
      return Invalid(
          fmt::format("contents field must not be specified when using raw_input_contents for {} "
                      "for model {}",
                      Quoted(input.name()), Quoted(message.model_name())));
    }
    auto tensor = BindInput(input, *part || raws.empty() ? nullptr : &*raw++,
                            *part ? &**part : nullptr, payload);
    if (!tensor) return annotate(std::move(tensor).error());
    if (*part) shared.inputs.push_back({inputs.size(), **std::move(part)});
    inputs.push_back(*std::move(tensor));
  }
  if (!raws.empty() && raws.size() != in_message) {
    return Invalid(
        fmt::format("raw_input_contents has {} entries for {} inputs", raws.size(), in_message));
  }
  return {};
}

Status ParseOutputs(const inference::ModelInferRequest& message, InferRequest& request,
                    SharedTensors& shared) {
  for (const auto& output : message.outputs()) {
    auto part = PartOf(output.parameters());
    if (!part) {
      return Annotate(fmt::format("output {}", Quoted(output.name())), std::move(part).error());
    }
    if (*part) shared.outputs.push_back({output.name(), **std::move(part)});
    LAGOON_ASSIGN_OR_RETURN(const std::uint64_t classes,
                            WholeNumber(output.parameters(), "classification"));
    if (!std::in_range<std::uint32_t>(classes)) {
      return Invalid(fmt::format("output {}: 'classification' is {}, which is no number of classes",
                                 Quoted(output.name()), classes));
    }
    request.outputs.push_back(output.name());
    request.classes.push_back(static_cast<std::uint32_t>(classes));
  }
  return {};
}

Status ParseBody(std::shared_ptr<const InferMessage> owner, GrpcInfer& parsed) {
  const InferMessage& read = *owner;
  const inference::ModelInferRequest& message = read.message;
  InferRequest& request = parsed.request;
  auto payload = std::make_shared<GrpcPayload>();
  payload->message = std::move(owner);
  LAGOON_RETURN_IF_ERROR(ParseInputs(read, *payload, request.inputs, parsed.shared));
  LAGOON_RETURN_IF_ERROR(ParseOutputs(message, request, parsed.shared));
  LAGOON_ASSIGN_OR_RETURN(request.priority, WholeNumber(message.parameters(), "priority"));
  LAGOON_ASSIGN_OR_RETURN(const std::uint64_t timeout_us,
                          WholeNumber(message.parameters(), "timeout"));
  LAGOON_ASSIGN_OR_RETURN(request.timeout, TimeoutFromMicroseconds(timeout_us));
  const auto id = message.parameters().find("sequence_id");
  if (id != message.parameters().end() && id->second.has_string_param()) {
    request.sequence.text = id->second.string_param();
  } else {
    LAGOON_ASSIGN_OR_RETURN(request.sequence.number,
                            WholeNumber(message.parameters(), "sequence_id"));
  }
  LAGOON_ASSIGN_OR_RETURN(request.sequence.start, Flag(message.parameters(), "sequence_start"));
  LAGOON_ASSIGN_OR_RETURN(request.sequence.end, Flag(message.parameters(), "sequence_end"));
  LAGOON_ASSIGN_OR_RETURN(request.tenant_of_parameter, Text(message.parameters(), "lagoon_tenant"));
  LAGOON_ASSIGN_OR_RETURN(parsed.stages, Flag(message.parameters(), "lagoon_stages"));
  LAGOON_ASSIGN_OR_RETURN(parsed.empty_final,
                          Flag(message.parameters(), "triton_enable_empty_final_response"));
  LAGOON_RETURN_IF_ERROR(KeepOthers(message.parameters(), request.parameters));
  request.payload = std::move(payload);
  return {};
}

tl::unexpected<Error> OfModel(const GrpcInfer& parsed, Error error) {
  return Annotate(fmt::format("model {}", Quoted(parsed.request.model)), std::move(error));
}

}  // namespace

Result<GrpcInfer> ParseGrpcInfer(std::shared_ptr<const InferMessage> message) {
  GrpcInfer parsed;
  parsed.request.model = message->message.model_name();
  parsed.request.version = message->message.model_version();
  parsed.request.id = message->message.id();
  Status body = ParseBody(std::move(message), parsed);
  if (!body) return OfModel(parsed, std::move(body).error());
  return parsed;
}

Status BindRegions(const SharedRegions& regions, GrpcInfer& parsed) {
  if (parsed.shared.empty()) return {};
  auto bound = regions.Bind(parsed.shared, parsed.request);
  if (!bound) return OfModel(parsed, std::move(bound).error());
  parsed.regions = *std::move(bound);
  return {};
}

}  // namespace lagoon
