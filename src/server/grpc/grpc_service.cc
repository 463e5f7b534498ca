#include "server/grpc/grpc_service.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <map>
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

GrpcEnd GrpcService::ServerLive(const inference::ServerLiveRequest& /*request*/,
                                inference::ServerLiveResponse& response) {
  response.set_live(true);
  return grpc::Status::OK;
}

GrpcEnd GrpcService::ServerReady(const inference::ServerReadyRequest& /*request*/,
                                 inference::ServerReadyResponse& response) {
  response.set_ready(IsReady(parts_.core, options_.strict_readiness));
  return grpc::Status::OK;
}

GrpcEnd GrpcService::ModelReady(const inference::ModelReadyRequest& request,
                                inference::ModelReadyResponse& response) {
  const lagoon::Status ready = parts_.core.ModelReady(request.name(), request.version());
  const bool is_answer = ready || ready.error().code == ErrorCode::kUnavailable ||
                         ready.error().code == ErrorCode::kNotFound;
  if (!is_answer) return GrpcStatus(ready.error());
  response.set_ready(ready.has_value());  // clients wait so for a model that is yet to come
  return grpc::Status::OK;
}

GrpcEnd GrpcService::ServerMetadata(const inference::ServerMetadataRequest& /*request*/,
                                    inference::ServerMetadataResponse& response) {
  FillServerMetadata({options_.model_control, parts_.regions.on()}, response);
  GrpcTrailers trailers = {{kServerKey, options_.id},
                           {kHttpPortKey, std::to_string(options_.http_port)},
                           {kModelsKey, SignOf(parts_.core.Models())}};
  if (const FleetControl* const fleet = parts_.core.fleet(); fleet != nullptr) {
    trailers.emplace_back(kFrontsKey, fmt::format("{}", fmt::join(fleet->Fronts(), ",")));
  }
  return {grpc::Status::OK, std::move(trailers)};
}

GrpcEnd GrpcService::ModelMetadata(const inference::ModelMetadataRequest& request,
                                   inference::ModelMetadataResponse& response) {
  const auto model = parts_.core.Metadata(request.name(), request.version());
  if (!model) return GrpcStatus(model.error());
  FillModelMetadata(*model, response);
  return grpc::Status::OK;
}

GrpcEnd GrpcService::ModelConfig(const inference::ModelConfigRequest& request,
                                 inference::ModelConfigResponse& response) {
  const auto config = parts_.core.Config(request.name(), request.version());
  if (!config) return GrpcStatus(config.error());
  *response.mutable_config() = *config;
  return grpc::Status::OK;
}

GrpcEnd GrpcService::ModelStatistics(const inference::ModelStatisticsRequest& request,
                                     inference::ModelStatisticsResponse& response) {
  const auto models = parts_.core.Statistics(request.name(), request.version());
  if (!models) return GrpcStatus(models.error());
  FillStatistics(*models, response);
  return grpc::Status::OK;
}

GrpcEnd GrpcService::RepositoryIndex(const inference::RepositoryIndexRequest& request,
                                     inference::RepositoryIndexResponse& response) {
  for (RepositoryRow& row : lagoon::RepositoryIndex(parts_.core, request.ready())) {
    inference::RepositoryIndexResponse::ModelIndex& model = *response.add_models();
    model.set_name(std::move(row.name));
    model.set_version(std::move(row.version));
    model.set_state(std::string(row.state));
    model.set_reason(std::move(row.reason));
  }
  return grpc::Status::OK;
}

/// A load, or an unload: answered when the change is made, from a thread of the core.
template <typename Request, typename Response, bool kLoad>
class GrpcService::ChangeCall final : public GrpcUnaryCall<Request> {
 public:
  ChangeCall(GrpcService& service, std::shared_ptr<GrpcCall> call)
      : GrpcUnaryCall<Request>(std::move(call)), service_(service) {}

 private:
  void Handle(const Request& request) override {
    const lagoon::Status begun = Begin(request);
    if (!begun) this->call().Finish(GrpcStatus(begun.error()));
  }

  lagoon::Status Begin(const Request& request) {
    Inference& core = service_.parts_.core;
    if (!service_.options_.model_control) {
      return tl::unexpected<Error>(NoModelControl(core.fleet() != nullptr));
    }
    if (!service_.options_.admin) {
      this->call().Finish(OnAdminPort(kLoad ? "models are loaded" : "models are unloaded"));
      return {};
    }
    LAGOON_ASSIGN_OR_RETURN(ChangeWords with, WordsOf(request.parameters()));
    RepositoryControl* const repository = core.repository();
    if (repository == nullptr) {
      return tl::unexpected<Error>(
          NoRepository(request.model_name(), kLoad ? "loaded" : "unloaded"));
    }
    auto done = [call = this->shared_call(), hold = service_.parts_.pool.Hold(),
                 model = request.model_name()](lagoon::Status made) mutable {
      GrpcCall& answered = *call;
      GrpcCall::Post(std::move(call), [&answered, made, model] {
        const lagoon::Status status = ForClients(kLoad, model, made);
        if (status) answered.Write({{{Response().SerializeAsString()}}}, {});
        answered.Finish(status ? grpc::Status::OK : GrpcStatus(status.error()));
      });
      hold.reset();
    };
    if constexpr (kLoad) {
      repository->LoadModel(request.model_name(), std::move(with), std::move(done));
    } else {
      UnloadModel(core, request.model_name(), with.with_steps, std::move(done));
    }
    return {};
  }

  GrpcService& service_;
};

GrpcEnd GrpcService::SystemSharedMemoryStatus(
    const inference::SystemSharedMemoryStatusRequest& request,
    inference::SystemSharedMemoryStatusResponse& response) {
  const auto regions = parts_.regions.List(request.name());
  if (!regions) return GrpcStatus(regions.error());
  for (const RegionSpec& region : *regions) {
    auto& row = (*response.mutable_regions())[region.name];
    row.set_name(region.name);
    row.set_key(region.key);
    row.set_offset(region.offset);
    row.set_byte_size(region.bytes);
  }
  return grpc::Status::OK;
}

GrpcEnd GrpcService::SystemSharedMemoryRegister(
    const inference::SystemSharedMemoryRegisterRequest& request,
    inference::SystemSharedMemoryRegisterResponse& /*response*/) {
  const lagoon::Status registered = parts_.regions.Register(
      {request.name(), request.key(), request.offset(), request.byte_size()});
  return registered ? grpc::Status::OK : GrpcStatus(registered.error());
}

GrpcEnd GrpcService::SystemSharedMemoryUnregister(
    const inference::SystemSharedMemoryUnregisterRequest& request,
    inference::SystemSharedMemoryUnregisterResponse& /*response*/) {
  request.name().empty() ? parts_.regions.UnregisterAll()
                         : parts_.regions.Unregister(request.name());
  return grpc::Status::OK;
}

GrpcEnd GrpcService::CudaSharedMemoryStatus(
    const inference::CudaSharedMemoryStatusRequest& request,
    inference::CudaSharedMemoryStatusResponse& /*response*/) {
  const std::string& name = request.name();
  return name.empty() ? grpc::Status::OK : GrpcStatus(NoCudaRegion(name));
}

GrpcEnd GrpcService::CudaSharedMemoryRegister(
    const inference::CudaSharedMemoryRegisterRequest& request,
    inference::CudaSharedMemoryRegisterResponse& /*response*/) {
  return GrpcStatus(NoCudaRegister(request.name()));
}

GrpcEnd GrpcService::CudaSharedMemoryUnregister(
    const inference::CudaSharedMemoryUnregisterRequest& /*request*/,
    inference::CudaSharedMemoryUnregisterResponse& /*response*/) {
  return grpc::Status::OK;
}

GrpcEnd GrpcService::TraceSetting(const inference::TraceSettingRequest& request,
                                  inference::TraceSettingResponse& response) {
  if (!request.model_name().empty()) {
    const auto model = parts_.core.Metadata(request.model_name(), "");
    if (!model) return GrpcStatus(model.error());
  }
  TraceSettings changes;
  for (const auto& [name, value] : request.settings()) {
    changes[name].assign(value.value().begin(), value.value().end());
  }
  const lagoon::Status checked = CheckTraceSettings(options_.tracing, changes);
  if (!checked) return GrpcStatus(checked.error());
  for (const auto& [name, values] : ReadTraceSettings(options_.tracing)) {
    (*response.mutable_settings())[name].mutable_value()->Add(values.begin(), values.end());
  }
  return grpc::Status::OK;
}

GrpcEnd GrpcService::LogSettings(const inference::LogSettingsRequest& request,
                                 inference::LogSettingsResponse& response) {
  if (!request.settings().empty() && !options_.admin) {
    return OnAdminPort("the log is set");
  }
  lagoon::LogSettings changes;
  for (const auto& [name, value] : request.settings()) {
    if (value.has_bool_param()) {
      changes[name] = value.bool_param();
    } else if (value.has_uint32_param()) {
      changes[name] = std::uint64_t{value.uint32_param()};
    } else {
      changes[name] = value.string_param();
    }
  }
  const lagoon::Status changed = ChangeLogSettings(changes);
  if (!changed) return GrpcStatus(changed.error());
  for (const auto& [name, value] : ReadLogSettings()) {
    auto& setting = (*response.mutable_settings())[name];
    if (const auto* flag = std::get_if<bool>(&value)) {
      setting.set_bool_param(*flag);
    } else if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      setting.set_uint32_param(static_cast<std::uint32_t>(*number));
    } else {
      setting.set_string_param(std::get<std::string>(value));
    }
  }
  return grpc::Status::OK;
}

// ---- The methods by name

/// Makes the object of a call of a method that answers at once.
template <typename Request, typename Response>
std::shared_ptr<GrpcMethod> GrpcService::Simple(GrpcEnd (GrpcService::*method)(const Request&,
                                                                               Response&),
                                                std::shared_ptr<GrpcCall> call) {
  return std::make_shared<GrpcSimpleCall<Request, Response>>(
      std::move(call), [this, method](const Request& request, Response& response) {
        return (this->*method)(request, response);
      });
}

template <auto kMethod>
std::shared_ptr<GrpcMethod> GrpcService::Make(GrpcService& service,
                                              std::shared_ptr<GrpcCall> call) {
  return service.Simple(kMethod, std::move(call));
}

GrpcService::Maker GrpcService::MakerOf(std::string_view method) {
  using Load = ChangeCall<inference::RepositoryModelLoadRequest,
                          inference::RepositoryModelLoadResponse, true>;
  using Unload = ChangeCall<inference::RepositoryModelUnloadRequest,
                            inference::RepositoryModelUnloadResponse, false>;
  static const std::map<std::string_view, Maker> kMakers = {
      {"ModelInfer",
       [](GrpcService& service, std::shared_ptr<GrpcCall> call) -> std::shared_ptr<GrpcMethod> {
         return std::make_shared<GrpcInferCall>(service.parts_, std::move(call));
       }},
      {"ModelStreamInfer",
       [](GrpcService& service, std::shared_ptr<GrpcCall> call) -> std::shared_ptr<GrpcMethod> {
         return GrpcStreamCall::Begin(service.parts_, service.streams_, std::move(call));
       }},
      {"RepositoryModelLoad",
       [](GrpcService& service, std::shared_ptr<GrpcCall> call) -> std::shared_ptr<GrpcMethod> {
         return std::make_shared<Load>(service, std::move(call));
       }},
      {"RepositoryModelUnload",
       [](GrpcService& service, std::shared_ptr<GrpcCall> call) -> std::shared_ptr<GrpcMethod> {
         return std::make_shared<Unload>(service, std::move(call));
       }},
      {"ServerLive", &Make<&GrpcService::ServerLive>},
      {"ServerReady", &Make<&GrpcService::ServerReady>},
      {"ServerMetadata", &Make<&GrpcService::ServerMetadata>},
      {"ModelReady", &Make<&GrpcService::ModelReady>},
      {"ModelMetadata", &Make<&GrpcService::ModelMetadata>},
      {"ModelConfig", &Make<&GrpcService::ModelConfig>},
      {"ModelStatistics", &Make<&GrpcService::ModelStatistics>},
      {"RepositoryIndex", &Make<&GrpcService::RepositoryIndex>},
      {"SystemSharedMemoryStatus", &Make<&GrpcService::SystemSharedMemoryStatus>},
      {"SystemSharedMemoryRegister", &Make<&GrpcService::SystemSharedMemoryRegister>},
      {"SystemSharedMemoryUnregister", &Make<&GrpcService::SystemSharedMemoryUnregister>},
      {"CudaSharedMemoryStatus", &Make<&GrpcService::CudaSharedMemoryStatus>},
      {"CudaSharedMemoryRegister", &Make<&GrpcService::CudaSharedMemoryRegister>},
      {"CudaSharedMemoryUnregister", &Make<&GrpcService::CudaSharedMemoryUnregister>},
      {"TraceSetting", &Make<&GrpcService::TraceSetting>},
      {"LogSettings", &Make<&GrpcService::LogSettings>},
  };
  const auto found = kMakers.find(method);
  return found == kMakers.end() ? nullptr : found->second;
}

GrpcEnd GrpcService::CheckHealth(const GrpcHealth::Request& request,
                                 GrpcHealth::Response& response) {
  const auto status = health_.StatusOf(request.service());
  if (status == GrpcHealth::Response::UNKNOWN) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND,
                        fmt::format("the server has no service {}", Quoted(request.service())));
  }
  response.set_status(status);
  return grpc::Status::OK;
}

std::shared_ptr<GrpcMethod> GrpcService::Begin(const std::shared_ptr<GrpcCall>& call) {
  constexpr std::string_view kService = "/inference.GRPCInferenceService/";
  const std::string_view method = call->head().method;
  if (method.starts_with(kService)) {
    if (const Maker make = MakerOf(method.substr(kService.size()))) return make(*this, call);
  }
  if (method == "/grpc.health.v1.Health/Check") return Simple(&GrpcService::CheckHealth, call);
  if (method == "/grpc.health.v1.Health/Watch") return health_.Watch(call);
  const std::string_view extension = UnservedExtensionOfRpc(method);
  call->Finish({grpc::StatusCode::UNIMPLEMENTED,
                extension.empty() ? fmt::format("method {} is not served", Quoted(method))
                                  : UnservedMessage(extension)});
  return nullptr;
}

}  // namespace lagoon
