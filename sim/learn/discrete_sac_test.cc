#include "sim/learn/discrete_sac.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>

#include "sim/learn/testing/saved_state.h"

namespace lagoon::learn {
namespace {

using testing::FloatAt;
using testing::StateOf;

std::vector<float> OneHot(std::size_t index, std::size_t size) {
  std::vector<float> state(size);
  state[index] = 1;
  return state;
}

SacOptions SmallSac(int features, int actions) {
  SacOptions options;
  options.features = features;
  options.actions = actions;
  options.hidden = {32, 32};
  options.rate = 3e-3F;
  options.discount = 0.9F;
  options.batch = 64;
  options.capacity = 4000;
  return options;
}

TEST(DiscreteSac, FindsTheBestSafeArmAndNeverTakesAnUnsafeOne) {
  // Reward of each arm in each of two contexts. Only safe arms are ever rewarded.
  const float rewards[2][4] = {{0.1F, 0.9F, 0.5F, 0.7F}, {0.8F, 0.2F, 0.6F, 0.3F}};
  Random random(1);
  DiscreteSac sac(SmallSac(2, 4), random);
  for (int step = 0; step < 1500; ++step) {
    const std::size_t context = random.Below(2);
    const ActionMask mask = 1 + random.Below(15);
    const std::vector<float> state = OneHot(context, 2);
    const int arm = sac.Act(state, mask, /*explore=*/true, random);
    ASSERT_TRUE((mask >> arm) & 1U);
    sac.Remember({state, mask, arm, 4 * rewards[context][arm], {}, 0, true});
    sac.Learn(0.2F, random);
  }
  for (std::size_t context = 0; context < 2; ++context) {
    for (ActionMask mask = 1; mask < 16; ++mask) {
      const int best = BestAction(rewards[context], mask);
      EXPECT_EQ(sac.Act(OneHot(context, 2), mask, false, random), best) << context << " " << mask;
    }
  }
}

TEST(DiscreteSac, LearnsAcrossAChainOfFiveSteps) {
  // Action 0 ends with 0.2. Action 1 goes on, and the fifth time ends with 1.
  Random random(2);
  DiscreteSac sac(SmallSac(5, 2), random);
  std::size_t at = 0;
  for (int step = 0; step < 2500; ++step) {
    const std::vector<float> state = OneHot(at, 5);
    const int action = sac.Act(state, 3, /*explore=*/true, random);
    const bool last = action == 0 || at == 4;
    const float reward = action == 0 ? 0.2F : (at == 4 ? 1.0F : 0.0F);
    const std::vector<float> next = OneHot(last ? 0 : at + 1, 5);
    sac.Remember({state, 3, action, reward, next, 3, last});
    sac.Learn(0.2F, random);
    at = last ? (random.Happens(0.5) ? random.Below(5) : 0) : at + 1;
  }
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(sac.Act(OneHot(i, 5), 3, false, random), 1) << i;
}

TEST(DiscreteSac, ActionsUnsafeInTheNextStateAreWorthNothing) {
  // In state 1, action 1 gives 5, but state 0's action 1 leads to a state 1 where it is not safe.
  Random random(3);
  DiscreteSac sac(SmallSac(2, 2), random);
  const std::vector<float> first = OneHot(0, 2), second = OneHot(1, 2);
  for (int step = 0; step < 1200; ++step) {
    sac.Remember({first, 3, 0, 0.5F, {}, 0, true});
    sac.Remember({first, 3, 1, 0, second, 1, false});
    sac.Remember({second, 3, 0, 0, {}, 0, true});
    sac.Remember({second, 3, 1, 5, {}, 0, true});
    sac.Learn(0.1F, random);
  }
  EXPECT_EQ(sac.Act(first, 3, false, random), 0);
  EXPECT_EQ(sac.Act(second, 3, false, random), 1);
}

TEST(DiscreteSac, EntropyIsWorthSomething) {
  // Nothing is rewarded. Action 1 leads to a state with eight safe actions, action 0 to one with
  // one.
  Random random(4);
  SacOptions options = SmallSac(2, 8);
  options.discount = 0.99F;
  DiscreteSac sac(options, random);
  const std::vector<float> first = OneHot(0, 2), second = OneHot(1, 2);
  for (int step = 0; step < 600; ++step) {
    sac.Remember({first, 3, 0, 0, second, 1, false});
    sac.Remember({first, 3, 1, 0, second, 255, false});
    const int action = sac.Act(second, 255, true, random);
    sac.Remember({second, 255, action, 0, {}, 0, true});
    sac.Learn(0.5F, random);
  }
  EXPECT_EQ(sac.Act(first, 3, false, random), 1);
}

TEST(DiscreteSac, TheTemperatureBringsTheEntropyToItsTarget) {
  Random random(5);
  DiscreteSac sac(SmallSac(1, 4), random);
  const std::vector<float> state = {1};
  for (int step = 0; step < 3000; ++step) {
    const int arm = sac.Act(state, 15, true, random);
    sac.Remember({state, 15, arm, static_cast<float>(arm), {}, 0, true});
    sac.Learn(0.6F, random);
  }
  const ActionMask all = 15;
  const Matrix logs = MaskedLogSoftmax(sac.actor().Forward(Matrix::Ones(1, 1)), std::span(&all, 1));
  const float entropy = -(logs.array().exp() * logs.array()).sum();
  EXPECT_NEAR(entropy / std::log(4.0F), 0.6F, 0.1F);
}

// Of an arm that always gives 1, and one that gives 20 each tenth time, else nothing.
int ArmWithARareReward(float most_error) {
  Random random(9);
  SacOptions options = SmallSac(1, 2);
  options.most_error = most_error;
  DiscreteSac sac(options, random);
  const std::vector<float> state = {1};
  for (int i = 0; i < 20; ++i) {
    sac.Remember({state, 3, 0, 1, {}, 0, true});
    sac.Remember({state, 3, 1, i % 10 == 0 ? 20.0F : 0, {}, 0, true});
  }
  for (int step = 0; step < 1500; ++step) sac.Learn(0.1F, random);
  return sac.Act(state, 3, false, random);
}

TEST(DiscreteSac, LargeErrorsCountLinearly) {
  EXPECT_EQ(ArmWithARareReward(std::numeric_limits<float>::infinity()), 1);  // the mean is 2
  EXPECT_EQ(ArmWithARareReward(0.5F), 0);                                    // the median is 0
}

TEST(DiscreteSac, TargetsFollowSlowly) {
  Random random(6);
  const SacOptions options = SmallSac(2, 2);
  DiscreteSac sac(options, random);
  const std::size_t count = sac.actor().parameters().size();
  sac.Remember({OneHot(0, 2), 3, 1, 1, {}, 0, true});
  sac.Learn(0.5F, random);
  const std::string state = StateOf(sac);  // actor, two critics, two targets
  Random again(6);
  const std::string before = StateOf(DiscreteSac(options, again));
  int moved = 0;
  for (std::size_t i = count; i < 3 * count; ++i) {
    const float change = FloatAt(state, i) - FloatAt(before, i);
    const float followed = FloatAt(state, i + 2 * count) - FloatAt(before, i + 2 * count);
    EXPECT_NEAR(followed, 0.01F * change, 1e-6) << i;
    moved += std::abs(change) > 1e-3F ? 1 : 0;
  }
  EXPECT_GT(moved, 10);
}

TEST(DiscreteSac, TheLesserTargetCounts) {
  // One action, nothing else but the last biases: the targets say 1 and 3, the critics 2.
  Random random(7);
  SacOptions options = SmallSac(1, 1);
  options.discount = 1;
  DiscreteSac sac(options, random);
  sac.Remember({OneHot(0, 1), 1, 0, 0, OneHot(0, 1), 1, false});
  const std::size_t count = sac.actor().parameters().size();
  std::string state = StateOf(sac);
  const auto set = [&](std::size_t network, float bias) {
    std::vector<float> parameters(count);
    parameters.back() = bias;
    std::memcpy(state.data() + network * count * 4, parameters.data(), count * 4);
  };
  const float biases[] = {0, 2, 2, 1, 3};
  for (std::size_t i = 0; i < 5; ++i) set(i, biases[i]);
  std::istringstream stream(state);
  StateReader reader(stream);
  sac.Load(reader);
  ASSERT_TRUE(reader.ok());
  sac.Learn(0.5F, random);
  for (const std::size_t critic : {1, 2}) {
    EXPECT_LT(FloatAt(StateOf(sac), (critic + 1) * count - 1), 2) << critic;
  }
}

TEST(DiscreteSac, GoesOnFromAStateFileBitForBit) {
  const auto learn = [](DiscreteSac& sac, int steps, std::uint32_t seed) {
    Random random(seed);
    for (int i = 0; i < steps; ++i) {
      const int action = sac.Act(OneHot(0, 2), 3, true, random);
      sac.Remember({OneHot(0, 2), 3, action, 1, OneHot(1, 2), 2, false});
      sac.Learn(0.5F, random);
    }
  };
  Random first(8), second(9);
  DiscreteSac whole(SmallSac(2, 2), first), resumed(SmallSac(2, 2), second);
  learn(whole, 20, 1);
  std::istringstream stream(StateOf(whole));
  StateReader reader(stream);
  resumed.Load(reader);
  ASSERT_TRUE(reader.ok());
  learn(whole, 20, 2);
  learn(resumed, 20, 2);
  EXPECT_EQ(StateOf(whole), StateOf(resumed));
}

TEST(MaskedLogSoftmax, SumsUpOverSafeActions) {
  Matrix logits(1, 3);
  logits << 100, 101, 500;
  const ActionMask mask = 3;
  const Matrix logs = MaskedLogSoftmax(logits, std::span(&mask, 1));
  EXPECT_NEAR(std::exp(logs(0, 0)) + std::exp(logs(0, 1)), 1, 1e-6);
  EXPECT_NEAR(logs(0, 1) - logs(0, 0), 1, 1e-5);
  EXPECT_TRUE(std::isinf(logs(0, 2)));
}

}  // namespace
}  // namespace lagoon::learn
