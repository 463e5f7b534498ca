#include "server/grpc/grpc_codec.h"

#include "server/error_map.h"
#include "server/oip_json.h"

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

void FillDuration(const StageStatistics& stage, inference::StatisticDuration& message) {
  message.set_count(stage.count);
  message.set_ns(stage.ns);
}

}  // namespace

void FillGrpcInfer(InferResponse response, const EdgeStamps* stamps,
                   inference::ModelInferResponse& message) {
  message.set_model_name(std::move(response.model));
  message.set_model_version(std::move(response.version));
  message.set_id(std::move(response.id));
  if (stamps != nullptr) {
    for (const Stage& stage : Stages(*stamps, response, Now())) {
      (*message.mutable_parameters())[std::string(stage.name)].set_double_param(stage.us);
    }
  }
  for (OutputTensor& output : response.outputs) {
    auto& tensor = *message.add_outputs();
    tensor.set_name(std::move(output.name));
    tensor.set_datatype(std::string(OipName(output.type)));
    tensor.mutable_shape()->Add(output.dims.begin(), output.dims.end());
    message.add_raw_output_contents(output.data.data(), output.data.size());
  }
}

void FillServerMetadata(bool model_control, inference::ServerMetadataResponse& message) {
  message.set_name(std::string(kServerName));
  message.set_version(std::string(ServerVersion()));
  for (const std::string_view extension : ServerExtensions(model_control)) {
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
