#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "base/status.h"
#include "client/channel_layout.h"

namespace lagoon {

/// The memory that the server shares with one client of a channel. The client may write any byte at
/// any time: each word is read once, and only what lies in the server's own memory is checked and
/// used. The memory cannot shrink (F_SEAL_SHRINK), so that no access fails.
class ChannelRegion {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

  /// With `bytes` for tensors, up to a whole page. kInvalidArgument: none, or more than kMostBytes;
  /// kResourceExhausted: the system has no memory or descriptor for it.
  static Result<std::unique_ptr<ChannelRegion>> Make(std::uint64_t bytes);
  ~ChannelRegion();
  ChannelRegion(const ChannelRegion&) = delete;
  ChannelRegion& operator=(const ChannelRegion&) = delete;

  // Descriptors for the client: the memory, and the eventfd that it writes to wake the server. The
  // server never reads from the eventfd, as the client can make that wait.
  int memory() const { return memory_; }
  int doorbell() const { return doorbell_; }
  std::span<std::byte> data() const { return data_; }

  enum class Taken : std::uint8_t {
    kNone,
    kOne,
    kLie,  // the client's counters are impossible: the channel must end
  };
  /// Copies the next submission. No request while kSlots are in flight or not read; a cancellation
  /// takes no slot. One thread.
  Taken Take(channel::Submission& entry);
  /// One more in flight, which ends with Complete(). The thread of Take().
  void Begin() { in_flight_.fetch_add(1, std::memory_order_relaxed); }
  /// Whether the server may sleep on doorbell(): false: there is something to take. The thread of
  /// Take(). Awake() afterwards.
  bool Sleep();
  void Awake();

  /// Any thread; takes microseconds and never waits for the client. `used`: bytes of the entry.
  void Complete(const channel::Completion& entry, std::size_t used);
  /// Any thread: wakes a client that sleeps, as an answer is almost there.
  void TellAlmostFinished();
  std::uint32_t in_flight() const { return in_flight_.load(std::memory_order_acquire); }

 private:
  ChannelRegion(int memory, int doorbell, std::byte* at, std::uint64_t bytes);

  channel::Head& head() const { return *reinterpret_cast<channel::Head*>(at_); }
  /// The entry behind those that were taken; its words are read once.
  channel::Submission Next() const;
  /// Requests in flight or not read. Nothing: the client's counter is impossible.
  std::optional<std::uint32_t> Busy() const;
  void Ring();

  const int memory_, doorbell_;
  std::byte* const at_;
  const std::span<std::byte> data_;
  std::uint32_t taken_ = 0;
  std::atomic<std::uint32_t> in_flight_{0};
  Mutex mutex_;
  /// Grows before in_flight_ shrinks, so that their sum never misses a request.
  std::atomic<std::uint32_t> completed_{0};  // written under the mutex
};

}  // namespace lagoon
