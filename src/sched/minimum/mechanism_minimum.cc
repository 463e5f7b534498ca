// The slices of best-effort work beside real-time work: SchedulerConfig::best_effort_minimum.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sched/mechanism.h"

namespace lagoon {
namespace {

// Parts of the time below this are not worth a word.
constexpr double kSmallPart = 0.01;
constexpr Nanoseconds kOverloadWindow = std::chrono::seconds(1);

double PartOf(Nanoseconds time, Nanoseconds of) {
  return static_cast<double>(time.count()) / static_cast<double>(of.count());
}

}  // namespace

// Whether there is best-effort work that could run or has begun.
bool Mechanism::BestEffortWork() const {
  return ready_.Any(JobClass::kBestEffort) || std::ranges::any_of(active_, [](const Job& job) {
           return job.job_class == JobClass::kBestEffort;
         });
}

// Begins and ends slices. A slice begins when the real-time kernels that the device has are
// complete: at most `depth` of each job. It ends early where either class has no work left.
void Mechanism::MindMinimum() {
  if (minimum_.part() == 0 || config_.preemption == SchedulerConfig::Preemption::kNone) return;
  const bool both = RealTimeWork() && BestEffortWork();
  const TimePoint now = device_.Now();
  minimum_.Pass(now, both);
  if (!minimum_.in_slice()) {
    if (both && minimum_.Due()) BeginSlice(now);
  } else if (slice_drains_) {
    minimum_.Begin(now);
  } else if (!both || now >= minimum_.ends()) {
    EndSlice(now);
  }
  slice_drains_ = minimum_.in_slice() && kernels_[static_cast<int>(JobClass::kRealTime)] > 0;
}

void Mechanism::BeginSlice(TimePoint now) {
  ++stats_.slices;
  NoteOverload(now);
  minimum_.Begin(now);
  UpdateBestEffort();
  TellHurry();
}

void Mechanism::EndSlice(TimePoint now) {
  // Blocks that were done in the slice count before it ends, as the slice paid for them.
  for (Job& job : active_) {
    const bool begun = job.job_class == JobClass::kBestEffort && job.state == Job::State::kActive &&
                       job.next_op > job.first_incomplete;
    if (begun) CountServed(job, job.instance->progress(job.first_incomplete).done());
  }
  minimum_.End(now);
  UpdateBestEffort();
  TellHurry();
}

// `done`: blocks of the op `first_incomplete` that are done.
void Mechanism::CountServed(Job& job, std::uint32_t done) {
  if (minimum_.part() == 0 || job.job_class != JobClass::kBestEffort) return;
  const std::uint32_t blocks = job.instance->progress(job.first_incomplete).blocks();
  minimum_.Serve(job.costs->kernel(job.first_incomplete) * (done - job.counted) /
                 std::max(1u, blocks));
  job.counted = done;
}

void Mechanism::UpdateBestEffort() {
  for (Job& job : active_) {
    if (job.job_class == JobClass::kBestEffort) UpdateReady(job);
  }
}

// Where nothing is real-time, best-effort work competes like any other program of the machine; in a
// slice it has the device for itself. A job that has launches of one kind in flight gets none of
// the other.
bool Mechanism::InBackground(const Job& job) const {
  return job.job_class == JobClass::kBestEffort && real_time_queues_ > 0 &&
         config_.preemption == SchedulerConfig::Preemption::kReset &&
         device_.info().max_background_launches > 0 && !minimum_.in_slice();
}

void Mechanism::NoteOverload(TimePoint now) {
  // Since a slice long ago real-time work may have paused.
  const Nanoseconds between = now - std::exchange(slice_begun_, now);
  const double usual = static_cast<double>(BestEffortMinimum::kSlice.count()) / minimum_.part();
  const bool goes_on = static_cast<double>(between.count()) <= 2 * usual;
  if (goes_on && now - overload_begun_ < kOverloadWindow) return;
  overloaded_for_ = goes_on ? now - overload_begun_ : Nanoseconds(0);
  overload_begun_ = now;
  for (std::uint32_t i = 0; i < Raw(queues_.next_id()); ++i) {
    JobQueue::Ran& ran = queues_.Find(QueueId{i})->ran;
    ran.between = ran.now - std::exchange(ran.before, ran.now);
  }
}

std::string Mechanism::TakeOverload() {
  const Nanoseconds time = std::exchange(overloaded_for_, Nanoseconds(0));
  if (time <= Nanoseconds(0)) return {};
  std::string models;
  for (std::uint32_t i = 0; i < Raw(queues_.next_id()); ++i) {
    const JobQueue& queue = *queues_.Find(QueueId{i});
    const double part = PartOf(queue.ran.between, time);
    if (queue.removed || part < kSmallPart) continue;
    fmt::format_to(std::back_inserter(models), "{}'{}' {:.0f} %", models.empty() ? "" : ", ",
                   queue.options.name, 100 * part);
  }
  if (models.empty()) return {};
  return fmt::format(
      "real-time models keep best-effort work waiting. Part of the last {:.2f} s for which each "
      "computed: {}. Best-effort work gets {:.3g} % in slices of {:.0f} ms, for which real-time "
      "requests wait",
      ToMilliseconds(time) / 1000, models, 100 * minimum_.part(),
      ToMilliseconds(BestEffortMinimum::kSlice));
}

}  // namespace lagoon
