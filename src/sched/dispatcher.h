#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "device/device.h"
#include "sched/config.h"
#include "sched/job.h"
#include "sched/mechanism.h"
#include "sched/observer.h"
#include "sched/policy.h"

namespace lagoon {

/// One per device: takes jobs, lets the policy pick, submits, revokes, finishes. No thread of its
/// own runs jobs: Step() happens under a combining lock on whichever thread brings news (design 4),
/// be it an arriving request or the worker that finished a kernel.
class Dispatcher final : private DeviceListener {
 public:
  /// `device` is borrowed and must be idle. Starts one thread that sleeps until the next deadline,
  /// unless the device's time is virtual. `observer` outlives the dispatcher; null: nobody is told.
  /// `on_lost` is called once, when the device is lost and every job has been told so, on any
  /// thread and without a lock; null: nobody is told.
  Dispatcher(Device& device, const SchedulerConfig& config, std::unique_ptr<Policy> policy,
             SchedObserver* observer = nullptr, std::function<void()> on_lost = nullptr);
  /// Cancels what is left and waits until all of it has finished. No Post or Cancel may be under
  /// way.
  ~Dispatcher() override;
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Any thread.
  SchedulerConfig config() const;

  /// Any thread. From now on schedules as `config` and `policy` say: jobs posted before finish
  /// under the old scheduler; those posted later wait for them and run under the new one. `done` is
  /// told once, on any thread without a lock, when the new one is in use, or why the old one still
  /// is: kUnavailable while another switch is under way or when the dispatcher ends,
  /// kResourceExhausted when the device has no stream for it.
  void Switch(const SchedulerConfig& config, std::unique_ptr<Policy> policy,
              std::function<void(Status)> done);

  /// Any thread, may block; not on the path of a request. The instances must be idle and outlive
  /// the dispatcher.
  Result<QueueId> AddQueue(QueueOptions options);

  /// Any thread. On success Finished() is called exactly once, possibly before Post returns.
  /// kUnavailable, naming the queue and its limit, when the queue is full (Overflow::kReject).
  /// kInvalidArgument when the spec does not fit the queue's plan.
  Result<JobId> Post(const JobSpec& spec);

  /// Any thread. The job leaves through the guards and finishes as kCancelled, unless it finished
  /// before.
  void Cancel(JobId job);

  /// Any thread. Jobs that wait for an instance.
  std::size_t Pending(QueueId queue) const;

  DispatcherStats Stats() const;

 private:
  void OnDeviceNews() override { Step(); }
  struct Change {
    SchedulerConfig config;
    std::unique_ptr<Policy> policy;
    std::function<void(Status)> done;
    std::optional<Status> result;  // to be told
  };

  void Step();
  using Changes = std::vector<std::unique_ptr<Change>>;  // that are through or refused
  void Combine(FinishedJobs& finished, Changes& changes);
  void ChangeScheduler(Changes& changes) REQUIRES(mutex_);
  void AdmitPosted(FinishedJobs& finished) REQUIRES(mutex_);
  void Deliver(FinishedJobs& finished);
  void TellLoss();
  void SleepUntilDeadlines(const std::stop_token& stop);
  void WakeTimerFor(TimePoint deadline);

  Device& device_;

  // Threads with news count themselves here; whoever moves it from zero steps for all of them.
  std::atomic<std::uint32_t> news_{0};
  std::atomic<Job*> inbox_{
      nullptr};  // newest first; a Treiber stack that is only ever drained whole
  std::atomic<std::uint64_t> next_id_{1};
  std::atomic<std::uint64_t> unfinished_{0};  // accepted jobs whose Finished has not returned
  std::atomic<std::uint64_t> stepping_{0};    // threads inside Step

  QueueTable queues_;    // Add under mutex_
  mutable Mutex mutex_;  // held by the combiner; contended only by what is rare
  std::unique_ptr<Policy> policy_ GUARDED_BY(mutex_);
  Mechanism mechanism_ GUARDED_BY(mutex_);
  std::unique_ptr<Change> change_ GUARDED_BY(mutex_);  // waits until the mechanism is idle
  bool ending_ GUARDED_BY(mutex_) = false;

  Mutex cancel_mutex_;
  std::vector<JobId> cancels_ GUARDED_BY(cancel_mutex_);
  std::atomic<bool> has_cancels_{false};

  const std::function<void()> on_lost_;
  std::atomic<bool> lost_{false}, told_lost_{false};

  Mutex timer_mutex_;
  CondVar timer_wake_;
  TimePoint timer_target_ GUARDED_BY(timer_mutex_) = kNoDeadline;
  std::jthread timer_;  // last: stops before anything it uses is gone
};

}  // namespace lagoon
