#include "cluster/learned/learned_placer.h"

#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "learn/weights.h"
#include "sim/training/judge.h"
#include "sim/training/training_views.h"

namespace lagoon {
namespace {

PlacementNetworks RandomNetworks(std::uint32_t seed) {
  Random random(seed);
  return {learn::Mlp({GlobalFeatures(), 16, kGroups}, random),
          learn::Mlp({LocalFeatures(), 16, 2 * kSlots}, random)};
}

TEST(LearnedPlacer, KeepsTheRulesWhateverTheNetworksSay) {
  Random random(1);
  for (const std::size_t gpus : {1, 2, 3, 4, 5, 9, 17}) {
    for (std::uint32_t seed = 0; seed < 6; ++seed) {
      const TrainingEpisode episode({.gpus = gpus,
                                     .fewest_models = gpus,
                                     .most_models = 4 * gpus,
                                     .most_load = seed < 3 ? 1.2 : 4.0,
                                     .scarce_memory = 0.5},
                                    random);
      LearnedPlacer placer("test", RandomNetworks(seed),
                           {.interference = seed % 2 == 0, .guarded = seed % 3 == 0});
      const Assignment assignment = placer.Place(episode.view());
      const Status checked = CheckAssignment(episode.view(), assignment);
      EXPECT_TRUE(checked.has_value()) << gpus << " GPUs: " << checked.error().message;
      EXPECT_EQ(assignment, placer.Place(episode.view()));
    }
  }
}

TEST(LearnedPlacer, HandsOutWholeGpus) {
  Random random(2);
  const TrainingEpisode episode({.scarce_memory = 0}, random);
  LearnedPlacer placer("test", RandomNetworks(1), {.guarded = false});
  std::vector<std::uint32_t> granules(4);
  const Assignment assignment = placer.Place(episode.view());
  for (const PlacedReplica& replica : assignment.replicas) {
    granules[replica.gpu] += replica.granules;
  }
  for (const std::uint32_t count : granules) {
    EXPECT_TRUE(count == 0 || count == episode.view().gpus[0].granules) << count;
  }
}

TEST(LearnedPlacer, SharesAGpuAmongMoreReplicasThanItsNetworkSees) {
  Random random(3);
  const TrainingEpisode episode(
      {.gpus = 1, .fewest_models = 25, .most_models = 25, .scarce_memory = 0}, random);
  LearnedPlacer placer("test", RandomNetworks(1), {.guarded = false});
  const Assignment assignment = placer.Place(episode.view());
  EXPECT_EQ(assignment.replicas.size(), 25U);
  EXPECT_TRUE(CheckAssignment(episode.view(), assignment).has_value());
}

double ForecastReward(const PlacementView& view, const Assignment& assignment) {
  return Judge(view, assignment).reward;
}

TEST(LearnedPlacer, GuardedIsNeverWorseThanTheFirstGuess) {
  Random random(6);
  for (int i = 0; i < 10; ++i) {
    const TrainingEpisode episode({.scarce_memory = 0}, random);
    LearnedPlacer guarded("test", RandomNetworks(1), {});
    LearnedPlacer bare("test", RandomNetworks(1), {.guarded = false});
    const PlacementView& view = episode.view();
    // Whole granules may cost a little.
    const double reward = ForecastReward(view, guarded.Place(view)) + 0.05;
    EXPECT_GE(reward, Guess(view, true).reward);
    EXPECT_GE(reward, ForecastReward(view, bare.Place(view)));
  }
}

TEST(LearnedPlacer, GuardedStaysWhereItIsUnlessThatCosts) {
  Random random(7);
  TrainingEpisode episode({.least_load = 0.3, .most_load = 0.4, .scarce_memory = 0}, random);
  LearnedPlacer placer("test", RandomNetworks(1), {});
  PlacementView& view = episode.view();
  view.current = placer.Place(view);
  for (int second = 0; second < 20; ++second) {
    episode.Walk(random);
    const Assignment next = placer.Place(view);
    ASSERT_EQ(next.replicas.size(), view.current.replicas.size());
    for (std::size_t i = 0; i < next.replicas.size(); ++i) {
      EXPECT_EQ(next.replicas[i].gpu, view.current.replicas[i].gpu);
    }
    view.current = next;
  }
}

TEST(LearnedPlacer, NamesTheModelsThatNoGpuCanHold) {
  Random random(4);
  TrainingEpisode episode({.fewest_models = 6, .most_models = 6, .scarce_memory = 0}, random);
  episode.view().models[3].memory_bytes = episode.view().gpus[0].memory_bytes + 1;
  LearnedPlacer placer("test", RandomNetworks(1), {.guarded = false});
  const Assignment assignment = placer.Place(episode.view());
  ASSERT_EQ(assignment.refused.size(), 1U);
  EXPECT_EQ(assignment.refused[0].model, 3U);
  EXPECT_EQ(assignment.refused[0].reason,
            "model 'model 3': no GPU has a granule and 40000000001 bytes of memory left");
  EXPECT_TRUE(CheckAssignment(episode.view(), assignment).has_value());
}

TEST(LearnedPlacer, ReplicasOfAModelGetArrivalsByTheirThroughput) {
  Random random(5);
  TrainingEpisode episode({.gpus = 2, .fewest_models = 1, .most_models = 1, .scarce_memory = 0},
                          random);
  PlacementView& view = episode.view();
  Assignment assignment;
  assignment.replicas = {{.model = 0, .gpu = 0, .granules = 5, .rows = 4, .fraction = 0.5},
                         {.model = 0, .gpu = 1, .granules = 50, .rows = 4, .fraction = 0.5}};
  SplitByCapacity(view, &assignment);
  const double granules = view.gpus[0].granules;
  const Surface& alone = view.models[0].latency->alone();
  EXPECT_NEAR(assignment.replicas[1].fraction / assignment.replicas[0].fraction,
              alone.Throughput(4, 50 / granules) / alone.Throughput(4, 5 / granules), 1e-9);
  EXPECT_NEAR(assignment.replicas[0].fraction + assignment.replicas[1].fraction, 1, 1e-12);
}

TEST(LearnedPlacer, AViewWithoutModelsHasNoReplicas) {
  PlacementView view;
  view.gpus.resize(2);
  LearnedPlacer placer("test", RandomNetworks(1), {.guarded = false});
  EXPECT_TRUE(placer.Place(view).replicas.empty());
}

TEST(Networks, ComeBackFromTheirBytes) {
  const PlacementNetworks networks = RandomNetworks(1);
  const auto decoded = DecodeNetworks("w", EncodeNetworks(networks));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_TRUE(std::ranges::equal(decoded->local.parameters(), networks.local.parameters()));
}

TEST(Networks, OfOtherSizesOrFeaturesAreRefused) {
  const PlacementNetworks networks = RandomNetworks(1);
  const auto swapped = DecodeNetworks(
      "w", learn::EncodeWeights(MeaningOfWeights(), {&networks.local, &networks.global}));
  ASSERT_FALSE(swapped.has_value());
  EXPECT_EQ(swapped.error().message,
            "weights 'w': must have a network from 47 to 4 numbers and one from 143 to 20");
  const auto other =
      DecodeNetworks("w", learn::EncodeWeights(MeaningOfWeights() + 1, {&networks.global}));
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().message.find("was trained for other features"), std::string::npos);
}

TEST(MakeLearnedPlacer, UnknownNamesAreAnError) {
  const auto made = MakeLearnedPlacer("best");
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().message, "there are no weights 'best'; there are inss, inss-ni");
}

}  // namespace
}  // namespace lagoon
