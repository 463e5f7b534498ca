#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "device/device.h"

namespace lagoon {

/// Time that one worker spent inside bodies. Start() and Stop() on the worker's thread. Total() on
/// any thread, also while a body runs.
class BusyClock {
 public:
  void Start(TimePoint now) {
    // Bit 0: a body runs. The other bits hold the sum, or (sum - start time) while a body runs.
    word_.store(((total_ - now.time_since_epoch().count()) << 1) | 1, std::memory_order_release);
    start_ = now;
  }

  void Stop(TimePoint now) {
    total_ += (now - start_).count();
    word_.store(total_ << 1, std::memory_order_release);
  }

  /// Never less than an earlier call returned.
  Nanoseconds Total() const {
    // The worker may lose its core between reading the clock and Stop()'s store. Until that store
    // the body seems to run; then the sum drops by that time. Total() must not go back, so it keeps
    // the largest value that it has returned.
    const std::int64_t total = Read();
    std::int64_t told = told_.load(std::memory_order_relaxed);
    while (told < total && !told_.compare_exchange_weak(told, total, std::memory_order_relaxed)) {
    }
    return Nanoseconds(std::max(told, total));
  }

 private:
  std::int64_t Read() const {
    for (;;) {
      const std::int64_t word = word_.load(std::memory_order_acquire);
      if ((word & 1) == 0) return word >> 1;
      const TimePoint now = Now();
      // Unchanged: `now` belongs to the run that this word describes.
      if (word_.load(std::memory_order_acquire) == word) {
        return (word >> 1) + now.time_since_epoch().count();
      }
    }
  }

  std::atomic<std::int64_t> word_{0};
  mutable std::atomic<std::int64_t> told_{0};
  std::int64_t total_ = 0;  // used by the worker only
  TimePoint start_;         // used by the worker only
};

/// Sum over all units of the time without work, and the part of it during which the scheduler held
/// work back: the integral of the number of idle units, up to now. Externally locked.
class IdleClock {
 public:
  /// From now on so many units are idle.
  void SetIdle(std::int64_t units, TimePoint now) {
    Advance(now);
    idle_units_ = units;
  }
  void SetHeld(bool held, TimePoint now) {
    Advance(now);
    held_ = held;
  }
  void Advance(TimePoint now) {
    const Nanoseconds elapsed = idle_units_ * (now - last_);
    idle_ += elapsed;
    if (held_) idle_while_held_ += elapsed;
    last_ = now;
  }
  Nanoseconds idle() const { return idle_; }
  Nanoseconds idle_while_held() const { return idle_while_held_; }

 private:
  std::int64_t idle_units_ = 0;
  bool held_ = false;
  TimePoint last_;
  Nanoseconds idle_{0};
  Nanoseconds idle_while_held_{0};
};

}  // namespace lagoon
