#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "device/device.h"

namespace lagoon {

/// Time of one worker inside bodies. Start and Stop on the worker; Total on any thread, also
/// inside.
class BusyClock {
 public:
  void Start(TimePoint now) {
    // One word holds both the sum and whether it runs: (sum - start) while it does. Bit 0: it runs.
    word_.store(((total_ - now.time_since_epoch().count()) << 1) | 1, std::memory_order_release);
    start_ = now;
  }

  void Stop(TimePoint now) {
    total_ += (now - start_).count();
    word_.store(total_ << 1, std::memory_order_release);
  }

  Nanoseconds Total() const {
    for (;;) {
      const std::int64_t word = word_.load(std::memory_order_acquire);
      if ((word & 1) == 0) return Nanoseconds(word >> 1);
      const TimePoint now = Now();
      // Unchanged: it ran all the time until `now`, so that a later call never gives less.
      if (word_.load(std::memory_order_acquire) == word) {
        return Nanoseconds((word >> 1) + now.time_since_epoch().count());
      }
    }
  }

 private:
  std::atomic<std::int64_t> word_{0};
  std::int64_t total_ = 0;  // the worker's
  TimePoint start_;         // the worker's
};

/// Time of all workers without work, and the part of it while the scheduler held work back: the
/// integral of the number of idle workers, up to now. Externally locked.
class IdleClock {
 public:
  void Enter(TimePoint now) {
    Advance(now);
    ++idle_workers_;
  }
  void Exit(TimePoint now) {
    Advance(now);
    --idle_workers_;
  }
  void SetHeld(bool held, TimePoint now) {
    Advance(now);
    held_ = held;
  }
  void Advance(TimePoint now) {
    const Nanoseconds elapsed = idle_workers_ * (now - last_);
    idle_ += elapsed;
    if (held_) idle_while_held_ += elapsed;
    last_ = now;
  }
  Nanoseconds idle() const { return idle_; }
  Nanoseconds idle_while_held() const { return idle_while_held_; }

 private:
  std::int64_t idle_workers_ = 0;
  bool held_ = false;
  TimePoint last_;
  Nanoseconds idle_{0};
  Nanoseconds idle_while_held_{0};
};

}  // namespace lagoon
