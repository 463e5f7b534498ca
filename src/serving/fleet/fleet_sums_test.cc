#include "serving/fleet/fleet_sums.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

TEST(FleetSums, AddHistogramsOfTheSameModelByClass) {
  const auto row = [](const char* name, std::uint64_t count) {
    ModelStatistics statistics;
    statistics.name = name;
    statistics.version = "1";
    statistics.histograms[0].request.counts[3] = count;
    statistics.histograms[0].request.ns = 10 * count;
    statistics.histograms[1].queue.counts[17] = 2 * count;
    return statistics;
  };
  std::vector<ModelStatistics> sums = {row("a", 1)};
  AddStatistics(sums, std::vector<ModelStatistics>{row("a", 4), row("b", 100)});
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].histograms[0].request.counts[3], 5u);
  EXPECT_EQ(sums[0].histograms[0].request.ns, 50u);
  EXPECT_EQ(sums[0].histograms[1].queue.counts[17], 10u);
  EXPECT_EQ(sums[1].histograms[0].request.counts[3], 100u);
}

}  // namespace
}  // namespace lagoon
