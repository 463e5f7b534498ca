#pragma once

// TD3 (Fujimoto 2018) for actions that share something out among slots: each slot that is present
// gets a share, the shares add up to 1, and each slot gets levels from 0 to 1 besides.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/random.h"
#include "learn/actions.h"
#include "learn/mlp.h"
#include "sim/learn/adam.h"
#include "sim/learn/replay.h"

namespace lagoon::learn {

struct Td3Options {
  int features = 1;
  int slots = 1;
  int levels = 0;  // of each slot
  std::vector<int> hidden = {256, 256};
  float rate = 3e-4F;
  float discount = 0.99F;
  float soft = 0.005F;  // part by which the targets move in a step
  float smooth = 0.2F;  // standard deviation of the noise on the target's outputs
  float smooth_clip = 0.5F;
  /// Errors of a critic beyond this one count linearly (Huber's loss), the others as squares.
  float most_error = std::numeric_limits<float>::infinity();
  int delay = 2;         // steps of the critics for each of the actor and the targets
  float last_scale = 1;  // of the actor's last layer at first
  std::size_t batch = 256;
  std::size_t capacity = 100'000;

  int outputs() const { return slots * (1 + levels); }
};

/// How far Explore() departs from what the actor says.
struct Exploration {
  float shares = 0.1F, levels = 0.1F;  // standard deviations of the noise on the actor's outputs
  float uniform = 0;  // part of the actions that do not ask the actor: see UniformAction()
};

/// The states have the sizes that Td3Options says: `slots` offsets for the shares, then `levels`
/// for each slot.
struct Td3Transition {
  const ShareState& state;
  std::span<const float> action;
  float reward = 0;
  const ShareState& next;
  bool last = false;  // the return ends with `reward`; `next` is not used
};

/// The derivative by `raw`, of the derivative by the action. `action`: what Squash() returned. By
/// hand: dz_i = s_i (da_i - sum_j s_j da_j) for the shares, dz = a (1 - a) da for the levels.
Matrix SquashBackward(const Matrix& action, const Matrix& daction, Eigen::Index slots);

/// An action drawn evenly from all: shares of the slots that are present by Dirichlet's
/// distribution with parameters of 1, each of their `levels` levels from 0 to 1.
std::vector<float> UniformAction(std::span<const float> present, int levels, Random& random);

/// Not thread-safe.
class Td3 {
 public:
  Td3(const Td3Options& options, Random& random);

  /// The action for `state`: shares, then levels.
  std::vector<float> Act(const ShareState& state) const;
  /// The same with noise on the raw outputs, where noise does not break the sum; or, for a part of
  /// the actions, any action.
  std::vector<float> Explore(const ShareState& state, const Exploration& exploration,
                             Random& random) const;
  void Remember(const Td3Transition& transition);
  /// One step of the critics on a batch drawn from the replay, which holds a transition at least;
  /// every `delay` steps also one of the actor and of the targets.
  void Learn(Random& random);

  /// The gradient of -mean Q1(s, pi(s)) by the actor's parameters, for states as rows (features,
  /// offsets, present). Returns the loss.
  float ActorGradient(const Matrix& states, std::vector<float>* gradient) const;

  const Mlp& actor() const { return actor_; }
  Mlp& actor() { return actor_; }
  const Td3Options& options() const { return options_; }
  std::size_t remembered() const { return replay_.size(); }

  void Save(StateWriter& writer) const;
  void Load(StateReader& reader);

 private:
  Eigen::Index state_width() const;
  Matrix RowOf(const ShareState& state) const;
  std::vector<float> ActionOf(const Matrix& raw, const Matrix& states) const;
  Matrix FeaturesOf(const Matrix& states) const { return states.leftCols(options_.features); }
  Matrix OffsetsOf(const Matrix& states) const;
  Matrix PresentOf(const Matrix& states) const { return states.rightCols(options_.slots); }
  Matrix Targets(const Matrix& batch, Random& random) const;
  void LearnCritic(int index, const Matrix& batch, const Matrix& targets);

  Td3Options options_;
  Mlp actor_, target_actor_;
  Mlp critics_[2], targets_[2];
  Adam actor_adam_;
  Adam critic_adams_[2];
  std::uint64_t steps_ = 0;
  Replay replay_;
};

}  // namespace lagoon::learn
