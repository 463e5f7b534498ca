#pragma once

// Training of the learned placer (InSS 5.3, Table 2). One step places all replicas of a second, and
// updates each network TrainOptions::updates times.
//
// What differs from the paper, besides what TrainRules adds:
// - The environment is the forecast of a placement under the latency model (Stages::RewardOf), not
//   a run of requests: a step takes milliseconds. Requests do not queue from step to step.
// - A replica's reward is by how much it changes the sum of the rewards of its GPU, so that a
//   replica pays for the harm to its neighbours, and the rewards of a second add up to Eq. 2
//   (TrainOptions::own_reward: its own, as in the paper). The last replica of a second ends the
//   return, because the next second does not depend on it.
// - The local stage's return is its reward: for the same reason.
// - A replica that leaves its GPU costs 0.01, as much as 1 % of violations for a second. The paper
//   counts no cost.
// - The target of the entropy is a part of the largest entropy, which falls from 0.9 to 0.1 over
//   the first half of the episodes. Table 2's "-log(1 + iota)" would be negative, which no
//   distribution over actions reaches.

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "base/status.h"
#include "cluster/learned/learned_placer.h"
#include "sim/learn/discrete_sac.h"
#include "sim/learn/td3.h"
#include "sim/training/reward.h"
#include "sim/training/train_options.h"
#include "sim/training/training_views.h"

namespace lagoon {

/// One episode: means over its steps.
struct EpisodeResult {
  int episode = 0;         // from 1
  double reward = 0;       // of a second: Rewards::Sum() over the GPUs
  double violations = 0;   // part of a model's requests, mean over the replicas
  double temperature = 0;  // of the global stage
};

/// One thread. The same options give the same networks, bit for bit, on one type of machine,
/// whether or not the training was interrupted.
class Trainer {
 public:
  /// `options` are valid.
  explicit Trainer(const TrainOptions& options);

  int done() const { return done_; }
  /// Runs the next episode; done() is less than TrainOptions::episodes.
  EpisodeResult RunEpisode();
  PlacementNetworks Networks() const;

  /// All that a training needs to go on.
  void Save(std::ostream& stream) const;
  /// kInvalidArgument: not a state of a training with these options, or cut off. Then the trainer
  /// is of no use any more.
  Status Load(std::istream& stream);

 private:
  struct Second {
    double reward = 0, violations = 0;
  };
  struct Placed;
  Second RunSecond(PlacementView& view, Random& random);
  std::vector<Placed> PlaceAll(Stages& stages, const Rewards& rewards,
                               const std::vector<Demand>& demands, Random& random);
  double GreedyReward(const Stages& stages, const Rewards& rewards, std::size_t gpu) const;
  Second ShareAll(const Stages& stages, const Rewards& rewards, std::vector<double>* own,
                  Random& random);
  void RememberPlaces(const std::vector<Placed>& placed, const std::vector<double>& own);
  std::uint64_t Fingerprint() const;

  TrainOptions options_;
  Random first_;
  learn::DiscreteSac sac_;
  learn::Td3 td3_;
  int done_ = 0;
};

}  // namespace lagoon
