#include "serving/batch/wanted_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace lagoon {
namespace {

// What is chosen when a batch of `largest` rows could form and there is a plan for `ready` rows.
std::int64_t Chosen(std::int64_t largest, std::int64_t ready, bool exact = false) {
  WantedRows wanted;
  for (std::int64_t rows = largest; rows > ready; --rows) {
    wanted.Missing(rows, exact && rows == largest);
  }
  wanted.Found(ready);
  return wanted.Chosen();
}

TEST(WantedRows, NothingIsMadeIfNothingIsMissing) {
  EXPECT_EQ(Chosen(200, 200), 0);
  EXPECT_EQ(WantedRows().Chosen(), 0);
}

TEST(WantedRows, SmallBatchesGetTheirOwnPlan) {
  EXPECT_EQ(Chosen(7, 1), 7);
  EXPECT_EQ(Chosen(64, 63), 64);
}

TEST(WantedRows, OfLargeBatchesTheRoundestSizeWithinAnEighthIsMade) {
  EXPECT_EQ(Chosen(200, 64), 192);
  EXPECT_EQ(Chosen(255, 64), 224);
  EXPECT_EQ(Chosen(256, 64), 256);
  EXPECT_EQ(Chosen(65, 64), 0);
}

TEST(WantedRows, APlanOfAnEighthFewerRowsSuffices) {
  EXPECT_EQ(Chosen(200, 192), 0);
  EXPECT_EQ(Chosen(219, 192), 0);
  EXPECT_EQ(Chosen(220, 192), 208);
}

TEST(WantedRows, ASizeThatIsMeantExactlyIsMade) {
  EXPECT_EQ(Chosen(200, 64, /*exact=*/true), 200);
  EXPECT_EQ(Chosen(200, 199, /*exact=*/true), 200);
}

TEST(WantedRows, FewSizesServeAllBatches) {
  std::vector<std::int64_t> made = {64};
  for (std::int64_t largest = 65; largest <= 4096; ++largest) {
    const std::int64_t rows = Chosen(largest, made.back());
    if (rows > 0) made.push_back(rows);
  }
  EXPECT_LT(made.size(), 50u);
}

}  // namespace
}  // namespace lagoon
