#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/edge/edge_listener.h"
#include "server/http/http_connection.h"

namespace lagoon {

/// A port of HTTP.
class HttpListener final : public EdgeListener {
 public:
  struct Options {
    PortChoice port;
    HttpLimits limits;
    HttpHosts hosts = {};
    LowLane* low = nullptr;  // HttpConnection::Context::low; borrowed
  };

  /// ListenOn(), but accepts nothing yet. `handler` and `pool` must outlive the listener's
  /// connections.
  static Result<std::shared_ptr<HttpListener>> Listen(IoPool& pool, HttpHandler& handler,
                                                      EdgeMemory memory, Options options);

 private:
  HttpListener(IoPool& pool, HttpHandler& handler, EdgeMemory memory, Options options);
  std::optional<std::string> Full(const Socket& socket, std::size_t alive) override;
  void TurnAway(Socket& socket, const std::string& reason) override;
  std::shared_ptr<EdgeConnection> Connect(Socket socket) override;

  HttpHandler& handler_;
  const EdgeMemory memory_;
  const std::shared_ptr<InflateQueue> inflates_;
  const Options options_;
};

}  // namespace lagoon
