#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/seldom.h"
#include "server/descriptors.h"
#include "server/http/http_connection.h"
#include "server/io_pool.h"

namespace lagoon {

/// Accepts the connections of one port and owns what they share. Any thread may call any method.
/// Shared, because operations in the pool may outlast the server.
class HttpListener final : public HttpConnectionOwner,
                           public std::enable_shared_from_this<HttpListener> {
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
  ~HttpListener() override = default;

  int port() const { return options_.port.port; }
  void Start();
  /// Keeps serving, but every answer announces the end of its connection and closes it, so that
  /// clients turn to another server.
  void AnnounceEnd();
  /// AnnounceEnd(), then accepts the connections that already wait and closes the port. Connections
  /// close when they have nothing in progress.
  void Drain();
  /// Closes every connection at once; requests in progress are cancelled.
  void Abort();
  /// Waits until every connection is closed and every request is answered. False: not done by
  /// `until`.
  bool WaitIdle(TimePoint until);
  /// Call it when drained and idle: ends the timers, so that no operation is left in the pool.
  void Close();

  void ConnectionBegan() override;
  void ConnectionEnded() override;
  bool Draining() const override { return draining_.load(std::memory_order_relaxed); }
  bool Closing() const override { return closing_.load(std::memory_order_relaxed); }

 private:
  HttpListener(IoPool& pool, HttpHandler& handler, EdgeMemory memory, Options options);
  void Accept();
  void OnWaiting(boost::system::error_code error);
  void Admit(Socket socket);
  void AcceptBacklog();
  void ClosePort();
  void TurnAway(Socket& socket, const std::string& reason);
  bool AcceptOne();
  bool TurnAwayWithoutDescriptor();
  void RetryAccept();
  void Sweep();
  std::vector<std::shared_ptr<HttpConnection>> Connections();

  IoPool& pool_;
  HttpHandler& handler_;
  const EdgeMemory memory_;
  Options options_;  // Listen() sets the port
  Strand strand_;
  Acceptor acceptor_;                      // on strand_
  boost::asio::steady_timer retry_timer_;  // on strand_
  boost::asio::steady_timer sweep_timer_;  // on strand_
  SpareDescriptor spare_;                  // on strand_
  bool accepting_ = false;                 // an accept is under way; on strand_
  Seldom warning_;                         // on strand_
  std::atomic<bool> draining_ = false;
  std::atomic<bool> closing_ = false;

  Mutex mutex_;
  CondVar idle_;
  std::vector<std::weak_ptr<HttpConnection>> connections_ GUARDED_BY(mutex_);
  std::size_t alive_ GUARDED_BY(mutex_) = 0;
  bool open_ GUARDED_BY(mutex_) = true;  // connections may still come
};

}  // namespace lagoon
