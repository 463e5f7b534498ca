#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "server/grpc/grpc_guard.h"
#include "server/io_pool.h"

namespace lagoon {

/// Accepts the connections of the gRPC port. gRPC's own listener closes its port for good when a
/// connection comes and no descriptor is left (1.51, tcp_server_posix.cc). This listener pauses
/// instead, and leaves some descriptors for HTTP. A GrpcGuard watches the connections. Any thread
/// may call any method. Shared, because operations in the pool may outlast the edge.
class GrpcListener final : public std::enable_shared_from_this<GrpcListener> {
 public:
  /// Takes ownership of a connected socket, which is non-blocking and closed on exec. Must return
  /// at once, whatever the client sends: until then no connection is accepted and none is watched.
  using Handover = std::function<void(int descriptor)>;

  /// ListenOn(), but accepts nothing yet.
  static Result<std::shared_ptr<GrpcListener>> Listen(IoPool& pool, const std::string& address,
                                                      int port, const GrpcConduct::Limits& limits);

  int port() const { return port_.port; }
  void Start(Handover handover);
  /// After Close() has returned, no socket is handed over any more. Those that were are still
  /// watched.
  void Close();
  /// After Close(), when every connection has ended or will end without help.
  void EndGuard();

 private:
  GrpcListener(IoPool& pool, PortChoice port, const GrpcConduct::Limits& limits);
  void Wait();
  void AcceptSome();
  void Pause();
  void HandOver(int descriptor);
  void Guard();

  PortChoice port_;    // changes in Listen() only
  std::string where_;  // its text, for messages
  const std::size_t descriptors_;
  Strand strand_;
  Acceptor acceptor_;                // on strand_
  boost::asio::steady_timer pause_;  // on strand_
  GrpcGuard guard_;                  // on strand_
  boost::asio::steady_timer check_;  // on strand_
  bool guards_ = true;               // on strand_
  TimePoint next_warning_;           // on strand_

  Mutex mutex_;
  Handover handover_ GUARDED_BY(mutex_);  // empty: closed
};

}  // namespace lagoon
