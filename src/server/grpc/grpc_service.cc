#include "server/grpc/grpc_service.h"

#include <utility>

#include "server/grpc/grpc_codec.h"

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
  response->set_ready(core_.Ready());
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ModelReady(Context* context,
                                                  const inference::ModelReadyRequest* request,
                                                  inference::ModelReadyResponse* response) {
  const lagoon::Status ready = core_.ModelReady(request->name(), request->version());
  if (!ready && ready.error().code != ErrorCode::kUnavailable) {
    return Answer(context, GrpcStatus(ready.error()));
  }
  response->set_ready(ready.has_value());  // a model that failed to load is an answer, not an error
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ServerMetadata(Context* context,
                                                      const inference::ServerMetadataRequest*,
                                                      inference::ServerMetadataResponse* response) {
  FillServerMetadata(*response);
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

grpc::ServerUnaryReactor* GrpcService::ModelInfer(Context*, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  auto* call = new GrpcInferCall(core_, pool_, *response);
  // The buffer belongs to this call. Parsing frees it, so that a waiting request holds its tensors
  // only once.
  call->Start(*const_cast<grpc::ByteBuffer*>(request), *messages_);
  return call;
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

}  // namespace lagoon
