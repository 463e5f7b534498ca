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
using Regions = Service::WithCallbackMethod_SystemSharedMemoryStatus<
    Service::WithCallbackMethod_SystemSharedMemoryRegister<
        Service::WithCallbackMethod_SystemSharedMemoryUnregister<Repository>>>;
using CudaRegions = Service::WithCallbackMethod_CudaSharedMemoryStatus<
    Service::WithCallbackMethod_CudaSharedMemoryRegister<
        Service::WithCallbackMethod_CudaSharedMemoryUnregister<Regions>>>;
using Settings =
    Service::WithCallbackMethod_TraceSetting<Service::WithCallbackMethod_LogSettings<CudaRegions>>;
using All = Service::WithRawCallbackMethod_ModelInfer<
    Service::WithRawCallbackMethod_ModelStreamInfer<Settings>>;

}  // namespace grpc_methods

/// The methods of the service; they run on gRPC's threads. ModelInfer and ModelStreamInfer work on
/// raw messages (see GrpcInferCall).
class GrpcService final : public grpc_methods::All {
 public:
  struct Options {
    bool model_control = false;     // clients may load and unload models
    bool strict_readiness = false;  // see IsReady()
    bool admin = false;             // clients of this port may change the server
    bool tracing = false;           // the server writes a trace
    std::string id;                 // of the server
    int http_port = 0;              // of the server, for fronts
  };

  /// All are borrowed.
  GrpcService(Inference& core, IoPool& pool, SharedRegions& regions, const Options& options)
      : core_(core),
        pool_(pool),
        regions_(regions),
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
  Reactor* SystemSharedMemoryStatus(Context* context,
                                    const inference::SystemSharedMemoryStatusRequest* request,
                                    inference::SystemSharedMemoryStatusResponse* response) override;
  Reactor* SystemSharedMemoryRegister(
      Context* context, const inference::SystemSharedMemoryRegisterRequest* request,
      inference::SystemSharedMemoryRegisterResponse* response) override;
  Reactor* SystemSharedMemoryUnregister(
      Context* context, const inference::SystemSharedMemoryUnregisterRequest* request,
      inference::SystemSharedMemoryUnregisterResponse* response) override;
  Reactor* CudaSharedMemoryStatus(Context* context,
                                  const inference::CudaSharedMemoryStatusRequest* request,
                                  inference::CudaSharedMemoryStatusResponse* response) override;
  Reactor* CudaSharedMemoryRegister(Context* context,
                                    const inference::CudaSharedMemoryRegisterRequest* request,
                                    inference::CudaSharedMemoryRegisterResponse* response) override;
  Reactor* CudaSharedMemoryUnregister(
      Context* context, const inference::CudaSharedMemoryUnregisterRequest* request,
      inference::CudaSharedMemoryUnregisterResponse* response) override;
  Reactor* TraceSetting(Context* context, const inference::TraceSettingRequest* request,
                        inference::TraceSettingResponse* response) override;
  Reactor* LogSettings(Context* context, const inference::LogSettingsRequest* request,
                       inference::LogSettingsResponse* response) override;

 private:
  /// Orders a load, or an unload.
  template <typename Request>
  Reactor* Change(Context* context, const Request& request, bool load);

  static constexpr std::size_t kMaxPooledMessages = 32;
  static constexpr std::size_t kMaxPooledMessageBytes = std::size_t{2} << 20;

  Inference& core_;
  IoPool& pool_;
  SharedRegions& regions_;
  const Options options_;
  const std::shared_ptr<InferMessagePool> messages_;
  GrpcStreamCalls streams_;
};

}  // namespace lagoon
