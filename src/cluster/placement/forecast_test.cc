#include "cluster/placement/forecast.h"

#include <gtest/gtest.h>

#include "sim/cluster/cluster_sim.h"

namespace lagoon {
namespace {

Surface MakeSurface(double base_ms, double row_ms) {
  auto surface = Surface::FromFormula({.base_ms = base_ms, .row_ms = row_ms, .fixed = 1});
  EXPECT_TRUE(surface.has_value());
  return *surface;
}

double Simulate(const Surface& surface, const ReplicaLoad& load) {
  ClusterSpec spec;
  spec.gpus.resize(1);
  spec.truth = TruthSpec::Exact();
  spec.length = std::chrono::seconds(200);
  spec.warmup = std::chrono::seconds(2);
  ModelSpec& model = spec.models.emplace_back();
  model.name = "model";
  model.surface = &surface;
  model.arrivals = PoissonArrivals(load.rate);
  model.slo = Nanoseconds(static_cast<std::int64_t>(load.slo_ms * 1e6));
  model.slo_of = SloOf::kRequest;
  model.batching = {.rows = load.rows, .drop = true};
  spec.replicas.push_back({.model = 0, .gpu = 0, .granules = 100});
  SimController none;
  return ClusterSim(spec).Run(none).models[0].ViolationRate();
}

TEST(ViolationRate, IsThatOfTheSimulatorNearTheCapacity) {
  const Surface surface = MakeSurface(2, 0.5);
  for (const std::int64_t rows : {1, 4, 16}) {
    for (const double slo_ms : {30.0, 60.0}) {
      for (const double busy : {0.95, 1.0, 1.1, 1.3}) {
        ReplicaLoad load{.rows = rows, .batch_ms = surface.LatencyMs(rows, 1)};
        load.single_ms = surface.LatencyMs(1, 1);
        load.slo_ms = slo_ms;
        load.rate = busy * static_cast<double>(rows) / load.batch_ms * 1e3;
        const double simulated = Simulate(surface, load), forecast = ViolationRate(load);
        if (simulated < 0.002) {
          EXPECT_LT(forecast, 0.02) << rows << ", " << slo_ms << ", " << busy;
          continue;
        }
        EXPECT_LT(forecast, 3 * simulated) << rows << ", " << slo_ms << ", " << busy;
        EXPECT_GT(forecast, simulated / 3) << rows << ", " << slo_ms << ", " << busy;
      }
    }
  }
}

TEST(ViolationRate, RisesWithTheRateAndTheTimes) {
  const ReplicaLoad load{.rate = 900, .rows = 8, .batch_ms = 8, .single_ms = 4, .slo_ms = 30};
  double before = -1;
  for (double rate = 0; rate < 3000; rate += 50) {
    ReplicaLoad faster = load;
    faster.rate = rate;
    EXPECT_GE(ViolationRate(faster), before) << rate;
    before = ViolationRate(faster);
  }
  before = -1;
  for (double ms = 1; ms < 40; ms += 0.5) {
    ReplicaLoad slower = load;
    slower.batch_ms = ms;
    slower.single_ms = ms / 2;
    EXPECT_GE(ViolationRate(slower), before - 1e-12) << ms;
    before = ViolationRate(slower);
  }
}

TEST(ViolationRate, BoundsAreExact) {
  EXPECT_EQ(ViolationRate({.rate = 0, .rows = 8, .batch_ms = 8, .single_ms = 4, .slo_ms = 30}), 0);
  EXPECT_EQ(ViolationRate({.rate = 1, .rows = 8, .batch_ms = 40, .single_ms = 30, .slo_ms = 30}),
            1);
  const ReplicaLoad at_capacity{
      .rate = 1000, .rows = 8, .batch_ms = 8, .single_ms = 4, .slo_ms = 30};
  const double exact = 1 / (2 * (30 - 8 * (1.5 - 0.5 / 8)));
  EXPECT_NEAR(ViolationRate(at_capacity), exact, 1e-9);
}

TEST(LongestBatchMs, IsWhereTheViolationsCrossTheLimit) {
  const ReplicaLoad load{.rate = 500, .rows = 8, .batch_ms = 8, .single_ms = 4, .slo_ms = 30};
  const double longest = LongestBatchMs(load, 0.01);
  ReplicaLoad at = load;
  at.batch_ms = longest;
  at.single_ms = longest / 2;
  EXPECT_LE(ViolationRate(at), 0.01);
  at.batch_ms = longest * 1.01;
  at.single_ms = longest * 1.01 / 2;
  EXPECT_GT(ViolationRate(at), 0.01);
}

}  // namespace
}  // namespace lagoon
