#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "server/grpc/grpc_infer_call.h"
#include "server/grpc/grpc_listener.h"

namespace lagoon {

class GrpcService;

/// The Open Inference Protocol and grpc.health.v1 over gRPC.
class GrpcEdge {
 public:
  struct Options {
    std::string address;
    int port = 0;  // 0: any free one
    GrpcLimits limits;
    std::size_t max_buffered_bytes = std::size_t{512} << 20;  // of all calls together
    bool model_control = false;                               // clients may load and unload models
    bool strict_readiness = false;                            // see IsReady()
    bool admin = false;    // clients of this port may change the server
    bool tracing = false;  // the server writes a trace
    std::string id;        // of the server
    int http_port = 0;     // of the server, for fronts
  };

  /// Begins to serve. Answers are rendered on the pool's threads. What `parts` names is borrowed.
  /// kAlreadyExists, naming address and port, when the port is taken; kInvalidArgument for a bad
  /// address.
  static Result<std::unique_ptr<GrpcEdge>> Start(const GrpcInferParts& parts,
                                                 const Options& options);
  /// Stops at once.
  ~GrpcEdge();

  int port() const { return listener_->port(); }
  /// What grpc.health.v1 answers. Any thread.
  void SetServing(bool serving);
  /// Takes no more calls, waits for calls in progress until `until`, then cancels them. Returns
  /// when every call has ended. Call it once.
  void Stop(TimePoint until);

 private:
  explicit GrpcEdge(std::unique_ptr<GrpcService> service);

  std::unique_ptr<GrpcService> service_;
  std::shared_ptr<GrpcListener> listener_;
  bool stopped_ = false;
};

}  // namespace lagoon
