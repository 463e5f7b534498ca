#include "bench/placement/placement_curves.h"

#include <gtest/gtest.h>

namespace lagoon::bench {
namespace {

// Two loads, two seeds.
PlacementCurve CurveOf(const std::string& block, const std::string& placer, double goodput,
                       double capacity) {
  PlacementCurve curve{block, placer, 4, {1, 2}, {}};
  for (const double load : curve.loads) {
    std::vector<PlacementRun> runs(2);
    for (PlacementRun& run : runs) {
      run.goodput = run.throughput = goodput * load;
      run.capacity = capacity;
      run.moves = 3 * load;
      run.violations = load == 1 ? 0 : 0.5;
    }
    curve.runs.push_back(runs);
  }
  return curve;
}

nlohmann::json MetricsOf(const std::vector<PlacementCurve>& curves) {
  Report report("placement", {}, "test");
  WritePlacementCurves(curves, 1, report);
  return report.json().at("metrics");
}

TEST(PlacementCurves, EachBlockHasItsRatios) {
  const auto metrics =
      MetricsOf({CurveOf("fair", "inss", 100, 900), CurveOf("fair", "gslice", 80, 300),
                 CurveOf("paper", "inss", 100, 600), CurveOf("paper", "gslice", 50, 400)});
  EXPECT_DOUBLE_EQ(metrics.at("goodput_ratio.fair.inss_over_gslice"), 1.25);
  EXPECT_DOUBLE_EQ(metrics.at("goodput_ratio.paper.inss_over_gslice"), 2);
  EXPECT_DOUBLE_EQ(metrics.at("goodput_ratio.paper.inss_over_gslice.mean"), 2);
  EXPECT_DOUBLE_EQ(metrics.at("goodput_ratio.paper.inss_over_gslice.load2.00"), 2);
  EXPECT_DOUBLE_EQ(metrics.at("capacity_ratio.inss_over_gslice"), 1.5) << "of the block paper";
  EXPECT_DOUBLE_EQ(metrics.at("capacity_ratio.fair.inss_over_gslice"), 3);
  EXPECT_FALSE(metrics.contains("goodput_ratio.fair.gslice_over_inss"));
  EXPECT_DOUBLE_EQ(metrics.at("moves.gslice"), 9);
  EXPECT_DOUBLE_EQ(metrics.at("moves.paper.gslice.load2.00"), 6);
}

// 100 arrive at load 1 and 400 at load 2, of which half are lost.
TEST(PlacementCurves, ViolationsOfAllLoadsCountByRequest) {
  const auto metrics = MetricsOf({CurveOf("fair", "inss", 100, 1)});
  EXPECT_DOUBLE_EQ(metrics.at("violation_rate.inss"), 200.0 / 500);
  EXPECT_DOUBLE_EQ(metrics.at("violation_rate.inss.load2.00"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("violation_rate.inss.gpus4.load1.00"), 0);
}

TEST(PlacementCurves, WithoutADivisorThereIsNoRatio) {
  const auto metrics =
      MetricsOf({CurveOf("fair", "inss", 100, 1), CurveOf("fair", "gpulet", 0, 1)});
  EXPECT_FALSE(metrics.contains("goodput_ratio.fair.inss_over_gpulet"));
  EXPECT_TRUE(metrics.contains("capacity_ratio.fair.inss_over_gpulet"));
  EXPECT_TRUE(MetricsOf({}).is_null() || MetricsOf({}).empty());
}

}  // namespace
}  // namespace lagoon::bench
