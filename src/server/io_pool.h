#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <thread>
#include <vector>

namespace lagoon {

/// What a connection's handlers run on, one at a time.
using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

/// The threads of the edges. Sockets, parsing and rendering run here, and nothing else: a handler
/// that works long (a huge JSON body) occupies one thread while the others go on.
class IoPool {
 public:
  explicit IoPool(int threads);
  ~IoPool() { Join(); }
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  boost::asio::io_context& context() { return context_; }

  /// Stops at once; what is still queued never runs. Nothing that handlers use may be destroyed
  /// before.
  void Join();

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::vector<std::jthread> threads_;
};

}  // namespace lagoon
