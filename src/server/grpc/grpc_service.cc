#include "server/grpc/grpc_service.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "server/extensions/server_settings.h"
#include "server/fleet/repository.h"
#include "server/grpc/grpc_codec.h"
#include "server/regions/shared_regions.h"
#include "server/unserved.h"
#include "serving/core/fleet_control.h"
#include "serving/core/repository_control.h"

namespace lagoon {
namespace {

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, grpc::Status status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(std::move(status));
  return reactor;
}

// `what`: what this port does not do.
grpc::Status OnAdminPort(std::string_view what) {
  return {grpc::StatusCode::PERMISSION_DENIED,
          fmt::format("{} on the metrics port, over HTTP; `lagoon serve --allow-admin-on-http` "
                      "allows it here",
                      what)};
}

using RepositoryParameters =
    google::protobuf::Map<std::string, inference::ModelRepositoryParameter>;

// As ParseRepositoryBody() of HTTP.
Result<ChangeWords> WordsOf(const RepositoryParameters& parameters) {
  ChangeWords with;
  for (const auto& [name, value] : parameters) {
    const bool file = name.starts_with(kFileParameter);
    if (name == kStepsParameter && value.has_bool_param()) {
      with.with_steps = value.bool_param();
    } else if (name == kStepsParameter) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("parameter {} must be a bool_param", Quoted(name)));
    } else if (!file && name != kConfigParameter) {
      return tl::unexpected<Error>(UnknownParameter(name));
    } else if (file ? !value.has_bytes_param() : !value.has_string_param()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("parameter {} must be {}", Quoted(name),
                              file ? "a bytes_param" : "a string_param"));
    } else if (file) {
      with.files[name.substr(kFileParameter.size())] = value.bytes_param();
    } else {
      with.config = value.string_param();
    }
  }
  return with;
}

/// 16 hexadecimal digits of all that is told of the models. The time of a load tells two loads of
/// a model apart.
std::string SignOf(const std::vector<ModelStatus>& models) {
  std::string text;
  for (const ModelStatus& model : models) {
    fmt::format_to(std::back_inserter(text), "{}:{}:{}:{}:{}\n", model.name, model.version,
                   static_cast<int>(model.state), model.load_ms, model.told);
  }
  return fmt::format("{:016x}", std::hash<std::string>()(text));
}

}  // namespace

grpc::ServerUnaryReactor* GrpcService::ServerLive(Context* context,
                                                  const inference::ServerLiveRequest*,
                                                  inference::ServerLiveResponse* response) {
  response->set_live(true);
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ServerReady(Context* context,
                                                   const inference::ServerReadyRequest*,
                                                   inference::ServerReadyResponse* response) {
  response->set_ready(IsReady(core_, options_.strict_readiness));
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ModelReady(Context* context,
                                                  const inference::ModelReadyRequest* request,
                                                  inference::ModelReadyResponse* response) {
  const lagoon::Status ready = core_.ModelReady(request->name(), request->version());
  const bool is_answer = ready || ready.error().code == ErrorCode::kUnavailable ||
                         ready.error().code == ErrorCode::kNotFound;
  if (!is_answer) return Answer(context, GrpcStatus(ready.error()));
  response->set_ready(ready.has_value());  // clients wait so for a model that is yet to come
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ServerMetadata(Context* context,
                                                      const inference::ServerMetadataRequest*,
                                                      inference::ServerMetadataResponse* response) {
  FillServerMetadata({options_.model_control, regions_.on()}, *response);
  context->AddTrailingMetadata(kServerKey, options_.id);
  context->AddTrailingMetadata(kHttpPortKey, std::to_string(options_.http_port));
  context->AddTrailingMetadata(kModelsKey, SignOf(core_.Models()));
  if (const FleetControl* const fleet = core_.fleet(); fleet != nullptr) {
    context->AddTrailingMetadata(kFrontsKey, fmt::format("{}", fmt::join(fleet->Fronts(), ",")));
  }
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ModelMetadata(Context* context,
                                                     const inference::ModelMetadataRequest* request,
                                                     inference::ModelMetadataResponse* response) {
  const auto model = core_.Metadata(request->name(), request->version());
  if (!model) return Answer(context, GrpcStatus(model.error()));
  FillModelMetadata(*model, *response);
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ModelInfer(Context* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  auto* call = new GrpcInferCall({core_, pool_, regions_}, *context, *response);
  // The buffer belongs to this call. Parsing frees it, so that a waiting request holds its tensors
  // only once.
  call->Start(*const_cast<grpc::ByteBuffer*>(request), *messages_);
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GrpcService::ModelStreamInfer(
    Context* context) {
  return GrpcStreamCall::Start({core_, pool_, *messages_, streams_, regions_}, *context);
}

grpc::ServerUnaryReactor* GrpcService::ModelConfig(Context* context,
                                                   const inference::ModelConfigRequest* request,
                                                   inference::ModelConfigResponse* response) {
  const auto config = core_.Config(request->name(), request->version());
  if (!config) return Answer(context, GrpcStatus(config.error()));
  *response->mutable_config() = *config;
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ModelStatistics(
    Context* context, const inference::ModelStatisticsRequest* request,
    inference::ModelStatisticsResponse* response) {
  const auto models = core_.Statistics(request->name(), request->version());
  if (!models) return Answer(context, GrpcStatus(models.error()));
  FillStatistics(*models, *response);
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::RepositoryIndex(
    Context* context, const inference::RepositoryIndexRequest* request,
    inference::RepositoryIndexResponse* response) {
  for (RepositoryRow& row : lagoon::RepositoryIndex(core_.Models(), request->ready())) {
    inference::RepositoryIndexResponse::ModelIndex& model = *response->add_models();
    model.set_name(std::move(row.name));
    model.set_version(std::move(row.version));
    model.set_state(std::string(row.state));
    model.set_reason(std::move(row.reason));
  }
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::RepositoryModelLoad(
    Context* context, const inference::RepositoryModelLoadRequest* request,
    inference::RepositoryModelLoadResponse* /*response*/) {
  return Change(context, *request, /*load=*/true);
}

grpc::ServerUnaryReactor* GrpcService::RepositoryModelUnload(
    Context* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse* /*response*/) {
  return Change(context, *request, /*load=*/false);
}

template <typename Request>
grpc::ServerUnaryReactor* GrpcService::Change(Context* context, const Request& request, bool load) {
  if (!options_.model_control) {
    return Answer(context, GrpcStatus(NoModelControl(core_.fleet() != nullptr)));
  }
  if (!options_.admin) {
    return Answer(context, OnAdminPort(load ? "models are loaded" : "models are unloaded"));
  }
  lagoon::Result<ChangeWords> with = WordsOf(request.parameters());
  if (!with) return Answer(context, GrpcStatus(with.error()));
  RepositoryControl* const repository = core_.repository();
  if (repository == nullptr) {
    return Answer(context,
                  GrpcStatus(NoRepository(request.model_name(), load ? "loaded" : "unloaded")));
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  auto done = [load, reactor, model = request.model_name()](lagoon::Status made) {
    const lagoon::Status status = ForClients(load, model, made);
    reactor->Finish(status ? grpc::Status::OK : GrpcStatus(status.error()));
  };
  if (load) {
    repository->LoadModel(request.model_name(), *std::move(with), std::move(done));
  } else {
    UnloadModel(core_, request.model_name(), with->with_steps, std::move(done));
  }
  return reactor;
}

grpc::ServerUnaryReactor* GrpcService::SystemSharedMemoryStatus(
    Context* context, const inference::SystemSharedMemoryStatusRequest* request,
    inference::SystemSharedMemoryStatusResponse* response) {
  const auto regions = regions_.List(request->name());
  if (!regions) return Answer(context, GrpcStatus(regions.error()));
  for (const RegionSpec& region : *regions) {
    auto& row = (*response->mutable_regions())[region.name];
    row.set_name(region.name);
    row.set_key(region.key);
    row.set_offset(region.offset);
    row.set_byte_size(region.bytes);
  }
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::SystemSharedMemoryRegister(
    Context* context, const inference::SystemSharedMemoryRegisterRequest* request,
    inference::SystemSharedMemoryRegisterResponse* /*response*/) {
  const lagoon::Status registered =
      regions_.Register({request->name(), request->key(), request->offset(), request->byte_size()});
  return Answer(context, registered ? grpc::Status::OK : GrpcStatus(registered.error()));
}

grpc::ServerUnaryReactor* GrpcService::SystemSharedMemoryUnregister(
    Context* context, const inference::SystemSharedMemoryUnregisterRequest* request,
    inference::SystemSharedMemoryUnregisterResponse* /*response*/) {
  request->name().empty() ? regions_.UnregisterAll() : regions_.Unregister(request->name());
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::CudaSharedMemoryStatus(
    Context* context, const inference::CudaSharedMemoryStatusRequest* request,
    inference::CudaSharedMemoryStatusResponse* /*response*/) {
  const std::string& name = request->name();
  return Answer(context, name.empty() ? grpc::Status::OK : GrpcStatus(NoCudaRegion(name)));
}

grpc::ServerUnaryReactor* GrpcService::CudaSharedMemoryRegister(
    Context* context, const inference::CudaSharedMemoryRegisterRequest* request,
    inference::CudaSharedMemoryRegisterResponse* /*response*/) {
  return Answer(context, GrpcStatus(NoCudaRegister(request->name())));
}

grpc::ServerUnaryReactor* GrpcService::CudaSharedMemoryUnregister(
    Context* context, const inference::CudaSharedMemoryUnregisterRequest* /*request*/,
    inference::CudaSharedMemoryUnregisterResponse* /*response*/) {
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::TraceSetting(Context* context,
                                                    const inference::TraceSettingRequest* request,
                                                    inference::TraceSettingResponse* response) {
  if (!request->model_name().empty()) {
    const auto model = core_.Metadata(request->model_name(), "");
    if (!model) return Answer(context, GrpcStatus(model.error()));
  }
  TraceSettings changes;
  for (const auto& [name, value] : request->settings()) {
    changes[name].assign(value.value().begin(), value.value().end());
  }
  const lagoon::Status checked = CheckTraceSettings(options_.tracing, changes);
  if (!checked) return Answer(context, GrpcStatus(checked.error()));
  for (const auto& [name, values] : ReadTraceSettings(options_.tracing)) {
    (*response->mutable_settings())[name].mutable_value()->Add(values.begin(), values.end());
  }
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::LogSettings(Context* context,
                                                   const inference::LogSettingsRequest* request,
                                                   inference::LogSettingsResponse* response) {
  if (!request->settings().empty() && !options_.admin) {
    return Answer(context, OnAdminPort("the log is set"));
  }
  lagoon::LogSettings changes;
  for (const auto& [name, value] : request->settings()) {
    if (value.has_bool_param()) {
      changes[name] = value.bool_param();
    } else if (value.has_uint32_param()) {
      changes[name] = std::uint64_t{value.uint32_param()};
    } else {
      changes[name] = value.string_param();
    }
  }
  const lagoon::Status changed = ChangeLogSettings(changes);
  if (!changed) return Answer(context, GrpcStatus(changed.error()));
  for (const auto& [name, value] : ReadLogSettings()) {
    auto& setting = (*response->mutable_settings())[name];
    if (const auto* flag = std::get_if<bool>(&value)) {
      setting.set_bool_param(*flag);
    } else if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      setting.set_uint32_param(static_cast<std::uint32_t>(*number));
    } else {
      setting.set_string_param(std::get<std::string>(value));
    }
  }
  return Answer(context, grpc::Status::OK);
}

}  // namespace lagoon
