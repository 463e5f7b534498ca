#pragma once

// What training rewards: Eq. 2 of InSS in its readings, and what the local stage learns from.

#include <vector>

#include "cluster/learned/stages.h"

namespace lagoon {

struct RewardRule {
  /// Throughput in Eq. 2 is what full batches could serve, as in the paper: it rewards shares that
  /// are larger than the requests need. false: what is served in time of what arrives.
  bool capacity = false;
  /// A violation weighs by the replica's rate, relative to the mean rate. false: each replica's
  /// weighs 1.
  bool by_requests = false;

  bool operator==(const RewardRule&) const = default;
};

/// Rewards of a GPU's members in one second.
class Rewards {
 public:
  /// `stages`, `demands`: borrowed; `stages` was made with `demands`.
  Rewards(const Stages& stages, const std::vector<Demand>& demands, const RewardRule& rule);

  /// By the index of GpuState::members: Eq. 2 of InSS / 40.
  std::vector<double> Each(const GpuState& gpu, const GpuShares& shares) const;
  /// Their sum. With the default rule it is Stages::RewardOf().
  double Sum(const GpuState& gpu, const GpuShares& shares) const;
  /// What `shares` have more than the first guess. What the state alone decides is in both and
  /// falls out; no optimum moves, because the local stage's return is one reward.
  double Gain(const GpuState& gpu, const GpuShares& shares) const;

 private:
  const Stages& stages_;
  const std::vector<Demand>& demands_;
  RewardRule rule_;
  double mean_rate_ = 1;  // rows per second
};

}  // namespace lagoon
