#include "server/grpc/grpc_service.h"

#include <fmt/format.h>

#include <utility>

#include "server/fleet/repository.h"
#include "server/grpc/grpc_codec.h"
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
  FillServerMetadata(options_.model_control, *response);
  context->AddTrailingMetadata(kServerKey, options_.id);
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
  auto* call = new GrpcInferCall(core_, pool_, *context, *response);
  // The buffer belongs to this call. Parsing frees it, so that a waiting request holds its tensors
  // only once.
  call->Start(*const_cast<grpc::ByteBuffer*>(request), *messages_);
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GrpcService::ModelStreamInfer(
    Context* context) {
  return GrpcStreamCall::Start({core_, pool_, *messages_, streams_}, *context);
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
  return Change(context, *request, &RepositoryControl::LoadModel);
}

grpc::ServerUnaryReactor* GrpcService::RepositoryModelUnload(
    Context* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse* /*response*/) {
  return Change(context, *request, &RepositoryControl::UnloadModel);
}

template <typename Request>
grpc::ServerUnaryReactor* GrpcService::Change(
    Context* context, const Request& request,
    void (RepositoryControl::*change)(const std::string&, std::function<void(lagoon::Status)>)) {
  if (!options_.model_control) {
    return Answer(context, GrpcStatus(NoModelControl(core_.fleet() != nullptr)));
  }
  for (const auto& [name, value] : request.parameters()) {
    const lagoon::Status known = CheckRepositoryParameter(name);
    if (!known) return Answer(context, GrpcStatus(known.error()));
  }
  RepositoryControl* const repository = core_.repository();
  if (repository == nullptr) {
    const bool load = change == &RepositoryControl::LoadModel;
    const Error none = NoRepository(request.model_name(), load ? "loaded" : "unloaded");
    return Answer(context, GrpcStatus(none));
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  (repository->*change)(
      request.model_name(), [reactor, model = request.model_name()](lagoon::Status status) {
        reactor->Finish(status ? grpc::Status::OK : GrpcStatus(ForClients(model, status.error())));
      });
  return reactor;
}

}  // namespace lagoon
