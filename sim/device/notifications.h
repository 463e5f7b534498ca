#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "device/device.h"

namespace lagoon {

/// The events of a simulated device on their way to the host, oldest first. An event that the
/// device caused is visible one notification latency after it happened. An event that the host
/// caused is visible at once. Room (a credit) is reserved before anything can cause an event, so
/// that none is lost, however late the host polls. Not thread-safe; allocates only when built.
class Notifications {
 public:
  Notifications(std::size_t capacity, Nanoseconds latency)
      : device_(capacity), host_(capacity), latency_(latency), credits_(capacity) {}

  /// Takes `count` credits and returns true, or takes none and returns false.
  bool Reserve(std::size_t count) {
    if (credits_ < count) return false;
    credits_ -= count;
    return true;
  }
  /// Gives back credits whose events will not come.
  void Release(std::size_t count) { credits_ += count; }

  /// Uses up one credit. The times of the device's events must not go back.
  void PushFromDevice(const DeviceEvent& event) {
    device_.Push(event);
    if (next_news_ == kNoDeadline && event.kind != DeviceEvent::Kind::kPlaced) {
      scan_ = device_.end - 1;
      next_news_ = Visible(event);
    }
  }
  void PushFromHost(const DeviceEvent& event) { host_.Push(event); }

  /// Moves out the events that are visible at `now`, and frees their credits.
  std::size_t Pop(std::span<DeviceEvent> into, TimePoint now) {
    std::size_t count = 0;
    while (count < into.size() && !host_.empty()) into[count++] = host_.Pop();
    while (count < into.size() && !device_.empty() && Visible(device_.At(device_.begin)) <= now) {
      into[count++] = device_.Pop();
    }
    if (next_news_ != kNoDeadline && scan_ < device_.begin) FindNews(device_.begin);
    credits_ += count;
    return count;
  }

  /// When the host can first see the next device event, other than kPlaced, that Tell() has not
  /// covered. kNoDeadline: none is under way.
  TimePoint next_news() const { return next_news_; }

  /// Called when the host learns of all events that are visible at `now`.
  void Tell(TimePoint now) {
    while (next_news_ <= now) FindNews(scan_ + 1);
  }

 private:
  struct Ring {
    explicit Ring(std::size_t capacity)
        : events(std::bit_ceil(capacity)), mask(events.size() - 1) {}
    bool empty() const { return begin == end; }
    const DeviceEvent& At(std::uint64_t i) const { return events[i & mask]; }
    void Push(const DeviceEvent& event) {
      LAGOON_CHECK(end - begin < events.size());
      events[end++ & mask] = event;
    }
    DeviceEvent Pop() { return events[begin++ & mask]; }
    std::vector<DeviceEvent> events;
    const std::size_t mask;
    std::uint64_t begin = 0, end = 0;  // count all events ever pushed
  };

  TimePoint Visible(const DeviceEvent& event) const { return event.at + latency_; }

  void FindNews(std::uint64_t from) {
    next_news_ = kNoDeadline;
    for (scan_ = from; scan_ < device_.end; ++scan_) {
      if (device_.At(scan_).kind == DeviceEvent::Kind::kPlaced) continue;
      next_news_ = Visible(device_.At(scan_));
      return;
    }
  }

  Ring device_, host_;
  const Nanoseconds latency_;
  std::size_t credits_;
  std::uint64_t scan_ = 0;  // index of the event of next_news_
  TimePoint next_news_ = kNoDeadline;
};

}  // namespace lagoon
