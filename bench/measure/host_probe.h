#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"

namespace lagoon::bench {

/// What the host and other programs did to this machine during one window. NaN: unknown.
struct HostReading {
  double core_seconds = 0;  // length of the window times the number of cores
  double stolen_s = 0;      // core time that the hypervisor gave to others (/proc/stat, steal)
  double foreign_s = 0;     // core time of processes that are neither this one nor its children
  double unit_us = 0;       // mean core time of the probe's unit of work
  double late_us = 0;       // p99 of how late the probe wakes up
  double probe_s = 0;       // core time of the probe itself
};

/// Reads the host between Begin() and End(). One thread.
class HostWatch {
 public:
  virtual ~HostWatch() = default;
  virtual void Begin() = 0;
  virtual HostReading End() = 0;
};

/// Core time in seconds since the machine started, from the text of /proc/stat.
struct HostTimes {
  double busy_s = 0;
  double stolen_s = 0;
};
HostTimes ParseHostTimes(const std::string& proc_stat, double ticks_per_second);

/// The real host. A thread of normal priority sleeps kPeriod, notes how late it woke up, and runs a
/// fixed unit of work in registers. Neither caches nor other threads of this machine slow the unit
/// down, as core time does not count waiting. The unit takes 20 to 80 us, so that the thread takes
/// less than 1 % of one core.
class HostProbe final : public HostWatch {
 public:
  static constexpr Nanoseconds kPeriod = std::chrono::milliseconds(10);

  HostProbe();
  ~HostProbe() override;
  void Begin() override;
  HostReading End() override;

 private:
  void Loop(const std::stop_token& stop);

  Mutex mutex_;
  std::vector<double> unit_us_ GUARDED_BY(mutex_);
  std::vector<double> late_us_ GUARDED_BY(mutex_);
  TimePoint begin_;
  HostTimes before_;
  double own_before_s_ = 0;
  std::jthread thread_;  // last member, as the thread uses the others
};

}  // namespace lagoon::bench
