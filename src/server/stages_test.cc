#include "server/stages.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

TEST(Stages, FollowEachOtherWithoutGaps) {
  const auto at = [](int us) { return TimePoint{} + std::chrono::microseconds(us); };
  const EdgeStamps stamps{at(10), at(30), at(35), std::chrono::microseconds(8)};
  InferResponse response;
  JobResult& job = response.job;
  job.posted = at(43);
  job.started = at(47);
  job.inputs_copied = at(62);
  job.computed = at(162);
  job.finished = at(167);
  response.plan_wait = std::chrono::microseconds(17);
  response.plan_wait_between = std::chrono::microseconds(10);  // between two parts
  const auto stages = Stages(stamps, response, at(200));
  const double expected[] = {20, 5, 1, 17, 4, 15, 90, 5, 33, 8};
  double sum = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    EXPECT_DOUBLE_EQ(stages[i].us, expected[i]) << stages[i].name;
    sum += stages[i].us;
  }
  EXPECT_DOUBLE_EQ(sum - stages.back().us, 190);
}

}  // namespace
}  // namespace lagoon
