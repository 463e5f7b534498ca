#pragma once

#include <algorithm>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "sched/job.h"
#include "sched/queue_plan.h"
#include "sched/ready_index.h"

namespace lagoon {

struct JobQueue;

/// How long best-effort work waits for the next job of a real-time request (JobSpec::continues):
/// for nine of ten gaps between two jobs of a request, as observed, and at most kMostHold. Where
/// more than one of ten gaps is longer than that, it does not wait at all.
class PartGap {
 public:
  /// Some times as long as the host works between two parts of a detector.
  static constexpr Nanoseconds kMostHold = std::chrono::milliseconds(1);

  Nanoseconds hold() const { return estimate_ > kMostHold ? Nanoseconds(0) : estimate_; }
  /// A step down is a ninth of a step up, so that a tenth of the gaps lies above the estimate.
  void Observe(Nanoseconds gap) {
    constexpr Nanoseconds kLeast = std::chrono::microseconds(20);
    estimate_ += gap > estimate_ ? estimate_ * 9 / 64 : -estimate_ / 64;
    estimate_ = std::clamp(estimate_, kLeast, 2 * kMostHold);
  }

 private:
  Nanoseconds estimate_ = kMostHold;
};

/// One job. Created by Post on the caller's thread and owned by the dispatcher until the job is
/// finished, or owned by its caller (Dispatcher::Prepare).
///
///   waiting -> active -> finished             an instance became free; all outputs are copied
///   waiting -> finished                       cancelled, expired, superseded
///   active  -> leaving -> finished            cancelled, expired; the last launch retired
///   any     -> finished                       device lost
struct Job : ScheduledJob {
  enum class State : std::uint8_t { kWaiting, kActive, kLeaving, kFinished };

  State state = State::kWaiting;
  /// When it ends if it is still there: at its deadline; while it waits also at `waits_until`, and
  /// at `late_from` if another job of its queue would be in time.
  TimePoint leaves = kNoDeadline;
  TimePoint waits_until = kNoDeadline;  // QueueOptions::max_wait
  TimePoint late_from = kNoDeadline;    // begun later, it would end behind its deadline
  JobQueue* queue = nullptr;
  JobClient* client = nullptr;
  bool callers = false;  // the caller owns it: nothing touches it once Finished() is called
  HelpTerms help = {};   // of its launches
  bool beside = false;   // Mechanism::RunsBeside() when it was admitted
  /// If it is true when the job comes, the job ends as kCancelled. Null: the job runs.
  const std::atomic<bool>* cancelled = nullptr;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  bool continues = false;           // JobSpec::continues
  bool continued = false;           // JobSpec::continued
  Nanoseconds ahead{0};             // JobSpec::ahead
  const JobParts* parts = nullptr;  // null: tensors lie where `inputs` and `outputs` point
  JobResult result;

  QueuePlan* plan = nullptr;     // null: runs `instance`, which is not one of the queue's
  CostTable* costs = nullptr;    // of what it runs
  Instance* instance = nullptr;  // null: takes one of the queue's when it becomes active

  // Valid while active or leaving. Ops and tensors before a next_... index are submitted or
  // complete.
  StreamId stream = kUnordered;
  bool background = false;   // Launch::background, of all its launches
  bool told_almost = false;  // JobClient::AlmostFinished() was called
  bool hurries = false;      // it leaves, and launches of the background keep its answer
  Rank rank = 0;             // rank of its launches within its class, from the last pick
  std::size_t slot = 0;      // which slot of the queue the job occupies
  std::size_t next_input = 0;
  std::size_t next_op = 0;
  std::size_t next_output = 0;
  std::size_t first_incomplete = 0;  // ops before this one are complete
  // When the op before that one was complete, or the first op began; TimePoint{}: not yet.
  TimePoint op_since{};
  // Ops before this one that are in flight have Decision::kFrontRank.
  std::size_t front_until = 0;
  std::size_t revoked_until = 0;  // ops before this one may have launches from before a revocation
  // Launches in flight that are not revoked may wait for ops before `revoked_until` that are to be
  // submitted again, so that they do not retire before.
  bool launches_wait = false;
  // How often real-time work revoked the op `op` when no block had been done since the time before.
  struct InVain {
    std::size_t op = 0;
    std::uint32_t done = 0;  // blocks of the op
    std::uint32_t times = 0;
  } in_vain;
  // Kernels of kByGroup that were interrupted: the first op of their groups, and the last of them.
  // Nothing more is submitted until all launches of kernels have retired and these ops are reset.
  struct Interrupted {
    bool any = false;
    std::size_t first = 0, last = 0;
  } interrupted;
  // How often the group of the op `op` has run again, since another op's group did.
  struct Restarts {
    std::size_t op = 0;
    std::uint32_t times = 0;
  } restarts;
  std::uint32_t inputs_left = 0;  // input copies not yet complete
  std::uint32_t outputs_left = 0;
  std::uint32_t output_launches = 0;  // copies of outputs in flight
  std::uint32_t launches = 0;         // launches in flight, revoked ones included
  std::uint32_t counted = 0;  // blocks of op `first_incomplete` that BestEffortMinimum knows of

  Job* next_in_inbox = nullptr;
  intrusive::list_member_hook<> waiting_hook;   // JobQueue::waiting or Dispatcher::held_
  intrusive::list_member_hook<> active_hook;    // Mechanism::active_
  intrusive::list_member_hook<> finished_hook;  // FinishedJobs
  intrusive::set_member_hook<> id_hook;         // Mechanism::jobs_
  intrusive::set_member_hook<> leaves_hook;     // Mechanism::leaves_ or Dispatcher::held_leaves_

  /// Whether the input is not copied: a null pointer stands for the bytes that lie in the arena of
  /// the job's own instance.
  bool Keeps(std::size_t input) const { return plan == nullptr && inputs[input] == nullptr; }
  /// How it ends at `leaves`.
  Outcome OutcomeOfLeaving() const {
    return leaves == waits_until ? Outcome::kNotStarted : Outcome::kExpired;
  }
};

template <intrusive::list_member_hook<> Job::*Hook>
using JobList =
    intrusive::list<Job, intrusive::member_hook<Job, intrusive::list_member_hook<>, Hook>>;

/// Jobs whose outcome is known. The owner of the list calls Finished and deletes the jobs, except
/// those of callers.
using FinishedJobs = JobList<&Job::finished_hook>;

/// Jobs that hold an instance.
using ActiveJobs = JobList<&Job::active_hook>;

struct IdOf {
  using type = JobId;
  JobId operator()(const Job& job) const { return job.id; }
};
using JobsById =
    intrusive::set<Job, intrusive::member_hook<Job, intrusive::set_member_hook<>, &Job::id_hook>,
                   intrusive::key_of_value<IdOf>>;

/// Jobs that end at some time, the earliest first.
struct ByLeaving {
  bool operator()(const Job& a, const Job& b) const {
    return a.leaves != b.leaves ? a.leaves < b.leaves : a.id < b.id;
  }
};
using JobsByLeaving =
    intrusive::set<Job,
                   intrusive::member_hook<Job, intrusive::set_member_hook<>, &Job::leaves_hook>,
                   intrusive::compare<ByLeaving>>;

/// Whether one of the jobs is of the real-time class.
bool HasRealTime(const FinishedJobs& finished);

/// The jobs of one class of one model.
struct JobQueue {
  struct Slot {
    Instance* instance = nullptr;
    GuardId guard{};             // revokes the kernels and outputs of the job on this instance
    std::uint32_t revision = 0;  // the guard's limit for the present job
    GuardId leaving_guard{};     // revokes its input copies, which stay when kernels are revoked
    std::uint32_t left = 0;      // the leaving guard's limit
  };

  explicit JobQueue(QueueId id_in) : id(id_in) {}

  /// Makes it the queue of `options_in`. No job may be there.
  void Use(QueueOptions options_in) {
    options = std::move(options_in);
    removed = false;
    ran = {};
    served = Nanoseconds(0);
    gap = {};
    part_done = {};
    first = options.instances.front()->first() == nullptr
                ? nullptr
                : std::make_unique<QueuePlan>(id, options.instances);
  }

  /// Whether no job of the queue is posted, waiting or on an instance.
  bool Idle() const {
    return pending.load() == 0 && waiting.empty() && held == 0 &&
           free_slots.size() == options.instances.size();
  }

  /// The job that one more job will supersede; null: none.
  const Job* GivesWay() const {
    const bool full = waiting.size() >= options.max_pending;
    return full && options.overflow == Overflow::kNewestWins ? &waiting.front() : nullptr;
  }

  const QueueId id;
  QueueOptions options;
  std::unique_ptr<QueuePlan> first;     // what the instances were created with; may be null
  std::atomic<std::size_t> pending{0};  // posted and not started; changed by any thread
  StreamId stream = kUnordered;
  /// Of its launches; options.units are the share's units. Changed under the dispatcher's lock.
  std::atomic<ShareId> share{kAllUnits};
  /// One per instance; behind those, slots whose guards an earlier queue of this place had.
  std::vector<Slot> slots;
  std::vector<std::size_t> free_slots;
  JobList<&Job::waiting_hook> waiting;  // in order of admission
  std::size_t held = 0;                 // jobs that a switch of schedulers keeps from admission
  PartGap gap;
  TimePoint part_done{};  // when a job ended that another follows; none: it has come
  Nanoseconds served{0};  // device time of its best-effort jobs: Mechanism::SharesTime()
  bool removed = false;   // Mechanism::RemoveQueue(): AddQueue() may use it again
  /// Sums of the times of the queue's kernels, of real-time jobs only.
  struct Ran {
    Nanoseconds now{0};
    Nanoseconds before{0};   // at the begin of the last slice (BestEffortMinimum)
    Nanoseconds between{0};  // the last two slices
  } ran;

  // Dispatcher::AddPlan(), also by a thread of low priority that allocates: no other may wait.
  Mutex add_mutex;
  std::uint32_t next_plan GUARDED_BY(add_mutex) = 1;  // 0 is `first`
};

/// Number of units that the queue's launches may use, of a device with `all` units.
inline std::uint32_t UnitsOf(const JobQueue& queue, std::uint32_t all) {
  return queue.options.units.count == 0 ? all : queue.options.units.count;
}

/// The units that the queue's launches may use, of a device with `all` units.
inline UnitRange RangeOf(const JobQueue& queue, std::uint32_t all) {
  return queue.options.units.count == 0 ? UnitRange{0, all} : queue.options.units;
}

/// All queues. Add by one thread at a time; Find by any thread, without a lock: queues never go
/// away. A queue that was removed keeps its place, and a later one takes the place over.
class QueueTable {
 public:
  static constexpr std::size_t kMaxQueues = 4096;

  QueueTable() { queues_.reserve(kMaxQueues); }

  bool full() const { return queues_.size() == kMaxQueues; }
  QueueId next_id() const { return QueueId{static_cast<std::uint32_t>(queues_.size())}; }

  QueueId Add(std::unique_ptr<JobQueue> queue) {
    LAGOON_CHECK(!full() && queue->id == next_id());
    const QueueId id = queue->id;
    queues_.push_back(std::move(queue));
    // release: pairs with Find. The vector never reallocates, and published entries never change.
    count_.store(queues_.size(), std::memory_order_release);
    return id;
  }

  /// A queue that was removed, or null. The caller's thread is the one that may Add.
  JobQueue* FindRemoved() const {
    const auto found = std::ranges::find_if(queues_, [](const auto& q) { return q->removed; });
    return found == queues_.end() ? nullptr : found->get();
  }

  /// Null for an unknown id.
  JobQueue* Find(QueueId id) const {
    return Raw(id) < count_.load(std::memory_order_acquire) ? queues_.data()[Raw(id)].get()
                                                            : nullptr;
  }

 private:
  std::vector<std::unique_ptr<JobQueue>> queues_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace lagoon
