#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace lagoon {

/// What waits for gRPC: a call or an alarm.
class RemoteEvent {
 public:
  virtual ~RemoteEvent() = default;
  /// Called once for each operation that was started with this tag, on a thread of the RemoteQueue.
  /// Must be short and must not block. `ok`: as CompletionQueue::Next() tells it.
  virtual void Done(bool ok) = 0;
};

/// The completion queue of the calls to all members, with its threads.
class RemoteQueue {
 public:
  /// `threads`: 1 or more.
  explicit RemoteQueue(int threads);
  /// Waits for the events in progress; no other may be started from now on.
  ~RemoteQueue();
  RemoteQueue(const RemoteQueue&) = delete;
  RemoteQueue& operator=(const RemoteQueue&) = delete;

  grpc::CompletionQueue& queue() { return queue_; }
  /// The tag of an operation that ends with event.Done(). Done() sees all that this thread has
  /// written before Tag().
  void* Tag(RemoteEvent& event) {
    handed_.fetch_add(1, std::memory_order_release);
    return &event;
  }

 private:
  void Run();

  grpc::CompletionQueue queue_;
  // gRPC hands memory over, too, but ThreadSanitizer does not see it (tests/tsan.supp).
  std::atomic<std::uint64_t> handed_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace lagoon
