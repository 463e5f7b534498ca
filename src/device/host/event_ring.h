#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
#include "device/device.h"

namespace lagoon {

/// The events of a device, oldest first. Room for an event (a credit) is reserved before anything
/// can cause the event, so that none is lost, however late the host polls. Externally locked.
class EventRing {
 public:
  explicit EventRing(std::size_t capacity) : events_(capacity), credits_(capacity) {}

  /// Takes `count` credits and returns true, or takes none and returns false.
  bool Reserve(std::size_t count) {
    if (credits_ < count) return false;
    credits_ -= count;
    return true;
  }

  /// Gives back credits whose events will not come.
  void Release(std::size_t count) { credits_ += count; }

  /// Uses up one reserved credit.
  void Push(const DeviceEvent& event) {
    LAGOON_CHECK(size_ + credits_ < events_.size());
    events_[(first_ + size_) % events_.size()] = event;
    ++size_;
  }

  /// Moves the oldest events out, frees their credits, and returns the number of events.
  std::size_t Pop(std::span<DeviceEvent> into) {
    std::size_t count = 0;
    for (; count < into.size() && size_ > 0; ++count, --size_) {
      into[count] = events_[first_];
      first_ = (first_ + 1) % events_.size();
    }
    credits_ += count;
    return count;
  }

  std::size_t size() const { return size_; }

 private:
  std::vector<DeviceEvent> events_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::size_t credits_;
};

}  // namespace lagoon
