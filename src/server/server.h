#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "server/http/http_message.h"
#include "serving/core/inference.h"

namespace lagoon {

class SpanExporter;  // server/telemetry/span_exporter.h

struct ServerOptions {
  std::string address = "127.0.0.1";  // an IP address; "0.0.0.0" for every interface
  std::string grpc_address = {};      // of the gRPC port; empty: as `address`
  std::string metrics_address;        // of the metrics port; empty: as `address`
  // 0: any free one.
  int http_port = 8000;
  int grpc_port = 8001;
  int metrics_port = 8002;
  HttpLimits http;  // max_body_bytes bounds a gRPC message too
  // Memory of bodies and answers. HTTP and metrics share one limit of this size (MemoryBudget),
  // gRPC has another.
  std::size_t max_buffered_bytes = std::size_t{512} << 20;
  // Whether clients of the HTTP port may switch the scheduler too, not only those of the metrics
  // port.
  bool admin_on_http = false;
  // Whether clients may load and unload models (Triton's model repository API).
  bool model_control = false;
  /// Whether clients may register their shared memory (SharedRegions). nullopt: if the addresses of
  /// HTTP and gRPC are of this machine alone.
  std::optional<bool> shared_memory;
  /// Path of the socket for clients on this machine (ChannelEdge); empty: there is none.
  std::string channel = {};
  bool tracing = false;  // the server writes a trace
  /// Tells /metrics how many requests have spans; borrowed. Null: none has.
  const SpanExporter* spans = nullptr;
  bool strict_readiness = false;  // the server is ready only if no model failed to load
  /// Names of the server that HTTP clients may use, beside addresses and names without a dot; "*":
  /// all. Empty: all, if the port's address is not one of this machine alone.
  std::vector<std::string> allowed_hosts;
  int threads = 0;  // threads of the edges; 0: one per core, at least 2, at most 4
};

/// The edges of one core: HTTP, gRPC and metrics. No scheduling here.
class Server {
 public:
  /// Serves when it has returned. `core` is borrowed and must outlive the server. On an error
  /// nothing is served: kAlreadyExists, naming protocol, address and port, when a port is taken;
  /// kInvalidArgument when the address or a port cannot be used, or two protocols have the same
  /// port.
  static Result<std::unique_ptr<Server>> Start(Inference& core, const ServerOptions& options);
  /// The error that Start() would give now for ports and names. Lets a program find out before it
  /// loads models, which may take minutes.
  static Status Check(const ServerOptions& options);
  /// Stop(Now()) unless stopped.
  virtual ~Server() = default;

  // The ports that are bound.
  virtual int http_port() const = 0;
  virtual int grpc_port() const = 0;
  virtual int metrics_port() const = 0;

  /// From now on every HTTP answer announces the end of its connection and closes it. Call this
  /// before Inference::Drain(): the port stays open while the core answers requests in flight,
  /// so that a client that comes now gets 503 and turns to another server. Any thread.
  virtual void AnnounceStop() = 0;
  /// Accepts nothing new, answers requests in flight, and closes. Requests that are not answered by
  /// `until` are cancelled. Returns when the core has answered every request. Metrics are served to
  /// the end. Call it once, on one thread.
  virtual void Stop(TimePoint until) = 0;
};

}  // namespace lagoon
