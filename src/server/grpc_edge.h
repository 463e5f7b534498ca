#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "server/io_pool.h"
#include "serving/core.h"

namespace lagoon {

class GrpcService;

/// The Open Inference Protocol and grpc.health.v1 over gRPC.
class GrpcEdge {
 public:
  struct Options {
    std::string address;
    int port = 0;  // 0: any free one
    std::size_t max_message_bytes = std::size_t{64} << 20;
    std::size_t max_buffered_bytes = std::size_t{512} << 20;  // of all calls
    int max_calls_per_connection = 256;
  };

  /// Serves at once. `core` and `pool` are borrowed; answers are rendered on the pool's threads.
  /// kAlreadyExists, naming address and port, when the port is taken; kInvalidArgument for a bad
  /// address.
  static Result<std::unique_ptr<GrpcEdge>> Start(InferenceCore& core, IoPool& pool,
                                                 const Options& options);
  /// Stops at once.
  ~GrpcEdge();

  int port() const { return port_; }
  /// What grpc.health.v1 answers. Any thread.
  void SetServing(bool serving);
  /// Takes no more calls, waits for those in progress until `until`, then cancels them, and returns
  /// when every one has ended. Once.
  void Stop(TimePoint until);

 private:
  GrpcEdge();

  std::unique_ptr<GrpcService> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace lagoon
