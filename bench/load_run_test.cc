#include "bench/load_run.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;

TEST(LoadRun, AShareIsEqualOrInInverseProportionToTheTime) {
  const std::vector<Nanoseconds> alone{milliseconds(1), milliseconds(3)};
  EXPECT_EQ(SharesOf(alone, false), (std::vector<double>{0.5, 0.5}));
  const std::vector<double> by_size = SharesOf(alone, true);
  EXPECT_NEAR(by_size[0], 0.75, 1e-12);
  EXPECT_NEAR(by_size[1], 0.25, 1e-12);
}

// One model of 10 ms. `completed` of the four jobs of each window end in time.
LoadRun::Trials TrialsOf(const LoadPlace& place, double completed) {
  LoadRun::Trials trials;
  for (std::size_t i = 0; i < place.systems.size(); ++i) {
    SystemResult seen(1);
    seen.clients[0].contended_ms = {10, 20, 30, 40};
    seen.clients[0].completed = completed;
    seen.seconds = 2;
    trials.push_back({std::move(seen)});
  }
  return trials;
}

TEST(LoadRun, MetricsHaveTheirPartsInColumnsAndEveryJobIsASample) {
  LoadRunOptions options;
  options.models = {"cam"};
  options.loads = {0.5};
  options.sigmas = {1.5};
  Report report("load", {}, "test");
  report.KeepSamples(true);
  Evidence evidence(report, 1);
  LoadRun run(options, {{"cam", milliseconds(10)}}, report, evidence);
  ASSERT_TRUE(run.Run({"sjf"}, [](const LoadPlace& place) { return TrialsOf(place, 4); }));
  const std::string rows = report.RowTable().Text();
  EXPECT_NE(rows.find("latency_ms_mean,sjf,queue,sigma1.5.load0.5,,25\n"), std::string::npos)
      << rows;
  EXPECT_NE(rows.find("per_second,sjf,queue,sigma1.5.load0.5,,2\n"), std::string::npos);
  EXPECT_NE(rows.find("latency_ms_p90,sjf,queue,sigma1.5.load0.5,cam,40\n"), std::string::npos);
  EXPECT_NE(rows.find("load_at_ten_times_alone,sjf,queue,sigma1.5,,0.5\n"), std::string::npos);
  EXPECT_EQ(report.json()["metrics"]["latency_ms_mean.sjf.sigma1.5.load0.5"], 25);
  EXPECT_EQ(report.SampleTable().Text(),
            "scheduler,clients,workload,client,class,alone,latency_ms\n"
            "sjf,queue,sigma1.5.load0.5,cam,best-effort,0,10\n"
            "sjf,queue,sigma1.5.load0.5,cam,best-effort,0,20\n"
            "sjf,queue,sigma1.5.load0.5,cam,best-effort,0,30\n"
            "sjf,queue,sigma1.5.load0.5,cam,best-effort,0,40\n");
}

TEST(LoadRun, ASaturatedSystemIsLeftOutOfLargerLoadsOfItsSigmaAlone) {
  LoadRunOptions options;
  options.models = {"cam"};
  options.loads = {0.5, 1, 2};
  options.sigmas = {0, 1};
  Report report("load", {}, "test");
  Evidence evidence(report, 1);
  LoadRun run(options, {{"cam", milliseconds(10)}}, report, evidence);
  std::vector<std::string> places;
  ASSERT_TRUE(run.Run({"fifo"}, [&](const LoadPlace& place) {
    places.push_back(place.name + (place.first ? " first" : ""));
    return TrialsOf(place, place.load < 1 ? 3 : 2);
  }));
  EXPECT_EQ(places, (std::vector<std::string>{"sigma0.load0.5 first", "sigma0.load1",
                                              "sigma1.load0.5", "sigma1.load1"}));
  EXPECT_EQ(report.json()["saturated"]["fifo"]["sigma0"], 1);
  const std::string table = LoadTable(report);
  EXPECT_NE(table.find("sigma0"), std::string::npos);
  EXPECT_EQ(std::ranges::count(table, '\n'), 3) << table;
  EXPECT_EQ(table.substr(table.size() - 3), " 1\n") << table;
}

}  // namespace
}  // namespace lagoon::bench
