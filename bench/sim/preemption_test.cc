#include "bench/sim/preemption.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

using std::chrono::microseconds;

PreemptionCase Case(const SimModel& model) { return {*LoadGpuModel("mi50"), {&model}, 20, 1}; }

TEST(Preemption, ResetIsFlatInTheNumberOfKernelsAndWaitingIsNot) {
  const GpuModel gpu = *LoadGpuModel("mi50");
  const SimModel some = FullKernels(gpu, 20, microseconds(100));
  const SimModel many = FullKernels(gpu, 200, microseconds(100));
  const double reset_some = Mean(*PreemptionUs(Case(some), KillWay()));
  const double reset_many = Mean(*PreemptionUs(Case(many), KillWay()));
  EXPECT_NEAR(reset_some, reset_many, 4);
  EXPECT_LT(reset_many, 40);
  const double wait_some = Mean(*PreemptionUs(Case(some), WaitWay()));
  const double wait_many = Mean(*PreemptionUs(Case(many), WaitWay()));
  EXPECT_GT(wait_many, 3 * wait_some);
  EXPECT_GT(wait_some, 2 * reset_some);
}

TEST(Preemption, AKilledKernelRunsAgainAndACheckedOneGoesOn) {
  const GpuModel gpu = *LoadGpuModel("mi50");
  const SimModel model = FullKernels(gpu, 20, microseconds(400));
  const RestoreCost killed = *MeasureRestore(Case(model), KillWay());
  EXPECT_NEAR(killed.alone_us, 8000, 100);
  EXPECT_EQ(killed.us.size(), 20u);
  // A preemption loses half a kernel in the mean, and at most a whole one and its relaunch.
  EXPECT_NEAR(Mean(killed.us), 200, 120);
  EXPECT_LT(*std::max_element(killed.us.begin(), killed.us.end()), 450);
}

}  // namespace
}  // namespace lagoon::bench
