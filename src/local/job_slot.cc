#include "local/job_slot.h"

#include "base/check.h"
#include "local/futex.h"

namespace lagoon {

void JobSlot::Prepare(const JobSpec& spec) {
  inputs_.assign(spec.inputs.begin(), spec.inputs.end());
  outputs_.assign(spec.outputs.begin(), spec.outputs.end());
  spec_ = spec;
  spec_.inputs = inputs_;
  spec_.outputs = outputs_;
  spec_.client = this;
}

Status JobSlot::Run(TimePoint deadline, Nanoseconds spin) {
  LAGOON_RETURN_IF_ERROR(Start(deadline, nullptr));
  Wait(kNoDeadline, spin);
  return {};
}

Status JobSlot::Start(TimePoint deadline, JobClient* then) {
  bool* const restarted = restarted_;
  LAGOON_CHECK(restarted != nullptr || done());
  then_ = then;
  spec_.deadline = deadline;
  word_.fetch_and(~kDone, std::memory_order_relaxed);
  if (restarted != nullptr) *restarted = true;
  restarted_ = nullptr;
  Result<JobId> posted = dispatcher_.Post(spec_);
  if (!posted) {
    if (restarted != nullptr) *restarted = false;
    restarted_ = restarted;
    if (restarted == nullptr) word_.store(kDone, std::memory_order_release);
    return tl::unexpected<Error>(std::move(posted).error());
  }
  // The job may be over by now, and the next one posted: ids only grow.
  JobId known = id_.load();
  while (known < *posted && !id_.compare_exchange_weak(known, *posted)) {
  }
  // seq_cst: either this thread sees the flag, or Cancel(), which comes behind it, sees the id.
  if (cancelled_.load()) dispatcher_.Cancel(*posted);
  return {};
}

void JobSlot::Cancel() {
  if (const JobId id = id_.load(); id != JobId{}) dispatcher_.Cancel(id);
}

void JobSlot::Finished(const JobResult& result) {
  result_ = result;
  bool restarted = false;
  if (JobClient* const then = then_; then != nullptr) {
    restarted_ = &restarted;
    then->Finished(result);
    if (restarted) return;
    restarted_ = nullptr;
  }
  const std::atomic<std::uint32_t>* const word = &word_;
  // The slot may be gone behind this exchange.
  if ((word_.exchange(kDone, std::memory_order_acq_rel) & kSleeps) != 0) FutexWakeAll(word);
}

bool JobSlot::Wait(TimePoint until, Nanoseconds spin) {
  const TimePoint spin_until = spin > Nanoseconds(0) ? Now() + spin : TimePoint{};
  while (!done() && spin > Nanoseconds(0) && Now() < spin_until) __builtin_ia32_pause();
  while (true) {
    std::uint32_t word = word_.load(std::memory_order_acquire);
    if ((word & kDone) != 0) return true;
    if (until != kNoDeadline && Now() >= until) return false;
    if ((word & kSleeps) == 0 && !word_.compare_exchange_weak(word, word | kSleeps)) continue;
    FutexWait(word_, kSleeps, until);
  }
}

}  // namespace lagoon
