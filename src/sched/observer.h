#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "sched/config.h"
#include "sched/job.h"

namespace lagoon {

/// Something that the mechanism saw or did. What a field means depends on the kind; the others are
/// zero.
struct SchedEvent {
  enum class Kind : std::uint8_t {
    kArrived,   // a job was posted (at its posting)
    kLaunched,  // a launch of a job went to the device, whose plan is the `value`-th of its queue
                // (LoadedPlan::at); at: before its first block can run
    kResumed,   // that launch finds `value` blocks done and does not run them again
    kRevoked,   // best-effort work was asked to leave: `value` kernels on the device
    kEvicted,   // a launch retired before any block of it ran, its kernel not complete
    kLeft,      // a launch retired after some, its kernel not complete
    kFinished,  // a job left; value: its Outcome
    kDepth,     // a queue's new depth; index: the Depth, value: how many
  };
  /// What a launch computes; its `index` counts within that.
  enum class Work : std::uint8_t { kInput, kKernel, kOutput };
  enum class Depth : std::uint8_t {
    kReadyRealTime,    // jobs that may take another kernel and did not get it
    kReadyBestEffort,  // the same
    kWaiting,          // jobs that have not started
    kLaunches,         // in the device
  };
  static constexpr std::size_t kDepths = 4;

  Kind kind{};
  Work work{};
  bool padding = false;  // of a launch: beside real-time work
  QueueId queue{};
  std::uint32_t index = 0;
  std::uint32_t value = 0;
  JobId job{};
  LaunchId launch{};
  TimePoint at{};
};

/// Told what a dispatcher does, for traces and tests. Every call is under the dispatcher's lock: it
/// must be short and must not call the dispatcher or the device.
class SchedObserver {
 public:
  virtual ~SchedObserver() = default;
  /// A dispatcher begins. Its ids are its own: another one's may be equal. May allocate.
  virtual void OnStart(const SchedulerConfig& config, TimePoint at) = 0;
  /// Before any event of its jobs. May allocate.
  virtual void OnQueue(QueueId queue, const QueueOptions& options) = 0;
  /// In order of what happened, but kArrived, which is told after its time. Must not allocate.
  virtual void OnEvent(const SchedEvent& event) = 0;
};

}  // namespace lagoon
