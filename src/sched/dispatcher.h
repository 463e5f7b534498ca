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
/// own runs jobs: the thread that brings news (an arriving request, a worker that finished a
/// kernel) works for all threads, in rounds, until no news is left
/// (docs/design/adr/0006-combining-dispatcher.md).
///
/// Bounds, in rounds (Mechanism::Step says what a round does):
///
/// - A posted job is admitted by the next round that begins, unless a switch of schedulers is under
///   way. While a thread calls clients, any other thread that brings news does the next round.
///
/// - A finished job's answer is delivered after at most kMaxRounds rounds, the one in which the job
///   finished included.
class Dispatcher final : private DeviceListener {
 public:
  /// Rounds that a finished job may wait for its answer: enough to keep the device supplied with
  /// short kernels (a round takes some microseconds), and few enough that the answer is not late.
  static constexpr std::uint32_t kMaxRounds = 4;
  /// Cancellations that wait for the next round. A caller that finds so many waits for the end of
  /// the round under way.
  static constexpr std::size_t kMaxCancels = 1024;
  /// Jobs of a queue of Overflow::kNewestWins, beyond its max_pending, that may wait for the next
  /// round. Post refuses more.
  static constexpr std::size_t kMaxUnadmitted = 1024;

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
  /// kUnavailable, naming the queue and its limit, when the queue is full (Overflow::kReject) or
  /// when jobs come faster than rounds do (kMaxUnadmitted). Called by a client's Finished(), Post
  /// returns before the job is admitted.
  /// kInvalidArgument when the spec does not fit the queue's plan.
  Result<JobId> Post(const JobSpec& spec);

  /// Any thread. The job leaves through the guards and finishes as kCancelled, unless it finished
  /// before. Unknown ids are ignored. May wait for the end of a round (kMaxCancels).
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

  /// What clients are to hear, without a lock: ends of jobs, and of changes of the scheduler.
  struct Answers {
    FinishedJobs finished;
    std::vector<std::unique_ptr<Change>> changes;  // that are through or refused
    bool empty() const { return finished.empty() && changes.empty(); }
  };

  void Step();
  bool Work(Answers& answers);
  bool Deliver(Answers& answers);
  bool DoRound(Answers& answers);
  void ChangeScheduler(Answers& answers) REQUIRES(mutex_);
  void TakeNews(FinishedJobs& finished) REQUIRES(mutex_);
  void TakePosted(FinishedJobs& finished) REQUIRES(mutex_);
  void Hold(Job& job, FinishedJobs& finished) REQUIRES(mutex_);
  std::unique_ptr<Job> Release(Job& job) REQUIRES(mutex_);
  void ApplyCancels(FinishedJobs& finished) REQUIRES(mutex_);
  void TellLoss();
  void SleepUntilDeadlines(const std::stop_token& stop);
  void WakeTimerFor(TimePoint deadline);

  Device& device_;

  // Threads with news count themselves here. The thread that moves it from zero works for all.
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
  // Jobs that were posted under a change, in order of posting. Bounded: together with the jobs that
  // wait for an instance, at most max_pending of each queue.
  JobList<&Job::waiting_hook> held_ GUARDED_BY(mutex_);
  std::vector<JobId> taken_cancels_ GUARDED_BY(mutex_);  // at most kMaxCancels; scratch
  FinishedJobs late_ GUARDED_BY(mutex_);                 // finished outside of a round

  Mutex cancel_mutex_;
  std::vector<JobId> cancels_ GUARDED_BY(cancel_mutex_);  // at most kMaxCancels
  std::atomic<bool> has_cancels_{false};

  const std::function<void()> on_lost_;
  std::atomic<bool> lost_{false}, told_lost_{false};

  Mutex timer_mutex_;
  CondVar timer_wake_;
  TimePoint timer_target_ GUARDED_BY(timer_mutex_) = kNoDeadline;
  std::jthread timer_;  // last: stops before anything it uses is gone
};

}  // namespace lagoon
