#include "server/stages.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

TEST(Stages, FollowEachOtherWithoutGaps) {
  const auto at = [](int us) { return TimePoint{} + std::chrono::microseconds(us); };
  const EdgeStamps stamps{at(10), at(30), at(35)};
  JobResult job;
  job.posted = at(36);
  job.started = at(40);
  job.inputs_copied = at(55);
  job.computed = at(155);
  job.finished = at(160);
  const auto stages = Stages(stamps, job, at(200));
  const double expected[] = {20, 5, 1, 4, 15, 100, 5, 40};
  double sum = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    EXPECT_DOUBLE_EQ(stages[i].us, expected[i]) << stages[i].name;
    sum += stages[i].us;
  }
  EXPECT_DOUBLE_EQ(sum, 190);
}

}  // namespace
}  // namespace lagoon
