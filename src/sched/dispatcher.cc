#include "sched/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"

namespace lagoon {
namespace {

// The dispatchers whose clients this thread is calling. Jobs that these clients post are admitted
// after they have returned: no answer waits for new jobs, and the stack does not grow.
class Calling {
 public:
  explicit Calling(const Dispatcher& dispatcher) : dispatcher_(dispatcher), outer_(innermost) {
    innermost = this;
  }
  ~Calling() { innermost = outer_; }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

  /// Null: this thread is not calling a client of the dispatcher.
  static Calling* ByThisThread(const Dispatcher& dispatcher) {
    Calling* calling = innermost;
    while (calling != nullptr && &calling->dispatcher_ != &dispatcher) calling = calling->outer_;
    return calling;
  }

  bool again = false;  // a client has brought news

 private:
  static thread_local Calling* innermost;
  const Dispatcher& dispatcher_;
  Calling* const outer_;
};
thread_local Calling* Calling::innermost = nullptr;

}  // namespace

Dispatcher::Dispatcher(Device& device, const SchedulerConfig& config,
                       std::unique_ptr<Policy> policy, SchedObserver* observer,
                       std::function<void()> on_lost)
    : device_(device),
      observed_(observer != nullptr),
      policy_(std::move(policy)),
      mechanism_(device_, config, *policy_, queues_),
      on_lost_(std::move(on_lost)) {
  {
    const MutexLock lock(mutex_);
    mechanism_.Observe(observer);
    taken_cancels_.reserve(kMaxCancels);
    const MutexLock cancel_lock(cancel_mutex_);
    cancels_.reserve(kMaxCancels);
  }
  device_.SetListener(this);
  if (device_.info().virtual_time) return;  // every advance of the time calls OnDeviceNews()
  timer_ = std::jthread([this](const std::stop_token& stop) { SleepUntilLeaving(stop); });
}

Dispatcher::~Dispatcher() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  Step();
  for (std::uint64_t left; (left = unfinished_.load()) != 0;) unfinished_.wait(left);
  device_.SetListener(nullptr);
  timer_.request_stop();
  if (timer_.joinable()) timer_.join();
  while (stepping_.load() != 0) std::this_thread::yield();  // only the end of Step() is left
}

Result<QueueId> Dispatcher::AddQueue(QueueOptions options) {
  const MutexLock lock(mutex_);
  return mechanism_.AddQueue(std::move(options));
}

SchedulerConfig Dispatcher::config() const {
  const MutexLock lock(mutex_);
  return mechanism_.config();
}

void Dispatcher::Switch(const SchedulerConfig& config, std::unique_ptr<Policy> policy,
                        std::function<void(Status)> done) {
  auto change = std::make_unique<Change>(Change{config, std::move(policy), std::move(done), {}});
  {
    const MutexLock lock(mutex_);
    if (change_ == nullptr) change_.swap(change);
  }
  if (change == nullptr) return Step();
  change->done(Fail(ErrorCode::kUnavailable,
                    fmt::format("cannot switch to scheduler '{}': another switch is under way, try "
                                "again when it is through",
                                config.name)));
}

void Dispatcher::Cancel(JobId job) {
  bool full = false;
  {
    const MutexLock lock(cancel_mutex_);
    full = cancels_.size() == kMaxCancels;
    if (!full) cancels_.push_back(job);
  }
  if (full) {
    // Another thread is in a round or about to begin one. When that round is over, this thread
    // applies the cancellations, as the next round would.
    const MutexLock lock(mutex_);
    TakeNews(late_);
    taken_cancels_.push_back(job);
    ApplyCancels(late_);
  } else {
    has_cancels_.store(true);
  }
  Step();
}

std::size_t Dispatcher::Pending(QueueId queue) const {
  const JobQueue* found = queues_.Find(queue);
  return found == nullptr ? 0 : found->pending.load(std::memory_order_relaxed);
}

std::uint64_t Dispatcher::TenantKernels(std::uint32_t tenant) const {
  LAGOON_CHECK(tenant > 0 && tenant <= kMaxTenants);
  const MutexLock lock(mutex_);
  return mechanism_.TenantKernels(tenant);
}

DispatcherStats Dispatcher::Stats() const {
  const Nanoseconds off_core = device_.Times().off_core;
  const MutexLock lock(mutex_);
  DispatcherStats stats = mechanism_.stats();
  stats.off_core = off_core;
  return stats;
}

void Dispatcher::Step() {
  if (Calling* const outer = Calling::ByThisThread(*this); outer != nullptr) {
    outer->again = true;
    return;
  }
  stepping_.fetch_add(1);
  Answers answers;
  for (bool again = true; again;) {
    again = Work(answers);
    if (Deliver(answers)) again = true;
  }
  stepping_.fetch_sub(1);
}

// Does rounds for all threads until no news is left, a real-time job has finished, or an answer has
// waited for kMaxRounds rounds. True: news is left, which waits until this thread calls Work()
// again or another brings more news.
bool Dispatcher::Work(Answers& answers) {
  // Not zero: the thread that does the rounds sees the count and does one more.
  if (news_.fetch_add(1, std::memory_order_acq_rel) != 0) return false;
  for (std::uint32_t waited = 0;;) {
    const std::uint32_t seen = news_.load(std::memory_order_acquire);
    const bool more = DoRound(answers);
    if (!more && news_.fetch_sub(seen, std::memory_order_acq_rel) == seen) return false;
    const bool at_once = HasRealTime(answers.finished);
    if (answers.empty() || (!at_once && ++waited < kMaxRounds)) continue;
    // acq_rel: the next thread that raises the count from zero sees everything written before the
    // news that is dropped here.
    news_.exchange(0, std::memory_order_acq_rel);
    return true;
  }
}

// Calls clients. Meanwhile, other threads that bring news do the rounds. True: a client has brought
// news.
bool Dispatcher::Deliver(Answers& answers) {
  if (answers.empty() && !lost_.load(std::memory_order_relaxed)) return false;
  Calling calling(*this);
  while (!answers.finished.empty()) {
    Job& job = answers.finished.front();
    answers.finished.pop_front();
    const std::unique_ptr<Job> owned(job.callers ? nullptr : &job);
    job.client->Finished(job.result);
    if (unfinished_.fetch_sub(1) == 1) unfinished_.notify_all();
  }
  TellLoss();
  for (const auto& change : answers.changes) change->done(*std::move(change->result));
  answers.changes.clear();
  return calling.again;
}

// Returns true if another round is needed, whether there is more news or not.
bool Dispatcher::DoRound(Answers& answers) {
  const MutexLock lock(mutex_);
  answers.finished.splice(answers.finished.end(), late_);
  TakeNews(answers.finished);
  ApplyCancels(answers.finished);
  ExpireHeld(answers.finished);
  mechanism_.Hurry(change_ != nullptr || ending_);
  if (ending_) mechanism_.CancelAll(answers.finished);
  const bool more = mechanism_.Step(answers.finished);
  const TimePoint ends = mechanism_.TurnEnds();
  if (ends != kNoDeadline) WakeTimerFor(ends);
  if (mechanism_.lost()) lost_.store(true, std::memory_order_relaxed);
  if (change_ == nullptr || (!ending_ && !mechanism_.idle())) return more;
  ChangeScheduler(answers);
  return true;  // for the jobs that were held back
}

void Dispatcher::ChangeScheduler(Answers& answers) {
  Change& change = *answers.changes.emplace_back(std::move(change_));
  if (ending_) {
    change.result = Fail(ErrorCode::kUnavailable, "the dispatcher ends");
    return;
  }
  change.result = mechanism_.Use(change.config, *change.policy);
  if (*change.result) std::swap(policy_, change.policy);
}

// Takes cancellations before posted jobs: a job was posted before its cancellation, so that the
// job is found when the cancellations are applied.
void Dispatcher::TakeNews(FinishedJobs& finished) {
  if (has_cancels_.load(std::memory_order_relaxed)) {
    has_cancels_.store(false);
    const MutexLock lock(cancel_mutex_);
    LAGOON_CHECK(cancels_.size() <= kMaxCancels && taken_cancels_.empty());
    cancels_.swap(taken_cancels_);
  }
  TakePosted(finished);
}

void Dispatcher::ApplyCancels(FinishedJobs& finished) {
  for (const JobId id : taken_cancels_) {
    const auto held = std::ranges::find(held_, id, &Job::id);
    if (held == held_.end()) {
      mechanism_.Cancel(id, finished);
    } else {
      mechanism_.Refuse(Release(*held), Outcome::kCancelled, finished);
    }
  }
  taken_cancels_.clear();
}

void Dispatcher::TakePosted(FinishedJobs& finished) {
  const bool holds_back = change_ != nullptr && !ending_;
  while (!holds_back && !held_.empty()) mechanism_.Admit(Release(held_.front()), finished);
  if (inbox_.load(std::memory_order_relaxed) == nullptr) return;
  Job* newest = inbox_.exchange(nullptr, std::memory_order_acquire);
  Job* oldest = nullptr;
  while (newest != nullptr) {  // the stack is newest first: reverse it
    Job* next = newest->next_in_inbox;
    newest->next_in_inbox = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Job* next = oldest->next_in_inbox;
    if (holds_back) {
      Hold(*oldest, finished);
    } else {
      mechanism_.Admit(*oldest, finished);
    }
    oldest = next;
  }
}

// While a change of the scheduler is under way. If a queue of kNewestWins is full,
// its oldest job that has not started is superseded. Post has already refused jobs beyond the room
// of other queues.
void Dispatcher::Hold(Job& job, FinishedJobs& finished) {
  JobQueue& queue = *job.queue;
  held_.push_back(job);
  if (job.leaves != kNoDeadline) held_leaves_.insert(job);
  ++queue.held;
  if (queue.waiting.size() + queue.held <= queue.options.max_pending) return;
  if (queue.options.overflow != Overflow::kNewestWins) return;
  if (mechanism_.SupersedeOldest(queue, finished)) return;
  const auto oldest = std::ranges::find(held_, &queue, &Job::queue);
  mechanism_.Refuse(Release(*oldest), Outcome::kSuperseded, finished);
}

// Returns `job`.
Job& Dispatcher::Release(Job& job) {
  held_.erase(held_.iterator_to(job));
  if (job.leaves_hook.is_linked()) held_leaves_.erase(held_leaves_.iterator_to(job));
  --job.queue->held;
  return job;
}

// A switch lasts until all earlier jobs have finished: longer than the deadlines of held jobs,
// perhaps.
void Dispatcher::ExpireHeld(FinishedJobs& finished) {
  if (held_leaves_.empty()) return;
  const TimePoint now = device_.Now();
  while (!held_leaves_.empty() && held_leaves_.begin()->leaves <= now) {
    Job& job = *held_leaves_.begin();
    mechanism_.Refuse(Release(job), job.OutcomeOfLeaving(), finished);
  }
}

void Dispatcher::TellLoss() {
  if (!lost_.load(std::memory_order_relaxed) || on_lost_ == nullptr) return;
  if (!told_lost_.exchange(true)) on_lost_();
}

std::string Dispatcher::TakeOverload() {
  const MutexLock lock(mutex_);
  return mechanism_.TakeOverload();
}

// Without the lock of the rounds while it writes.
bool Dispatcher::TellOverload() {
  const std::string text = TakeOverload();
  if (!text.empty()) spdlog::warn("{}", text);
  return !text.empty();
}

void Dispatcher::SleepUntilLeaving(const std::stop_token& stop) {
  NameThisThread("lagoon-timer");
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(timer_mutex_);
    timer_wake_.NotifyAll();
  });
  TimePoint quiet_until{};
  while (!stop.stop_requested()) {
    // A job is pushed before WakeTimerFor() is called. Each time is therefore either read by
    // NextLeaving() or told to the timer after this reset.
    {
      const MutexLock lock(timer_mutex_);
      timer_target_ = kNoDeadline;
    }
    const TimePoint next = NextLeaving();
    {
      const MutexLock lock(timer_mutex_);
      timer_target_ = std::min(timer_target_, next);
      while (!stop.stop_requested() && device_.Now() < timer_target_) {
        if (timer_target_ == kNoDeadline) {
          timer_wake_.Wait(timer_mutex_);
        } else {
          timer_wake_.WaitUntil(timer_mutex_, timer_target_);
        }
      }
    }
    Step();
    // The timer wakes at the end of each slice.
    const TimePoint now = device_.Now();
    if (now >= quiet_until && TellOverload()) quiet_until = now + kOverloadPause;
  }
}

// The next time at which a job leaves. Jobs that were pushed before count, also those that no round
// has taken yet.
TimePoint Dispatcher::NextLeaving() {
  const MutexLock lock(mutex_);
  TakeNews(late_);  // whoever pushed a job brings news afterwards, so that a round delivers late_
  ApplyCancels(late_);
  const TimePoint held = held_leaves_.empty() ? kNoDeadline : held_leaves_.begin()->leaves;
  return std::min(held, mechanism_.NextLeaving());
}

void Dispatcher::WakeTimerFor(TimePoint leaves) {
  const MutexLock lock(timer_mutex_);
  if (leaves >= timer_target_) return;
  timer_target_ = leaves;
  timer_wake_.NotifyOne();
}

}  // namespace lagoon
