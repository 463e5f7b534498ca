#include "sim/learn/discrete_sac.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace lagoon::learn {
namespace {

constexpr float kUnsafe = -std::numeric_limits<float>::infinity();

std::vector<int> Sizes(const SacOptions& options) {
  std::vector<int> sizes = {options.features};
  sizes.insert(sizes.end(), options.hidden.begin(), options.hidden.end());
  sizes.push_back(options.actions);
  return sizes;
}

Matrix AsRow(std::span<const float> state) {
  return Eigen::Map<const Matrix>(state.data(), 1, static_cast<Eigen::Index>(state.size()));
}

// The entropy of a row of log probabilities.
float EntropyOf(const Matrix& logs, Eigen::Index row) {
  float entropy = 0;
  for (Eigen::Index a = 0; a < logs.cols(); ++a) {
    if (logs(row, a) != kUnsafe) entropy -= std::exp(logs(row, a)) * logs(row, a);
  }
  return entropy;
}

}  // namespace

// A row of the replay: state, action, reward, last, mask, next mask, next state. Masks are 32 bits.
struct DiscreteSac::Batch {
  Matrix states, next;
  std::vector<int> actions;
  std::vector<float> rewards;
  std::vector<bool> last;
  std::vector<ActionMask> masks, next_masks;
};

Matrix MaskedLogSoftmax(const Matrix& logits, std::span<const ActionMask> masks) {
  Matrix logs(logits.rows(), logits.cols());
  for (Eigen::Index row = 0; row < logits.rows(); ++row) {
    const ActionMask mask = masks[static_cast<std::size_t>(row)];
    float most = kUnsafe, sum = 0;
    for (Eigen::Index a = 0; a < logits.cols(); ++a) {
      if (IsSafe(mask, a)) most = std::max(most, logits(row, a));
    }
    for (Eigen::Index a = 0; a < logits.cols(); ++a) {
      if (IsSafe(mask, a)) sum += std::exp(logits(row, a) - most);
    }
    const float log_sum = std::log(sum);
    for (Eigen::Index a = 0; a < logits.cols(); ++a) {
      logs(row, a) = IsSafe(mask, a) ? logits(row, a) - most - log_sum : kUnsafe;
    }
  }
  return logs;
}

DiscreteSac::DiscreteSac(const SacOptions& options, Random& random)
    : options_(options),
      actor_(Sizes(options), random),
      critics_{Mlp(Sizes(options), random), Mlp(Sizes(options), random)},
      targets_{critics_[0], critics_[1]},
      log_temperature_(std::log(options.first_temperature)),
      actor_adam_(actor_.parameters().size(), options.rate),
      critic_adams_{{critics_[0].parameters().size(), options.rate},
                    {critics_[1].parameters().size(), options.rate}},
      temperature_adam_(1, options.rate),
      replay_(options.capacity, 2 * static_cast<std::size_t>(options.features) + 5) {
  LAGOON_CHECK(options.actions >= 1 && options.actions <= 32);
}

float DiscreteSac::temperature() const { return std::exp(log_temperature_); }

int DiscreteSac::Act(std::span<const float> state, ActionMask mask, bool explore,
                     Random& random) const {
  const Matrix logits = actor_.Forward(AsRow(state));
  const int best = BestAction({logits.data(), static_cast<std::size_t>(logits.size())}, mask);
  if (!explore) return best;
  const Matrix logs = MaskedLogSoftmax(logits, std::span(&mask, 1));
  double left = random.Uniform();
  for (Eigen::Index a = 0; a < logs.cols(); ++a) {
    if (!IsSafe(mask, a)) continue;
    left -= std::exp(logs(0, a));
    if (left < 0) return static_cast<int>(a);
  }
  return best;  // the probabilities summed up to a little less than 1
}

void DiscreteSac::Remember(const SacTransition& transition) {
  const auto features = static_cast<std::size_t>(options_.features);
  LAGOON_CHECK(transition.state.size() == features);
  LAGOON_CHECK(IsSafe(transition.mask, transition.action));
  std::vector<float> row(transition.state.begin(), transition.state.end());
  row.push_back(static_cast<float>(transition.action));
  row.push_back(transition.reward);
  row.push_back(transition.last ? 1.0F : 0.0F);
  row.push_back(std::bit_cast<float>(transition.mask));
  row.push_back(std::bit_cast<float>(transition.last ? ActionMask{1} : transition.next_mask));
  if (transition.last) {
    row.resize(row.size() + features);
  } else {
    LAGOON_CHECK(transition.next.size() == features && transition.next_mask != 0);
    row.insert(row.end(), transition.next.begin(), transition.next.end());
  }
  replay_.Add(row);
}

DiscreteSac::Batch DiscreteSac::Draw(Random& random) const {
  const Matrix rows = replay_.Sample(options_.batch, random);
  const Eigen::Index features = options_.features;
  Batch batch;
  batch.states = rows.leftCols(features);
  batch.next = rows.rightCols(features);
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    batch.actions.push_back(static_cast<int>(rows(i, features)));
    batch.rewards.push_back(rows(i, features + 1));
    batch.last.push_back(rows(i, features + 2) != 0);
    batch.masks.push_back(std::bit_cast<ActionMask>(rows(i, features + 3)));
    batch.next_masks.push_back(std::bit_cast<ActionMask>(rows(i, features + 4)));
  }
  return batch;
}

// y = r + gamma sum_a pi(a | s') (min of both targets (s', a) - tau log pi(a | s')).
Matrix DiscreteSac::Targets(const Batch& batch) const {
  const Matrix logs = MaskedLogSoftmax(actor_.Forward(batch.next), batch.next_masks);
  const Matrix least = targets_[0].Forward(batch.next).cwiseMin(targets_[1].Forward(batch.next));
  const float tau = temperature();
  Matrix targets(logs.rows(), 1);
  for (Eigen::Index i = 0; i < logs.rows(); ++i) {
    const auto sample = static_cast<std::size_t>(i);
    float value = 0;
    for (Eigen::Index a = 0; a < logs.cols(); ++a) {
      if (!IsSafe(batch.next_masks[sample], a)) continue;
      value += std::exp(logs(i, a)) * (least(i, a) - tau * logs(i, a));
    }
    targets(i, 0) = batch.rewards[sample] + (batch.last[sample] ? 0 : options_.discount * value);
  }
  return targets;
}

// The loss is the mean of (Q(s, a) - y)^2, and linear in the errors beyond `most_error`.
void DiscreteSac::LearnCritic(int index, const Batch& batch, const Matrix& targets) {
  Tape tape;
  const Matrix values = critics_[index].Forward(batch.states, &tape);
  Matrix derivative = Matrix::Zero(values.rows(), values.cols());
  const float scale = 2 / static_cast<float>(values.rows()), most = options_.most_error;
  for (Eigen::Index i = 0; i < values.rows(); ++i) {
    const int action = batch.actions[static_cast<std::size_t>(i)];
    derivative(i, action) = scale * std::clamp(values(i, action) - targets(i, 0), -most, most);
  }
  std::vector<float> gradient;
  critics_[index].Backward(tape, derivative, &gradient, nullptr);
  critic_adams_[index].Step(critics_[index].parameters(), gradient);
}

// The loss is the mean of sum_a pi(a | s) (tau log pi(a | s) - min of both critics (s, a)).
void DiscreteSac::LearnActor(const Batch& batch, float entropy) {
  Tape tape;
  const Matrix logs = MaskedLogSoftmax(actor_.Forward(batch.states, &tape), batch.masks);
  const Matrix least =
      critics_[0].Forward(batch.states).cwiseMin(critics_[1].Forward(batch.states));
  const float tau = temperature(), scale = 1 / static_cast<float>(logs.rows());
  Matrix derivative = Matrix::Zero(logs.rows(), logs.cols());
  float surplus = 0;  // of entropy, mean over the samples
  for (Eigen::Index i = 0; i < logs.rows(); ++i) {
    const ActionMask mask = batch.masks[static_cast<std::size_t>(i)];
    float mean = 0;
    for (Eigen::Index a = 0; a < logs.cols(); ++a) {
      if (IsSafe(mask, a)) mean += std::exp(logs(i, a)) * (tau * logs(i, a) - least(i, a));
    }
    for (Eigen::Index a = 0; a < logs.cols(); ++a) {
      if (!IsSafe(mask, a)) continue;
      derivative(i, a) = scale * std::exp(logs(i, a)) * (tau * logs(i, a) - least(i, a) - mean);
    }
    const auto safe = static_cast<float>(std::popcount(mask));
    surplus += scale * (EntropyOf(logs, i) - entropy * std::log(safe));
  }
  std::vector<float> gradient;
  actor_.Backward(tape, derivative, &gradient, nullptr);
  actor_adam_.Step(actor_.parameters(), gradient);
  temperature_adam_.Step(std::span(&log_temperature_, 1), std::span(&surplus, 1));
}

void DiscreteSac::Learn(float entropy, Random& random) {
  const Batch batch = Draw(random);
  const Matrix targets = Targets(batch);
  for (int i = 0; i < 2; ++i) LearnCritic(i, batch, targets);
  LearnActor(batch, entropy);
  for (int i = 0; i < 2; ++i) MoveTowards(critics_[i], options_.soft, &targets_[i]);
}

void DiscreteSac::Save(StateWriter& writer) const {
  writer.Floats(actor_.parameters());
  for (const Mlp* mlp : {&critics_[0], &critics_[1], &targets_[0], &targets_[1]}) {
    writer.Floats(mlp->parameters());
  }
  writer.Floats(std::span(&log_temperature_, 1));
  for (const Adam* adam :
       {&actor_adam_, &critic_adams_[0], &critic_adams_[1], &temperature_adam_}) {
    adam->Save(writer);
  }
  replay_.Save(writer);
}

void DiscreteSac::Load(StateReader& reader) {
  reader.Floats(actor_.parameters());
  for (Mlp* mlp : {&critics_[0], &critics_[1], &targets_[0], &targets_[1]}) {
    reader.Floats(mlp->parameters());
  }
  reader.Floats(std::span(&log_temperature_, 1));
  for (Adam* adam : {&actor_adam_, &critic_adams_[0], &critic_adams_[1], &temperature_adam_}) {
    adam->Load(reader);
  }
  replay_.Load(reader);
}

}  // namespace lagoon::learn
