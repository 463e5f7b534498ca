#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
#include "device/device.h"

namespace lagoon {

/// The events of a device, oldest first. Room for an event (a credit) is reserved before anything
/// can cause the event, so that none is lost, however late the host polls.
///
/// The device's lock protects Reserve(), Release() and Push(). Pop(), by one thread at a time, and
/// size() take no lock: whoever polls never waits for a thread of the device.
class EventRing {
 public:
  explicit EventRing(std::size_t capacity) : events_(capacity) {}

  /// Takes `count` credits and returns true, or takes none and returns false.
  bool Reserve(std::size_t count) {
    // acquire: the events whose places are free again have been read.
    const std::size_t kept =
        pushed_.load(std::memory_order_relaxed) - popped_.load(std::memory_order_acquire);
    if (events_.size() - kept - reserved_ < count) return false;
    reserved_ += count;
    return true;
  }

  /// Gives back credits whose events will not come.
  void Release(std::size_t count) { reserved_ -= count; }

  /// Uses up one reserved credit.
  void Push(const DeviceEvent& event) {
    LAGOON_CHECK(reserved_ > 0);
    --reserved_;
    const std::size_t at = pushed_.load(std::memory_order_relaxed);
    events_[at % events_.size()] = event;
    pushed_.store(at + 1, std::memory_order_release);
    if (event.kind == DeviceEvent::Kind::kRetired) {
      // release: who sees the count finds the event.
      retired_.store(retired_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
  }

  /// Moves the oldest events out, frees their credits, and returns the number of events.
  std::size_t Pop(std::span<DeviceEvent> into) {
    const std::size_t first = popped_.load(std::memory_order_relaxed);
    const std::size_t count =
        std::min(into.size(), pushed_.load(std::memory_order_acquire) - first);
    std::size_t retired = popped_retired_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i) {
      into[i] = events_[(first + i) % events_.size()];
      retired += into[i].kind == DeviceEvent::Kind::kRetired ? 1 : 0;
    }
    popped_retired_.store(retired, std::memory_order_release);
    popped_.store(first + count, std::memory_order_release);
    return count;
  }

  std::size_t size() const {
    // In this order, so that the difference is never below zero.
    const std::size_t popped = popped_.load(std::memory_order_acquire);
    return pushed_.load(std::memory_order_acquire) - popped;
  }

  /// How many of the events are kRetired. One that is being pushed may not count yet.
  std::size_t retired() const {
    const std::size_t popped = popped_retired_.load(std::memory_order_acquire);
    const std::size_t pushed = retired_.load(std::memory_order_acquire);
    return pushed > popped ? pushed - popped : 0;
  }

 private:
  std::vector<DeviceEvent> events_;
  std::size_t reserved_ = 0;
  std::atomic<std::size_t> pushed_{0}, popped_{0};
  std::atomic<std::size_t> retired_{0}, popped_retired_{0};  // those of them that are kRetired
};

}  // namespace lagoon
