#pragma once

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "base/status.h"

namespace lagoon {

/// Runs the handlers of one connection, one at a time.
using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

/// Where memory runs out, the calling thread waits for it, two seconds at most.
template <typename T>
struct PatientAllocator {
  using value_type = T;

  PatientAllocator() = default;
  template <typename Other>
  PatientAllocator(const PatientAllocator<Other>&) {}  // NOLINT: allocators convert

  T* allocate(std::size_t count) {
    constexpr int kMostTries = 200;  // 10 ms apart
    return UntilMemorySuffices([count] { return std::allocator<T>().allocate(count); }, kMostTries);
  }
  void deallocate(T* data, std::size_t count) { std::allocator<T>().deallocate(data, count); }
  template <typename Other>
  bool operator==(const PatientAllocator<Other>&) const {
    return true;
  }
};

/// A handler for which Asio waits for memory. For what a client would else wait for without end:
/// an answer that is on its way, and operations that begin themselves again.
template <typename Work>
class Patient {
 public:
  using allocator_type = PatientAllocator<void>;

  explicit Patient(Work work) : work_(std::move(work)) {}
  allocator_type get_allocator() const noexcept { return {}; }
  template <typename... Args>
  void operator()(Args&&... args) {
    work_(std::forward<Args>(args)...);
  }

 private:
  Work work_;
};

/// Has `executor` run `work`, as a Patient handler.
template <typename Executor, typename Work>
void PostSurely(const Executor& executor, Work work) {
  boost::asio::post(executor, Patient<Work>(std::move(work)));
}

/// Has `executor` run `work` after `delay`, unless the timer is set or cancelled before.
template <typename Timer, typename Executor, typename Work>
void WaitOn(Timer& timer, typename Timer::duration delay, const Executor& executor, Work work) {
  timer.expires_after(delay);
  timer.async_wait(boost::asio::bind_executor(
      executor, Patient([work = std::move(work)](boost::system::error_code error) {
        if (!error) work();
      })));
}

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
  /// For a connection. There are kStrands, which connections share where there are more. They are
  /// made in advance: Boost 1.74 destroys one that it has not made where memory runs out. Any
  /// thread.
  const Strand& NextStrand();
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
  static constexpr std::size_t kStrands = 1024;

  const std::shared_ptr<Holds> holds_;
  boost::asio::io_context context_;
  const Strand one_by_one_;
  std::vector<Strand> strands_;
  std::atomic<std::size_t> next_strand_{0};
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
