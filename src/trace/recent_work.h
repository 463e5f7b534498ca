#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "device/observer.h"
#include "sched/observer.h"
#include "trace/recent_ring.h"

namespace lagoon {

/// What a device has done lately and for which jobs, in memory of fixed size, readable while the
/// device works. A TraceRecorder keeps every block until the end; this keeps the newest work, with
/// the blocks of a launch on a unit joined. For one dispatcher. Recording allocates nothing and
/// takes no lock.
class RecentWork final : public DeviceObserver, public SchedObserver {
 public:
  struct Options {
    std::size_t records = 8192;    // of each unit: blocks of one launch, up to kLongestRecord
    std::size_t launches = 16384;  // that are known by their job
    /// Get all calls, too; null: nothing does.
    DeviceObserver* blocks_to = nullptr;
    SchedObserver* events_to = nullptr;
  };
  /// Blocks of a launch on a unit that end within so long are one record.
  static constexpr Nanoseconds kLongestRecord = std::chrono::milliseconds(1);

  /// `device` is idle; the object becomes its observer and must outlive it, or its use.
  RecentWork(Device& device, const Options& options);

  /// What one job did in a span of time.
  struct Work {
    std::string model;  // QueueOptions::name; empty: the launch is not known any more
    JobClass job_class = JobClass::kBestEffort;
    JobId job{};
    std::uint64_t launches = 0;  // that went to the device in the span
    std::uint64_t blocks = 0;    // that ran in the span; a record at its ends counts by its part
    std::uint64_t left = 0;      // blocks of them that left without a result, because of a guard
    Nanoseconds busy{0};         // time on units, all units together
    Nanoseconds opaque{0};       // part of `busy` in kernels of an engine, which cannot leave
  };
  struct Report {
    std::vector<Work> jobs;    // most time first; then most launches
    bool complete = true;      // false: the span begins before what is kept
    bool blocks_known = true;  // false: the device does not report blocks (a GPU)
  };
  /// Any thread. Takes about as long as copying all records.
  Report Between(TimePoint from, TimePoint to) const;

  // DeviceObserver
  void OnPlaced(const DeviceBlock& block) override;
  void OnEnded(const DeviceBlock& block, TimePoint at, bool committed) override;
  // SchedObserver
  void OnStart(const SchedulerConfig& config, TimePoint at) override;
  void OnSwitch(const SchedulerConfig& config, TimePoint at) override;
  void OnQueue(QueueId queue, const QueueOptions& options) override;
  void OnPlan(QueueId queue, std::uint32_t number, const Plan& plan) override;
  void OnEvent(const SchedEvent& event) override;

 private:
  /// The unit's newest record, which its thread adds blocks to.
  struct Unit {
    explicit Unit(std::size_t records) : ring(records) {}

    RecentRing<5> ring;  // launch; begin; busy; blocks; left
    std::uint64_t launch = 0;
    std::uint64_t begin = 0, busy = 0, blocks = 0, left = 0;
    bool any = false;
    // The block that runs now: the number of its launch plus 1 (0: none), and its begin.
    std::atomic<std::uint64_t> running{0}, running_since{0};
  };
  struct Queue {
    std::string model;
    JobClass job_class = JobClass::kBestEffort;
    /// By number of the plan: which ops an engine computes; empty: none of them.
    std::vector<std::vector<bool>> opaque;
  };
  /// A queue's plans from this number on count as without ops of an engine.
  static constexpr std::uint32_t kMaxPlans = 1024;
  class Sum;

  const Options options_;
  const bool blocks_known_;
  std::deque<Unit> units_;
  RecentRing<5> launches_;  // launch; job; queue and op; plan and work; time
  mutable Mutex mutex_;
  std::vector<Queue> queues_ GUARDED_BY(mutex_);  // by QueueId
};

}  // namespace lagoon
