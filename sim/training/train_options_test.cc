#include "sim/training/train_options.h"

#include <gtest/gtest.h>

#include <vector>

namespace lagoon {
namespace {

TEST(TrainOptions, OutOfBoundsAreNamed) {
  TrainOptions options;
  options.episodes = 0;
  const Status episodes = CheckTrainOptions(options);
  ASSERT_FALSE(episodes.has_value());
  EXPECT_EQ(episodes.error().message, "episodes is 0, must be from 1 to 1000000");
  options = {};
  options.updates = 0;
  const Status updates = CheckTrainOptions(options);
  ASSERT_FALSE(updates.has_value());
  EXPECT_EQ(updates.error().message, "updates of a step is 0, must be from 1 to 1000");
  options = {};
  options.hidden = {0};
  EXPECT_FALSE(CheckTrainOptions(options).has_value());
  EXPECT_TRUE(CheckTrainOptions(PaperTraining()).has_value());
}

TEST(TrainOptions, AnUnknownRuleIsNamed) {
  TrainRules rules;
  const Status added = AddRule("momentum", rules);
  ASSERT_FALSE(added.has_value());
  EXPECT_EQ(added.error().message,
            "there is no rule 'momentum' of training; there are gain, scale, huber, noise, "
            "uniform, loads");
  ASSERT_TRUE(AddRule("huber", rules).has_value());
  EXPECT_TRUE(rules.huber);
  EXPECT_FALSE(rules.gain || rules.scale || rules.noise || rules.uniform || rules.loads);
}

TEST(TrainOptions, ThePapersTrainingIsAsItsTablesSay) {
  const TrainOptions paper = PaperTraining();
  EXPECT_EQ(paper.episodes, 1600);
  EXPECT_EQ(paper.steps, 100);
  EXPECT_EQ(paper.hidden, (std::vector<int>{256, 256}));
  EXPECT_EQ(paper.batch, 256U);
  EXPECT_EQ(paper.updates, 1);
  EXPECT_TRUE(paper.reward.capacity && paper.own_reward);
}

TEST(TrainOptions, NoiseFallsOverTheFirstHalf) {
  TrainOptions options;
  options.episodes = 100;
  options.rules = {.noise = true, .uniform = true};
  EXPECT_FLOAT_EQ(ExplorationAt(options, 0).shares, 0.3F);
  EXPECT_FLOAT_EQ(ExplorationAt(options, 0).levels, 0.8F);
  EXPECT_FLOAT_EQ(ExplorationAt(options, 25).shares, 0.2F);
  EXPECT_FLOAT_EQ(ExplorationAt(options, 25).levels, 0.45F);
  for (const int done : {50, 99}) {
    EXPECT_FLOAT_EQ(ExplorationAt(options, done).shares, 0.1F);
    EXPECT_FLOAT_EQ(ExplorationAt(options, done).levels, 0.1F);
  }
  EXPECT_FLOAT_EQ(ExplorationAt(options, 99).uniform, 0.05F);
  options.rules = {};
  EXPECT_FLOAT_EQ(ExplorationAt(options, 0).shares, 0.1F);
  EXPECT_FLOAT_EQ(ExplorationAt(options, 0).levels, 0.1F);
  EXPECT_FLOAT_EQ(ExplorationAt(options, 0).uniform, 0);
  EXPECT_FLOAT_EQ(EntropyAt(options, 0), 0.9F);
  EXPECT_FLOAT_EQ(EntropyAt(options, 25), 0.5F);
  EXPECT_FLOAT_EQ(EntropyAt(options, 80), 0.1F);
}

TEST(TrainOptions, HighLoadsComeInTheLastQuarter) {
  TrainOptions options;
  options.episodes = 100;
  options.rules.loads = true;
  for (const int done : {0, 74}) EXPECT_EQ(RangesAt(options, done).most_load, 1.5);
  EXPECT_EQ(RangesAt(options, 75).most_load, 2.2);
  EXPECT_EQ(RangesAt(options, 0).least_load, 0.3);
  options.ranges.least_load = options.ranges.most_load = 2;
  EXPECT_EQ(RangesAt(options, 0).most_load, 2);
  options.ranges = {.most_load = 0.8};
  EXPECT_EQ(RangesAt(options, 0).most_load, 0.8);
  options = {};
  EXPECT_EQ(RangesAt(options, 0).most_load, 2.2);
}

// Two models on a GPU, the first with three times the rate of the second.
struct TwoModels {
  Random random{5};
  TrainingEpisode episode{{.gpus = 1,
                           .fewest_models = 2,
                           .most_models = 2,
                           .least_load = 2,
                           .most_load = 2,
                           .scarce_memory = 0},
                          random};
  std::vector<Demand> demands = DemandsOf(episode.view(), true);
  Stages stages{episode.view(), demands, true};

  TwoModels() {
    while (demands.size() > 2) demands.pop_back();
    demands[0].rate = 3 * demands[1].rate;
    for (std::size_t i = 0; i < demands.size(); ++i) stages.Put(i, 0);
  }
  const GpuState& gpu() const { return stages.gpus()[0]; }
  Rewards With(const RewardRule& rule) const { return {stages, demands, rule}; }
};

TEST(Rewards, GoodputAndModelsAreTheRewardOfPlacing) {
  const TwoModels two;
  const GpuShares shares{.shares = {0.3, 0.7}, .rows = {4, 2}};
  EXPECT_EQ(two.With({}).Sum(two.gpu(), shares), two.stages.RewardOf(two.gpu(), shares));
}

TEST(Rewards, CapacityIsWhatFullBatchesServe) {
  const TwoModels two;
  const GpuShares shares{.shares = {0.3, 0.7}, .rows = {4, 2}};
  const MemberForecast forecast = two.stages.ForecastsOf(two.gpu(), shares)[1];
  EXPECT_NEAR(two.With({.capacity = true}).Each(two.gpu(), shares)[1],
              1000 * 2 / forecast.batch_ms / two.demands[1].scale / 40 - forecast.violations,
              1e-12);
}

TEST(Rewards, ByRequestsAViolationWeighsByTheRate) {
  const TwoModels two;
  const GpuShares shares{.shares = {0.3, 0.7}, .rows = {4, 2}};
  const std::vector<double> models = two.With({}).Each(two.gpu(), shares);
  const std::vector<double> requests = two.With({.by_requests = true}).Each(two.gpu(), shares);
  const std::vector<double> violations = two.stages.ViolationsOf(two.gpu(), shares);
  ASSERT_GT(violations[0], 0.1);
  EXPECT_NEAR(models[0] - requests[0], 0.5 * violations[0], 1e-12);
  EXPECT_NEAR(models[1] - requests[1], -0.5 * violations[1], 1e-12);
}

TEST(Rewards, TheGainIsWhatSharesHaveMoreThanTheGuess) {
  const TwoModels two;
  const GpuShares shares{.shares = {0.3, 0.7}, .rows = {4, 2}};
  const GpuShares guess = two.stages.GuessedShares(two.gpu());
  for (const RewardRule& rule : {RewardRule{}, RewardRule{.capacity = true}}) {
    const Rewards rewards = two.With(rule);
    EXPECT_EQ(rewards.Gain(two.gpu(), guess), 0);
    EXPECT_NEAR(rewards.Gain(two.gpu(), shares),
                rewards.Sum(two.gpu(), shares) - rewards.Sum(two.gpu(), guess), 1e-9);
    EXPECT_NE(rewards.Gain(two.gpu(), shares), 0);
  }
}

}  // namespace
}  // namespace lagoon
