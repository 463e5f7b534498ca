#include "bench/split/preemption_decision.h"

#include <gtest/gtest.h>

namespace lagoon::bench {
namespace {

TEST(PreemptionDecision, IsMeasuredForEveryNumberOfWaitingRequests) {
  Report report("split", {}, "test");
  Evidence evidence(report, 1);
  const Status status =
      MeasurePreemptionDecision({.waiting = {5, 20}, .rounds = 2, .decisions = 50}, evidence);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  evidence.Finish();
  for (const char* waiting : {"5", "20"}) {
    const double us =
        report.json().at("metrics").at(std::string("preemption_decision_us.") + waiting);
    EXPECT_GT(us, 0);
    EXPECT_LT(us, 1000);
  }
  EXPECT_EQ(report.json().at("targets").size(), 1u);  // of 5; 20 has no target
}

}  // namespace
}  // namespace lagoon::bench
