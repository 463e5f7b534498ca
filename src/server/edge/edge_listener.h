#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/seldom.h"
#include "base/status.h"
#include "base/time.h"
#include "server/descriptors.h"
#include "server/io_pool.h"

namespace lagoon {

/// Counts the connections that exist, and has the state of the server's shutdown. Any thread.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void ConnectionBegan() = 0;
  virtual void ConnectionEnded() = 0;
  /// Whether every answer is the last one of its connection and announces that.
  virtual bool Draining() const = 0;
  /// Whether idle connections must close.
  virtual bool Closing() const = 0;
};

/// One client's connection. Any thread may call any method.
class EdgeConnection {
 public:
  virtual ~EdgeConnection() = default;
  virtual void Start() = 0;
  /// Call it when the owner is Closing(): the connection closes soon unless it is busy, else after
  /// what is in progress.
  virtual void Drain() = 0;
  /// Closes the connection now; requests in progress are cancelled.
  virtual void Abort() = 0;
  /// Acts on what has taken too long.
  virtual void CheckDeadline(TimePoint now) = 0;
};

/// Accepts the connections of one port and owns what they share. Any thread may call any public
/// method. Shared, because operations in the pool may outlast the server.
class EdgeListener : public ConnectionOwner, public std::enable_shared_from_this<EdgeListener> {
 public:
  int port() const { return port_.port; }
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

 protected:
  /// `pool` must outlive the connections.
  EdgeListener(IoPool& pool, PortChoice port);
  /// ListenOn(), but accepts nothing yet.
  Status Bind();
  /// Why a connection cannot be served beside `alive` others; nullopt: it can.
  virtual std::optional<std::string> Full(const Socket& socket, std::size_t alive) = 0;
  /// Tells a client, which gets no connection, the reason. Must not block.
  virtual void TurnAway(Socket& socket, const std::string& reason) = 0;
  virtual std::shared_ptr<EdgeConnection> Connect(Socket socket) = 0;

 private:
  void Accept();
  void OnWaiting(boost::system::error_code error);
  void Admit(Socket socket);
  void AcceptBacklog();
  void ClosePort();
  bool AcceptOne();
  bool TurnAwayWithoutDescriptor();
  void RetryAccept();
  void Sweep();
  std::vector<std::shared_ptr<EdgeConnection>> Connections();

  IoPool& pool_;
  PortChoice port_;  // Bind() sets the port
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
  std::vector<std::weak_ptr<EdgeConnection>> connections_ GUARDED_BY(mutex_);
  std::size_t alive_ GUARDED_BY(mutex_) = 0;
  bool open_ GUARDED_BY(mutex_) = true;  // connections may still come
};

}  // namespace lagoon
