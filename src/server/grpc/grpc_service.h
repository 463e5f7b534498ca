#pragma once

#include "server/grpc/grpc_infer_call.h"
#include "server/grpc/grpc_stream_call.h"
#include "serving/core/inference.h"

namespace lagoon {

namespace grpc_methods {

using Service = inference::GRPCInferenceService;
// The methods one by one: ModelStreamInfer has raw messages only.
using Server = Service::WithCallbackMethod_ServerLive<Service::WithCallbackMethod_ServerReady<
    Service::WithCallbackMethod_ServerMetadata<Service::Service>>>;
using Models = Service::WithCallbackMethod_ModelReady<Service::WithCallbackMethod_ModelMetadata<
    Service::WithCallbackMethod_ModelConfig<Service::WithCallbackMethod_ModelStatistics<Server>>>>;
using Repository =
    Service::WithCallbackMethod_RepositoryIndex<Service::WithCallbackMethod_RepositoryModelLoad<
        Service::WithCallbackMethod_RepositoryModelUnload<Models>>>;
using All = Service::WithRawCallbackMethod_ModelInfer<
    Service::WithRawCallbackMethod_ModelStreamInfer<Repository>>;

}  // namespace grpc_methods

/// The methods of the service; they run on gRPC's threads. ModelInfer and ModelStreamInfer work on
/// raw messages (see GrpcInferCall).
class GrpcService final : public grpc_methods::All {
 public:
  struct Options {
    bool model_control = false;     // clients may load and unload models
    bool strict_readiness = false;  // see IsReady()
    std::string id;                 // of the server
  };

  GrpcService(Inference& core, IoPool& pool, const Options& options)
      : core_(core),
        pool_(pool),
        options_(options),
        messages_(InferMessagePool::Create(kMaxPooledMessages, kMaxPooledMessageBytes)) {}

  /// Lets streams end when their requests are answered, and refuses new ones.
  void EndStreams() { streams_.End(); }

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
  Reactor* ModelInfer(Context* context, const grpc::ByteBuffer* request,
                      grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ModelStreamInfer(
      Context* context) override;
  Reactor* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                       inference::ModelConfigResponse* response) override;
  Reactor* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                           inference::ModelStatisticsResponse* response) override;
  Reactor* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                           inference::RepositoryIndexResponse* response) override;
  // Answered when the change is made, from a thread of the core.
  Reactor* RepositoryModelLoad(Context* context,
                               const inference::RepositoryModelLoadRequest* request,
                               inference::RepositoryModelLoadResponse* response) override;
  Reactor* RepositoryModelUnload(Context* context,
                                 const inference::RepositoryModelUnloadRequest* request,
                                 inference::RepositoryModelUnloadResponse* response) override;

 private:
  template <typename Request>
  Reactor* Change(Context* context, const Request& request,
                  void (RepositoryControl::*change)(const std::string&,
                                                    std::function<void(lagoon::Status)>));

  static constexpr std::size_t kMaxPooledMessages = 32;
  static constexpr std::size_t kMaxPooledMessageBytes = std::size_t{2} << 20;

  Inference& core_;
  IoPool& pool_;
  const Options options_;
  const std::shared_ptr<InferMessagePool> messages_;
  GrpcStreamCalls streams_;
};

}  // namespace lagoon
