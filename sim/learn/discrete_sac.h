#pragma once

// Soft actor-critic for discrete actions (Christodoulou 2019) of which only some are safe in a
// state: the policy's distribution is over the safe ones.

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

struct SacOptions {
  int features = 1;
  int actions = 2;  // at most 32
  std::vector<int> hidden = {256, 256};
  float rate = 1e-4F;           // of all optimisers
  float discount = 0.99F;       // gamma
  float soft = 0.01F;           // part by which the targets move in a step
  float first_temperature = 1;  // tau
  /// Errors of a critic beyond this one count linearly (Huber's loss), the others as squares.
  float most_error = std::numeric_limits<float>::infinity();
  std::size_t batch = 256;         // transitions of a step
  std::size_t capacity = 100'000;  // of the replay
};

struct SacTransition {
  std::span<const float> state;
  ActionMask mask = 0;  // of `state`
  int action = 0;
  float reward = 0;
  std::span<const float> next;
  ActionMask next_mask = 0;
  bool last = false;  // the return ends with `reward`; `next` is not read
};

/// Log probabilities of the safe actions; the others have -infinity. `logits` and the result:
/// samples x actions.
Matrix MaskedLogSoftmax(const Matrix& logits, std::span<const ActionMask> masks);

/// Not thread-safe.
class DiscreteSac {
 public:
  DiscreteSac(const SacOptions& options, Random& random);

  /// `explore`: draws from the policy; otherwise its most probable action. A safe one.
  int Act(std::span<const float> state, ActionMask mask, bool explore, Random& random) const;
  void Remember(const SacTransition& transition);
  /// One step of both critics, the actor, the temperature and the targets, on a batch drawn from
  /// the replay, which holds a transition at least. `entropy`: the part of the largest entropy that
  /// a state's safe actions allow, towards which the temperature is tuned; 0 to 1.
  void Learn(float entropy, Random& random);

  const Mlp& actor() const { return actor_; }
  Mlp& actor() { return actor_; }
  float temperature() const;
  std::size_t remembered() const { return replay_.size(); }

  void Save(StateWriter& writer) const;
  void Load(StateReader& reader);

 private:
  struct Batch;
  Batch Draw(Random& random) const;
  Matrix Targets(const Batch& batch) const;
  void LearnCritic(int index, const Batch& batch, const Matrix& targets);
  void LearnActor(const Batch& batch, float entropy);

  SacOptions options_;
  Mlp actor_;
  Mlp critics_[2], targets_[2];
  float log_temperature_;
  Adam actor_adam_;
  Adam critic_adams_[2];
  Adam temperature_adam_;
  Replay replay_;
};

}  // namespace lagoon::learn
