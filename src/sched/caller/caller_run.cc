#include "sched/caller/caller_run.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread.h"

namespace lagoon {

CallerRun::CallerRun(Dispatcher& dispatcher, const std::atomic<bool>* cancelled)
    : dispatcher_(dispatcher) {
  job_.callers = true;
  job_.cancelled = cancelled;
}

CallerRun::~CallerRun() { LAGOON_CHECK(done()); }

Status CallerRun::Prepare(const JobSpec& spec) {
  LAGOON_CHECK(done() || restarted_ != nullptr);
  JobSpec own = spec;
  own.client = this;
  return dispatcher_.Prepare(own, job_);
}

bool CallerRun::Run(TimePoint deadline, const CallerOptions& options) {
  LAGOON_CHECK(done() && job_.queue != nullptr);
  Device& device = dispatcher_.device();
  // Before the job is posted, so that its launches do not wake the unit's worker.
  const BorrowedUnit unit = options.works ? device.BorrowUnit(job_.queue->share) : kNoUnit;
  const Nanoseconds expected = job_.costs->total();
  job_.help.helper = unit;
  job_.help.alone = expected > Nanoseconds(0) && expected < options.inline_below;
  then_ = nullptr;
  word_.store(0, std::memory_order_relaxed);
  if (!Post(deadline, /*caller_waits=*/true)) {
    word_.store(kHelpDone, std::memory_order_relaxed);
    if (unit != kNoUnit) device.Help(unit, {.word = &word_});  // gives the unit back
    return false;
  }
  if (Await(deadline, options, unit)) return true;
  dispatcher_.EnforceDeadlines();
  return Await(kNoDeadline, options, kNoUnit);
}

bool CallerRun::Start(TimePoint deadline, JobClient* then) {
  LAGOON_CHECK(job_.queue != nullptr);
  bool* const restarted = std::exchange(restarted_, nullptr);
  LAGOON_CHECK(done() || restarted != nullptr);
  then_ = then;
  job_.help.helper = kNoUnit;
  // From within the call of `then_`: a thread may sleep in Wait(), and sleeps on.
  word_.fetch_and(kSleeps, std::memory_order_relaxed);
  if (restarted != nullptr) *restarted = true;
  if (Post(deadline, /*caller_waits=*/false)) return true;
  if (restarted != nullptr) {
    *restarted = false;
    restarted_ = restarted;
  } else {
    word_.store(kHelpDone, std::memory_order_relaxed);
  }
  return false;
}

bool CallerRun::Post(TimePoint deadline, bool caller_waits) {
  const JobId id = dispatcher_.NextId();
  id_.store(id);  // seq_cst, as the flag of the cancellation: see Mechanism::Admit()
  return dispatcher_.Post(job_, id, deadline, caller_waits);
}

bool CallerRun::Wait(TimePoint until, const CallerOptions& options) {
  if (done()) return true;
  Device& device = dispatcher_.device();
  return Await(until, options, options.works ? device.BorrowUnit(job_.queue->share) : kNoUnit);
}

bool CallerRun::Await(TimePoint until, const CallerOptions& options, BorrowedUnit unit) {
  constexpr int kPausesPerClock = 16;
  Device& device = dispatcher_.device();
  if (unit != kNoUnit) {
    device.Help(unit, {.word = &word_, .time = until, .level = job_.help.level});
  }
  if (device.info().virtual_time) return Sleep(kNoDeadline);  // the job ends when time moves on
  const TimePoint end = std::min(until, device.Now() + options.spin);
  while (!done() && device.Now() < end) {
    for (int i = 0; i < kPausesPerClock && !done(); ++i) CpuPause();
  }
  return Sleep(until);
}

// Returns whether the run is over; if it is not, `until` has come.
bool CallerRun::Sleep(TimePoint until) {
  while (!done()) {
    if (until != kNoDeadline && dispatcher_.device().Now() >= until) return false;
    // acq_rel: as done().
    const std::uint32_t before = word_.fetch_or(kSleeps, std::memory_order_acq_rel);
    if ((before & kHelpDone) == 0) WaitOnWord(word_, kSleeps, until);
  }
  return true;
}

void CallerRun::Finished(const JobResult& result) {
  if (JobClient* const then = then_; then != nullptr) {
    bool restarted = false;
    restarted_ = &restarted;
    then->Finished(result);
    if (restarted) return;  // the object belongs to the new run
    restarted_ = nullptr;
  }
  // From here on the object may go away: whoever waits sees that the run is over. release: with all
  // that the run has written.
  const std::uint32_t before = word_.exchange(kHelpDone, std::memory_order_acq_rel);
  if ((before & kSleeps) != 0) WakeWord(&word_);
}

void CallerRun::Cancel() { dispatcher_.Cancel(id_.load()); }

}  // namespace lagoon
