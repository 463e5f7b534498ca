#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/seldom.h"
#include "server/grpc/grpc_connection.h"

namespace lagoon {

/// The port of gRPC. It has no limit of connections, but leaves some descriptors for HTTP. An
/// address whose connection was cut off gets no new one for a second.
class GrpcListener final : public GrpcOwner {
 public:
  /// ListenOn(), but accepts nothing yet. `handler` and `pool` must outlive the connections.
  static Result<std::shared_ptr<GrpcListener>> Listen(IoPool& pool, GrpcHandler& handler,
                                                      EdgeMemory memory, const GrpcLimits& limits,
                                                      PortChoice port);

  void OnCutOff(const boost::asio::ip::address& address, std::string_view why) override;

 private:
  using Address = boost::asio::ip::address;

  GrpcListener(IoPool& pool, GrpcHandler& handler, EdgeMemory memory, const GrpcLimits& limits,
               PortChoice port);
  std::optional<std::string> Full(const Socket& socket, std::size_t alive) override;
  void TurnAway(Socket& socket, const std::string& reason) override;
  std::shared_ptr<EdgeConnection> Connect(Socket socket) override;

  IoPool& pool_;
  GrpcHandler& handler_;
  const EdgeMemory memory_;
  const std::shared_ptr<InflateQueue> inflates_;
  const GrpcLimits limits_;
  const std::size_t descriptors_;

  Mutex mutex_;
  std::map<Address, TimePoint> shut_out_ GUARDED_BY(mutex_);  // until when
  Seldom warning_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
