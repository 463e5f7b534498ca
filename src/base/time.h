#pragma once

#include <chrono>

namespace lagoon {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Nanoseconds = std::chrono::nanoseconds;

/// "Never": the deadline of a job without one.
inline constexpr TimePoint kNoDeadline = TimePoint::max();

/// The real clock. Only `base`, the devices, the edges and `bench` may read it; policies and the
/// dispatcher take time from their device (DeviceQueue::Now), which is virtual in a simulator.
inline TimePoint Now() { return Clock::now(); }

/// A duration in the unit that reports use; the only place where the type ends.
inline double ToMicroseconds(Nanoseconds d) {
  return std::chrono::duration<double, std::micro>(d).count();
}
inline double ToMilliseconds(Nanoseconds d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

}  // namespace lagoon
