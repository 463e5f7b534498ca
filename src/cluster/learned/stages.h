#pragma once

// The two stages of InSS: the states that their networks see, and what their actions mean. Training
// and placing both go through here, so that a network sees in use what it saw in training.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/learned/demand.h"
#include "cluster/placement/placer.h"
#include "learn/actions.h"

namespace lagoon {

/// Actions of the global stage: GPUs, or groups of GPUs, from which one actor chooses.
inline constexpr int kGroups = 4;
/// Replicas on a GPU that the local stage's actor sees.
inline constexpr int kSlots = 10;

int GlobalFeatures();
int LocalFeatures();
/// Hash of all features, actions and their meanings. Weights of another hash are refused.
std::uint64_t MeaningOfWeights();

/// A GPU while replicas are placed one after another.
struct GpuState {
  GpuView view;
  std::vector<std::size_t> members = {};  // indices of demands, in the order of placing
  std::int64_t memory = 0;                // of the members with batches of one row
  double need = 0;                        // sums over the members
  DeviceLoad load = {};
  double reward = 0;  // GuessedReward() of the members
};

/// What a violation costs (InSS 6.1), in units of Eq. 2's throughput.
inline constexpr double kPenalty = 40;

/// What the latency models expect of a member.
struct MemberForecast {
  double violations = 0;  // part of its requests, 0 to 1
  double batch_ms = 1;    // of a full batch beside the other members, above 0
};

/// How a GPU's members share it: by the index of GpuState::members.
struct GpuShares {
  std::vector<double> shares;  // sum 1
  std::vector<std::int64_t> rows;
};

class Stages {
 public:
  /// `demands`: of `view`; both are borrowed. `interference`: false: neighbours do not slow down
  /// (InSS-ni).
  Stages(const PlacementView& view, const std::vector<Demand>& demands, bool interference);

  const std::vector<GpuState>& gpus() const { return gpus_; }

  /// A choice of the global stage: among groups of GPUs, in ascending order of their needs.
  struct Choice {
    std::vector<float> features;
    learn::ActionMask mask = 0;                    // groups with a GPU that can take the replica
    std::vector<std::vector<std::size_t>> groups;  // GPUs, by action
  };
  /// For the demand with this index, the next one. `among`: GPUs, not empty. A mask of 0: no GPU
  /// can take the replica.
  Choice ChoiceFor(std::size_t demand, const std::vector<std::size_t>& among) const;
  /// Puts the replica on a GPU that can take it.
  void Put(std::size_t demand, std::size_t gpu);
  /// Has memory and a granule for the replica, and no other replica of its model.
  bool CanTake(std::size_t demand, std::size_t gpu) const;

  /// GPUs that serve the replica's model now, as PlacementView::current says.
  const std::vector<std::size_t>& ServedBy(std::size_t demand) const {
    return before_[demands_[demand].model];
  }
  /// Whether the replica's model is served now, but not on this GPU.
  bool Moves(std::size_t demand, std::size_t gpu) const;

  /// The state of the local stage. The GPU has 1 to kSlots members. The slots have them in
  /// descending order of need, which is the order of placing.
  learn::ShareState LocalState(const GpuState& gpu) const;
  /// What an action of the local stage, or the first guess, means. Batches that do not fit into the
  /// GPU's memory are halved, those with most memory first.
  GpuShares SharesOf(const GpuState& gpu, const std::vector<float>& action) const;
  /// Shares in proportion to the needs.
  GpuShares GuessedShares(const GpuState& gpu) const;

  /// The sum over the members of goodput / scale / 40 - violations: Eq. 2 of InSS / 40. A member
  /// all of whose requests are late has -1.
  double RewardOf(const GpuState& gpu, const GpuShares& shares) const;
  /// By the index of GpuState::members.
  std::vector<MemberForecast> ForecastsOf(const GpuState& gpu, const GpuShares& shares) const;
  /// What part of its requests a member loses.
  std::vector<double> ViolationsOf(const GpuState& gpu, const GpuShares& shares) const;
  double GuessedReward(const GpuState& gpu) const { return RewardOf(gpu, GuessedShares(gpu)); }

 private:
  void AddOwn(const Demand& demand, std::vector<float>* features) const;
  void AddGroup(std::size_t demand, const std::vector<std::size_t>& gpus,
                std::vector<float>* features) const;
  void FitMemory(const GpuState& gpu, GpuShares* shares) const;

  const PlacementView& view_;
  const std::vector<Demand>& demands_;
  const bool interference_;
  std::vector<GpuState> gpus_;
  std::vector<double> need_left_;                 // sum of the needs from each demand on
  std::vector<std::vector<std::size_t>> before_;  // GPUs that serve each model now
};

/// Whole granules, at least 1 for each share, with the sum `granules`, by the largest remainders.
/// There are at most `granules` shares.
std::vector<std::uint32_t> GranulesOf(const std::vector<double>& shares, std::uint32_t granules);

}  // namespace lagoon
