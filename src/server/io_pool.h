#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace lagoon {

/// What a connection's handlers run on, one at a time.
using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

/// The threads of the edges. Sockets, parsing and rendering run here, and nothing else. A handler
/// takes less than 1 ms at a stretch: large JSON is the JsonLane's work.
class IoPool {
 public:
  explicit IoPool(int threads);
  /// Join().
  ~IoPool();
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  boost::asio::io_context& context() { return context_; }

  /// Join waits until it is released. For a thread that is not the pool's and hands work over to
  /// it: that thread may still be inside the pool when the work is already done.
  std::shared_ptr<void> Hold();

  /// Runs what is left and ends the threads. Every socket and timer must be closed, else it never
  /// returns; what they used may be destroyed afterwards.
  void Join();

 private:
  struct Holds;

  const std::shared_ptr<Holds> holds_;
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::vector<std::jthread> threads_;
};

}  // namespace lagoon
