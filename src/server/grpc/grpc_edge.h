#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <string>

#include "server/grpc/grpc_listener.h"
#include "server/io_pool.h"
#include "serving/core/inference.h"

namespace lagoon {

class GrpcService;
class GrpcUnserved;
class SharedRegions;

/// The Open Inference Protocol and grpc.health.v1 over gRPC.
class GrpcEdge {
 public:
  struct Options {
    std::string address;
    int port = 0;  // 0: any free one
    std::size_t max_message_bytes = std::size_t{64} << 20;
    std::size_t max_buffered_bytes = std::size_t{512} << 20;  // of all calls together
    int max_calls_per_connection = 256;
    bool model_control = false;     // clients may load and unload models
    bool strict_readiness = false;  // see IsReady()
    bool admin = false;             // clients of this port may change the server
    bool tracing = false;           // the server writes a trace
    std::string id;                 // of the server
    int http_port = 0;              // of the server, for fronts
    // After these times a connection is closed that does not speak HTTP/2, or has no call in
    // progress. gRPC 1.51 has no limit on connections; the times bound how long an idle one holds a
    // descriptor.
    std::chrono::milliseconds handshake_timeout{10'000};
    std::chrono::milliseconds idle_timeout{75'000};
  };

  /// What the edge works with. All are borrowed.
  struct Parts {
    Inference& core;
    IoPool& pool;
    SharedRegions& regions;
  };

  /// Begins to serve. Answers are rendered on the pool's threads.
  /// kAlreadyExists, naming address and port, when the port is taken; kInvalidArgument for a bad
  /// address.
  static Result<std::unique_ptr<GrpcEdge>> Start(const Parts& parts, const Options& options);
  /// Stops at once.
  ~GrpcEdge();

  int port() const { return listener_->port(); }
  /// What grpc.health.v1 answers. Any thread.
  void SetServing(bool serving);
  /// Takes no more calls, waits for calls in progress until `until`, then cancels them. Returns
  /// when every call has ended. Call it once.
  void Stop(TimePoint until);

 private:
  GrpcEdge();

  std::unique_ptr<GrpcService> service_;
  std::unique_ptr<GrpcUnserved> unserved_;
  std::shared_ptr<GrpcListener> listener_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  // Hands connections over to gRPC. The thread that does so may go on to read from the connection
  // for as long as its client sends, so it is a thread that does nothing else: the guard, which
  // ends such a connection, must not wait for it.
  std::unique_ptr<IoPool> handing_over_;
};

}  // namespace lagoon
