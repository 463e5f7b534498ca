#include "sim/training/train.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace lagoon {
namespace {

TrainOptions Toy() {
  TrainOptions options;
  options.episodes = 4;
  options.steps = 6;
  options.hidden = {16, 16};
  options.batch = 32;
  options.ranges.most_models = 8;
  return options;
}

std::string TrainedBytes(const TrainOptions& options) {
  Trainer trainer(options);
  while (trainer.done() < options.episodes) trainer.RunEpisode();
  return EncodeNetworks(trainer.Networks());
}

TEST(Trainer, TheSameSeedGivesTheSameNetworks) {
  TrainOptions options = Toy();
  const std::string first = TrainedBytes(options);
  EXPECT_EQ(first, TrainedBytes(options));
  options.seed = 2;
  EXPECT_NE(first, TrainedBytes(options));
}

// Saves and loads after `before` episodes. Noise and loads change from episode to episode.
std::string ResumedBytes(const TrainOptions& options, int before) {
  std::stringstream checkpoint;
  Trainer begun(options);
  while (begun.done() < before) begun.RunEpisode();
  begun.Save(checkpoint);
  Trainer resumed(options);
  const Status loaded = resumed.Load(checkpoint);
  EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(resumed.done(), before);
  while (resumed.done() < options.episodes) resumed.RunEpisode();
  return EncodeNetworks(resumed.Networks());
}

TEST(Trainer, GoesOnFromACheckpointBitForBit) {
  TrainOptions options = Toy();
  for (const std::string& rule : TrainRuleNames()) {
    ASSERT_TRUE(AddRule(rule, options.rules).has_value());
  }
  const std::string whole = TrainedBytes(options);
  for (const int before : {0, 1, 2, 3, 4}) {
    EXPECT_TRUE(ResumedBytes(options, before) == whole) << before;
  }
  options = Toy();
  options.reward = {.capacity = true, .by_requests = true};
  options.own_reward = true;
  options.updates = 2;
  EXPECT_TRUE(ResumedBytes(options, 2) == TrainedBytes(options));
}

TEST(Trainer, EachOptionChangesTheNetworks) {
  std::vector<TrainOptions> all(5, Toy());
  all[1].updates = 2;
  all[2].reward.capacity = true;
  all[3].reward.by_requests = true;
  all[4].own_reward = true;
  for (const std::string& rule : TrainRuleNames()) {
    TrainOptions with = Toy();
    with.steps = 20;
    all.push_back(with);
    ASSERT_TRUE(AddRule(rule, with.rules).has_value());
    all.push_back(with);
  }
  for (std::size_t i = 1; i < all.size(); ++i) {
    const std::size_t other = i < 6 ? 0 : i - 1;
    EXPECT_TRUE(TrainedBytes(all[i]) != TrainedBytes(all[other])) << i;
  }
}

TEST(Trainer, ACheckpointOfOtherOptionsIsRefused) {
  std::stringstream checkpoint;
  Trainer(Toy()).Save(checkpoint);
  std::vector<TrainOptions> others(8, Toy());
  others[0].seed = 9;
  others[1].reward.capacity = true;
  others[2].reward.by_requests = true;
  others[3].own_reward = true;
  others[4].updates = 2;
  others[5].rules.gain = true;
  others[6].rules.loads = true;
  others[7].ranges.most_load = 1.9;
  for (const TrainOptions& other : others) {
    checkpoint.clear();
    checkpoint.seekg(0);
    const Status loaded = Trainer(other).Load(checkpoint);
    ASSERT_FALSE(loaded.has_value()) << TextOf(other);
    EXPECT_EQ(loaded.error().message,
              "is not a checkpoint of a training with these options: give the options that it was "
              "begun with, or begin anew");
  }
}

TEST(Trainer, ACheckpointThatIsCutOffIsRefused) {
  std::stringstream checkpoint;
  Trainer begun(Toy());
  begun.RunEpisode();
  begun.Save(checkpoint);
  const std::string whole = checkpoint.str();
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{12}, whole.size() / 2, whole.size() - 1}) {
    std::istringstream cut(whole.substr(0, size));
    Trainer trainer(Toy());
    EXPECT_FALSE(trainer.Load(cut).has_value()) << size;
  }
}

TEST(Trainer, TheGlobalStageLearnsToSpreadReplicas) {
  TrainOptions options = Toy();
  options.episodes = 30;
  options.steps = 40;
  options.hidden = {32, 32};
  options.batch = 64;
  options.rate = 10;
  options.ranges.least_load = options.ranges.most_load = 1.5;
  Trainer trainer(options);
  double first = 0, last = 0;
  while (trainer.done() < options.episodes) {
    const double reward = trainer.RunEpisode().reward / 8;
    if (trainer.done() <= 8) first += reward;
    if (trainer.done() > 22) last += reward;
  }
  EXPECT_GT(last, first);
}

TEST(TrainingEpisode, RatesWalkWithinTheirBounds) {
  Random random(2);
  TrainingEpisode episode({}, random);
  const double before = episode.view().models[0].rate;
  double least = before, most = before;
  for (int i = 0; i < 500; ++i) {
    episode.Walk(random);
    least = std::min(least, episode.view().models[0].rate);
    most = std::max(most, episode.view().models[0].rate);
  }
  EXPECT_LT(least, most);
  EXPECT_LE(most / least, 1.5 / 0.5 + 1e-9);
  EXPECT_TRUE(CheckView(episode.view()).has_value());
}

}  // namespace
}  // namespace lagoon
