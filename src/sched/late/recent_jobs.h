#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "sched/job.h"

namespace lagoon {

/// The jobs that had the device lately, for JobResult::behind. Not thread-safe; allocates nothing.
class RecentJobs {
 public:
  /// Jobs that ended so many jobs ago are forgotten.
  static constexpr std::size_t kMost = 256;

  /// A job while it has the device.
  struct Entry {
    QueueId queue{};
    JobClass job_class = JobClass::kBestEffort;
    TimePoint started, ended;
  };
  /// A job that waited: from `arrived` to `started` for its turn, and to `ended` for better work
  /// that revoked it.
  struct Waited {
    Entry self;
    TimePoint arrived;
    bool any_class = false;  // best-effort jobs keep real-time ones waiting, too
  };

  /// The job has left the device, no earlier than those that were added before.
  void Add(const Entry& entry) { entries_[added_++ % kMost] = entry; }

  /// Counts a job that has the device, or had it. (The job itself counts nothing: it started when
  /// its wait ended.)
  template <typename NameOf>
  static void Count(const Waited& waited, const Entry& other, const NameOf& name_of,
                    RanBefore& to) {
    const bool better = other.job_class < waited.self.job_class;
    if (other.job_class > waited.self.job_class && !waited.any_class) return;
    const TimePoint end = std::min(other.ended, better ? waited.self.ended : waited.self.started);
    const Nanoseconds time = end - std::max(other.started, waited.arrived);
    if (time <= Nanoseconds(0)) return;
    ++to.jobs;
    if (time <= to.longest) return;
    to.longest = time;
    to.SetQueue(name_of(other.queue));
  }
  /// The same for all jobs that have left. `name_of(QueueId)`: the name of a queue.
  template <typename NameOf>
  void CountAll(const Waited& waited, const NameOf& name_of, RanBefore& to) const {
    const std::uint64_t oldest = added_ > kMost ? added_ - kMost : 0;
    for (std::uint64_t i = added_; i > oldest; --i) {
      const Entry& entry = entries_[(i - 1) % kMost];
      if (entry.ended <= waited.arrived) return;
      Count(waited, entry, name_of, to);
    }
  }
  /// The queue is removed, and its number may become that of another one.
  void Forget(QueueId queue) {
    for (Entry& entry : entries_) {
      if (entry.queue == queue) entry.started = entry.ended;
    }
  }

 private:
  std::array<Entry, kMost> entries_;  // a ring
  std::uint64_t added_ = 0;
};

}  // namespace lagoon
