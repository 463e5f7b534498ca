#pragma once

// The scheduling mechanism, single-threaded: the dispatcher calls it under its lock.

#include <array>
#include <memory>
#include <string>

#include "device/device.h"
#include "sched/config.h"
#include "sched/job_launches.h"
#include "sched/job_queue.h"
#include "sched/job_streams.h"
#include "sched/late/recent_jobs.h"
#include "sched/minimum/best_effort_minimum.h"
#include "sched/observer.h"
#include "sched/padding.h"
#include "sched/policy.h"
#include "sched/ready_index.h"

namespace lagoon {

/// Not thread-safe. Time comes from the device.
class Mechanism {
 public:
  Mechanism(Device& device, const SchedulerConfig& config, Policy& policy, QueueTable& queues);
  ~Mechanism();
  Mechanism(const Mechanism&) = delete;
  Mechanism& operator=(const Mechanism&) = delete;

  /// kResourceExhausted when the device has no guard or stream left, or there are kMaxQueues
  /// queues; kInvalidArgument names the option.
  Result<QueueId> AddQueue(QueueOptions options);

  /// The queue's instances and plans are not used any more. A later queue takes its place, and the
  /// guards, the stream and the share that the device has for it. kInvalidArgument: the queue is
  /// unknown, or a job of the queue is left.
  Status RemoveQueue(QueueId queue);

  /// The queue's launches use the share `share` from now on, which has `units`; no units: all.
  /// Its kernels in the device are revoked if it loses units; the caller does a round then.
  void UseShare(JobQueue& queue, ShareId share, UnitRange units);

  // Jobs whose outcome is known are moved to `finished`. The owner of that list delivers and
  // deletes them.

  /// The job stays where it is until it is in `finished`. It must already be counted in the queue's
  /// `pending`.
  void Admit(Job& job, FinishedJobs& finished);
  /// Ends a job that was never admitted.
  void Refuse(Job& job, Outcome outcome, FinishedJobs& finished);
  /// Ends the oldest job of the queue that waits for an instance. False: no job waits.
  bool SupersedeOldest(JobQueue& queue, FinishedJobs& finished);
  /// Unknown ids (finished jobs) are ignored.
  void Cancel(JobId id, FinishedJobs& finished);
  void CancelAll(FinishedJobs& finished);

  /// One round: reads the device's events, expires, revokes, picks and submits. Reads the events
  /// once more at its end, as no listener is called for those that the round itself caused. True:
  /// there were such events, and another round is needed. A round that finishes a real-time job
  /// submits nothing, because the answer goes first, and returns true.
  /// Bounded: a round reads at most all events of the launches in flight, and submits
  /// at most DeviceInfo::max_launches launches.
  bool Step(FinishedJobs& finished);

  /// Must be called before anything else; null: no observer.
  void Observe(SchedObserver* observer);
  /// Tells the observer, if there is one, of a plan that jobs may have from now on.
  void TellPlan(const QueuePlan& plan);

  /// Somebody waits until jobs end: DeviceQueue::HurryBackground().
  void Hurry(bool hurry);
  bool idle() const { return jobs_.empty(); }
  bool lost() const { return lost_; }  // the device is lost
  const SchedulerConfig& config() const { return config_; }
  /// Schedules from now on as `config` and `policy` say. `policy` must live until the next Use() or
  /// the end of the mechanism. Only when idle. kResourceExhausted when the device has too few
  /// streams left: the former scheduler stays in use then.
  Status Use(const SchedulerConfig& config, Policy& policy);

  /// When the next job ends because of the time, or TurnEnds().
  TimePoint NextLeaving() const;
  /// When the slice of best-effort work ends, which real-time work waits for, or best-effort work
  /// waits no longer for the next job of a real-time request. kNoDeadline: neither.
  TimePoint TurnEnds() const { return std::min(minimum_.ends(), held_until_); }
  /// Which real-time work had the device while best-effort work got slices only, for a second at
  /// least: a sentence for the log. Empty: that was not so, or nothing new since the last call.
  std::string TakeOverload();
  const DispatcherStats& stats() const { return stats_; }
  /// Kernels of the tenant that are done; those that ran again count again.
  std::uint64_t TenantKernels(std::uint32_t tenant) const { return tenant_kernels_[tenant - 1]; }

 private:
  Status PrepareQueue(JobQueue& queue, const QueueOptions& options);

  // Events of the device (mechanism_events.cc).
  std::size_t PollEvents(FinishedJobs& finished);  // handles the device's events; returns how many
  void OnPlaced(const DeviceEvent& event);
  void OnProgress(const DeviceEvent& event);
  void OnComplete(const DeviceEvent& event);
  void OnRetired(const DeviceEvent& event, FinishedJobs& finished);
  void OnOpRetired(LaunchId id, const JobLaunch& record, TimePoint at);
  void OnOutputRetired(const JobLaunch& record);
  void Interrupt(Job& job, std::size_t op);
  void RestartGroup(Job& job);
  void OnLost(FinishedJobs& finished);
  bool Revoked(const JobLaunch& launch) const;

  // Life of a job.
  void Start(Job& job);
  void Advance(Job& job, TimePoint at);
  void BeginsComputing(const Job& job);
  void EndsComputing(const Job& job);
  void TellAlmostFinished(Job& job) const;
  void TellHurry();
  void Leave(Job& job, Outcome outcome, FinishedJobs& finished);
  void Finish(Job& job, Outcome outcome, FinishedJobs& finished);
  void End(Job& job, Outcome outcome, FinishedJobs& finished);
  void EndOrHold(Job& job, Outcome outcome, FinishedJobs& finished);
  void CountBehind(Job& job) const;
  void LeaveExpired(FinishedJobs& finished);
  void SetLateFrom(Job& job) const;
  static bool AnotherIsInTime(const Job& job, TimePoint now);
  bool WouldBeLate(Job& job) const;
  bool SideBySide(const Job& a, const Job& b) const;
  bool Continues(const Job& job) const;
  void BeginHold(JobQueue& queue);
  void EndHold(const Job& job);
  void MindHold();
  void SetNextOp(Job& job, std::size_t op);
  void UpdateReady(Job& job);
  void SetReady(Job& job, bool ready);
  bool OutputsMayGo(const Job& job) const;
  void OfferNextWaiting(JobQueue& queue);

  // The minimum of best-effort work (mechanism_minimum.cc).
  void MindMinimum();
  void BeginSlice(TimePoint now);
  void EndSlice(TimePoint now);
  void NoteOverload(TimePoint now);
  void CountServed(Job& job, std::uint32_t done);
  void UpdateBestEffort();
  bool BestEffortWork() const;
  bool InBackground(const Job& job) const;

  // Picking and submitting.
  bool RunsBeside(const Job& job) const;
  bool RealTimeWork() const;
  bool RealTimeMode() const;
  bool TellsBlocks() const;
  bool SlicesKernels(const Job& job) const;
  bool PaddingLeaves() const;
  std::uint32_t SliceOf(const Job& job, std::uint32_t blocks, const PaddingRoom* room) const;
  bool Fits() const;
  ReadyView::Eligibility Eligible(bool best_effort) const;
  void RevokeBestEffort();
  void CountInVain(Job& job, std::size_t op);
  std::size_t FirstRevocable(const Job& job) const;
  bool MaySpare(const Job& job) const;
  bool RunsToItsEnd(const Job& job, std::size_t op) const;
  void SetGuards(const Job& job, const PaddingRoom* room, bool spared, Launch& launch) const;
  void TellRevoked(std::uint32_t kernels);
  void Revoke(Job& job);
  void Vacate(const JobQueue& queue);
  bool MayTakeDevice(const Job& job);
  bool Raises() const;
  void RaiseBehind();
  void PickAndSubmit();
  bool Pick(const ReadyView& view);
  bool Serve(Job& job, std::uint32_t ops, const PaddingRoom* room);
  static void LeaveOutCuts(Job& job);
  void PadRealTime();
  void FillRoom(const PaddingRoom& room);
  void RevokePadding();
  bool SubmitNext(Job& job, std::uint32_t ops, const PaddingRoom* room);
  bool SubmitOp(Job& job, const PaddingRoom* room);
  bool SubmitCopy(Job& job, Copy copy, JobLaunch::Kind kind, std::size_t index);
  bool SubmitOutputs(Job& job);
  void GoBack(Job& job, std::size_t op);
  bool Accepted(SubmitResult result, LaunchId id, Job& job);
  Rank RankOf(const Job& job, JobLaunch::Kind kind) const;
  Nanoseconds UnitTimeOf(const Job& job, std::uint32_t blocks) const;
  std::uint32_t UnitsFor(const Job& job) const;
  bool SharesTime(const Job& job) const;
  Rank TurnOf(const Job& job) const;
  void CatchUp(JobQueue& queue);

  // Calls of the observer (mechanism_observe.cc). Only if there is one.
  void TellJob(SchedEvent::Kind kind, const Job& job, TimePoint at, std::uint32_t value = 0);
  void TellLaunch(SchedEvent::Kind kind, LaunchId id, TimePoint at, std::uint32_t value = 0);
  void TellUnfinished(const DeviceEvent& retired);
  void TellDepths();

  Device& device_;
  SchedulerConfig config_;
  Policy* policy_;
  QueueTable& queues_;
  JobStreams streams_;

  JobLaunches launches_;
  ReadyIndex ready_;
  JobsById jobs_;
  JobsByLeaving leaves_;
  ActiveJobs active_;  // jobs that hold an instance
  Padding padding_;
  RecentJobs recent_;
  FinishedJobs held_;  // that are done, while Policy::HoldsAnswers()

  // One guard word for all best-effort work of the device but padding. Raising it to `group_limit_`
  // revokes the launches that were submitted with an earlier limit.
  GuardId group_guard_{};
  std::uint32_t group_limit_ = 0;
  std::uint32_t revocable_ = 0;  // best-effort kernels in flight with the current limit
  // The op of the one launch in flight that real-time work does not revoke; no job: none.
  struct Spared {
    const Job* job = nullptr;
    std::size_t op = 0;
  } spared_;
  std::uint32_t kernels_[2] = {0, 0};    // kernels in flight, by class
  UnitLedger ledger_;                    // of those kernels
  std::uint32_t computing_[2] = {0, 0};  // active jobs with incomplete kernels, by class
  std::uint32_t beside_computing_ = 0;   // of computing_: jobs that run beside best-effort work
  std::size_t beside_ready_ = 0;         // ready jobs that do
  std::uint32_t real_time_queues_ = 0;
  std::uint32_t hurrying_ = 0;          // jobs that hurry
  bool others_hurry_ = false;           // as Hurry() said last
  bool device_hurries_ = false;         // as the device was told last
  std::uint32_t continuing_ = 0;        // active jobs of real-time requests that go on
  TimePoint held_until_ = kNoDeadline;  // best-effort work waits; kNoDeadline: it need not
  BestEffortMinimum minimum_;
  bool slice_drains_ = false;      // real-time kernels have the device, and the slice begins anew
  Nanoseconds overloaded_for_{0};  // what TakeOverload() tells; 0: nothing
  TimePoint overload_begun_{};     // the slice from which that counts
  TimePoint slice_begun_{};        // the last one
  std::uint64_t picks_ = 0;
  bool polled_ = false;  // the last round read events at its end; the next one need not poll first
  bool lost_ = false;
  DispatcherStats stats_;
  std::array<std::uint64_t, kMaxTenants> tenant_kernels_{};
  SchedObserver* observer_ = nullptr;
  std::array<std::uint32_t, SchedEvent::kDepths> depths_{};  // as last reported to the observer
};

}  // namespace lagoon
