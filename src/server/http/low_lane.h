#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "server/io_pool.h"

namespace lagoon {

/// One thread of the system's idle class, which sends large answers to best-effort requests. So the
/// system takes the core from it for real-time work, for the other edges and for clients.
///
/// The system may stop this thread at any instruction, for seconds, and nobody else waits for it
/// then: it takes no lock, allocates and frees nothing, and another thread tells the connection
/// that a piece is sent. While it sends, it may hold the system's own lock of that socket, so that
/// nobody else uses the socket meanwhile. A piece that it has not begun can be taken back.
class LowLane {
 public:
  /// Bytes for one socket, which is non-blocking. All of Piece may be used by the thread that posts
  /// it, before Post() and after `done` was called, and TakeBack() in between, too.
  class Piece {
   public:
    /// `parts` stay valid until `done` is called, or until they are taken back.
    Piece(int socket, std::vector<iovec> parts, std::function<void()> done)
        : socket_(socket), parts_(std::move(parts)), rest_(parts_), done_(std::move(done)) {}

    /// Returns true if the lane will not send the piece: then `done` will not be called. False: the
    /// lane sends it now, or has sent it; it stops soon, and calls `done`.
    bool TakeBack();

    /// Bytes that the system has taken. Fewer than there are: the socket is full, or see error().
    std::size_t sent() const { return sent_; }
    /// errno of the system; 0: none.
    int error() const { return error_; }

   private:
    friend class LowLane;
    enum class State : std::uint8_t { kWaits, kSending, kTakenBack };

    bool Begin();
    void SendAll();
    bool SendSome();
    void Advance(std::size_t bytes);

    const int socket_;
    std::vector<iovec> parts_;
    std::span<iovec> rest_;  // of parts_
    std::function<void()> done_;
    std::size_t sent_ = 0;
    int error_ = 0;
    std::atomic<State> state_{State::kWaits};
    std::atomic<bool> wanted_back_{false};
    std::shared_ptr<Piece> self_;  // while the lane has it
    Piece* next_ = nullptr;        // of the list that the piece is in
  };

  /// `pool` is borrowed; its threads call `done`.
  explicit LowLane(IoPool& pool);
  /// Stop().
  ~LowLane();
  LowLane(const LowLane&) = delete;
  LowLane& operator=(const LowLane&) = delete;

  /// Any thread.
  void Post(std::shared_ptr<Piece> piece);
  /// Somebody waits for a piece that the lane sends now: until a piece is sent, the thread competes
  /// for a core like others, where the system permits that (TakeBack() of base/thread.h). Any
  /// thread of normal priority.
  void Hurry();
  /// When no piece is left. Call it before IoPool::Join().
  void Stop();

 private:
  void Run();
  void Return(Piece& piece);
  void AwaitReturned();
  void TakeReturned();

  std::atomic<pid_t> thread_id_{0};  // the system's; 0: not begun
  std::atomic<bool> hurries_{false};
  std::atomic<bool> stopping_{false};
  // Lists without locks: each piece points to the one that was added before it.
  std::atomic<Piece*> posted_{nullptr};
  std::atomic<Piece*> returned_{nullptr};
  std::atomic<std::uint32_t> news_{0};  // incremented by Post() and Stop(); the lane sleeps on it
  // An eventfd: how the lane wakes a thread of the pool.
  boost::asio::posix::basic_stream_descriptor<Strand> event_;
  std::jthread thread_;
};

}  // namespace lagoon
