#include "cluster/learned/stages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "sim/training/training_views.h"

namespace lagoon {
namespace {

// 2 ms + 0.5 ms a row on a whole GPU, in proportion longer on less; slows down by half of the
// neighbours' load on memory, and loads it itself by 1 on a whole GPU.
LatencyModel PlainModel() {
  auto surface =
      Surface::FromFormula({.base_ms = 2, .row_ms = 0.5, .fixed = 0, .knee = 1, .growth = 0});
  const double most = surface->Throughput(32, 1);
  return {*std::move(surface), {}, {.offset = 0, .slope = 1 / most}, {.dram = 0.5}};
}

struct Scene {
  LatencyModel latency = PlainModel();
  PlacementView view;

  ModelView& Add(double rate, double slo_ms = 50) {
    ModelView model;
    model.name = "m" + std::to_string(view.models.size());
    model.slo = Nanoseconds(static_cast<std::int64_t>(slo_ms * 1e6));
    model.rate = rate;
    model.latency = &latency;
    model.memory_bytes = 1000;
    model.row_bytes = 10;
    view.models.push_back(model);
    return view.models.back();
  }
  void AddGpus(std::size_t count, std::int64_t memory = 1'000'000) {
    view.gpus.resize(view.gpus.size() + count, {.granules = 100, .memory_bytes = memory});
  }
};

TEST(Demands, AreInDescendingOrderOfNeed) {
  Scene scene;
  for (const double rate : {100.0, 400.0, 50.0, 200.0}) scene.Add(rate);
  scene.AddGpus(1);
  const std::vector<Demand> demands = DemandsOf(scene.view, true);
  ASSERT_EQ(demands.size(), 4U);
  const std::size_t order[] = {1, 3, 0, 2};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(demands[i].model, order[i]);
  EXPECT_GT(demands[0].need, demands[3].need);
}

TEST(Demands, NeedIsTheLeastShareThatKeepsTheSlo) {
  Scene scene;
  scene.Add(300);
  scene.AddGpus(1);
  const Demand demand = DemandsOf(scene.view, true).front();
  const auto keeps = [&](double share, std::int64_t rows) {
    const double batch = 1.1 * scene.latency.AloneMs(rows, share);
    return 300 * batch / static_cast<double>(rows) < 1000 && 2 * batch < 50;
  };
  EXPECT_TRUE(keeps(demand.need, demand.rows));
  for (const std::int64_t rows : {1, 2, 4, 8, 16, 32}) EXPECT_FALSE(keeps(demand.need / 2, rows));
}

TEST(Demands, WhatNoShareServesNeedsMoreThanAGpu) {
  Scene scene;
  scene.Add(10, /*slo_ms=*/1);  // a row alone takes 2.5 ms
  scene.AddGpus(1);
  EXPECT_EQ(DemandsOf(scene.view, true).front().need, 2);
}

TEST(Demands, HeavyModelsBecomeReplicas) {
  Scene scene;
  const double most = MostThroughput(scene.Add(0));
  scene.view.models[0].rate = 0.85 * most;
  scene.AddGpus(4);
  EXPECT_EQ(DemandsOf(scene.view, true).size(), 1U);
  scene.view.models[0].rate = 1.5 * most;  // two at 0.75
  const std::vector<Demand> two = DemandsOf(scene.view, true);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_DOUBLE_EQ(two[0].fraction, 0.5);
  EXPECT_DOUBLE_EQ(two[0].rate, 0.75 * most);
  scene.view.models[0].rate = 100 * most;
  EXPECT_EQ(DemandsOf(scene.view, true).size(), 4U);  // no more than GPUs
}

TEST(Demands, CountTheErrorOfTheRate) {
  Scene scene;
  scene.Add(300).rate_error = 20;
  scene.AddGpus(1);
  EXPECT_DOUBLE_EQ(DemandsOf(scene.view, true).front().rate, 320);
}

TEST(Demands, WithoutInterferenceHaveNoLoad) {
  Scene scene;
  scene.Add(300);
  scene.AddGpus(1);
  EXPECT_GT(DemandsOf(scene.view, true).front().load.dram, 0);
  EXPECT_EQ(DemandsOf(scene.view, false).front().load.dram, 0);
}

TEST(Stages, AGpuTakesAModelOnceAndOnlyWithMemory) {
  Scene scene;
  for (int i = 0; i < 3; ++i) scene.Add(100);
  scene.view.models[2].memory_bytes = 1001;
  scene.AddGpus(1, 2000);
  std::vector<Demand> demands = DemandsOf(scene.view, true);
  std::ranges::sort(demands, {}, &Demand::model);
  demands.push_back(demands[0]);  // a second replica
  Stages stages(scene.view, demands, true);
  stages.Put(0, 0);
  EXPECT_TRUE(stages.CanTake(1, 0));
  EXPECT_FALSE(stages.CanTake(2, 0));  // a byte too much
  EXPECT_FALSE(stages.CanTake(3, 0));  // its model is there
}

TEST(Stages, AGpuTakesNoMoreReplicasThanGranules) {
  Scene scene;
  for (int i = 0; i < 3; ++i) scene.Add(100);
  scene.AddGpus(1);
  scene.view.gpus[0].granules = 2;
  const std::vector<Demand> demands = DemandsOf(scene.view, true);
  Stages stages(scene.view, demands, true);
  stages.Put(0, 0);
  stages.Put(1, 0);
  EXPECT_FALSE(stages.CanTake(2, 0));
}

TEST(Stages, ChoicesAreInAscendingOrderOfNeedAndMasked) {
  Scene scene;
  for (int i = 0; i < 4; ++i) scene.Add(100);
  scene.AddGpus(3);
  scene.view.gpus[2].memory_bytes = 0;
  const std::vector<Demand> demands = DemandsOf(scene.view, true);
  Stages stages(scene.view, demands, true);
  stages.Put(0, 0);
  const Stages::Choice choice = stages.ChoiceFor(1, {0, 1, 2});
  ASSERT_EQ(choice.groups.size(), 3U);
  EXPECT_EQ(choice.groups[0].front(), 1U);
  EXPECT_EQ(choice.groups[1].front(), 2U);
  EXPECT_EQ(choice.groups[2].front(), 0U);
  EXPECT_EQ(choice.mask, 0b101U);
  EXPECT_EQ(choice.features.size(), static_cast<std::size_t>(GlobalFeatures()));
}

TEST(Stages, ManyGpusAreCutIntoFourGroups) {
  Scene scene;
  scene.Add(100);
  scene.AddGpus(64);
  const std::vector<Demand> demands = DemandsOf(scene.view, true);
  const Stages stages(scene.view, demands, true);
  std::vector<std::size_t> all(64);
  std::iota(all.begin(), all.end(), 0);
  const Stages::Choice choice = stages.ChoiceFor(0, all);
  ASSERT_EQ(choice.groups.size(), 4U);
  for (const auto& group : choice.groups) EXPECT_EQ(group.size(), 16U);
}

TEST(Stages, NeighboursViolateMoreUnlessTheyDoNotInterfere) {
  Scene scene;
  scene.Add(330);
  scene.Add(330);
  scene.AddGpus(1);
  const std::vector<Demand> demands = DemandsOf(scene.view, true);
  double violations[2] = {};
  for (const bool interference : {false, true}) {
    Stages stages(scene.view, demands, interference);
    stages.Put(0, 0);
    stages.Put(1, 0);
    // 17 ms for 8 rows alone, but beside the neighbour a quarter longer.
    const GpuShares shares{.shares = {0.35, 0.65}, .rows = {8, 8}};
    violations[interference ? 1 : 0] = stages.ViolationsOf(stages.gpus()[0], shares)[0];
  }
  EXPECT_GT(violations[1], 3 * violations[0]);
  EXPECT_GT(violations[1], 0.005);
}

TEST(Stages, BatchesThatDoNotFitIntoMemoryAreHalved) {
  Scene scene;
  scene.Add(100);
  scene.Add(100);
  scene.AddGpus(1, 2000 + 400);
  const std::vector<Demand> demands = DemandsOf(scene.view, true);
  Stages stages(scene.view, demands, true);
  stages.Put(0, 0);
  stages.Put(1, 0);
  std::vector<float> action(2 * kSlots);
  action[0] = action[1] = 0.5F;
  action[kSlots] = 1;  // 32 rows: 310 bytes more
  action[kSlots + 1] = 1;
  const GpuShares shares = stages.SharesOf(stages.gpus()[0], action);
  EXPECT_EQ(shares.rows[0], 16);
  EXPECT_EQ(shares.rows[1], 16);
  EXPECT_LE((shares.rows[0] + shares.rows[1] - 2) * 10, 400);
}

TEST(Stages, TheFirstGuessIsWhatTheOffsetsMean) {
  Random random(1);
  for (int i = 0; i < 20; ++i) {
    const TrainingEpisode episode(
        {.gpus = 1, .fewest_models = 3, .most_models = 8, .scarce_memory = 0}, random);
    const std::vector<Demand> demands = DemandsOf(episode.view(), true);
    Stages stages(episode.view(), demands, true);
    for (std::size_t j = 0; j < demands.size(); ++j) stages.Put(j, 0);
    const GpuState& gpu = stages.gpus()[0];
    const learn::ShareState state = stages.LocalState(gpu);
    ASSERT_EQ(state.features.size(), static_cast<std::size_t>(LocalFeatures()));
    const auto row = [](const std::vector<float>& values) -> learn::Matrix {
      return Eigen::Map<const learn::Matrix>(values.data(), 1,
                                             static_cast<Eigen::Index>(values.size()));
    };
    const learn::Matrix action = learn::Squash(row(state.offsets), row(state.present));
    const GpuShares means = stages.SharesOf(gpu, {action.data(), action.data() + action.size()});
    const GpuShares guess = stages.GuessedShares(gpu);
    EXPECT_EQ(means.rows, guess.rows);
    for (std::size_t j = 0; j < demands.size(); ++j) {
      EXPECT_NEAR(means.shares[j], guess.shares[j], 1e-5);
    }
  }
}

TEST(Granules, AddUpAndEachShareHasOne) {
  EXPECT_EQ(GranulesOf({0.5, 0.3, 0.2}, 10), (std::vector<std::uint32_t>{5, 3, 2}));
  EXPECT_EQ(GranulesOf({0.34, 0.33, 0.33}, 10), (std::vector<std::uint32_t>{4, 3, 3}));
  EXPECT_EQ(GranulesOf({0.998, 0.001, 0.001}, 10), (std::vector<std::uint32_t>{8, 1, 1}));
  EXPECT_EQ(GranulesOf({0.9, 0.1}, 2), (std::vector<std::uint32_t>{1, 1}));
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> shares(1 + random.Below(10));
    double sum = 0;
    for (double& share : shares) sum += share = std::exp(3 * random.Normal());
    for (double& share : shares) share /= sum;
    const std::uint32_t granules = 10 + random.Below(100);
    const std::vector<std::uint32_t> counts = GranulesOf(shares, granules);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0U), granules);
    EXPECT_GE(*std::ranges::min_element(counts), 1U);
  }
}

}  // namespace
}  // namespace lagoon
