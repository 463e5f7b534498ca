#include "sim/learn/td3.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>

#include "sim/learn/testing/saved_state.h"

namespace lagoon::learn {
namespace {

using testing::FloatAt;
using testing::StateOf;

Td3Options SmallTd3(int features, int slots, int levels) {
  Td3Options options;
  options.features = features;
  options.slots = slots;
  options.levels = levels;
  options.hidden = {32, 32};
  options.rate = 2e-3F;
  options.discount = 0.95F;
  options.soft = 0.02F;
  options.batch = 64;
  options.capacity = 5000;
  return options;
}

Matrix RandomMatrix(Eigen::Index rows, Eigen::Index columns, Random& random) {
  Matrix matrix(rows, columns);
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    matrix.data()[i] = static_cast<float>(random.Normal());
  }
  return matrix;
}

TEST(Squash, DerivativesAreThoseOfFiniteDifferences) {
  Random random(2);
  Matrix present(1, 3);
  present << 1, 1, 0;
  const Matrix raw = RandomMatrix(1, 6, random), factors = RandomMatrix(1, 6, random);
  const Matrix derivative = SquashBackward(Squash(raw, present), factors, 3);
  for (Eigen::Index i = 0; i < 6; ++i) {
    Matrix more = raw, less = raw;
    more(0, i) += 0.01F;
    less(0, i) -= 0.01F;
    const float change =
        (Squash(more, present) - Squash(less, present)).cwiseProduct(factors).sum();
    EXPECT_NEAR(derivative(0, i), change / 0.02F, 2e-4) << i;
  }
}

TEST(Td3, GradientOfTheActorIsThatOfFiniteDifferences) {
  Random random(3);
  Td3 td3(SmallTd3(4, 3, 1), random);
  Matrix states = RandomMatrix(8, 4 + 6 + 3, random);
  states.rightCols(3).setOnes();
  states(0, 11) = 0;  // one slot is absent
  states(3, 10) = 0;
  std::vector<float> gradient;
  td3.ActorGradient(states, &gradient);
  const std::span<float> parameters = td3.actor().parameters();
  int large = 0;
  for (std::size_t i = 0; i < parameters.size(); i += 13) {
    const float before = parameters[i];
    parameters[i] = before + 0.002F;
    const float more = td3.ActorGradient(states, nullptr);
    parameters[i] = before - 0.002F;
    const float less = td3.ActorGradient(states, nullptr);
    parameters[i] = before;
    EXPECT_NEAR(gradient[i], (more - less) / 0.004F, 2e-5 + 0.05 * std::abs(gradient[i])) << i;
    large += std::abs(gradient[i]) > 2e-4F ? 1 : 0;
  }
  EXPECT_GT(large, 5);
}

ShareState AllPresent(std::vector<float> features, int slots, int levels) {
  return {std::move(features), std::vector<float>(static_cast<std::size_t>(slots * (1 + levels))),
          std::vector<float>(static_cast<std::size_t>(slots), 1)};
}

// Two states with best shares of their own; the best level is 0.7 for all slots.
constexpr float kBest[2][3] = {{0.6F, 0.3F, 0.1F}, {0.2F, 0.2F, 0.6F}};

ShareState StateOfQuadratic(std::size_t which) {
  return AllPresent({which == 0 ? 1.0F : 0.0F, which == 1 ? 1.0F : 0.0F}, 3, 1);
}

struct Quadratic {
  std::array<float, 2> offsets = {};  // what each state's rewards have besides, whatever is done
  bool gain = false;                  // less the reward of equal shares and levels of a half

  float RewardOf(std::size_t which, const std::vector<float>& action) const {
    float reward = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      reward -= 4 * std::pow(action[i] - kBest[which][i], 2.0F);
      reward -= 4 * std::pow(action[3 + i] - 0.7F, 2.0F);
    }
    // In steps of 1/4096, so that sums with whole offsets are exact.
    reward = std::round(reward * 4096) / 4096 + offsets[which];
    if (!gain) return reward;
    const std::vector<float> guess = {1.0F / 3, 1.0F / 3, 1.0F / 3, 0.5F, 0.5F, 0.5F};
    return reward - Quadratic{offsets}.RewardOf(which, guess);
  }

  void Learn(Td3& td3, int steps, const Exploration& exploration, Random& random) const {
    for (int step = 0; step < steps; ++step) {
      const std::size_t which = random.Below(2);
      const ShareState state = StateOfQuadratic(which);
      const std::vector<float> action = td3.Explore(state, exploration, random);
      td3.Remember({state, action, RewardOf(which, action), state, true});
      td3.Learn(random);
    }
  }
};

void ExpectTheOptimumOfTheQuadratic(const Td3& td3, double tolerance) {
  for (std::size_t which = 0; which < 2; ++which) {
    const std::vector<float> action = td3.Act(StateOfQuadratic(which));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(action[i], kBest[which][i], tolerance) << which << " " << i;
      EXPECT_NEAR(action[3 + i], 0.7, tolerance) << which << " " << i;
    }
  }
}

TEST(Td3, FindsTheOptimumOfAQuadraticUnderTheSoftmax) {
  Random random(4);
  Td3 td3(SmallTd3(2, 3, 1), random);
  Quadratic().Learn(td3, 3000, {.shares = 0.3F, .levels = 0.3F}, random);
  ExpectTheOptimumOfTheQuadratic(td3, 0.08);
}

TEST(Td3, FindsTheOptimumThoughNoActionWasItsOwn) {
  Random random(4);
  Td3Options options = SmallTd3(2, 3, 1);
  options.most_error = 1;
  options.hidden = {64, 64};
  options.rate = 5e-4F;
  Td3 td3(options, random);
  Quadratic().Learn(td3, 5000, {.uniform = 1}, random);
  // The critics have to know all actions, so that they know the best ones less well.
  ExpectTheOptimumOfTheQuadratic(td3, 0.12);
}

// Tenths of the shares and of the levels.
std::vector<int> DecisionsAfter(const Quadratic& quadratic) {
  Random random(4);
  Td3Options options = SmallTd3(2, 3, 1);
  options.most_error = 1;
  Td3 td3(options, random);
  quadratic.Learn(td3, 2000, {.shares = 0.3F, .levels = 0.8F, .uniform = 0.05F}, random);
  std::vector<int> decisions;
  for (std::size_t which = 0; which < 2; ++which) {
    for (const float part : td3.Act(StateOfQuadratic(which))) {
      decisions.push_back(static_cast<int>(std::lround(10 * part)));
    }
  }
  return decisions;
}

TEST(Td3, WhatTheStateAloneGivesChangesNoDecisionOnceTheGuessIsSubtracted) {
  const std::array<float, 2> offsets = {32, -16};
  const std::vector<int> decisions = DecisionsAfter({.gain = true});
  EXPECT_EQ(DecisionsAfter({.offsets = offsets, .gain = true}), decisions);
  EXPECT_NE(DecisionsAfter({.offsets = offsets}),
            DecisionsAfter({}));  // the critics learn nothing else
}

TEST(Td3, AUniformActionKeepsTheSumAndLeavesAbsentSlotsAlone) {
  Random random(11);
  Td3 td3(SmallTd3(1, 4, 2), random);
  ShareState state = AllPresent({1}, 4, 2);
  state.present = {1, 0, 1, 1};
  double first = 0, square = 0, level = 0;
  constexpr int kDraws = 4000;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<float> action = td3.Explore(state, {.uniform = 1}, random);
    ASSERT_EQ(action.size(), 12U);
    ASSERT_NEAR(std::accumulate(action.begin(), action.begin() + 4, 0.0F), 1, 1e-6);
    for (const std::size_t absent : {1, 6, 7}) ASSERT_EQ(action[absent], 0);
    first += action[0] / kDraws;
    square += action[0] * action[0] / kDraws;
    level += action[11] / kDraws;
  }
  EXPECT_NEAR(first, 1.0 / 3, 0.02);
  EXPECT_NEAR(square, 1.0 / 6, 0.02);  // of Dirichlet's distribution: 2 / (n (n + 1))
  EXPECT_NEAR(level, 0.5, 0.02);
}

TEST(Td3, SharesAndLevelsHaveNoiseOfTheirOwn) {
  Random random(12);
  const Td3 td3(SmallTd3(1, 2, 1), random);
  const ShareState state = AllPresent({1}, 2, 1);
  const std::vector<float> own = td3.Act(state);
  const std::vector<float> shares = td3.Explore(state, {.shares = 1, .levels = 0}, random);
  EXPECT_NE(shares[0], own[0]);
  EXPECT_EQ(shares[2], own[2]);
  const std::vector<float> levels = td3.Explore(state, {.shares = 0, .levels = 1}, random);
  EXPECT_EQ(levels[0], own[0]);
  EXPECT_NE(levels[2], own[2]);
}

// The value of the only action there is, of which each tenth time gives 20.
float ValueOfARareReward(float most_error) {
  Random random(13);
  Td3Options options = SmallTd3(1, 1, 0);
  options.most_error = most_error;
  Td3 td3(options, random);
  const ShareState state = AllPresent({1}, 1, 0);
  const std::vector<float> action = {1};
  for (int i = 0; i < 20; ++i) td3.Remember({state, action, i % 10 == 0 ? 20.0F : 0, state, true});
  for (int step = 0; step < 1500; ++step) td3.Learn(random);
  Matrix states(1, 3);
  states << 1, 0, 1;
  return -td3.ActorGradient(states, nullptr);
}

TEST(Td3, LargeErrorsCountLinearly) {
  EXPECT_NEAR(ValueOfARareReward(std::numeric_limits<float>::infinity()), 2, 0.5);
  EXPECT_LT(ValueOfARareReward(1), 0.5);  // nearer to the median, 0
}

TEST(Td3, LearnsAcrossAChainOfFiveSteps) {
  // A level costs 0.3 of itself, and moves ahead by a fifth of itself. The place reached in the end
  // is worth 4 times itself: it pays to go as far as possible, though each step costs at once.
  Random random(5);
  Td3 td3(SmallTd3(2, 1, 1), random);
  float place = 0;
  int step_of_five = 0;
  for (int step = 0; step < 4000; ++step) {
    const ShareState state = AllPresent({place, static_cast<float>(step_of_five) / 5}, 1, 1);
    const std::vector<float> action = td3.Explore(state, {.levels = 0.7F}, random);
    const float level = action[1];
    place += level / 5;
    ++step_of_five;
    const bool last = step_of_five == 5;
    const float reward = -0.3F * level + (last ? 4 * place : 0);
    const ShareState next = AllPresent({place, static_cast<float>(step_of_five) / 5}, 1, 1);
    td3.Remember({state, action, reward, next, last});
    td3.Learn(random);
    if (last) {
      place = 0;
      step_of_five = 0;
    }
  }
  for (int i = 0; i < 5; ++i) {
    const auto part = static_cast<float>(i) / 5;
    EXPECT_GT(td3.Act(AllPresent({part, part}, 1, 1))[1], 0.8) << i;
  }
}

TEST(Td3, ActsAsTheOffsetsSayWhereTheActorSaysNothing) {
  Random random(6);
  Td3Options options = SmallTd3(1, 2, 0);
  options.last_scale = 0;
  const Td3 td3(options, random);
  const std::vector<float> action = td3.Act({{1}, {std::log(3.0F), 0}, {1, 1}});
  EXPECT_NEAR(action[0], 0.75, 1e-6);
  EXPECT_NEAR(action[1], 0.25, 1e-6);
}

TEST(Td3, TheActorAndTheTargetsFollowLater) {
  Random random(7), again(7);
  Td3 td3(SmallTd3(1, 2, 0), random);
  const std::string before = StateOf(Td3(SmallTd3(1, 2, 0), again));
  const std::size_t actor = td3.actor().parameters().size();
  const std::size_t critic = Mlp({3, 32, 32, 1}).parameters().size();
  const std::size_t targets = 2 * actor + 2 * critic;  // where the critics' targets begin
  const ShareState state = AllPresent({1}, 2, 0);
  td3.Remember({state, std::vector<float>{0.4F, 0.6F}, 1, state, true});
  td3.Learn(random);
  std::string after = StateOf(td3);
  EXPECT_EQ(after.substr(0, 2 * actor * 4), before.substr(0, 2 * actor * 4));
  EXPECT_NE(after.substr(2 * actor * 4, 2 * critic * 4),
            before.substr(2 * actor * 4, 2 * critic * 4));
  EXPECT_EQ(after.substr(targets * 4, 2 * critic * 4), before.substr(targets * 4, 2 * critic * 4));
  td3.Learn(random);
  after = StateOf(td3);
  for (std::size_t i = targets; i < targets + 2 * critic; ++i) {
    const float change = FloatAt(after, i - 2 * critic) - FloatAt(before, i);
    EXPECT_NEAR(FloatAt(after, i) - FloatAt(before, i), 0.02F * change, 1e-6) << i;
  }
}

TEST(Td3, TheLesserTargetCounts) {
  // Nothing but the last biases: the targets say 1 and 3, the critics 2.
  Random random(8);
  Td3Options options = SmallTd3(1, 2, 0);
  options.discount = 1;
  Td3 td3(options, random);
  const ShareState next = AllPresent({1}, 2, 0);
  td3.Remember({next, std::vector<float>{0.5F, 0.5F}, 0, next, false});
  const std::size_t actor = td3.actor().parameters().size();
  const std::size_t critic = Mlp({3, 32, 32, 1}).parameters().size();
  std::string state = StateOf(td3);
  const float biases[] = {2, 2, 1, 3};
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<float> parameters(critic);
    parameters.back() = biases[i];
    std::memcpy(state.data() + (2 * actor + i * critic) * 4, parameters.data(), critic * 4);
  }
  std::istringstream stream(state);
  StateReader reader(stream);
  td3.Load(reader);
  ASSERT_TRUE(reader.ok());
  td3.Learn(random);
  for (const std::size_t i : {0, 1}) {
    EXPECT_LT(FloatAt(StateOf(td3), 2 * actor + (i + 1) * critic - 1), 2) << i;
  }
}

TEST(Td3, GoesOnFromAStateFileBitForBit) {
  const auto learn = [](Td3& td3, int steps, std::uint32_t seed) {
    Random random(seed);
    const ShareState state = AllPresent({1}, 2, 1);
    for (int i = 0; i < steps; ++i) {
      td3.Remember({state, td3.Explore(state, {}, random), 1, state, false});
      td3.Learn(random);
    }
  };
  Random first(9), second(10);
  Td3 whole(SmallTd3(1, 2, 1), first), resumed(SmallTd3(1, 2, 1), second);
  learn(whole, 15, 1);
  std::istringstream stream(StateOf(whole));
  StateReader reader(stream);
  resumed.Load(reader);
  ASSERT_TRUE(reader.ok());
  learn(whole, 15, 2);
  learn(resumed, 15, 2);
  EXPECT_EQ(StateOf(whole), StateOf(resumed));
}

}  // namespace
}  // namespace lagoon::learn
