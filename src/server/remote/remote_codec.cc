#include "server/remote/remote_codec.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"
#include "server/error_map.h"
#include "server/grpc/grpc_codec.h"
#include "server/tensors/tensor_codec.h"

namespace lagoon {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

// How a field is written (the protobuf encoding's wire types). The type is the lowest three bits of
// a tag, and the number of the field is above them.
enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr int kTypeBits = 3;
constexpr std::uint32_t kTypeMask = 7;

// Below this size a copy costs less than a slice with an owner.
constexpr std::size_t kLeastBorrowed = 4096;

void FillParameter(const RequestParameter& from, inference::InferParameter& to) {
  const auto& value = from.value;
  if (const bool* const flag = std::get_if<bool>(&value)) to.set_bool_param(*flag);
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) to.set_int64_param(*whole);
  if (const auto* const whole = std::get_if<std::uint64_t>(&value)) to.set_uint64_param(*whole);
  if (const double* const number = std::get_if<double>(&value)) to.set_double_param(*number);
  if (const auto* const text = std::get_if<std::string>(&value)) to.set_string_param(*text);
}

void FillHead(const InferRequest& request, Nanoseconds left, std::string_view front,
              ModelInferRequest& message) {
  message.set_model_name(request.model);
  message.set_model_version(request.version);
  message.set_id(request.id);
  if (request.priority != 0) {
    (*message.mutable_parameters())["priority"].set_uint64_param(request.priority);
  }
  if (left > Nanoseconds::zero()) {
    // Rounded up: 0 would mean that there is no deadline.
    const std::int64_t us = (left.count() + 999) / 1000;
    (*message.mutable_parameters())["timeout"].set_uint64_param(static_cast<std::uint64_t>(us));
  }
  if (const SequencePart& sequence = request.sequence; sequence.has_id()) {
    auto& parameters = *message.mutable_parameters();
    if (sequence.text.empty()) {
      parameters["sequence_id"].set_uint64_param(sequence.number);
    } else {
      parameters["sequence_id"].set_string_param(sequence.text);
    }
    parameters["sequence_start"].set_bool_param(sequence.start);
    parameters["sequence_end"].set_bool_param(sequence.end);
  }
  for (const RequestParameter& parameter : request.parameters) {
    FillParameter(parameter, (*message.mutable_parameters())[parameter.name]);
  }
  if (!front.empty()) {
    const std::string_view comma = request.via.empty() ? "" : ",";
    (*message.mutable_parameters())[kViaParameter].set_string_param(
        fmt::format("{}{}{}", request.via, comma, front));
  }
  for (const InputTensor& input : request.inputs) {
    auto& tensor = *message.add_inputs();
    tensor.set_name(input.name);
    tensor.set_datatype(std::string(OipName(input.type)));
    tensor.mutable_shape()->Add(input.dims.begin(), input.dims.end());
  }
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    auto& output = *message.add_outputs();
    output.set_name(request.outputs[i]);
    if (i >= request.classes.size() || request.classes[i] == 0) continue;
    (*output.mutable_parameters())["classification"].set_uint64_param(request.classes[i]);
  }
}

// A slice of `data` that keeps `owner` until gRPC has sent the slice.
grpc::Slice Borrow(std::span<const std::byte> data, const std::shared_ptr<const void>& owner) {
  auto held = std::make_unique<std::shared_ptr<const void>>(owner);
  return {const_cast<std::byte*>(data.data()), data.size(),
          [](void* user) { delete static_cast<std::shared_ptr<const void>*>(user); },
          held.release()};
}

void AppendVarint(std::uint64_t value, std::string& text) {
  std::uint8_t bytes[10];
  const std::uint8_t* end = CodedOutputStream::WriteVarint64ToArray(value, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
}

tl::unexpected<Error> BadAnswer(std::string_view why) {
  return Fail(ErrorCode::kInternal, fmt::format("the member's answer {}", why));
}

// The parts of a ModelInferResponse before its tensors are put together.
struct AnswerParts {
  InferResponse response;
  std::vector<UnfilledBytes> raw;
};

// Each Read function returns false where the message is not valid.
bool ReadSize(CodedInputStream& in, std::uint32_t& size) {
  // BytesUntilLimit() is what the message has left, so a wrong size allocates no memory.
  return in.ReadVarint32(&size) && std::cmp_less_equal(size, in.BytesUntilLimit());
}

bool ReadText(CodedInputStream& in, std::string& text) {
  std::uint32_t size = 0;
  return ReadSize(in, size) && in.ReadString(&text, static_cast<int>(size));
}

bool ReadRaw(CodedInputStream& in, AnswerParts& parts) {
  std::uint32_t size = 0;
  if (!ReadSize(in, size)) return false;
  parts.raw.emplace_back(size);
  return in.ReadRaw(parts.raw.back().data(), static_cast<int>(size));
}

bool ReadOutput(CodedInputStream& in, AnswerParts& parts) {
  std::uint32_t size = 0;
  if (!ReadSize(in, size)) return false;
  ModelInferResponse::InferOutputTensor tensor;
  const auto limit = in.PushLimit(static_cast<int>(size));
  const bool read = tensor.MergeFromCodedStream(&in) && in.ConsumedEntireMessage();
  in.PopLimit(limit);
  const auto type = ParseOipType(tensor.datatype());
  if (!read || !type || tensor.has_contents()) return false;
  parts.response.outputs.push_back(
      OutputTensor{tensor.name(), *type, {tensor.shape().begin(), tensor.shape().end()}, {}});
  return true;
}

bool Skip(CodedInputStream& in, std::uint32_t type) {
  std::uint64_t number = 0;
  std::uint32_t size = 0;
  switch (type) {
    case kVarint:
      return in.ReadVarint64(&number);
    case kFixed64:
      return in.Skip(8);
    case kBytes:
      return ReadSize(in, size) && in.Skip(static_cast<int>(size));
    case kFixed32:
      return in.Skip(4);
    default:
      return false;
  }
}

bool ReadField(CodedInputStream& in, std::uint32_t tag, AnswerParts& parts) {
  const std::uint32_t type = tag & kTypeMask;
  if (type != kBytes) return Skip(in, type);
  switch (tag >> kTypeBits) {
    case ModelInferResponse::kModelNameFieldNumber:
      return ReadText(in, parts.response.model);
    case ModelInferResponse::kModelVersionFieldNumber:
      return ReadText(in, parts.response.version);
    case ModelInferResponse::kIdFieldNumber:
      return ReadText(in, parts.response.id);
    case ModelInferResponse::kOutputsFieldNumber:
      return ReadOutput(in, parts);
    case ModelInferResponse::kRawOutputContentsFieldNumber:
      return ReadRaw(in, parts);
    default:
      return Skip(in, type);
  }
}

bool ReadFields(grpc::ByteBuffer& answer, AnswerParts& parts) {
  if (answer.Length() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return false;
  grpc::ProtoBufferReader bytes(&answer);
  CodedInputStream in(&bytes);
  const auto limit = in.PushLimit(static_cast<int>(answer.Length()));
  while (const std::uint32_t tag = in.ReadTag()) {
    if (!ReadField(in, tag, parts)) return false;
  }
  const bool whole = in.ConsumedEntireMessage();
  in.PopLimit(limit);
  return whole;
}

Status FillSpecs(const google::protobuf::RepeatedPtrField<
                     inference::ModelMetadataResponse::TensorMetadata>& tensors,
                 std::vector<TensorSpec>& specs) {
  for (const auto& tensor : tensors) {
    const auto type = ParseOipType(tensor.datatype());
    if (!type) {
      return BadAnswer(
          fmt::format("names {} as the type of tensor {}, which is no type of the "
                      "protocol",
                      Quoted(tensor.datatype()), Quoted(tensor.name())));
    }
    specs.push_back(
        TensorSpec{tensor.name(), *type, {tensor.shape().begin(), tensor.shape().end()}});
  }
  return {};
}

StageStatistics StageOf(const inference::StatisticDuration& duration) {
  return {duration.count(), duration.ns()};
}

}  // namespace

grpc::ByteBuffer RequestBytes(const InferRequest& request, Nanoseconds left,
                              std::string_view front) {
  ModelInferRequest message;
  FillHead(request, left, front, message);
  std::string text = message.SerializeAsString();
  std::vector<grpc::Slice> slices;
  for (const InputTensor& input : request.inputs) {
    AppendVarint(ModelInferRequest::kRawInputContentsFieldNumber << kTypeBits | kBytes, text);
    AppendVarint(input.data.size(), text);
    if (input.data.size() < kLeastBorrowed || request.payload == nullptr) {
      text.append(reinterpret_cast<const char*>(input.data.data()), input.data.size());
      continue;
    }
    slices.emplace_back(text);
    text.clear();
    slices.push_back(Borrow(input.data, request.payload));
  }
  if (!text.empty() || slices.empty()) slices.emplace_back(text);
  return {slices.data(), slices.size()};
}

Result<InferResponse> ParseAnswer(grpc::ByteBuffer& answer) {
  AnswerParts parts;
  if (!ReadFields(answer, parts)) {
    return BadAnswer("is no ModelInferResponse with raw_output_contents");
  }
  std::vector<OutputTensor>& outputs = parts.response.outputs;
  if (outputs.size() != parts.raw.size()) {
    return BadAnswer(fmt::format("has {} entries of raw_output_contents for {} outputs",
                                 parts.raw.size(), outputs.size()));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!CheckTensorBytes(outputs[i].type, outputs[i].dims, parts.raw[i])) {
      return BadAnswer(fmt::format("has {} bytes for output {} of type {} and {} dimensions",
                                   parts.raw[i].size(), Quoted(outputs[i].name),
                                   OipName(outputs[i].type), outputs[i].dims.size()));
    }
    outputs[i].data = std::move(parts.raw[i]);
  }
  return std::move(parts.response);
}

Status CheckAnswer(const InferResponse& response, const Asked& asked) {
  const auto differs = [](std::string_view what, const std::string& has, const std::string& other) {
    return BadAnswer(
        fmt::format("has the {} {}, the request has {}", what, Quoted(has), Quoted(other)));
  };
  if (response.model != asked.model) return differs("model", response.model, asked.model);
  if (response.id != asked.id) return differs("id", response.id, asked.id);
  if (!asked.version.empty() && response.version != asked.version) {
    return differs("version", response.version, asked.version);
  }
  std::set<std::string_view> names;
  for (const OutputTensor& output : response.outputs) {
    if (!names.insert(output.name).second) {
      return BadAnswer(fmt::format("has the output {} twice", Quoted(output.name)));
    }
  }
  if (names.empty()) return BadAnswer("has no outputs");
  if (asked.outputs.empty()) return {};
  for (const std::string& output : asked.outputs) {
    if (!names.contains(output)) {
      return BadAnswer(fmt::format("lacks the output {}", Quoted(output)));
    }
  }
  const std::set<std::string_view> wanted(asked.outputs.begin(), asked.outputs.end());
  if (wanted.size() == names.size()) return {};
  return BadAnswer(
      fmt::format("has {} outputs, the request names {}", names.size(), wanted.size()));
}

Status CheckOutputs(const InferResponse& response, const ModelMetadata& model,
                    std::span<const std::string> outputs, std::span<const std::string> classified) {
  for (const OutputTensor& output : response.outputs) {
    const auto spec = std::ranges::find(model.outputs, output.name, &TensorSpec::name);
    if (spec == model.outputs.end()) {
      return BadAnswer(fmt::format("has the output {}, which the model {} lacks",
                                   Quoted(output.name), Quoted(model.name)));
    }
    const auto fits = [](std::int64_t size, std::int64_t takes) {
      return takes < 0 || size == takes;
    };
    // A tensor of which all sizes are open may have any rank (ServedModel::OutputSpecs).
    const bool open = !spec->dims.empty() &&
                      std::ranges::all_of(spec->dims, [](std::int64_t size) { return size < 0; });
    const bool shaped = open || std::ranges::equal(output.dims, spec->dims, fits);
    const bool classes = std::ranges::find(classified, output.name) != classified.end();
    if (classes ? output.type == DataType::kString : output.type == spec->type && shaped) continue;
    return BadAnswer(fmt::format("has the output {} as {} {}, and the model {} has it as {} {}",
                                 Quoted(output.name), OipName(output.type), ShownShape(output.dims),
                                 Quoted(model.name), OipName(spec->type), ShownShape(spec->dims)));
  }
  if (!outputs.empty() || response.outputs.size() == model.outputs.size()) return {};
  return BadAnswer(fmt::format("has {} outputs, and the model {} has {}", response.outputs.size(),
                               Quoted(model.name), model.outputs.size()));
}

Status CheckForms(const InferResponse& response, std::span<const std::string> outputs,
                  std::span<const OutputForm> forms, OutputForm form) {
  for (const OutputTensor& output : response.outputs) {
    OutputForm wanted = form;
    for (std::size_t i = 0; i < std::min(outputs.size(), forms.size()); ++i) {
      if (outputs[i] == output.name) wanted = forms[i];
    }
    const bool half = output.type == DataType::kFloat16 || output.type == DataType::kBFloat16;
    if (wanted == OutputForm::kText && half) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("model {}: output {} is {}, which JSON has no numbers for; ask for "
                              "binary data",
                              Quoted(response.model), Quoted(output.name), OipName(output.type)));
    }
  }
  return {};
}

Result<ModelMetadata> ParseMetadata(const inference::ModelMetadataResponse& message) {
  ModelMetadata model{message.name(),
                      {message.versions().begin(), message.versions().end()},
                      message.platform(),
                      {},
                      {}};
  LAGOON_RETURN_IF_ERROR(FillSpecs(message.inputs(), model.inputs));
  LAGOON_RETURN_IF_ERROR(FillSpecs(message.outputs(), model.outputs));
  return model;
}

std::vector<ModelStatistics> ParseStatistics(const inference::ModelStatisticsResponse& message) {
  std::vector<ModelStatistics> models;
  models.reserve(static_cast<std::size_t>(message.model_stats_size()));
  for (const auto& row : message.model_stats()) {
    ModelStatistics& model = models.emplace_back();
    model.name = row.name();
    model.version = row.version();
    model.last_inference_ms = row.last_inference();
    model.inference_count = row.inference_count();
    model.execution_count = row.execution_count();
    model.pending = row.pending();
    const auto& stages = row.inference_stats();
    model.success = StageOf(stages.success());
    model.fail = StageOf(stages.fail());
    model.queue = StageOf(stages.queue());
    model.compute_input = StageOf(stages.compute_input());
    model.compute_infer = StageOf(stages.compute_infer());
    model.compute_output = StageOf(stages.compute_output());
    for (const auto& batch : row.batch_stats()) {
      model.batches.push_back({batch.batch_size(), StageOf(batch.compute_input()),
                               StageOf(batch.compute_infer()), StageOf(batch.compute_output())});
    }
  }
  return models;
}

Error ErrorOf(const grpc::Status& status, std::string_view member) {
  const ErrorCode code = ErrorCodeOf(status.error_code());
  const std::string text = CutMessage(status.error_message());
  switch (code) {
    case ErrorCode::kUnavailable:
    case ErrorCode::kInternal:
      return {code, fmt::format("{}: {}", member, text)};
    default:
      return {code, text};
  }
}

}  // namespace lagoon
