#pragma once

// What a training of the learned placer is like, and what of that changes while it goes on.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sim/learn/td3.h"
#include "sim/training/reward.h"
#include "sim/training/training_views.h"

namespace lagoon {

/// Rules beyond the paper's, each to be tried apart.
struct TrainRules {
  bool gain = false;     // the local stage learns from Rewards::Gain(), not from Rewards::Sum()
  bool scale = false;    // the local stage's rewards are times 40, as large as the paper's
  bool huber = false;    // errors of the critics beyond 1 count linearly
  bool noise = false;    // the local stage's noise falls from a larger one, as ExplorationAt() says
  bool uniform = false;  // 5 % of the local stage's actions are drawn evenly from all
  bool loads = false;    // loads above 1.5 come in the last quarter of the episodes only
};

/// Their names, in the order of the fields.
const std::vector<std::string>& TrainRuleNames();
/// Adds a rule. kInvalidArgument: there is no such rule; the message lists them.
Status AddRule(std::string_view name, TrainRules& rules);

struct TrainOptions {
  int episodes = 400;
  int steps = 100;  // of an episode: seconds
  std::uint32_t seed = 1;
  bool interference = true;
  std::vector<int> hidden = {64, 64};
  std::size_t batch = 128;
  int updates = 1;  // of each network after a second
  float rate = 1;   // of learning, relative to Table 2
  RewardRule reward = {};
  /// The global stage's reward of a replica is the replica's own at the end of the second, as in
  /// the paper. false: by how much the replica changes the sum of its GPU.
  bool own_reward = false;
  TrainRules rules = {};
  TrainingRanges ranges = {};
};

/// The size and the rewards of the paper: 1600 episodes, 256 and 256 neurons, batches of 256, one
/// update a second, capacity as throughput, a replica's own reward.
TrainOptions PaperTraining();

/// kInvalidArgument names the option and its value.
Status CheckTrainOptions(const TrainOptions& options);

/// In the episode after `done` ones, of options.episodes.
float EntropyAt(const TrainOptions& options, int done);  // part of the largest entropy
learn::Exploration ExplorationAt(const TrainOptions& options, int done);
TrainingRanges RangesAt(const TrainOptions& options, int done);

/// All that decides the result, as text: trainings with equal texts give equal networks.
std::string TextOf(const TrainOptions& options);

}  // namespace lagoon
