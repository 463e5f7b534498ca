#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "sched/config.h"
#include "sched/job.h"

namespace lagoon {

/// Something that the mechanism saw or did. The kind decides which fields are set and what they
/// mean; the others are zero.
struct SchedEvent {
  enum class Kind : std::uint8_t {
    kArrived,  // a job was posted; at: the time of the posting
    // A launch went to the device. value: the number of the job's plan (OnPlan), 0 for a job with
    // an instance of its own; at: before the first block of the launch can run.
    kLaunched,
    kResumed,   // the launch just reported finds `value` blocks done and does not run them again
    kRevoked,   // best-effort work was revoked; value: its kernels on the device
    kEvicted,   // a launch retired before any of its blocks ran; its kernel is not complete
    kLeft,      // a launch retired after some of its blocks ran; its kernel is not complete
    kFinished,  // a job ended; value: its Outcome
    kDepth,     // a depth has changed; index: the Depth, value: the new depth
  };
  /// What a launch does; `index` is the number of the input, kernel or output.
  enum class Work : std::uint8_t { kInput, kKernel, kOutput };
  enum class Depth : std::uint8_t {
    kReadyRealTime,    // real-time jobs that could submit another kernel and did not
    kReadyBestEffort,  // the same for best-effort jobs
    kWaiting,          // jobs that have not started
    kLaunches,         // launches in the device
  };
  static constexpr std::size_t kDepths = 4;

  Kind kind{};
  Work work{};
  bool padding = false;  // the launch is padding: it runs beside real-time work
  QueueId queue{};
  std::uint32_t index = 0;
  std::uint32_t value = 0;
  JobId job{};
  LaunchId launch{};
  TimePoint at{};
};

/// Receives what a dispatcher does, for traces and tests. Every call is made under the dispatcher's
/// lock: it must be short and must not call the dispatcher or the device.
class SchedObserver {
 public:
  virtual ~SchedObserver() = default;
  /// A dispatcher begins to use a scheduler. Ids of different dispatchers may be equal. May
  /// allocate.
  virtual void OnStart(const SchedulerConfig& config, TimePoint at) = 0;
  /// The same dispatcher uses another scheduler from now on. Its queues and their plans stay. May
  /// allocate.
  virtual void OnSwitch(const SchedulerConfig& config, TimePoint at) = 0;
  /// Called before any event of the queue's jobs. May allocate.
  virtual void OnQueue(QueueId queue, const QueueOptions& options) = 0;
  /// Jobs of the queue may run this plan from now on. `number` ascends within a queue; number 0 is
  /// the plan that the queue's instances were created with, if there is one. `plan` may be gone
  /// after the call. May allocate.
  virtual void OnPlan(QueueId queue, std::uint32_t number, const Plan& plan) = 0;
  /// Called in the order in which things happened, except for kArrived, which comes later than its
  /// time. Must not allocate.
  virtual void OnEvent(const SchedEvent& event) = 0;
};

}  // namespace lagoon
