#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
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
#include "sched/queue_plan.h"

namespace lagoon {

/// Units that a queue has from now on (Dispatcher::MoveShares()); none: all of the device.
struct QueueMove {
  QueueId queue{};
  UnitRange units;
};

/// One per device: takes jobs, lets the policy pick, submits, revokes, finishes. No thread of its
/// own runs jobs: the thread that brings news (an arriving request, a worker that finished a
/// kernel) does the work for all threads, in rounds, until no news is left
/// (docs/design/adr/0006-combining-dispatcher.md).
///
/// Bounds, in rounds (Mechanism::Step says what a round does):
///
/// - A posted job is admitted by the next round that begins, unless a switch of schedulers is under
///   way. While one thread calls clients, another thread that brings news does the next round.
///
/// - The answer of a finished real-time job is delivered after the round in which the job finished,
///   and that round submits nothing. Other answers are delivered after at most kMaxRounds rounds,
///   the one in which the job finished included.
class Dispatcher final : private DeviceListener {
 public:
  /// Most rounds that a finished best-effort job waits for its answer: enough to keep the device
  /// supplied with short kernels (a round takes some microseconds), and few enough that the answer
  /// is not late.
  static constexpr std::uint32_t kMaxRounds = 4;
  /// Most cancellations that wait for the next round. A caller that finds so many waits for the end
  /// of the round under way.
  static constexpr std::size_t kMaxCancels = 1024;
  /// Most jobs beyond max_pending that may wait for the next round, in a queue of
  /// Overflow::kNewestWins. Post refuses more.
  static constexpr std::size_t kMaxUnadmitted = 1024;

  /// `device` is borrowed and must be idle. Starts one thread that sleeps until the next job has to
  /// leave, unless the device's time is virtual. `observer` outlives the dispatcher; null: no
  /// observer. `on_lost` is called once after the device was lost, on any thread and without a
  /// lock. Another thread may still be calling clients of failed jobs then. Null: no call.
  Dispatcher(Device& device, const SchedulerConfig& config, std::unique_ptr<Policy> policy,
             SchedObserver* observer = nullptr, std::function<void()> on_lost = nullptr);
  /// Cancels all jobs that are left and waits until they have finished. No Post or Cancel may be
  /// under way.
  ~Dispatcher() override;
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Any thread.
  SchedulerConfig config() const;

  /// Any thread. Changes the scheduler to `config` and `policy`. Jobs posted before finish under
  /// the old scheduler; jobs posted later wait for them and run under the new one. `done` is called
  /// once, on any thread without a lock: with success when the new scheduler is in use, or with the
  /// reason why the old one stays: kUnavailable while another switch is under way or when the
  /// dispatcher ends, kResourceExhausted when the device has too few streams.
  void Switch(const SchedulerConfig& config, std::unique_ptr<Policy> policy,
              std::function<void(Status)> done);

  /// Any thread, may block; not on the path of a request. The instances must be idle and outlive
  /// the dispatcher or the queue (RemoveQueue).
  Result<QueueId> AddQueue(QueueOptions options);

  /// Any thread, may block; not on the path of a request. Makes a plan ready on all instances of
  /// the queue, for JobSpec::plan. Jobs go on meanwhile, also if the calling thread has a low
  /// priority. kInvalidArgument for an unknown queue, kResourceExhausted when there is no memory
  /// for a larger arena.
  Result<std::unique_ptr<QueuePlan>> AddPlan(QueueId queue,
                                             const std::shared_ptr<const LoadedPlan>& loaded);

  /// Any thread. Afterwards the queue's instances may be destroyed, and a later AddQueue() may
  /// return the same id. No Post to the queue may be under way or follow, and no other call for it.
  /// kInvalidArgument: an unknown queue, or one whose jobs have not all finished; then nothing
  /// changes.
  Status RemoveQueue(QueueId queue);

  /// Any thread. Frees arenas of the queue's instances that no plan needs any more. AddPlan() does
  /// this too, so call it where no AddPlan() will follow soon, some jobs after the last one.
  void FreeUnused(QueueId queue);

  /// Any thread, may block; not on the path of a request. Moves each queue to its units, all of
  /// them at the same time: queues may change places. A queue without a share gets one. Kernels of
  /// a queue that loses units are revoked, as for a preemption, and run on in the new units. So no
  /// unit works on for its former queue longer than a block takes to leave.
  ///
  /// kInvalidArgument: an unknown queue, one that comes twice, or units that the device does not
  /// allow. Other errors are those of DeviceControl::CreateShare(). They name the queue and the
  /// units, and no queue has moved.
  Status MoveShares(std::span<const QueueMove> moves);
  Status MoveShare(QueueId queue, UnitRange units) {
    const QueueMove move{queue, units};
    return MoveShares({&move, 1});
  }

  /// Any thread. Jobs that are admitted from now on have this weight (QueueOptions::weight).
  /// kInvalidArgument: an unknown queue, or a weight that is not above 0.
  Status SetWeight(QueueId queue, double weight);

  /// Any thread. On success Finished() is called exactly once, possibly before Post returns.
  /// If a client's Finished() calls Post, Post returns before the job is admitted.
  ///
  /// - kUnavailable, naming the queue and its limit, when the queue is full (Overflow::kReject) or
  ///   when jobs come faster than rounds do (kMaxUnadmitted).
  ///
  /// - kInvalidArgument when the spec does not fit its plan, or the plan is not of the queue.
  Result<JobId> Post(const JobSpec& spec);

  // A job that its caller owns and posts again and again, without allocation. Most callers want
  // CallerRun (sched/caller/caller_run.h).

  /// Any thread. Fills in what Post(Job&) posts: all of `spec` but the deadline. Allocates. The
  /// errors are those of Post(JobSpec).
  Status Prepare(const JobSpec& spec, Job& job) const;
  /// Any thread. An id for the next run, which Cancel() takes as soon as the job is posted.
  JobId NextId() { return JobId{next_id_.fetch_add(1, std::memory_order_relaxed)}; }
  /// As Post(JobSpec), for a job that Prepare() filled in and that no run is using. The dispatcher
  /// uses the job until it calls Finished(), and not any more then. Allocates nothing. False, with
  /// nothing changed: the queue is full, as FullError() says. `caller_waits`: the caller will call
  /// EnforceDeadlines() at the deadline, so that no other thread need wake for that.
  bool Post(Job& job, JobId id, TimePoint deadline, bool caller_waits);
  /// kUnavailable, naming the queue and its limit.
  Error FullError(QueueId queue) const;
  /// Any thread. Ends the jobs whose deadline has passed, as the dispatcher's own thread would.
  void EnforceDeadlines() { Step(); }
  Device& device() const { return device_; }

  /// Any thread, while the queue is there. Expected time of what such a job runs, alone on the
  /// device: that of the profile, refined by observation. 0: not known.
  Nanoseconds ExpectedTime(const JobSpec& spec) const;

  /// Any thread. The guards revoke the job's launches, and the job finishes as kCancelled unless it
  /// finished before. Unknown ids are ignored. May wait for the end of a round (kMaxCancels).
  void Cancel(JobId job);

  /// Any thread. The number of jobs that wait for an instance.
  std::size_t Pending(QueueId queue) const;

  DispatcherStats Stats() const;
  /// Kernels of the tenant's jobs that are done; `tenant` is from 1 to kMaxTenants.
  std::uint64_t TenantKernels(std::uint32_t tenant) const;

  /// Any thread. Mechanism::TakeOverload(). Unless the device's time is virtual, the dispatcher
  /// itself writes these sentences to the log, one in kOverloadPause at most.
  std::string TakeOverload();
  static constexpr Nanoseconds kOverloadPause = std::chrono::seconds(10);

 private:
  void OnDeviceNews() override { Step(); }
  struct Change {
    SchedulerConfig config;
    std::unique_ptr<Policy> policy;
    std::function<void(Status)> done;
    std::optional<Status> result;  // what `done` will be called with
  };

  /// Calls to make without a lock: of clients of finished jobs, and of `done` of changes of the
  /// scheduler.
  struct Answers {
    FinishedJobs finished;
    std::vector<std::unique_ptr<Change>> changes;  // completed or refused
    bool empty() const { return finished.empty() && changes.empty(); }
  };

  void Push(Job& job, JobId id, TimePoint posted);
  void Step();
  bool Work(Answers& answers);
  bool Deliver(Answers& answers);
  bool DoRound(Answers& answers);
  void ChangeScheduler(Answers& answers) REQUIRES(mutex_);
  void TakeNews(FinishedJobs& finished) REQUIRES(mutex_);
  void TakePosted(FinishedJobs& finished) REQUIRES(mutex_);
  void Hold(Job& job, FinishedJobs& finished) REQUIRES(mutex_);
  Job& Release(Job& job) REQUIRES(mutex_);
  void ExpireHeld(FinishedJobs& finished) REQUIRES(mutex_);
  void ApplyCancels(FinishedJobs& finished) REQUIRES(mutex_);
  void TellLoss();
  bool TellOverload();
  void SleepUntilLeaving(const std::stop_token& stop);
  TimePoint NextLeaving();
  void WakeTimerFor(TimePoint leaves);

  Device& device_;
  const bool observed_;

  // Each thread that brings news adds one. The thread that raises the count from zero does the work
  // for all.
  std::atomic<std::uint32_t> news_{0};
  // A Treiber stack, newest job first, which is only ever drained as a whole.
  std::atomic<Job*> inbox_{nullptr};
  std::atomic<std::uint64_t> next_id_{1};
  std::atomic<std::uint64_t> unfinished_{0};  // accepted jobs whose Finished has not returned
  std::atomic<std::uint64_t> stepping_{0};    // threads inside Step

  /// A move that only has to be carried out.
  struct PreparedMove {
    JobQueue* queue = nullptr;
    ShareId share = kAllUnits;
    UnitRange wanted;  // not empty
    UnitRange before;
    bool created = false;
  };
  Result<PreparedMove> PrepareMove(const QueueMove& move) REQUIRES(move_mutex_);
  Status CarryOut(std::span<const QueueMove> moves, std::span<const PreparedMove> prepared);

  QueueTable queues_;    // Add() only under mutex_
  Mutex move_mutex_;     // MoveShares(): one at a time; taken before mutex_
  mutable Mutex mutex_;  // held during a round; other uses are rare
  std::unique_ptr<Policy> policy_ GUARDED_BY(mutex_);
  Mechanism mechanism_ GUARDED_BY(mutex_);
  std::unique_ptr<Change> change_ GUARDED_BY(mutex_);  // waits until the mechanism is idle
  bool ending_ GUARDED_BY(mutex_) = false;
  // Jobs that were posted while a change was under way, in order of posting. Bounded: together with
  // the jobs that wait for an instance, at most max_pending of each queue.
  JobList<&Job::waiting_hook> held_ GUARDED_BY(mutex_);
  JobsByLeaving held_leaves_ GUARDED_BY(mutex_);         // those of held_ that end at some time
  std::vector<JobId> taken_cancels_ GUARDED_BY(mutex_);  // at most kMaxCancels; scratch
  FinishedJobs late_ GUARDED_BY(mutex_);                 // finished outside of a round

  Mutex cancel_mutex_;
  std::vector<JobId> cancels_ GUARDED_BY(cancel_mutex_);  // at most kMaxCancels
  std::atomic<bool> has_cancels_{false};

  const std::function<void()> on_lost_;
  std::atomic<bool> lost_{false}, told_lost_{false};

  Mutex timer_mutex_;
  CondVar timer_wake_;
  // The earliest Job::leaves of the jobs that were posted since the timer last asked for all.
  TimePoint timer_target_ GUARDED_BY(timer_mutex_) = kNoDeadline;
  std::jthread timer_;  // last member: stops before what it uses is destroyed
};

}  // namespace lagoon
