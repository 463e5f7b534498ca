#include "cluster/share_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(std::uint32_t units, const std::string& shares,
                    std::vector<std::int64_t> rows) {
  const auto plan = PlanShares(units, 1, shares, std::move(rows));
  return plan ? "" : plan.error().message;
}

TEST(PlanShares, OfFewUnitsAreAllUnitsOnce) {
  const auto plan = PlanShares(3, 1, "", {4, 1, 4});
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->measured, ElementsAre(1, 2, 3));
  EXPECT_THAT(plan->rows, ElementsAre(1, 4));
}

TEST(PlanShares, AreRoundedUpToGranulesAndEndAtTheDevice) {
  const auto plan = PlanShares(132, 8, "1,10,100", {1});
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->measured, ElementsAre(8, 16, 132));
}

TEST(PlanShares, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf(4, "50,101", {1}), HasSubstr("'101'"));
  EXPECT_THAT(ErrorOf(4, "0", {1}), HasSubstr("'0'"));
  EXPECT_THAT(ErrorOf(4, "50,,60", {1}), HasSubstr("'' is no share"));
  EXPECT_THAT(ErrorOf(4, "nan", {1}), HasSubstr("'nan'"));
  EXPECT_THAT(ErrorOf(4, "", {0}), HasSubstr("0 rows"));
  EXPECT_THAT(ErrorOf(4, "", {1, 4097}), HasSubstr("4097 rows"));
  std::vector<std::int64_t> many;
  for (std::int64_t rows = 1; rows <= 65; ++rows) many.push_back(rows);
  EXPECT_THAT(ErrorOf(4, "", many), HasSubstr("260 points, more than 256"));
  many.pop_back();
  EXPECT_EQ(ErrorOf(4, "", many), "");
}

TEST(ShareTable, SaysWhatIsInterpolatedAndWhatIsSmoothedAndTheKnee) {
  const auto plan = PlanShares(10, 1, "20,50,100", {1});
  ASSERT_TRUE(plan.has_value());
  // Half the device is enough.
  auto surface = SurfaceOf(*plan, {{10, 4, 4}});
  ASSERT_TRUE(surface.has_value());
  std::string table = ShareTable(*plan, {"m", "d", "test", *surface});
  EXPECT_THAT(table, HasSubstr("knee at 1 rows: 5 units, 50 % of the device"));
  EXPECT_THAT(table, HasSubstr("interpolated"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("smoothed")));
  surface = SurfaceOf(*plan, {{10, 4, 5}});
  ASSERT_TRUE(surface.has_value());
  table = ShareTable(*plan, {"m", "d", "test", *surface});
  EXPECT_THAT(table, HasSubstr("smoothed"));
}

}  // namespace
}  // namespace lagoon
