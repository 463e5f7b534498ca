#pragma once

#include <algorithm>

#include "base/time.h"

namespace lagoon::cuda {

/// Notices that a GPU which has work reports nothing. Between two looks at most a second counts, so
/// that a process that was stopped for minutes does not take its own absence for the GPU's silence.
/// Externally locked.
class Watchdog {
 public:
  /// `limit`: how long the GPU may be silent; 0: for ever.
  Watchdog(Nanoseconds limit, TimePoint now) : limit_(limit), last_look_(now) {}

  /// The GPU has reported something.
  void Hear() { silent_ = Nanoseconds(0); }
  /// `busy`: the GPU has work. True: it has been silent for longer than the limit.
  bool Look(bool busy, TimePoint now) {
    constexpr Nanoseconds kMostPerLook = std::chrono::seconds(1);
    const Nanoseconds passed = std::clamp(now - last_look_, Nanoseconds(0), kMostPerLook);
    last_look_ = now;
    silent_ = busy ? silent_ + passed : Nanoseconds(0);
    return limit_ > Nanoseconds(0) && silent_ > limit_;
  }

 private:
  const Nanoseconds limit_;
  TimePoint last_look_;
  Nanoseconds silent_{0};
};

}  // namespace lagoon::cuda
