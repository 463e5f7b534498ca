#include "bench/split/split_sim.h"

#include <gmock/gmock.h>

#include "bench/split/virtual_requests.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::DoubleNear;
using testing::HasSubstr;

SplitSimOptions Options() {
  SplitSimOptions options;
  options.gpu = *LoadGpuModel("nano");
  options.scenarios = {6};
  options.schedulers = {"split", "clockwork:admit_by_deadline=0"};
  options.requests = 100;
  options.seeds = 2;
  options.decision_rounds = 1;
  return options;
}

json MetricsOf(const SplitSimOptions& options) {
  Report report("split", {}, "test");
  const Status status = RunSplitOnSim(options, report);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  json metrics = report.json().at("metrics");
  for (const char* real_time : {"preemption_decision_us.5", "preemption_decision_us.1000"}) {
    EXPECT_EQ(metrics.erase(real_time), 1u);
  }
  return metrics;
}

TEST(SplitSim, EqualOptionsGiveEqualMetricsInAnyNumberOfThreads) {
  SplitSimOptions options = Options();
  const json metrics = MetricsOf(options);
  options.threads = 2;
  EXPECT_EQ(MetricsOf(options), metrics);
  options.seed = 2;
  EXPECT_NE(MetricsOf(options), metrics);
}

TEST(SplitSim, PartsCostWhatTable3SaysAndNearlyNothingInOnePlan) {
  SplitSimOptions options = Options();
  options.seeds = 1;
  const json metrics = MetricsOf(options);
  for (const auto& [name, overhead] :
       {std::pair{"resnet50.2", 0.154}, std::pair{"vgg19.3", 0.181}}) {
    const std::string metric = std::string("split_overhead.") + name;
    EXPECT_THAT(metrics.at(metric + ".onnx").get<double>(), DoubleNear(overhead, 0.003));
    EXPECT_THAT(metrics.at(metric + ".plan").get<double>(), DoubleNear(0.0005, 0.0007));
  }
  EXPECT_EQ(metrics.at("split_parts.resnet50"), 2);
  EXPECT_EQ(metrics.at("split_parts.vgg19"), 3);
  EXPECT_LE(metrics.at("split_generations.vgg19"), 15);
  EXPECT_THAT(metrics.at("load.s6").get<double>(), DoubleNear(0.255, 0.001));
  EXPECT_THAT(metrics.at("load.s6.overload").get<double>(), DoubleNear(1.275, 0.001));
}

TEST(SplitSim, PreemptionMakesShortRequestsSteadier) {
  SplitSimOptions options = Options();
  options.readings = {SplitReading::kOneProcess};
  options.requests = 500;
  const json metrics = MetricsOf(options);
  EXPECT_LT(metrics.at("jitter_short_vs.clockwork:admit_by_deadline=0.s6"), -0.3);
  EXPECT_LE(metrics.at("violation_rate.split.s6.a4"), 0.1);
}

TEST(SplitSim, UnknownSchedulersScenariosAndModelsAreNamed) {
  Report report("split", {}, "test");
  SplitSimOptions options = Options();
  options.schedulers = {"split", "fast"};
  EXPECT_THAT(RunSplitOnSim(options, report).error().message, HasSubstr("'fast'"));
  options = Options();
  options.scenarios = {9};
  EXPECT_THAT(RunSplitOnSim(options, report).error().message, HasSubstr("scenario 9"));
  options = Options();
  options.gpu = *LoadGpuModel("mi50");
  EXPECT_THAT(RunSplitOnSim(options, report).error().message, HasSubstr("'mi50' has no model"));
}

TEST(VirtualRequests, LatenciesCountFromTheArrivalAndLateRequestsHaveNone) {
  const SimModel model = *MakeSimModel("nano", "resnet50");
  const std::vector<SimStageQueue> queues{
      {"resnet50", JobClass::kBestEffort, &model, /*instances=*/1}};
  const std::vector<SplitArrival> arrivals{{milliseconds(5), 0}, {milliseconds(6), 0}};
  const auto run = [&](std::span<const Nanoseconds> limits) {
    SimStage stage =
        *SimStage::Open({.gpu = *LoadGpuModel("nano")}, *MakeScheduler("sequential"), queues);
    return VirtualRequests(stage, arrivals, limits).Run()[0];
  };
  const ModelAnswers both = run({});
  ASSERT_EQ(both.latencies_ms.size(), 2u);
  EXPECT_NEAR(both.latencies_ms[0], 28.35, 0.1);
  EXPECT_NEAR(both.latencies_ms[1], 28.35 * 2 - 1, 0.2);
  const std::vector<Nanoseconds> limits{milliseconds(40)};
  const ModelAnswers one = run(limits);
  EXPECT_EQ(one.latencies_ms.size(), 1u);
  EXPECT_EQ(one.refused, 1u);
}

}  // namespace
}  // namespace lagoon::bench
