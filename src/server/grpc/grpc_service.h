#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_health.h"
#include "server/grpc/grpc_infer_call.h"
#include "server/grpc/grpc_stream_call.h"
#include "server/grpc/grpc_unary_call.h"

namespace lagoon {

/// The methods of the Open Inference Protocol and of grpc.health.v1. Other methods are answered
/// with UNIMPLEMENTED: the message names the extension of Triton that the method belongs to, or the
/// method.
class GrpcService final : public GrpcHandler {
 public:
  struct Options {
    bool model_control = false;     // clients may load and unload models
    bool strict_readiness = false;  // see IsReady()
    bool admin = false;             // clients of this port may change the server
    bool tracing = false;           // the server writes a trace
    std::string id;                 // of the server
    int http_port = 0;              // of the server, for fronts
  };

  GrpcService(const GrpcInferParts& parts, Options options)
      : parts_(parts), options_(std::move(options)) {}

  std::shared_ptr<GrpcMethod> Begin(const std::shared_ptr<GrpcCall>& call) override;
  GrpcHealth& health() { return health_; }
  /// Lets streams end when their requests are answered, and refuses new ones. Any thread.
  void EndStreams() {
    streams_.End();
    health_.End();
  }

 private:
  using Maker = std::shared_ptr<GrpcMethod> (*)(GrpcService&, std::shared_ptr<GrpcCall>);
  template <typename Request, typename Response, bool kLoad>
  class ChangeCall;

  /// Null: there is no such method.
  static Maker MakerOf(std::string_view method);
  template <auto kMethod>
  static std::shared_ptr<GrpcMethod> Make(GrpcService& service, std::shared_ptr<GrpcCall> call);
  template <typename Request, typename Response>
  std::shared_ptr<GrpcMethod> Simple(GrpcEnd (GrpcService::*method)(const Request&, Response&),
                                     std::shared_ptr<GrpcCall> call);

  GrpcEnd CheckHealth(const GrpcHealth::Request& request, GrpcHealth::Response& response);
  GrpcEnd ServerLive(const inference::ServerLiveRequest& request,
                     inference::ServerLiveResponse& response);
  GrpcEnd ServerReady(const inference::ServerReadyRequest& request,
                      inference::ServerReadyResponse& response);
  GrpcEnd ServerMetadata(const inference::ServerMetadataRequest& request,
                         inference::ServerMetadataResponse& response);
  GrpcEnd ModelReady(const inference::ModelReadyRequest& request,
                     inference::ModelReadyResponse& response);
  GrpcEnd ModelMetadata(const inference::ModelMetadataRequest& request,
                        inference::ModelMetadataResponse& response);
  GrpcEnd ModelConfig(const inference::ModelConfigRequest& request,
                      inference::ModelConfigResponse& response);
  GrpcEnd ModelStatistics(const inference::ModelStatisticsRequest& request,
                          inference::ModelStatisticsResponse& response);
  GrpcEnd RepositoryIndex(const inference::RepositoryIndexRequest& request,
                          inference::RepositoryIndexResponse& response);
  GrpcEnd SystemSharedMemoryStatus(const inference::SystemSharedMemoryStatusRequest& request,
                                   inference::SystemSharedMemoryStatusResponse& response);
  GrpcEnd SystemSharedMemoryRegister(const inference::SystemSharedMemoryRegisterRequest& request,
                                     inference::SystemSharedMemoryRegisterResponse& response);
  GrpcEnd SystemSharedMemoryUnregister(
      const inference::SystemSharedMemoryUnregisterRequest& request,
      inference::SystemSharedMemoryUnregisterResponse& response);
  GrpcEnd CudaSharedMemoryStatus(const inference::CudaSharedMemoryStatusRequest& request,
                                 inference::CudaSharedMemoryStatusResponse& response);
  GrpcEnd CudaSharedMemoryRegister(const inference::CudaSharedMemoryRegisterRequest& request,
                                   inference::CudaSharedMemoryRegisterResponse& response);
  GrpcEnd CudaSharedMemoryUnregister(const inference::CudaSharedMemoryUnregisterRequest& request,
                                     inference::CudaSharedMemoryUnregisterResponse& response);
  GrpcEnd TraceSetting(const inference::TraceSettingRequest& request,
                       inference::TraceSettingResponse& response);
  GrpcEnd LogSettings(const inference::LogSettingsRequest& request,
                      inference::LogSettingsResponse& response);

  const GrpcInferParts parts_;
  const Options options_;
  GrpcStreamCalls streams_;
  GrpcHealth health_;
};

}  // namespace lagoon
