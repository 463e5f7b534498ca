#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"

namespace lagoon {

/// The load that arrivals bring: the sum of their times over the last second. Kept in tenths of a
/// second, so that a sum spans 0.9 to 1 s.
class ArrivalLoad {
 public:
  /// A job arrived that takes `time` alone on the device.
  void Add(TimePoint at, Nanoseconds time) {
    MoveTo(at);
    sums_[static_cast<std::size_t>(tenth_) % sums_.size()] += time;
  }

  /// 1: as much as the device can do.
  double At(TimePoint now) {
    MoveTo(now);
    Nanoseconds sum{0};
    for (const Nanoseconds of_tenth : sums_) sum += of_tenth;
    return std::chrono::duration<double>(sum).count();
  }

 private:
  // Earlier times count as the latest one that was seen.
  void MoveTo(TimePoint at) {
    const std::int64_t tenth = at.time_since_epoch() / std::chrono::milliseconds(100);
    const auto steps = std::min<std::int64_t>(tenth - tenth_, sums_.size());
    for (std::int64_t i = 0; i < steps; ++i) {
      sums_[static_cast<std::size_t>(tenth - i) % sums_.size()] = Nanoseconds(0);
    }
    tenth_ = std::max(tenth, tenth_);
  }

  std::array<Nanoseconds, 10> sums_{};
  std::int64_t tenth_ = 0;  // since the clock's epoch
};

}  // namespace lagoon
