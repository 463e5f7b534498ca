// Published numbers that the simulated devices meet within a bound, and those that they do not
// meet. A change that loses one of the first kind fails here. So does one that moves a number of
// the second kind, for better or worse: docs/results/reproduction.md states these.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <unordered_set>

#include "bench/measure/statistics.h"
#include "bench/papers/figures_paella.h"
#include "bench/papers/figures_reef.h"
#include "bench/sim/load.h"
#include "bench/sim/sim_jobs.h"
#include "device/forwarding_device.h"
#include "device/observer.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

// A hundred requests, one window: within 3 % of the full run.
constexpr FigureOptions kBrief{.effort = 0.1};

Json Disb(const char* device, const char* workload, const std::vector<std::string>& schedulers,
          std::string_view prefix = {}) {
  Result<Json> metrics = DisbMetrics(device, workload, schedulers, kBrief, prefix);
  EXPECT_TRUE(metrics) << metrics.error().message;
  return metrics ? *metrics : Json();
}

void ExpectMet(const Json& metrics, const char* metric, double least, double most) {
  const double got = metrics.at(metric);
  EXPECT_GE(got, least) << metric;
  EXPECT_LE(got, most) << metric;
}

// Not met: `got` is what a full run gives. It lies outside of the paper's bounds.
void ExpectMissed(const Json& metrics, const char* metric, std::pair<double, double> paper,
                  double got) {
  const double now = metrics.at(metric);
  EXPECT_TRUE(now < paper.first || now > paper.second)
      << metric << " is " << now << ", as published: say so here and in reproduction.md";
  EXPECT_NEAR(now, got, 0.05 * got) << metric;
}

std::pair<double, double> Within(double part, double least, double most) {
  return {least * (1 - part), most * (1 + part)};
}

// ---- Company and bandwidth: REEF Figures 16, 29 and 30, and Paella's concurrency

TEST(Golden, ReefOnVoltaKeepsTheRealTimeLatencyOfAAndB) {
  for (const char* workload : {"A", "B"}) {
    ExpectMet(Disb("gv100", workload, {"reef"}), "realtime_latency_normalized_mean.reef",
              0.98 * 1.005, 1.02 * 1.02);
  }
}

TEST(Golden, ReefOnVoltaInC) {
  const Json metrics = Disb("gv100", "C", {"reef", "streams"});
  ExpectMet(metrics, "realtime_latency_normalized_mean.reef", 0.98 * 1.02, 1.02 * 1.02);
  ExpectMet(metrics, "throughput_normalized.streams", 0.9 * 1.42, 1.1 * 1.42);  // set on it
}

// Two models are assumed to take the same part of a unit as C's six, on which it was set.
TEST(Golden, StreamsOnVoltaGainMoreThanPublishedInAAndB) {
  const char* const metric = "throughput_normalized.streams";
  ExpectMissed(Disb("gv100", "A", {"streams"}), metric, Within(0.1, 1.15, 1.15), 1.317);
  ExpectMissed(Disb("gv100", "B", {"streams"}), metric, Within(0.1, 1.28, 1.28), 1.484);
}

// Real-time kernels wait for the whole best-effort kernel that runs. Orion's profile chooses which.
TEST(Golden, OrionsTailIsLongerThanPublished) {
  const char* const metric = "realtime_latency_normalized_p90.one-kernel";
  ExpectMissed(Disb("gv100", "A", {"one-kernel"}, "torch-"), metric, Within(0.15, 1.05, 1.05),
               1.476);
  const Json c = Disb("gv100", "C", {"one-kernel", "reset"}, "torch-");
  ExpectMissed(c, metric, Within(0.15, 1.17, 1.17), 1.808);
  ExpectMissed(c, "throughput_normalized.one-kernel", Within(0.15, 0.97, 0.97), 1.142);
  ExpectMet(c, "realtime_latency_normalized_p90.reset", 1, 1.05);
}

TEST(Golden, LanguageModelsBesideEachOther) {
  const Result<Figure> figure = ReefFigure30({.effort = 0.05});
  ASSERT_TRUE(figure) << figure.error().message;
  ASSERT_EQ(figure->numbers.size(), 6u);
  for (const FigureNumber& number : figure->numbers) {
    EXPECT_GE(number.got, 0.9 * number.least) << number.metric;
    EXPECT_LE(number.got, 1.1 * number.most) << number.metric;
  }
}

// Paella's device gains from company what REEF's Volta does, and not four times as much.
TEST(Golden, JobsSideBySideOnT4) {
  std::vector<std::pair<std::string, double>> models;
  for (const SimModelStatistics& statistics : SimModelTable()) {
    if (statistics.device == "t4") models.emplace_back(statistics.model, 1.0 / 8);
  }
  const LoadMix mix = *LoadMix::Open("t4", models);
  const LoadShape shape{.sigma = 1.5, .jobs = 300};
  const double side_by_side = RunLoad(mix, shape, 5000, *MakeScheduler("job-streams"))->per_second;
  const double one_by_one = RunLoad(mix, shape, 5000, *MakeScheduler("single-stream"))->per_second;
  EXPECT_GT(side_by_side, one_by_one);
  EXPECT_LE(side_by_side, 1.6 * one_by_one);
}

// ---- Blocks that are told of: Paella Figures 2 and 12

TEST(Golden, PaellaGainsInFigure2WhatItsHostIsSetOn) {
  const Result<Figure> figure = PaellaFigure2({});
  ASSERT_TRUE(figure) << figure.error().message;
  EXPECT_TRUE(figure->numbers.front().set);
  EXPECT_NEAR(figure->numbers.front().got, 2.2, 0.05 * 2.2);
}

// The p99 of the short jobs of Figure 12 over the load. A threshold at which the deficits do not
// decide.
constexpr std::string_view kSrpt = "paella:fairness_threshold=10000";

std::vector<LoadPoint> ShortJobs(std::string_view scheduler, double sigma,
                                 const std::vector<double>& loads) {
  const LoadMix mix = *LoadMix::Open("t4", {{"resnet18", 0.952}, {"inceptionv3", 0.048}});
  std::vector<LoadPoint> points;
  for (const double load : loads) {
    const LoadResult seen =
        *RunLoad(mix, {.sigma = sigma, .jobs = 600}, load, *MakeScheduler(scheduler));
    points.push_back({load, Percentile(seen.by_model[0], 99)});
  }
  return points;
}

TEST(Golden, ShortJobsUnderBurstsWaitUpToThreeTimesLessThanInStreams) {
  const std::vector<double> loads{150, 250, 333, 500};
  const auto streams = ShortJobs("job-streams", 2, loads), ours = ShortJobs(kSrpt, 2, loads);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    EXPECT_LT(ours[i].value, streams[i].value) << loads[i];
  }
  EXPECT_GT(streams[2].value / ours[2].value, 3);  // "up to 3" (7.1); at 333 the streams keep up
}

TEST(Golden, ShortJobsBearLessMoreLoadThanPublished) {
  const std::vector<double> loads{100, 150, 200, 250, 333, 500};
  const auto streams = ShortJobs("job-streams", 1.5, loads), ours = ShortJobs(kSrpt, 1.5, loads);
  // At 100 a second jobs are alone, and each of our kernels waits for the host.
  EXPECT_LT(ours[0].value, 1.05 * streams[0].value);
  for (std::size_t i = 1; i < loads.size(); ++i) {
    EXPECT_LT(ours[i].value, streams[i].value) << loads[i];
  }
  const double limit_ms = 5 * 1.58;  // five times alone
  const Json gain = {{"load", LoadAt(ours, limit_ms) / LoadAt(streams, limit_ms)}};
  ExpectMissed(gain, "load", Within(0.1, 1.4, 1.4), 1.09);  // 1: no figure is named
}

// ---- Groups: REEF Figure 22

TEST(Golden, RestoringAGroupCostsLessThanATwentiethOfTheRequest) {
  const Result<Figure> figure = ReefFigure22({.effort = 0.05});
  ASSERT_TRUE(figure) << figure.error().message;
  std::set<std::string> engines;
  for (const FigureNumber& number : figure->numbers) {
    if (!number.metric.starts_with("restore_overhead_most")) continue;
    engines.insert(number.metric);
    EXPECT_LT(number.got, 0.05) << number.metric;
  }
  EXPECT_TRUE(engines.contains("restore_overhead_most.trt.gv100"));
  EXPECT_TRUE(engines.contains("restore_overhead_most.torch.gv100"));
}

// ---- Padding: REEF Figures 15 and 23

// Counts the launches that are padding, those of them of which a block began, and those of which a
// block committed.
class PaddingWatch final : public ForwardingDevice, private DeviceObserver {
 public:
  explicit PaddingWatch(Device& device) : ForwardingDevice(device) { device_.SetObserver(this); }
  ~PaddingWatch() override { device_.SetObserver(nullptr); }

  SubmitResult Submit(const Launch& launch) override {
    const SubmitResult result = device_.Submit(launch);
    if (result == SubmitResult::kOk && launch.max_claimants > 0) padding_.insert(Raw(launch.id));
    return result;
  }
  std::size_t launches() const { return padding_.size(); }
  double never_begun() const { return PartOf(padding_.size() - begun_.size()); }
  double in_vain() const { return PartOf(begun_.size() - useful_.size()); }

 private:
  double PartOf(std::size_t count) const {
    return static_cast<double>(count) / static_cast<double>(padding_.size());
  }
  void OnPlaced(const DeviceBlock& block) override {
    if (padding_.contains(Raw(block.launch))) begun_.insert(Raw(block.launch));
  }
  void OnEnded(const DeviceBlock& block, TimePoint /*at*/, bool committed) override {
    if (committed && padding_.contains(Raw(block.launch))) useful_.insert(Raw(block.launch));
  }

  std::unordered_set<std::uint64_t> padding_, begun_, useful_;
};

void ExpectFewInVain(const std::string& scheduler) {
  const SimJobs jobs = *SimJobs::Disb("mi50", "C");
  PaddingWatch* watch = nullptr;
  Scheduler made = *MakeScheduler(scheduler);
  const SimAbort abort = AbortOf(made.config);
  SimStage stage = *SimStage::Open({.gpu = *LoadGpuModel("mi50"), .abort = abort}, std::move(made),
                                   jobs.Queues(), [&](Device& device) {
                                     auto made_watch = std::make_unique<PaddingWatch>(device);
                                     watch = made_watch.get();
                                     return made_watch;
                                   });
  stage.Run(jobs.clients, jobs.Window(std::chrono::milliseconds(300)), Nanoseconds(0));
  EXPECT_GT(watch->launches(), 300u);
  EXPECT_LT(watch->in_vain() + watch->never_begun(), 0.05) << scheduler;
}

// What begins in a room in which it cannot end would leave and come back for ever.
TEST(Golden, PaddingThatCommitsNothingIsRare) {
  ExpectFewInVain("reef");
  ExpectFewInVain("lagoon");
}

TEST(Golden, ReefInEveryPairKeepsTheRealTimeLatency) {
  const Result<Figure> figure = ReefFigure23({.effort = 0.02});
  ASSERT_TRUE(figure) << figure.error().message;
  int found = 0;
  for (const FigureNumber& number : figure->numbers) {
    if (!number.metric.starts_with("latency_normalized_m")) continue;
    if (!number.metric.ends_with(".reef")) continue;
    ++found;
    EXPECT_GE(number.got, 0.999) << number.metric;
    EXPECT_LE(number.got, number.most) << number.metric;
  }
  EXPECT_EQ(found, 2);
}

// With versions (DKP-MV). Latency has no bound in the paper but the one without versions.
TEST(Golden, VersionsLetPaddingUseMoreRooms) {
  const Result<Figure> figure = ReefFigure23({.effort = 0.05});
  ASSERT_TRUE(figure) << figure.error().message;
  std::map<std::string, double> got;
  for (const FigureNumber& number : figure->numbers) got[number.metric] = number.got;
  // More than published: every kernel has all versions, and none of them is slower than assumed.
  // Fewer pairs starve than without versions, but not none.
  const Json json = got;
  ExpectMissed(json, "throughput_normalized_mean.reef-mv", Within(0.05, 1.18, 1.18), 1.300);
  ExpectMissed(json, "throughput_normalized_max.reef-mv", Within(0.05, 1.57, 1.57), 1.844);
  ExpectMissed(json, "throughput_normalized_mean_of_resnet152.reef-mv", Within(0.05, 1.29, 1.29),
               1.526);
  ExpectMissed(json, "starved_pairs.reef-mv", {0, 0}, 1);
  const Result<Figure> busy = ReefFigure24({.effort = 0.02});
  ASSERT_TRUE(busy) << busy.error().message;
  for (const FigureNumber& number : busy->numbers) got[number.metric] = number.got;
  ExpectMet(Json(got), "units_busy_mean.resnet152_with_each.reef-mv", 0.9 * 0.72, 1.1 * 0.72);
}

// Padding gains more than published, as blocks of padding miss no cache here (REEF Figure 27).
TEST(Golden, ReefOnMi50) {
  const char* const throughput = "throughput_normalized.reef";
  ExpectMissed(Disb("mi50", "B", {"reef"}), throughput, Within(0.05, 1.28, 1.28), 1.398);
  const Json c = Disb("mi50", "C", {"reef"});
  ExpectMet(c, "realtime_latency_vs_alone_mean.reef", 1, 1.042);
  ExpectMissed(c, throughput, Within(0.05, 1.53, 1.53), 1.741);
  for (const auto& [workload, got] : {std::pair{"D", 1.691}, {"E", 1.682}, {"REAL", 1.819}}) {
    const Json metrics = Disb("mi50", workload, {"reef"});
    ExpectMet(metrics, "realtime_latency_vs_alone_mean.reef", 1, 1.042);
    ExpectMissed(metrics, throughput, {1.22, 1.42}, got);
  }
}

// ---- Triton with priorities of streams: REEF Figure 28

TEST(Golden, PrioritiesOfStreamsKeepLessLatencyThanReset) {
  const char* const latency = "realtime_latency_normalized_mean.stream-priority";
  const Json a = Disb("gv100", "A", {"stream-priority", "reset"}, "trt-");
  ExpectMissed(a, latency, Within(0.05, 1.21, 1.21), 1.405);
  ExpectMet(a, "realtime_latency_normalized_mean.reset", 1, 1.05);
  ExpectMissed(Disb("gv100", "B", {"stream-priority"}, "trt-"), latency, Within(0.05, 1.21, 1.21),
               1.431);
  const Json c = Disb("gv100", "C", {"stream-priority", "reset"}, "trt-");
  ExpectMissed(c, latency, Within(0.05, 2.8, 2.8), 3.87);
  ExpectMet(c, "realtime_latency_normalized_mean.reset", 1, 1.09);
  ExpectMet(c, "throughput_normalized.reset", 0.9 * 1.11, 1.1 * 1.11);
}

}  // namespace
}  // namespace lagoon::bench
