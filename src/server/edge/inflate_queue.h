#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"
#include "server/edge/request_body.h"
#include "server/io_pool.h"

namespace lagoon {

/// Inflates the compressed bodies or messages of one port, on IoPool::one_by_one(), in slices of
/// less than 1 ms. A slice goes to the message of which the least is inflated, so that small
/// messages do not wait for large ones; large ones take turns in the order of their arrival, so
/// that few hold memory. Every fourth slice goes to the largest, so that it does not wait for ever.
/// Any thread.
class InflateQueue : public std::enable_shared_from_this<InflateQueue> {
 public:
  /// The sizes at which a message gives way to smaller ones.
  static constexpr std::size_t kSlice = std::size_t{128} << 10;
  static constexpr std::size_t kMedium = std::size_t{1} << 20;

  struct Message {
    std::shared_ptr<RequestBody> body;
    std::size_t bytes = 0;
  };
  struct Work {
    Message input;
    /// Empty. The owner of the message may release it meanwhile.
    std::shared_ptr<RequestBody> output;
    std::size_t most = 0;  // bytes of the output, within kMostInflatedBytes
    /// Charged to the output beside what it holds: MemoryBudget::OwnBytes(), if it has no own part.
    std::size_t beside = 0;
    std::string_view name;       // of the message, in errors: "the message"
    std::weak_ptr<void> wanted;  // expired: the work ends, and `done` is not called
    /// Called once, on IoPool::one_by_one(). kInvalidArgument: the message is damaged;
    /// kResourceExhausted: it becomes more than `most` bytes; kUnavailable: there is no room.
    std::function<void(Result<Message>)> done;
  };

  /// `pool` is borrowed. Made by std::make_shared.
  explicit InflateQueue(IoPool& pool);
  ~InflateQueue();
  InflateQueue(const InflateQueue&) = delete;
  InflateQueue& operator=(const InflateQueue&) = delete;

  void Post(Work work);

 private:
  struct Job;
  using Jobs = std::list<std::unique_ptr<Job>>;

  Jobs TakeNext() REQUIRES(mutex_);
  void PutBack(Jobs& job) REQUIRES(mutex_);
  void RunSoon();
  void Run();

  const Strand strand_;
  Mutex mutex_;
  bool running_ GUARDED_BY(mutex_) = false;
  std::uint64_t slices_ GUARDED_BY(mutex_) = 0;
  /// By how much is inflated: less than kSlice, less than kMedium, more.
  std::array<Jobs, 3> jobs_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
