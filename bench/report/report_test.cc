#include "bench/report/report.h"

#include <gtest/gtest.h>

#include <limits>

namespace lagoon::bench {
namespace {

const MeasuredSystem kSystem{"reef.newest", "reef", "newest", "A"};

TEST(Report, EveryMetricIsARowWithTheValueOfTheJson) {
  Report report("disb", {}, "test");
  report.Metric("standalone_ms.cam", 1.5);
  report.Metric({"per_second", kSystem, "camera"}, 30);
  report.Metric({"latency", kSystem}, 2);
  report.Metric("latency.reef.newest", 3);  // by its whole name, as Evidence does
  report.Metric("none", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(report.json()["metrics"], (nlohmann::json{{"standalone_ms.cam", 1.5},
                                                      {"per_second.reef.newest.camera", 30.0},
                                                      {"latency.reef.newest", 3.0}}));
  EXPECT_EQ(report.RowTable().Text(),
            "metric,scheduler,clients,workload,client,value\n"
            "standalone_ms.cam,,,,,1.5\n"
            "per_second,reef,newest,A,camera,30\n"
            "latency,reef,newest,A,,3\n");
}

TEST(Report, SamplesAreKeptIfTheyAreWanted) {
  Report report("disb", {}, "test");
  const std::vector<double> ms{1, 2.5};
  report.Samples({kSystem, "camera", "real-time", true}, ms);
  report.KeepSamples(true);
  report.Samples({kSystem, "camera", "real-time", true}, ms);
  EXPECT_EQ(report.SampleTable().Text(),
            "scheduler,clients,workload,client,class,alone,latency_ms\n"
            "reef,newest,A,camera,real-time,1,1\n"
            "reef,newest,A,camera,real-time,1,2.5\n");
}

}  // namespace
}  // namespace lagoon::bench
