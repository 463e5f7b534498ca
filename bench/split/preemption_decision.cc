#include "bench/split/preemption_decision.h"

#include <fmt/format.h>

#include <array>
#include <deque>
#include <memory>

#include "base/time.h"
#include "bench/measure/statistics.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

constexpr std::array<std::chrono::microseconds, 5> kTimes = {
    std::chrono::microseconds(10'800), std::chrono::microseconds(13'200),
    std::chrono::microseconds(28'350), std::chrono::microseconds(67'500),
    std::chrono::microseconds(20'400)};

// The most that a decision may take, by number of waiting requests.
struct MostTime {
  std::size_t waiting;
  double us;
};
constexpr MostTime kMostTimes[] = {{5, 0.3}, {1000, 2}};

// The policy with requests that wait.
class WaitingRequests {
 public:
  explicit WaitingRequests(Scheduler scheduler)
      : policy_(std::move(scheduler.policy)), index_(policy_->orders()) {
    for (std::size_t i = 0; i < kTimes.size(); ++i) index_.AddQueue(QueueOf(i));
  }

  void Fill(std::size_t waiting) {
    for (std::size_t i = 0; i < waiting; ++i) {
      ScheduledJob& job = jobs_.emplace_back();
      Prepare(i % kTimes.size(), job);
      Arrive(job);
    }
  }

  // The time of one decision in microseconds; the request that comes does not stay.
  double DecideUs(std::size_t model) {
    Prepare(model, jobs_.emplace_back());
    const ReadyView ready(index_, {});
    const TimePoint at = jobs_.back().arrival;
    const TimePoint begin = Now();
    Arrive(jobs_.back());
    const Decision decision = policy_->Pick({at, ready});
    const Nanoseconds took = Now() - begin;
    picked_ += decision.job ? 1 : 0;
    Leave(jobs_.back());
    jobs_.pop_back();
    return ToMicroseconds(took);
  }

  std::size_t picked() const { return picked_; }  // decisions that picked a job

  ~WaitingRequests() {
    for (ScheduledJob& job : jobs_) Leave(job);
  }
  WaitingRequests(const WaitingRequests&) = delete;
  WaitingRequests& operator=(const WaitingRequests&) = delete;

 private:
  static QueueId QueueOf(std::size_t model) { return QueueId{static_cast<std::uint32_t>(model)}; }

  void Prepare(std::size_t model, ScheduledJob& job) {
    job.id = JobId{++ids_};
    job.queue_id = QueueOf(model);
    job.arrival = TimePoint(std::chrono::milliseconds(ids_));
    job.total = job.remaining = job.unsubmitted = kTimes[model];
  }

  // Puts every job into the index, as the mechanism does for a model that has an instance for each
  // request.
  void Arrive(ScheduledJob& job) {
    policy_->OnArrival(job);
    index_.Update(job, true);
  }
  void Leave(ScheduledJob& job) {
    index_.Update(job, false);
    policy_->OnFinished(job);
  }

  const std::unique_ptr<Policy> policy_;
  ReadyIndex index_;
  std::deque<ScheduledJob> jobs_;
  std::uint64_t ids_ = 0;
  std::size_t picked_ = 0;
};

Result<double> RoundUs(std::size_t waiting, int decisions) {
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler("split"));
  WaitingRequests requests(std::move(scheduler));
  requests.Fill(waiting);
  std::vector<double> us;
  for (int i = 0; i < decisions; ++i) {
    us.push_back(requests.DecideUs(static_cast<std::size_t>(i) % kTimes.size()));
  }
  if (requests.picked() == us.size()) return Median(us);
  return Fail(ErrorCode::kInternal,
              fmt::format("`split` picked a job in {} of {} decisions with {} waiting",
                          requests.picked(), us.size(), waiting));
}

}  // namespace

Status MeasurePreemptionDecision(const PreemptionDecisionOptions& options, Evidence& evidence) {
  std::vector<std::vector<double>> us(options.waiting.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < us.size(); ++i) {
      LAGOON_ASSIGN_OR_RETURN(const double median_us,
                              RoundUs(options.waiting[i], options.decisions));
      us[i].push_back(median_us);
    }
  }
  for (std::size_t i = 0; i < us.size(); ++i) {
    const std::string name = fmt::format("preemption_decision_us.{}", options.waiting[i]);
    const Interval interval = evidence.Add(name, us[i]);
    for (const MostTime& most : kMostTimes) {
      if (most.waiting != options.waiting[i]) continue;
      evidence.Target(name, interval, Bound::kAtMost, most.us, /*clean=*/true);
    }
  }
  return {};
}

}  // namespace lagoon::bench
