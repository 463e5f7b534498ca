#include "base/seldom.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

TEST(Seldom, IsDueAtOnceAndThenOnceInAPeriod) {
  Seldom line(std::chrono::minutes(1));
  const TimePoint begin{};
  EXPECT_TRUE(line.Due(begin)) << "also where the clock begins";
  EXPECT_FALSE(line.Due(begin));
  EXPECT_FALSE(line.Due(begin + std::chrono::seconds(59)));
  EXPECT_TRUE(line.Due(begin + std::chrono::seconds(60)));
  EXPECT_FALSE(line.Due(begin + std::chrono::seconds(119))) << "it is counted from the last time";
}

}  // namespace
}  // namespace lagoon
