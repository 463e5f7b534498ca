#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace lagoon {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Nanoseconds = std::chrono::nanoseconds;

/// "Never": the deadline of a job without one.
inline constexpr TimePoint kNoDeadline = TimePoint::max();

/// The real clock. Only `base`, the devices, the edges and `bench` may read it; policies and the
/// dispatcher take time from their device (DeviceQueue::Now), which is virtual in a simulator.
inline TimePoint Now() { return Clock::now(); }

/// CPU time of the calling thread; waiting is excluded. A system call. For measurements.
inline Nanoseconds ThreadCpuTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + Nanoseconds(now.tv_nsec);
}

/// Wall-clock time, for people and reports only: it may jump.
inline std::uint64_t UnixMilliseconds() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// A duration in the unit that reports use. Only here a duration loses its type.
inline double ToMicroseconds(Nanoseconds d) {
  return std::chrono::duration<double, std::micro>(d).count();
}
inline double ToMilliseconds(Nanoseconds d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

}  // namespace lagoon
