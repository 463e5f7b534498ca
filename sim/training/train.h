#pragma once

// Training of the learned placer (InSS 5.3, Table 2). One step places all replicas of a second, and
// updates each network once.
//
// What differs from the paper:
// - The environment is the forecast of a placement under the latency model (Stages::RewardOf), not
//   a run of requests: a step takes milliseconds. Requests do not queue from step to step.
// - A replica's reward is by how much it changes the sum of the rewards of its GPU, so that a
//   replica pays for the harm to its neighbours, and the rewards of a second add up to Eq. 2. The
//   last replica of a second ends the return, because the next second does not depend on it.
// - The local stage's return is its reward: for the same reason.
// - A replica that leaves its GPU costs 0.01, as much as 1 % of violations for a second. The paper
//   counts no cost.
// - The target of the entropy is a part of the largest entropy, which falls from 0.9 to 0.1 over
//   the first half of the episodes. Table 2's "-log(1 + iota)" would be negative, which no
//   distribution over actions reaches.

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/learned/learned_placer.h"
#include "sim/learn/discrete_sac.h"
#include "sim/learn/td3.h"
#include "sim/training/training_views.h"

namespace lagoon {

struct TrainOptions {
  int episodes = 400;
  int steps = 100;  // of an episode: seconds
  std::uint32_t seed = 1;
  bool interference = true;
  std::vector<int> hidden = {64, 64};
  std::size_t batch = 128;
  float rate = 1;  // of learning, relative to Table 2
  TrainingRanges ranges = {};
};

/// kInvalidArgument names the option and its value.
Status CheckTrainOptions(const TrainOptions& options);

/// One episode: means over its steps.
struct EpisodeResult {
  int episode = 0;         // from 1
  double reward = 0;       // of a second: sum over the replicas, Stages::RewardOf()
  double violations = 0;   // part of a model's requests, mean over the replicas
  double temperature = 0;  // of the global stage
};

/// Mean over fixed views of other models than those of training, without exploring.
struct Examination {
  double reward = 0, violations = 0;
  double guessed_reward = 0, guessed_violations = 0;  // without networks: see ExamineGuess()
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
  Examination Examine() const;

  /// All that a training needs to go on.
  void Save(std::ostream& stream) const;
  /// kInvalidArgument: not a state of a training with these options, or cut off. Then the trainer
  /// is of no use any more.
  Status Load(std::istream& stream);

 private:
  struct Second {
    double reward = 0, violations = 0;
  };
  Second RunSecond(PlacementView& view, Random& random);
  void PlaceAll(Stages& stages, std::size_t demands, Random& random);
  double GreedyReward(const Stages& stages, std::size_t gpu, Random& random) const;
  Second ShareAll(const Stages& stages, Random& random);
  float EntropyTarget() const;
  std::uint64_t Fingerprint() const;

  TrainOptions options_;
  Random first_;
  learn::DiscreteSac sac_;
  learn::Td3 td3_;
  int done_ = 0;
};

/// Each replica goes to the GPU with the least need, and shares are in proportion to the needs:
/// what the networks should beat. Returns reward and violations of the view.
struct GuessResult {
  double reward = 0, violations = 0;
};
/// `view`: of 1 to kGroups GPUs.
GuessResult Guess(const PlacementView& view, bool interference);

/// The same for the placement of a LearnedPlacer: whole granules, true interference.
GuessResult Judge(const PlacementView& view, const Assignment& assignment);

}  // namespace lagoon
