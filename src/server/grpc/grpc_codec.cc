#include "server/grpc/grpc_codec.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "server/error_map.h"
#include "server/tensors/classes.h"

namespace lagoon {
namespace {

using TensorMessages =
    google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata>;

void FillTensors(std::span<const TensorSpec> specs, TensorMessages& messages) {
  for (const TensorSpec& spec : specs) {
    auto& tensor = *messages.Add();
    tensor.set_name(spec.name);
    tensor.set_datatype(std::string(OipName(spec.type)));
    tensor.mutable_shape()->Add(spec.dims.begin(), spec.dims.end());
  }
}

// Whether a decoupled model's answer is the last one.
constexpr const char* kFinalKey = "triton_final_response";
// Readers of protobuf refuse messages from 2 GiB on. The rest of an answer is far below 1 MiB.
constexpr std::size_t kMostAnswerBytes = (std::size_t{2} << 30) - (std::size_t{1} << 20);

void SetParameter(const decltype(RequestParameter::value)& value,
                  inference::InferParameter& parameter) {
  std::visit(
      [&parameter]<typename T>(const T& set) {
        if constexpr (std::is_same_v<T, bool>) parameter.set_bool_param(set);
        if constexpr (std::is_same_v<T, std::int64_t>) parameter.set_int64_param(set);
        if constexpr (std::is_same_v<T, std::uint64_t>) parameter.set_uint64_param(set);
        if constexpr (std::is_same_v<T, double>) parameter.set_double_param(set);
        if constexpr (std::is_same_v<T, std::string>) parameter.set_string_param(set);
      },
      value);
}

/// All of the message but the outputs' data.
std::string RenderHead(const InferResponse& response, const EdgeStamps* stamps,
                       const OutputRegions& regions) {
  inference::ModelInferResponse message;
  message.set_model_name(response.model);
  message.set_model_version(response.version);
  message.set_id(response.id);
  for (const RequestParameter& parameter : response.parameters) {
    SetParameter(parameter.value, (*message.mutable_parameters())[parameter.name]);
  }
  if (response.part != AnswerPart::kOnly) {
    (*message.mutable_parameters())[kFinalKey].set_bool_param(response.part == AnswerPart::kEnd);
  }
  if (stamps != nullptr) {
    for (const Stage& stage : Stages(*stamps, response, Now())) {
      (*message.mutable_parameters())[std::string(stage.name)].set_double_param(stage.us);
    }
  }
  for (const OutputTensor& output : response.outputs) {
    auto& tensor = *message.add_outputs();
    tensor.set_name(output.name);
    tensor.set_datatype(std::string(OipName(output.type)));
    tensor.mutable_shape()->Add(output.dims.begin(), output.dims.end());
    const RegionPart* const part = regions.Find(output.name);
    if (part == nullptr) continue;
    auto& parameters = *tensor.mutable_parameters();
    parameters["shared_memory_region"].set_string_param(part->region);
    parameters["shared_memory_byte_size"].set_int64_param(static_cast<std::int64_t>(part->bytes));
    if (part->offset == 0) continue;
    parameters["shared_memory_offset"].set_int64_param(static_cast<std::int64_t>(part->offset));
  }
  return message.SerializeAsString();
}

/// The tag and the length that come before `bytes` bytes of a field.
void AppendHead(int field, std::size_t bytes, std::string& text) {
  using Wire = google::protobuf::internal::WireFormatLite;
  google::protobuf::io::StringOutputStream stream(&text);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.WriteTag(Wire::MakeTag(field, Wire::WIRETYPE_LENGTH_DELIMITED));
  out.WriteVarint32(static_cast<std::uint32_t>(bytes));
}

void FillDuration(const StageStatistics& stage, inference::StatisticDuration& message) {
  message.set_count(stage.count);
  message.set_ns(stage.ns);
}

}  // namespace

Result<GrpcBytes> RenderGrpcInfer(InferResponse response, const EdgeStamps* stamps,
                                  const OutputRegions& regions) {
  LAGOON_RETURN_IF_ERROR(RenderClasses(response));
  std::size_t bytes = 0;
  for (const OutputTensor& output : response.outputs) bytes += output.data.size();
  if (bytes > kMostAnswerBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the outputs have {} bytes; a gRPC message has at most 2 GiB: ask for "
                            "fewer outputs, or ask over HTTP",
                            bytes));
  }
  // The outputs' data is the message's last field, so that the rest can be serialized before.
  GrpcBytes answer;
  answer.parts.push_back({RenderHead(response, stamps, regions)});
  for (OutputTensor& output : response.outputs) {
    if (answer.parts.back().data.size() > 0) answer.parts.emplace_back();
    GrpcBytes::Part& part = answer.parts.back();
    AppendHead(inference::ModelInferResponse::kRawOutputContentsFieldNumber, output.data.size(),
               part.text);
    part.data = std::move(output.data);
  }
  return answer;
}

GrpcBytes WrapForStream(GrpcBytes answer) {
  std::string head;
  AppendHead(inference::ModelStreamInferResponse::kInferResponseFieldNumber, answer.size(), head);
  answer.parts.front().text.insert(0, head);
  return answer;
}

GrpcBytes RenderStreamError(const Error& error, const std::string& id, bool last) {
  inference::ModelStreamInferResponse message;
  const grpc::Status status = GrpcStatus(error);
  // Clients of streams see the message only (tritonclient).
  message.set_error_message(
      id.empty() ? status.error_message()
                 : fmt::format("request {}: {}", Quoted(id), status.error_message()));
  inference::ModelInferResponse& answer = *message.mutable_infer_response();
  answer.set_id(id);
  (*answer.mutable_parameters())["lagoon_code"].set_int64_param(status.error_code());
  (*answer.mutable_parameters())[kFinalKey].set_bool_param(last);
  return {{{message.SerializeAsString()}}};
}

void FillServerMetadata(const ServedExtensions& served,
                        inference::ServerMetadataResponse& message) {
  message.set_name(std::string(kServerName));
  message.set_version(std::string(ServerVersion()));
  for (const std::string_view extension : ServerExtensions(served)) {
    message.add_extensions(std::string(extension));
  }
}

void FillModelMetadata(const ModelMetadata& model, inference::ModelMetadataResponse& message) {
  message.set_name(model.name);
  for (const std::string& version : model.versions) message.add_versions(version);
  message.set_platform(model.platform);
  FillTensors(model.inputs, *message.mutable_inputs());
  FillTensors(model.outputs, *message.mutable_outputs());
}

void FillStatistics(std::span<const ModelStatistics> models,
                    inference::ModelStatisticsResponse& message) {
  for (const ModelStatistics& model : models) {
    auto& row = *message.add_model_stats();
    row.set_name(model.name);
    row.set_version(model.version);
    row.set_last_inference(model.last_inference_ms);
    row.set_inference_count(model.inference_count);
    row.set_execution_count(model.execution_count);
    row.set_pending(model.pending);
    auto& stats = *row.mutable_inference_stats();
    FillDuration(model.success, *stats.mutable_success());
    FillDuration(model.fail, *stats.mutable_fail());
    FillDuration(model.queue, *stats.mutable_queue());
    FillDuration(model.compute_input, *stats.mutable_compute_input());
    FillDuration(model.compute_infer, *stats.mutable_compute_infer());
    FillDuration(model.compute_output, *stats.mutable_compute_output());
    FillDuration({}, *stats.mutable_cache_hit());
    FillDuration({}, *stats.mutable_cache_miss());
    for (const BatchStatistics& batch : model.batches) {
      auto& of_size = *row.add_batch_stats();
      of_size.set_batch_size(batch.batch_size);
      FillDuration(batch.compute_input, *of_size.mutable_compute_input());
      FillDuration(batch.compute_infer, *of_size.mutable_compute_infer());
      FillDuration(batch.compute_output, *of_size.mutable_compute_output());
    }
  }
}

grpc::Status GrpcStatus(const Error& error) {
  return {GrpcCode(error.code), CutMessage(error.message)};
}

}  // namespace lagoon
