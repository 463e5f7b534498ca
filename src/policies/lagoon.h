#pragma once

#include <algorithm>

#include "policies/deficit.h"
#include "policies/fair_srpt.h"
#include "sched/policy.h"

namespace lagoon {

/// Real-time jobs by deadline, where one without a deadline counts as due after twice its own time.
/// Best-effort jobs get what is left, by shortest remaining time, with deficits among their clients
/// (Paella 6). Real-time jobs have no deficit: they take what they need. The device keeps the same
/// orders. Kernels of a client that is above the threshold are raised also where the device already
/// has them (IsBehind), so that the threshold bounds how far a client falls behind. A client
/// that comes back at once (kBackAtOnce) keeps its deficit, so that this holds for closed loops.
/// Weakness: that of EDF and of SRPT, each within its class. Cost: O(log n).
///
/// PolicyConfig::order may be another order of best-effort jobs: `lagoon-ratio` has
/// By::kResponseRatio, SPLIT's order without its parts, as jobs are preempted by block.
class LagoonPolicy final : public Policy {
 public:
  /// Kernels of other clients before a client is back: some ms on a CPU. A memory of 1,000 kernels
  /// was worse at 70 % load (bench shares, three models): clients that need less than an equal
  /// share saved up deficits and delayed the others, of whose requests 0.72 and 0.77 were in time
  /// instead of 1.00 and 0.93.
  static constexpr double kBackAtOnce = 16;

  explicit LagoonPolicy(const PolicyConfig& config)
      : threshold_(config.fairness_threshold), best_effort_(config.order), deficits_(kBackAtOnce) {}

  JobOrders orders() const override { return {By::kDue, best_effort_}; }

  Decision Pick(const SchedulingView& view) override {
    const ScheduledJob* urgent = view.ready.First(JobClass::kRealTime);
    if (urgent != nullptr) return Decision::Run(*urgent, ~0u, RankOf(*urgent));
    const ScheduledJob* behind = deficits_.FirstAbove(
        threshold_, [&](ClientId client) { return view.ready.OldestOf(client); });
    if (behind != nullptr) return Decision::Run(*behind, ~0u, Decision::kFrontRank);
    const ScheduledJob* shortest = view.ready.First(JobClass::kBestEffort);
    if (shortest == nullptr) return Decision::Wait();
    const auto rank = static_cast<std::uint64_t>(ReadyIndex::KeyOf(best_effort_, *shortest));
    return Decision::Run(*shortest, ~0u, Decision::kFrontRank + 1 + rank);
  }

  bool IsBehind(ClientId client) const override { return deficits_.deficit(client) > threshold_; }
  bool AnyBehind() const override { return deficits_.AnyAbove(threshold_); }

  void OnArrival(const ScheduledJob& job) override {
    if (job.job_class == JobClass::kBestEffort) deficits_.OnArrival(ClientOf(job));
  }
  void OnSubmitted(const ScheduledJob& job, std::uint32_t kernels) override {
    if (job.job_class == JobClass::kBestEffort) deficits_.OnServed(ClientOf(job), kernels);
  }
  void OnRaised(const ScheduledJob& job, std::uint32_t kernels) override {
    deficits_.OnRaised(ClientOf(job), kernels);
  }
  void OnFinished(const ScheduledJob& job) override {
    if (job.job_class == JobClass::kBestEffort) deficits_.OnFinished(ClientOf(job));
  }

 private:
  static std::uint64_t RankOf(const ScheduledJob& job) {
    const std::int64_t due = ReadyIndex::KeyOf(By::kDue, job);
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, due));
  }

  const double threshold_;
  const By best_effort_;
  DeficitCounters deficits_;
};

}  // namespace lagoon
