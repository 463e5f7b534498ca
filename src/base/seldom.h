#pragma once

#include <optional>

#include "base/time.h"

namespace lagoon {

/// Lets something happen once in a period at most, such as a line of the log that would else be
/// repeated again and again. One thread.
class Seldom {
 public:
  explicit Seldom(Nanoseconds period) : period_(period) {}

  /// Whether it may happen at `now`: then it counts as done.
  bool Due(TimePoint now) {
    if (last_ && now - *last_ < period_) return false;
    last_ = now;
    return true;
  }

 private:
  const Nanoseconds period_;
  std::optional<TimePoint> last_;
};

}  // namespace lagoon
