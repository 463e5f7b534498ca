#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// Runs the handlers of one connection, one at a time.
using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

/// While one exists, its thread may render and send answers to gRPC clients: the answer of another
/// server leaves on the thread that has received it, and waits for no other thread. One thread.
class LentThread {
 public:
  LentThread();
  ~LentThread();
  LentThread(const LentThread&) = delete;
  LentThread& operator=(const LentThread&) = delete;

  /// Whether the calling thread is lent. Threads of a device never are.
  static bool IsThis();
};

/// The threads of the edges. Only sockets, parsing and rendering run here. A handler takes less
/// than 1 ms at a stretch: large JSON goes to the JsonLane.
class IoPool {
 public:
  /// The threads are NAME-0, NAME-1, ...
  explicit IoPool(int threads, const std::string& name = "lagoon-edge");
  /// Join().
  ~IoPool();
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  boost::asio::io_context& context() { return context_; }
  /// For handlers that may take more than 1 ms: one of them runs at a time, so that other handlers
  /// find a thread.
  const Strand& one_by_one() const { return one_by_one_; }

  /// Join() waits until the result is released. Hold it while a thread outside of the pool posts
  /// work to the pool: that thread may still be inside the pool's code when the work is already
  /// done.
  std::shared_ptr<void> Hold();

  /// Runs the work that is left and ends the threads. Every socket and timer must be closed, else
  /// Join() never returns. What the handlers used may be destroyed afterwards.
  void Join();

 private:
  struct Holds;

  const std::shared_ptr<Holds> holds_;
  boost::asio::io_context context_;
  const Strand one_by_one_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::vector<std::jthread> threads_;
};

using Acceptor = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, Strand>;

/// Connections that may wait to be accepted.
inline constexpr int kBacklog = 512;

/// Where a protocol is served. Messages begin with "HTTP 127.0.0.1:8000".
struct PortChoice {
  std::string protocol;
  std::string address;  // an IP address
  int port = 0;         // 0: any free one

  std::string Text() const;
};

/// Binds the acceptor, listens and sets the port of `choice`. kAlreadyExists when the port is
/// taken; kInvalidArgument when the address or the port cannot be used.
Status ListenOn(Acceptor& acceptor, PortChoice& choice);

}  // namespace lagoon
