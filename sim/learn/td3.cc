#include "sim/learn/td3.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace lagoon::learn {
namespace {

std::vector<int> Sizes(int inputs, const std::vector<int>& hidden, int outputs) {
  std::vector<int> sizes = {inputs};
  sizes.insert(sizes.end(), hidden.begin(), hidden.end());
  sizes.push_back(outputs);
  return sizes;
}

std::vector<int> CriticSizes(const Td3Options& options) {
  return Sizes(options.features + options.outputs(), options.hidden, 1);
}

std::size_t StateWidth(const Td3Options& options) {
  const int width = options.features + options.outputs() + options.slots;
  return static_cast<std::size_t>(width);
}

// The critic's input: features, then the action as it is applied.
Matrix Join(const Matrix& features, const Matrix& action) {
  Matrix joined(features.rows(), features.cols() + action.cols());
  joined << features, action;
  return joined;
}

void Append(const ShareState& state, std::vector<float>* row) {
  row->insert(row->end(), state.features.begin(), state.features.end());
  row->insert(row->end(), state.offsets.begin(), state.offsets.end());
  row->insert(row->end(), state.present.begin(), state.present.end());
}

}  // namespace

Matrix SquashBackward(const Matrix& action, const Matrix& daction, Eigen::Index slots) {
  const Eigen::Index others = action.cols() - slots;
  Matrix draw(action.rows(), action.cols());
  for (Eigen::Index row = 0; row < action.rows(); ++row) {
    const auto shares = action.row(row).head(slots).array();
    const auto dshares = daction.row(row).head(slots).array();
    draw.row(row).head(slots) = (shares * (dshares - (shares * dshares).sum())).matrix();
    const auto level = action.row(row).tail(others).array();
    const auto dlevel = daction.row(row).tail(others).array();
    draw.row(row).tail(others) = (level * (1 - level) * dlevel).matrix();
  }
  return draw;
}

// The gaps that n - 1 uniform draws leave in [0, 1] are distributed as Dirichlet says.
std::vector<float> UniformAction(std::span<const float> present, int levels, Random& random) {
  const std::size_t slots = present.size(), each = static_cast<std::size_t>(levels);
  std::vector<std::size_t> slots_present;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    if (present[slot] != 0) slots_present.push_back(slot);
  }
  LAGOON_CHECK(!slots_present.empty());
  std::vector<double> cuts = {0, 1};
  while (cuts.size() <= slots_present.size()) cuts.push_back(random.Uniform());
  std::ranges::sort(cuts);
  std::vector<float> action(slots * (1 + each));
  for (std::size_t i = 0; i < slots_present.size(); ++i) {
    const std::size_t slot = slots_present[i];
    action[slot] = static_cast<float>(cuts[i + 1] - cuts[i]);
    for (std::size_t level = 0; level < each; ++level) {
      action[slots + slot * each + level] = static_cast<float>(random.Uniform());
    }
  }
  return action;
}

Td3::Td3(const Td3Options& options, Random& random)
    : options_(options),
      actor_(Sizes(options.features, options.hidden, options.outputs()), random,
             options.last_scale),
      target_actor_(actor_),
      critics_{Mlp(CriticSizes(options), random), Mlp(CriticSizes(options), random)},
      targets_{critics_[0], critics_[1]},
      actor_adam_(actor_.parameters().size(), options.rate),
      critic_adams_{{critics_[0].parameters().size(), options.rate},
                    {critics_[1].parameters().size(), options.rate}},
      replay_(options.capacity,
              2 * StateWidth(options) + static_cast<std::size_t>(options.outputs()) + 2) {}

Eigen::Index Td3::state_width() const { return static_cast<Eigen::Index>(StateWidth(options_)); }

Matrix Td3::OffsetsOf(const Matrix& states) const {
  return states.middleCols(options_.features, options_.outputs());
}

Matrix Td3::RowOf(const ShareState& state) const {
  std::vector<float> row;
  Append(state, &row);
  LAGOON_CHECK(row.size() == StateWidth(options_));
  return Eigen::Map<const Matrix>(row.data(), 1, state_width());
}

std::vector<float> Td3::ActionOf(const Matrix& raw, const Matrix& states) const {
  const Matrix action = Squash(raw, PresentOf(states));
  return {action.data(), action.data() + action.size()};
}

std::vector<float> Td3::Act(const ShareState& state) const {
  const Matrix states = RowOf(state);
  return ActionOf(actor_.Forward(FeaturesOf(states)) + OffsetsOf(states), states);
}

std::vector<float> Td3::Explore(const ShareState& state, const Exploration& exploration,
                                Random& random) const {
  if (exploration.uniform > 0 && random.Happens(exploration.uniform)) {
    return UniformAction(state.present, options_.levels, random);
  }
  const Matrix states = RowOf(state);
  Matrix raw = actor_.Forward(FeaturesOf(states)) + OffsetsOf(states);
  for (Eigen::Index i = 0; i < raw.cols(); ++i) {
    const float noise = i < options_.slots ? exploration.shares : exploration.levels;
    raw(0, i) += noise * static_cast<float>(random.Normal());
  }
  return ActionOf(raw, states);
}

// A row of the replay: state, action, reward, last, next state.
void Td3::Remember(const Td3Transition& transition) {
  std::vector<float> row;
  Append(transition.state, &row);
  LAGOON_CHECK(row.size() == StateWidth(options_));
  LAGOON_CHECK(transition.action.size() == static_cast<std::size_t>(options_.outputs()));
  row.insert(row.end(), transition.action.begin(), transition.action.end());
  row.push_back(transition.reward);
  row.push_back(transition.last ? 1.0F : 0.0F);
  Append(transition.last ? transition.state : transition.next, &row);
  replay_.Add(row);
}

// y = r + gamma min of both targets (s', target actor (s') with clipped noise).
Matrix Td3::Targets(const Matrix& batch, Random& random) const {
  const Matrix next = batch.rightCols(state_width()), features = FeaturesOf(next);
  Matrix raw = target_actor_.Forward(features) + OffsetsOf(next);
  const float clip = options_.smooth_clip;
  for (Eigen::Index i = 0; i < raw.size(); ++i) {
    const float noise = options_.smooth * static_cast<float>(random.Normal());
    raw.data()[i] += std::clamp(noise, -clip, clip);
  }
  const Matrix joined = Join(features, Squash(raw, PresentOf(next)));
  const Matrix least = targets_[0].Forward(joined).cwiseMin(targets_[1].Forward(joined));
  const Eigen::Index reward = state_width() + options_.outputs();
  Matrix targets(batch.rows(), 1);
  for (Eigen::Index i = 0; i < batch.rows(); ++i) {
    const bool last = batch(i, reward + 1) != 0;
    targets(i, 0) = batch(i, reward) + (last ? 0 : options_.discount * least(i, 0));
  }
  return targets;
}

void Td3::LearnCritic(int index, const Matrix& batch, const Matrix& targets) {
  const Matrix joined =
      Join(FeaturesOf(batch), batch.middleCols(state_width(), options_.outputs()));
  Tape tape;
  const Matrix values = critics_[index].Forward(joined, &tape);
  const float most = options_.most_error;
  const Matrix errors = (values - targets).cwiseMax(-most).cwiseMin(most);
  const Matrix derivative = errors * (2 / static_cast<float>(values.rows()));
  std::vector<float> gradient;
  critics_[index].Backward(tape, derivative, &gradient, nullptr);
  critic_adams_[index].Step(critics_[index].parameters(), gradient);
}

float Td3::ActorGradient(const Matrix& states, std::vector<float>* gradient) const {
  Tape actor_tape, critic_tape;
  const Matrix features = FeaturesOf(states);
  const Matrix raw = actor_.Forward(features, &actor_tape) + OffsetsOf(states);
  const Matrix action = Squash(raw, PresentOf(states));
  const Matrix values = critics_[0].Forward(Join(features, action), &critic_tape);
  const Matrix dvalues = Matrix::Constant(values.rows(), 1, -1 / static_cast<float>(values.rows()));
  Matrix djoined;
  critics_[0].Backward(critic_tape, dvalues, nullptr, &djoined);
  const Matrix draw = SquashBackward(action, djoined.rightCols(action.cols()), options_.slots);
  actor_.Backward(actor_tape, draw, gradient, nullptr);
  return -values.mean();
}

void Td3::Learn(Random& random) {
  const Matrix batch = replay_.Sample(options_.batch, random);
  const Matrix targets = Targets(batch, random);
  for (int i = 0; i < 2; ++i) LearnCritic(i, batch, targets);
  ++steps_;
  if (steps_ % static_cast<std::uint64_t>(options_.delay) != 0) return;
  std::vector<float> gradient;
  ActorGradient(batch.leftCols(state_width()), &gradient);
  actor_adam_.Step(actor_.parameters(), gradient);
  MoveTowards(actor_, options_.soft, &target_actor_);
  for (int i = 0; i < 2; ++i) MoveTowards(critics_[i], options_.soft, &targets_[i]);
}

void Td3::Save(StateWriter& writer) const {
  for (const Mlp* mlp :
       {&actor_, &target_actor_, &critics_[0], &critics_[1], &targets_[0], &targets_[1]}) {
    writer.Floats(mlp->parameters());
  }
  for (const Adam* adam : {&actor_adam_, &critic_adams_[0], &critic_adams_[1]}) adam->Save(writer);
  writer.Number(steps_);
  replay_.Save(writer);
}

void Td3::Load(StateReader& reader) {
  for (Mlp* mlp :
       {&actor_, &target_actor_, &critics_[0], &critics_[1], &targets_[0], &targets_[1]}) {
    reader.Floats(mlp->parameters());
  }
  for (Adam* adam : {&actor_adam_, &critic_adams_[0], &critic_adams_[1]}) adam->Load(reader);
  steps_ = reader.Number();
  replay_.Load(reader);
}

}  // namespace lagoon::learn
