#include "bench/sim/disb_sim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/papers/disb_paper.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

SimDisbOptions Options(const std::string& device, const std::string& workload) {
  SimDisbOptions options;
  options.gpu = *LoadGpuModel(device);
  options.workload = *NamedDisbWorkload(workload, DisbScale::kSimulated, 1);
  options.schedulers = {"sequential", "reset", "reef", "lagoon"};
  options.clients = {DisbLoad::Late::kQueue};
  options.windows = 1;
  options.requests = 60;
  return options;
}

Json MetricsOf(const SimDisbOptions& options) {
  Report report("disb", {}, "test");
  const Status status = RunDisbOnSim(options, report);
  EXPECT_TRUE(status) << status.error().message;
  return report.json().at("metrics");
}

TEST(DisbSim, EqualOptionsGiveEqualMetrics) {
  SimDisbOptions options = Options("mi50", "E");
  options.schedulers = {"streams", "lagoon"};
  options.requests = 12;
  const Json metrics = MetricsOf(options);
  EXPECT_EQ(MetricsOf(options), metrics);
  options.seed = 2;
  EXPECT_NE(MetricsOf(options), metrics);
}

TEST(DisbSim, EverySchedulerServesEveryRequest) {
  SimDisbOptions options = Options("gv100", "C");
  options.schedulers.assign(SchedulerNames().begin(), SchedulerNames().end());
  options.requests = 20;
  const Json metrics = MetricsOf(options);
  for (const std::string& name : options.schedulers) {
    EXPECT_GE(metrics.at("realtime_requests." + name), 20) << name;
    EXPECT_GE(metrics.at("realtime_latency_normalized_p50." + name), 0.99) << name;
    EXPECT_GT(metrics.at("best_effort_throughput_normalized." + name), 0.1) << name;
    EXPECT_LT(metrics.at("throughput_normalized." + name), 6) << name;  // six clients
  }
}

TEST(DisbSim, PreemptionKeepsTheLatencyThatSequentialLoses) {
  SimDisbOptions options = Options("mi50", "A");
  options.suffix = ".A";
  const Json metrics = MetricsOf(options);
  // A real-time request of 3.7 ms waits for a best-effort request of 9.1 ms.
  EXPECT_GT(metrics.at("realtime_latency_normalized_mean.sequential.A"), 1.5);
  EXPECT_LT(metrics.at("realtime_latency_normalized_mean.reset.A"), 1.1);
  EXPECT_EQ(metrics.at("revocations.sequential.A"), 0);
  EXPECT_GT(metrics.at("revocations.reset.A"), 30);
  EXPECT_EQ(metrics.at("padded_launches.reset.A"), 0);
  EXPECT_GT(metrics.at("padded_launches.reef.A"), 0);
  EXPECT_GT(metrics.at("throughput_normalized.reef.A"),
            metrics.at("throughput_normalized.reset.A"));
  // The throughput is normalized to one request at a time, which is what this scheduler does.
  EXPECT_NEAR(metrics.at("throughput_normalized.sequential.A"), 1, 0.05);
}

TEST(DisbSim, StandaloneIsThePublishedTimeAndTheStepsOfOneLaunch) {
  const Json metrics = MetricsOf(Options("mi50", "A"));
  EXPECT_NEAR(metrics.at("standalone_ms.vgg19"), 3.7, 0.3);
  EXPECT_GT(metrics.at("standalone_ms.vgg19"), 3.7);
  EXPECT_NEAR(metrics.at("standalone_ms.resnet152"), 9.1, 0.4);
}

// REEF 6.3: 8.1 on mi50, 4.2 on gv100. With clients that send every request the queue grows as long
// as the run lasts.
TEST(DisbSim, WithTheNewestRequestStreamsHavePublishedLatencyInC) {
  for (const auto& [device, published] : {std::pair{"mi50", 8.1}, {"gv100", 4.2}}) {
    SimDisbOptions options = Options(device, "C");
    options.schedulers = {"streams"};
    options.clients = {DisbLoad::Late::kQueue, DisbLoad::Late::kNewest};
    options.requests = 200;
    const Json metrics = MetricsOf(options);
    const double newest = metrics.at("realtime_latency_normalized_mean.streams.newest");
    EXPECT_NEAR(newest, published, 0.15 * published) << device;
    EXPECT_GT(metrics.at("realtime_from_arrival_normalized_mean.streams.newest"), newest);
    EXPECT_GT(metrics.at("realtime_dropped.streams.newest"), 50);
    EXPECT_GT(metrics.at("realtime_latency_normalized_mean.streams"), 3 * newest);
  }
}

// B's clients are closed loops only.
TEST(DisbSim, AWorkloadWithoutOpenLoopsHasOneKindOfClients) {
  SimDisbOptions options = Options("mi50", "B");
  options.schedulers = {"lagoon"};
  options.clients = {DisbLoad::Late::kQueue, DisbLoad::Late::kNewest};
  options.requests = 20;
  const Json metrics = MetricsOf(options);
  EXPECT_TRUE(metrics.contains("throughput_normalized.lagoon"));
  EXPECT_FALSE(metrics.contains("throughput_normalized.lagoon.newest"));
}

SimDisbOptions OfCpu(const std::string& device, const std::string& workload) {
  SimDisbOptions options = Options(device, workload);
  options.workload = *NamedDisbWorkload(workload, DisbScale::kSmall, 1);
  return options;
}

// In B one real-time request follows the other. `reset` has no time for best-effort work. `lagoon`
// has the cores that narrow kernels leave idle, but for 17 us at most: GoogLeNet begins, and its
// twelfth kernel, of blocks of 27 us, fits nowhere.
TEST(DisbSim, OnEightCoresBPadsButNothingEnds) {
  SimDisbOptions options = OfCpu("cpu8", "B");
  options.schedulers = {"reset", "lagoon"};
  const Json metrics = MetricsOf(options);
  EXPECT_LT(metrics.at("best_effort_throughput_normalized.reset"), 0.01);
  EXPECT_LT(metrics.at("best_effort_throughput_normalized.lagoon"), 0.01);
  EXPECT_EQ(metrics.at("padded_launches.reset"), 0);
  EXPECT_GT(metrics.at("padded_launches.lagoon"), 0);
  EXPECT_LT(metrics.at("realtime_latency_vs_alone_mean.lagoon"), 1.1);
}

// Five best-effort jobs have all eight cores, not one each.
TEST(DisbSim, OnEightCoresFiveJobsLeaveNoCoreIdle) {
  SimDisbOptions options = OfCpu("cpu8", "C");
  options.schedulers = {"reset"};
  const Json metrics = MetricsOf(options);
  EXPECT_GT(metrics.at("best_effort_throughput_normalized.reset"), 0.55);
  EXPECT_LT(metrics.at("realtime_latency_vs_alone_mean.reset"), 1.05);
}

TEST(DisbSim, PreemptionKeepsTheLatencyOnACpu) {
  for (const char* const device : {"cpu2", "cpu8"}) {
    SimDisbOptions options = OfCpu(device, "A");
    options.schedulers = {"reset", "streams"};
    const Json metrics = MetricsOf(options);
    EXPECT_LT(metrics.at("realtime_latency_vs_alone_mean.reset"), 1.05) << device;
    EXPECT_GT(metrics.at("realtime_latency_vs_alone_mean.streams"), 1.2) << device;
    EXPECT_GT(metrics.at("best_effort_throughput_normalized.reset"), 0.3) << device;
  }
}

// Workload A has one best-effort job, so that padding can only choose among its versions. In C,
// which has five such jobs, versions add nothing.
TEST(DisbSim, ReefsKernelsHaveVersionsWherePaddingMayChooseThem) {
  SimDisbOptions options = Options("mi50", "A");
  options.schedulers = {"reef", "reef:padding_versions=1", "reef-mv", "reef-mv:padding_versions=0"};
  options.requests = 20;
  const Json metrics = MetricsOf(options);
  const Json of_reef = metrics.at("throughput_normalized.reef");
  const Json of_versions = metrics.at("throughput_normalized.reef-mv");
  EXPECT_GT(of_versions, of_reef);
  EXPECT_EQ(metrics.at("throughput_normalized.reef:padding_versions=1"), of_versions);
  EXPECT_EQ(metrics.at("throughput_normalized.reef-mv:padding_versions=0"), of_reef);
}

TEST(DisbSim, AModelWithoutAListIsNamed) {
  Report report("disb", {}, "test");
  const Status status = RunDisbOnSim(Options("t4", "A"), report);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("vgg19"), HasSubstr("'t4'"), HasSubstr("resnet18")));
}

TEST(DisbPaper, ComparesWhatTheReportHasWithTheDevicesNumbers) {
  Report report("disb", {}, "test");
  report.Metric("throughput_normalized.reef.A", 1.12 * 1.5);
  report.Metric("throughput_normalized.reef.D", 1.3);
  report.Metric("throughput_normalized.reef.E", 1.42 * 0.5);
  report.Metric("throughput_normalized.lagoon.A", 1.5);
  report.Metric("realtime_latency_normalized_mean.streams.newest.C", 8.1);
  report.Metric("realtime_latency_normalized_mean.streams.C", 1000);
  const std::string table = ComparePaper("mi50", "all", /*suffixed=*/true, report);
  EXPECT_THAT(table, AllOf(HasSubstr("paper says"), HasSubstr("1.22 to 1.42")));
  const Json& list = report.json().at("paper");
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].at("metric"), "realtime_latency_normalized_mean.streams.newest.C");
  EXPECT_EQ(list[0].at("off_percent"), 0);
  EXPECT_NEAR(list[1].at("off_percent"), 50, 1e-9);
  EXPECT_EQ(list[2].at("off_percent"), 0);  // within the range
  EXPECT_NEAR(list[3].at("off_percent"), (0.71 / 1.22 - 1) * 100, 1e-9);
  EXPECT_EQ(list[1].at("source"), "REEF 6.3");

  Report other("disb", {}, "test");
  other.Metric("throughput_normalized.reef", 1.08);
  EXPECT_THAT(ComparePaper("gv100", "A", /*suffixed=*/false, other), HasSubstr("+0.0%"));
  EXPECT_EQ(ComparePaper("t4", "A", /*suffixed=*/false, other), "");
}

TEST(DisbPaper, EveryNumberIsOfASchedulerAndAWorkloadThatAreThere) {
  for (const DisbPaperNumber& number : DisbPaperNumbers()) {
    EXPECT_TRUE(MakeScheduler(number.scheduler)) << number.scheduler;
    EXPECT_TRUE(NamedDisbWorkload(number.workload, DisbScale::kSimulated, 1)) << number.workload;
    EXPECT_LE(number.least, number.most);
  }
}

}  // namespace
}  // namespace lagoon::bench
