#include "sim/training/train.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

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

TEST(Trainer, GoesOnFromACheckpointBitForBit) {
  const TrainOptions options = Toy();
  std::stringstream checkpoint;
  Trainer begun(options);
  begun.RunEpisode();
  begun.RunEpisode();
  begun.Save(checkpoint);
  Trainer resumed(options);
  const Status loaded = resumed.Load(checkpoint);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(resumed.done(), 2);
  while (resumed.done() < options.episodes) resumed.RunEpisode();
  EXPECT_EQ(EncodeNetworks(resumed.Networks()), TrainedBytes(options));
}

TEST(Trainer, ACheckpointOfOtherOptionsIsRefused) {
  std::stringstream checkpoint;
  Trainer(Toy()).Save(checkpoint);
  TrainOptions other = Toy();
  other.seed = 9;
  Trainer trainer(other);
  const Status loaded = trainer.Load(checkpoint);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().message,
            "is not a checkpoint of a training with these options: give the options that it was "
            "begun with, or begin anew");
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

TEST(Trainer, OptionsOutOfBoundsAreNamed) {
  TrainOptions options;
  options.episodes = 0;
  const Status checked = CheckTrainOptions(options);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().message, "episodes is 0, must be from 1 to 1000000");
  options = {};
  options.hidden = {0};
  EXPECT_FALSE(CheckTrainOptions(options).has_value());
}

// The only model of the view, on one of four GPUs.
GuessResult JudgeAlone(const PlacementView& view, std::uint32_t granules) {
  Assignment assignment;
  assignment.replicas = {{.model = 0, .gpu = 1, .granules = granules, .rows = 4, .fraction = 1}};
  return Judge(view, assignment);
}

TEST(Judge, AShareTooSmallViolates) {
  Random random(1);
  TrainingEpisode episode({.fewest_models = 1, .most_models = 1, .scarce_memory = 0}, random);
  PlacementView& view = episode.view();
  view.models[0].rate = view.models[0].latency->alone().Throughput(4, 0.5);
  const GuessResult small = JudgeAlone(view, 1);
  const GuessResult whole = JudgeAlone(view, view.gpus[0].granules);
  EXPECT_GT(small.violations, whole.violations + 0.1);
  EXPECT_GT(whole.reward, small.reward + 0.1);
}

TEST(Judge, NeighboursCountThoughThePlacerIgnoresThem) {
  Random random(3);
  double more = 0;
  for (int i = 0; i < 10; ++i) {
    TrainingEpisode episode(
        {.gpus = 1, .fewest_models = 4, .most_models = 4, .most_load = 0.9, .scarce_memory = 0},
        random);
    const Assignment assignment = [&] {
      LearnedPlacer placer("test", Trainer(Toy()).Networks(), {});
      return placer.Place(episode.view());
    }();
    const double with = Judge(episode.view(), assignment).violations;
    std::vector<LatencyModel> alone;
    alone.reserve(4);
    for (ModelView& model : episode.view().models) {
      alone.emplace_back(model.latency->alone(), LoadLine{}, LoadLine{}, SlowdownTerms{});
      model.latency = &alone.back();
    }
    more += with - Judge(episode.view(), assignment).violations;
  }
  EXPECT_GT(more, 0);
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
