#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "server/http_message.h"
#include "serving/core.h"

namespace lagoon {

struct ServerOptions {
  std::string address = "127.0.0.1";  // an IP address; "0.0.0.0" for every interface
  // 0: any free one.
  int http_port = 8000;
  int grpc_port = 8001;
  int metrics_port = 8002;
  HttpLimits http;  // max_body_bytes bounds a gRPC message too
  // Bodies and answers in memory: HTTP and metrics together (MemoryBudget), gRPC for itself.
  std::size_t max_buffered_bytes = std::size_t{512} << 20;
  // The HTTP port may switch the scheduler too, not the metrics port alone.
  bool admin_on_http = false;
  int threads = 0;  // of the edges; 0: one per core, at least 2, at most 4
};

/// The edges of one core: HTTP, gRPC and metrics. No scheduling here.
class Server {
 public:
  /// Serves as soon as it returns. `core` is borrowed and must outlive the server.
  /// kAlreadyExists, naming protocol, address and port, when a port is taken; kInvalidArgument when
  /// the address or a port cannot be used, or two protocols are given one port. Nothing is served
  /// then.
  static Result<std::unique_ptr<Server>> Start(InferenceCore& core, const ServerOptions& options);
  /// Stop(Now()) unless stopped.
  virtual ~Server() = default;

  // As bound.
  virtual int http_port() const = 0;
  virtual int grpc_port() const = 0;
  virtual int metrics_port() const = 0;

  /// Every HTTP answer from now on closes its connection and says so. Call it before
  /// InferenceCore::Drain(): the port stays open while the core answers what is in flight, so that
  /// a client that comes now gets 503 and turns to another server. Any thread.
  virtual void AnnounceStop() = 0;
  /// Accepts nothing new, answers what is in flight, closes. What is not answered by `until` is
  /// cancelled. Returns when the core has given back every request. Metrics are served to the end.
  /// One thread, once.
  virtual void Stop(TimePoint until) = 0;
};

}  // namespace lagoon
