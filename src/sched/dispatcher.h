#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "device/device.h"
#include "sched/job.h"

namespace lagoon {

class Policy;

/// A named configuration of the mechanism; docs/schedulers.md has the table.
struct SchedulerConfig {
  enum class Streams : std::uint8_t { kOne, kPerQueue, kPooled };
  enum class Preemption : std::uint8_t {
    kNone,
    kWait,   // queued kernels leave, running ones finish before real-time work is submitted
    kReset,  // running blocks leave too (REEF 4)
  };
  std::string name;
  Streams streams = Streams::kPooled;
  Preemption preemption = Preemption::kNone;
  bool ranks_by_class = true;       // false: the device decides among what is submitted
  std::uint32_t max_active_jobs = 0;  // jobs with work on the device at once; 0: no limit
  std::uint32_t depth = 4;          // kernels of one job in the device's queue (REEF 4.2); 0: the whole job
};

/// Counters since the start; monotonic.
struct DispatcherStats {
  std::uint64_t revocations = 0;     // times that real-time work made best-effort work leave
  std::uint64_t resumed_blocks = 0;
  std::uint64_t launches = 0;
  std::uint64_t refused_launches = 0;  // Submit said kFull; tried again later
};

/// One per device: takes jobs, lets the policy pick, submits, revokes, finishes. No thread of its own runs
/// jobs: Step() happens under a combining lock on whichever thread brings news (design 4).
class Dispatcher final : private DeviceListener {
 public:
  /// `device` is borrowed. Starts a thread that sleeps until the next deadline, nothing else.
  Dispatcher(Device& device, SchedulerConfig config, std::unique_ptr<Policy> policy);
  /// Cancels what is left and waits until it has retired.
  ~Dispatcher() override;
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  const SchedulerConfig& config() const { return config_; }

  /// Any thread, may block; not on the path of a request. Instances must be idle and outlive the dispatcher.
  Result<QueueId> AddQueue(QueueOptions options);

  /// Any thread. On success Finished() will be called exactly once, possibly before Post returns.
  /// kUnavailable, naming the queue and its limit, when the queue is full (Overflow::kReject).
  /// kInvalidArgument when the spec does not fit the queue's plan.
  Result<JobId> Post(const JobSpec& spec);

  /// Any thread. The job leaves through the guards and finishes as kCancelled, unless it finished before.
  void Cancel(JobId job);

  /// Any thread. Jobs waiting in the queue, not counting those that run.
  std::size_t Pending(QueueId queue) const;

  DispatcherStats Stats() const;
