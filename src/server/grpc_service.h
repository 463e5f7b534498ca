#pragma once

#include "server/grpc_service.grpc.pb.h"
#include "server/io_pool.h"
#include "serving/core.h"

namespace lagoon {

/// The methods of the service, on gRPC's threads.
class GrpcService final : public inference::GRPCInferenceService::CallbackService {
 public:
  GrpcService(InferenceCore& core, IoPool& pool) : core_(core), pool_(pool) {}

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* ServerLive(Context* context, const inference::ServerLiveRequest* request,
                      inference::ServerLiveResponse* response) override;
  Reactor* ServerReady(Context* context, const inference::ServerReadyRequest* request,
                       inference::ServerReadyResponse* response) override;
  Reactor* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                      inference::ModelReadyResponse* response) override;
  Reactor* ServerMetadata(Context* context, const inference::ServerMetadataRequest* request,
                          inference::ServerMetadataResponse* response) override;
  Reactor* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                         inference::ModelMetadataResponse* response) override;
  Reactor* ModelInfer(Context* context, const inference::ModelInferRequest* request,
                      inference::ModelInferResponse* response) override;
  Reactor* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                       inference::ModelConfigResponse* response) override;
  Reactor* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                           inference::ModelStatisticsResponse* response) override;

 private:
  InferenceCore& core_;
  IoPool& pool_;
};

}  // namespace lagoon
