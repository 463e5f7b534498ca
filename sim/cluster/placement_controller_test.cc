#include "sim/cluster/placement_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cluster/placement/registry.h"
#include "sim/cluster/inss_cluster.h"
#include "sim/interference/fit.h"

namespace lagoon {
namespace {

// Latency models that know each model's time alone, and nothing of interference.
class Known {
 public:
  explicit Known(const ClusterSpec& spec) {
    for (const ModelSpec& model : spec.models) {
      models_.push_back(
          std::make_unique<LatencyModel>(*model.surface, LoadLine{}, LoadLine{}, SlowdownTerms{}));
      latency.push_back(models_.back().get());
    }
  }
  std::vector<const LatencyModel*> latency;

 private:
  std::vector<std::unique_ptr<LatencyModel>> models_;
};

// Says what it is told to say, one after the other; the last for ever.
class ScriptedPlacer final : public Placer {
 public:
  explicit ScriptedPlacer(std::vector<Assignment> script) : script_(std::move(script)) {}
  std::string_view name() const override { return "scripted"; }
  Assignment Place(const PlacementView& view) override {
    views.push_back(view);
    return script_[std::min(views.size() - 1, script_.size() - 1)];
  }
  std::vector<PlacementView> views;

 private:
  std::vector<Assignment> script_;
};

ClusterSpec TwoModels(double rate) {
  InssOptions options;
  options.gpus = 2;
  options.length = std::chrono::seconds(30);
  options.warmup = Nanoseconds(0);
  options.truth = TruthSpec::Exact();
  ClusterSpec spec = InssCluster(options);
  spec.models.resize(2);  // A and R
  for (ModelSpec& model : spec.models) model.arrivals = PoissonArrivals(rate);
  return spec;
}

std::uint64_t Failed(const SimReport& report) {
  std::uint64_t failed = 0;
  for (const ModelReport& model : report.models) failed += model.dropped + model.late;
  return failed;
}

TEST(PlacementController, StartsWithThePlacersAssignment) {
  ClusterSpec spec = TwoModels(100);
  const Known known(spec);
  ScriptedPlacer placer({{{{0, 0, 20, 4, 1}, {1, 1, 30, 8, 1}}, {}}});
  PlacementController controller(placer, {.latency = known.latency});
  ASSERT_TRUE(controller.Start(spec).has_value());
  ASSERT_EQ(spec.replicas.size(), 2u);
  EXPECT_EQ(spec.replicas[1].gpu, 1u);
  EXPECT_EQ(spec.replicas[1].granules, 30u);
  EXPECT_EQ(spec.replicas[1].rows, 8);
  EXPECT_NEAR(placer.views[0].models[0].rate, 100, 1e-9);
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_EQ(report.relocations, 0u);
  EXPECT_EQ(Failed(report), 0u);
  EXPECT_EQ(controller.decisions(), 30u);
}

TEST(PlacementController, MeasuresTheRates) {
  ClusterSpec spec = TwoModels(400);
  const Known known(spec);
  ScriptedPlacer placer({{{{0, 0, 54, 8, 1}, {1, 1, 54, 8, 1}}, {}}});
  PlacementController controller(placer, {.latency = known.latency, .margin = 2});
  ASSERT_TRUE(controller.Start(spec).has_value());
  (void)ClusterSim(spec).Run(controller);
  const ModelView& seen = placer.views.back().models[0];
  EXPECT_NEAR(seen.rate, 400 + 2 * std::sqrt(400.0 / 3), 30);
}

// The replica serves where it is until the new one is loaded: no request is late or lost.
TEST(PlacementController, MovesAReplicaWithoutAFailedRequest) {
  ClusterSpec spec = TwoModels(100);
  const Known known(spec);
  // At first A has too little, so that moving is worth it.
  const Assignment before{{{0, 0, 1, 1, 1}, {1, 0, 53, 8, 1}}, {}};
  const Assignment after{{{0, 1, 30, 4, 1}, {1, 0, 54, 8, 1}}, {}};
  ScriptedPlacer placer({before, after});
  spec.models[0].arrivals = PoissonArrivals(300);
  PlacementController controller(placer, {.latency = known.latency});
  ASSERT_TRUE(controller.Start(spec).has_value());
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_EQ(report.relocations, 1u);
  EXPECT_GT(controller.busy_decisions(), 1u);  // 2.6 s of loading
  EXPECT_EQ(report.models[1].dropped + report.models[1].late, 0u);
  for (std::size_t second = 6; second < 30; ++second) {
    EXPECT_EQ(report.models[0].seconds[second].dropped, 0u) << second;
    EXPECT_EQ(report.models[0].seconds[second].late, 0u) << second;
  }
}

// The judge is the fleet's, so that a placer that wavers moves nothing.
TEST(PlacementController, AMoveNeedsPlacementsThatAgree) {
  ClusterSpec spec = TwoModels(100);
  const Known known(spec);
  const Assignment before{{{0, 0, 20, 4, 1}, {1, 0, 30, 8, 1}}, {}};
  const Assignment after{{{0, 1, 20, 4, 1}, {1, 0, 30, 8, 1}}, {}};
  std::vector<Assignment> wavering;
  for (int i = 0; i < 20; ++i) wavering.insert(wavering.end(), {before, after});
  ScriptedPlacer placer(wavering);
  PlacementController controller(placer, {.latency = known.latency});
  ASSERT_TRUE(controller.Start(spec).has_value());
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_EQ(report.relocations, 0u);
  EXPECT_EQ(controller.refused_assignments(), 0u);
}

// Both GPUs are full: each replica has to make room for the other.
TEST(PlacementController, ExchangesReplicasOfFullGpus) {
  ClusterSpec spec = TwoModels(3000);
  const Known known(spec);
  ScriptedPlacer placer(
      {{{{0, 0, 54, 8, 1}, {1, 1, 54, 8, 1}}, {}}, {{{0, 1, 54, 32, 1}, {1, 0, 54, 32, 1}}, {}}});
  PlacementController controller(placer, {.latency = known.latency});
  ASSERT_TRUE(controller.Start(spec).has_value());
  ClusterSim sim(spec);
  const SimReport report = sim.Run(controller);
  EXPECT_EQ(report.relocations, 2u);
  std::vector<std::size_t> gpus(2, 9);
  std::vector<std::uint32_t> granules(2);
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    const SimReplica& replica = sim.replica(i);
    if (replica.state != SimReplica::State::kServing) continue;
    EXPECT_EQ(gpus[replica.spec.model], 9u) << "two replicas of a model are left";
    gpus[replica.spec.model] = replica.spec.gpu;
    granules[replica.spec.model] = replica.spec.granules;
  }
  EXPECT_EQ(gpus, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(granules, (std::vector<std::uint32_t>{54, 54}));
}

// At half load nothing is lost: each serves with its whole share until the other copy is loaded.
TEST(PlacementController, AnExchangeOfFullGpusLosesNothing) {
  ClusterSpec spec = TwoModels(0);
  const Known known(spec);
  for (ModelSpec& model : spec.models) {
    model.arrivals = PoissonArrivals(0.5 * model.surface->Throughput(8, 1));
  }
  ScriptedPlacer placer(
      {{{{0, 0, 54, 8, 1}, {1, 1, 54, 8, 1}}, {}}, {{{0, 1, 54, 8, 1}, {1, 0, 54, 8, 1}}, {}}});
  PlacementController controller(placer, {.latency = known.latency});
  ASSERT_TRUE(controller.Start(spec).has_value());
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_EQ(report.relocations, 2u);
  EXPECT_EQ(report.moves.size(), 0u) << "no share shrinks on the way";
  for (const ModelReport& model : report.models) {
    EXPECT_EQ(model.dropped, 0u) << model.name;
    EXPECT_EQ(model.late, 0u) << model.name;
    EXPECT_GT(model.served, 1000u) << model.name;
  }
}

// What stays shrinks only when what comes is loaded.
TEST(PlacementController, SharesShrinkWhenTheReplicaThatComesIsLoaded) {
  ClusterSpec spec = TwoModels(100);
  const Known known(spec);
  ScriptedPlacer placer(
      {{{{0, 0, 54, 8, 1}, {1, 1, 54, 8, 1}}, {}}, {{{0, 0, 20, 8, 1}, {1, 0, 34, 8, 1}}, {}}});
  PlacementController controller(placer, {.latency = known.latency});
  ASSERT_TRUE(controller.Start(spec).has_value());
  const SimReport report = ClusterSim(spec).Run(controller);
  ASSERT_EQ(report.moves.size(), 1u);
  EXPECT_EQ(report.moves[0].granules, 20u);
  // Two placements agree at 2 s, loading takes 2.6 s, and the next decision is at 5 s.
  EXPECT_GE(report.moves[0].at, std::chrono::seconds(5));
  EXPECT_LT(report.moves[0].at, std::chrono::seconds(6));
  EXPECT_EQ(Failed(report), 0u);
}

TEST(PlacementController, AnAssignmentWithoutMemoryOnTheWayIsGivenUp) {
  ClusterSpec spec = TwoModels(100);
  const Known known(spec);
  for (ModelSpec& model : spec.models) model.memory_bytes = 25'000'000'000;
  const Assignment before{{{0, 0, 54, 8, 1}, {1, 1, 54, 8, 1}}, {}};
  ScriptedPlacer placer({before, {{{0, 1, 54, 8, 1}, {1, 0, 54, 8, 1}}, {}}});
  PlacementController controller(placer, {.latency = known.latency});
  ASSERT_TRUE(controller.Start(spec).has_value());
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_GT(controller.given_up(), 0u);
  EXPECT_EQ(report.relocations, 0u);
  EXPECT_LT(controller.busy_decisions(), 25u) << "the placer is asked again";
  EXPECT_EQ(Failed(report), 0u);
}

TEST(PlacementController, PlacersSeeWhatIsMeasured) {
  ClusterSpec spec = TwoModels(400);
  const Known known(spec);
  spec.truth.noise = 0.01;
  ScriptedPlacer placer({{{{0, 0, 54, 8, 1}, {1, 1, 54, 8, 1}}, {}}});
  PlacementController controller(placer, {.latency = known.latency, .online = true});
  ASSERT_TRUE(controller.Start(spec).has_value());
  (void)ClusterSim(spec).Run(controller);
  const ModelView &first = placer.views.front().models[0], &last = placer.views.back().models[0];
  EXPECT_EQ(first.measured_ms, 0);
  EXPECT_GT(last.measured_ms, 0.8 * known.latency[0]->AloneMs(1, 1));
  EXPECT_LT(last.measured_ms, 1.2 * known.latency[0]->AloneMs(8, 1));
  EXPECT_NE(last.slowdown, 1);
  EXPECT_EQ(last.slo, first.slo) << "the correction is no other SLO";
  EXPECT_DOUBLE_EQ(last.SloMs() * last.slowdown, ToMilliseconds(last.slo));
}

TEST(PlacementController, AnInvalidAssignmentLeavesTheLastOne) {
  ClusterSpec spec = TwoModels(100);
  const Known known(spec);
  const Assignment good{{{0, 0, 20, 4, 1}, {1, 1, 30, 8, 1}}, {}};
  const Assignment too_much{{{0, 0, 30, 4, 1}, {1, 0, 30, 8, 1}}, {}};
  ScriptedPlacer placer({good, too_much});
  PlacementController controller(placer, {.latency = known.latency});
  ASSERT_TRUE(controller.Start(spec).has_value());
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_EQ(controller.refused_assignments(), 30u);
  EXPECT_NE(controller.last_error().find("60 granules of 54"), std::string::npos)
      << controller.last_error();
  EXPECT_EQ(report.moves.size(), 0u);
  EXPECT_EQ(Failed(report), 0u);

  ScriptedPlacer bad({too_much});
  PlacementController refused(bad, {.latency = known.latency});
  EXPECT_FALSE(refused.Start(spec).has_value());
}

TEST(PlacementController, RefusedModelsGetNothing) {
  ClusterSpec spec = TwoModels(100);
  const Known known(spec);
  ScriptedPlacer placer({{{{0, 0, 20, 4, 1}}, {{1, "no room"}}}});
  PlacementController controller(placer, {.latency = known.latency});
  ASSERT_TRUE(controller.Start(spec).has_value());
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_EQ(report.models[1].served, 0u);
  EXPECT_EQ(report.models[1].dropped, report.models[1].arrived);
}

// All of it together: InSS's cluster under the placer 'lagoon', with models that were fitted to
// what the simulator shows.
TEST(PlacementController, LagoonKeepsTheSlosOfInssCluster) {
  InssOptions options;
  options.length = std::chrono::seconds(20);
  options.load = 0.9;
  ClusterSpec spec = InssCluster(options);
  EXPECT_EQ(spec.models.size(), 10u);
  const auto points = MeasureInSimulator(spec.models, spec.truth, 3);
  EXPECT_EQ(points.size(), 8u * (16 + 3));
  const auto models = FitLatencyModels(points, InterferenceKind::kConstant);
  ASSERT_TRUE(models.has_value()) << models.error().message;
  std::vector<const LatencyModel*> latency;
  for (const ModelSpec& model : spec.models) {
    latency.push_back(&models->find(NetworkOf(model.name))->second);
  }
  const auto placer = MakePlacer("lagoon");
  ASSERT_TRUE(placer.has_value());
  PlacementController controller(**placer, {.latency = latency, .online = true});
  ASSERT_TRUE(controller.Start(spec).has_value());
  const SimReport report = ClusterSim(spec).Run(controller);
  double failed = 0, all = 0;
  for (const ModelReport& model : report.models) {
    failed += static_cast<double>(model.dropped + model.late);
    all += static_cast<double>(model.dropped + model.served);
  }
  EXPECT_LT(failed / all, 0.01);
  EXPECT_EQ(controller.refused_assignments(), 0u) << controller.last_error();
}

TEST(FitLatencyModels, PredictsCoRunsThatItHasNotSeen) {
  const ClusterSpec spec = InssCluster({});
  const auto points = MeasureInSimulator(spec.models, spec.truth, 5);
  const auto tests = DrawCoRuns(spec.models, spec.truth, 60, 9);
  const auto median = [&](InterferenceKind kind) {
    const auto models = FitLatencyModels(points, kind);
    EXPECT_TRUE(models.has_value());
    const auto errors = PredictAll(*models, tests);
    EXPECT_TRUE(errors.has_value());
    std::vector<double> absolute;
    for (const PredictionError& error : *errors) absolute.push_back(std::abs(error.relative));
    std::ranges::sort(absolute);
    return absolute[absolute.size() / 2];
  };
  EXPECT_LT(median(InterferenceKind::kConstant), 0.05);
  EXPECT_LT(median(InterferenceKind::kConstant), median(InterferenceKind::kNone));
}

}  // namespace
}  // namespace lagoon
