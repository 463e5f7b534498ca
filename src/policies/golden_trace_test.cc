// REEF's Figures 4 and 6 as numbers: one workload (ReefExample) under each way of sharing a device
// that the paper shows. Times are in the figures' unit.
//
// Four units. r1 and b1 come at 0, each three kernels of two blocks of time 1. v1 comes at 1.5: K1
// of three blocks of 2.5, K2 of four of 1, K3 of two of 2.5; alone it takes 2.5 + 1 + 2.5 = 6. b2
// and r2, like r1, come at 6.25. Until v1 comes, all ways but (a) are the same: r1 K1 and b1 K1
// side by side from 0 to 1, then their K2.

#include <gtest/gtest.h>

#include "policies/registry.h"
#include "sched/testing/sim_scenario.h"

namespace lagoon::testing {
namespace {

struct Ends {
  double r1, b1, v1, b2, r2;
  bool operator==(const Ends&) const = default;
};
void PrintTo(const Ends& ends, std::ostream* out) {
  *out << "r1 " << ends.r1 << ", b1 " << ends.b1 << ", v1 " << ends.v1 << ", b2 " << ends.b2
       << ", r2 " << ends.r2;
}

// Both kinds of SimAbort give the same ends here: no revoked kernel had a block done.
class ReefFigures : public ::testing::TestWithParam<SimAbort> {
 protected:
  // When each task's last kernel is complete.
  Ends Run(std::string_view scheduler) {
    const auto device = FigureDevice(kReefUnits, GetParam());
    Scheduler named = *MakeScheduler(scheduler);
    Dispatcher dispatcher(*device, named.config, std::move(named.policy));
    const TimePoint begin = device->Now();
    const std::vector<SimTask> tasks = ReefExample();
    const std::vector<JobResult> results = RunTasks(*device, dispatcher, tasks);
    stats_ = dispatcher.Stats();
    const auto end = [&](std::size_t i) {
      return std::chrono::duration<double>(results[i].computed - begin) / kFigureUnit;
    };
    return {end(0), end(1), end(2), end(3), end(4)};
  }
  DispatcherStats stats_;
};

// (a) One task at a time: v1 waits for r1, and b1 for v1. r1 to 3, v1 to 9, b1 to 12, b2 to 15, r2
// to 18. v1 takes 7.5.
TEST_P(ReefFigures, Figure4aSequentialExecution) {
  EXPECT_EQ(Run("sequential"), (Ends{3, 12, 9, 15, 18}));
}

// (b) Blocks that run are waited for, queued kernels are not: v1 starts at 2 and ends at 8; it
// takes 6.5. Then r1 and b1 run their K3 to 9, then b2 and r2 side by side to 12.
TEST_P(ReefFigures, Figure4bBlockLevelPreemption) {
  EXPECT_EQ(Run("wait"), (Ends{9, 9, 8, 12, 12}));
  EXPECT_EQ(stats_.revocations, 1u);
}

// (c) One stream per task; the device runs first what became ready first. At 2, v1's K1 takes
// three units to 4.5 and r1's K3 the fourth, one block after the other, to 4. b1's K3 gets it then,
// and at 4.5 a second unit, beside two blocks of v1's K2; the other two wait for 5 and 5.5, so that
// K2 ends at 6.5. By then b2 and r2 have come (6.25) and taken three units; r2's K1 takes the one
// that K2 leaves at 6.5. v1's K3 starts only at 7.25, with b2's K1 gone, and ends at 9.75: v1
// takes 8.25. Beside it, b2's K2 runs from 7.25 and 7.5, r2's K2 from 8.25 and 8.5, b2's K3
// from 9.25 and 9.5, and r2's K3 from 9.75 on v1's units.
TEST_P(ReefFigures, Figure4cMultipleStreams) {
  EXPECT_EQ(Run("streams"), (Ends{4, 5.5, 9.75, 10.5, 10.75}));
}

// (d) Reset: at 1.5 the K2s of r1 and b1 leave, v1 has the device for itself from 1.5 to 7.5: it
// takes 6, as if it were alone. r1 and b1 run K2 and K3 again to 9.5, b2 and r2 follow to 12.5.
TEST_P(ReefFigures, Figure4ResetBasedPreemption) {
  EXPECT_EQ(Run("reset"), (Ends{9.5, 9.5, 7.5, 12.5, 12.5}));
  EXPECT_EQ(stats_.revocations, 1u);
  EXPECT_EQ(stats_.padded_launches, 0u);
}

// Figure 6: as reset, and best-effort kernels take what v1's leave free. From 1.5 to 4, K1 leaves
// one unit: r1's K2 runs there block by block to 3.5. K2 of v1 takes all units to 5. From 5 to 7.5,
// K3 leaves two units: r1's K3 runs to 6, b1's K2 from 6 to 7. v1 takes 6 as in reset. Then
// b1's K3 runs beside b2's K1 to 8.5, b2's K2 beside r2's K1 to 9.5, K3 beside K2 to 10.5, and r2's
// K3 to 11.5. Where padding leaves, a block of r1's and of b1's K3 also starts in these rooms, and
// leaves at 4 and 7.5.
TEST_P(ReefFigures, Figure6DynamicKernelPadding) {
  EXPECT_EQ(Run("reef"), (Ends{6, 8.5, 7.5, 10.5, 11.5}));
  EXPECT_EQ(stats_.revocations, 1u);
  EXPECT_EQ(stats_.padded_launches, 3u);
  EXPECT_EQ(Run("reef:padding_leaves=1"), (Ends{6, 8.5, 7.5, 10.5, 11.5}));
  EXPECT_GE(stats_.padded_launches, 4u);
}

// REEF 3.1: one real-time job at a time. Two models whose kernels need two of the four units each.
TEST_P(ReefFigures, ReefRunsOneRealTimeJobAtATimeAndLagoonBoth) {
  const auto ends = [&](std::string_view scheduler) {
    const auto device = FigureDevice(kReefUnits, GetParam());
    Scheduler named = *MakeScheduler(scheduler);
    Dispatcher dispatcher(*device, named.config, std::move(named.policy));
    const TimePoint begin = device->Now();
    const std::vector<SimTask> tasks = {{"v1", JobClass::kRealTime, 0, {{2, 2}, {2, 2}}},
                                        {"v2", JobClass::kRealTime, 1, {{2, 2}, {2, 2}}}};
    std::vector<double> at;
    for (const JobResult& result : RunTasks(*device, dispatcher, tasks)) {
      at.push_back(std::chrono::duration<double>(result.computed - begin) / kFigureUnit);
    }
    return at;
  };
  EXPECT_EQ(ends("reef"), (std::vector<double>{4, 8}));
  EXPECT_EQ(ends("reef:max_real_time_jobs=0"), (std::vector<double>{4, 5}));
  EXPECT_EQ(ends("lagoon"), (std::vector<double>{4, 5}));
}

// Triton's MAX and MIN: the device runs first the real-time kernels that are ready, and waits for
// blocks that run. Alone on four units r would take 6, v 2.
TEST_P(ReefFigures, StreamPrioritiesPutRealTimeKernelsFirstAndPreemptNothing) {
  const auto ends = [&](std::string_view scheduler) {
    const auto device = FigureDevice(kReefUnits, GetParam());
    Scheduler named = *MakeScheduler(scheduler);
    Dispatcher dispatcher(*device, named.config, std::move(named.policy));
    const TimePoint begin = device->Now();
    const std::vector<SimTask> tasks = {{"r", JobClass::kBestEffort, 0, {{12, 2}}},
                                        {"v", JobClass::kRealTime, 1, {{4, 2}}}};
    std::vector<double> at;
    for (const JobResult& result : RunTasks(*device, dispatcher, tasks)) {
      at.push_back(std::chrono::duration<double>(result.computed - begin) / kFigureUnit);
    }
    EXPECT_EQ(dispatcher.Stats().revocations, 0u);
    return at;
  };
  EXPECT_EQ(ends("stream-priority"), (std::vector<double>{8, 4}));
  EXPECT_EQ(ends("streams"), (std::vector<double>{6, 8}));
}

INSTANTIATE_TEST_SUITE_P(Abort, ReefFigures, ::testing::Values(SimAbort::kCheck, SimAbort::kKill),
                         [](const auto& test) {
                           return test.param == SimAbort::kCheck ? "Check" : "Kill";
                         });

// Paella's Figure 1: four tasks of three unit kernels on two units, all there at 0. With nothing
// ahead on the device SRPT continues the tasks that have begun: A and B, which have 2 and then 1
// left when C and D have 3, end at 3, the others at 6.
TEST(PaellaFigure1, ShortestRemainingFirstEndsWhatItHasBegun) {
  const auto device = FigureDevice(2, SimAbort::kCheck);
  Scheduler paella = *MakeScheduler("paella");
  paella.config.extra_blocks = 0;
  Dispatcher dispatcher(*device, paella.config, std::move(paella.policy));
  const TimePoint begin = device->Now();
  std::vector<SimTask> tasks;
  for (const char* name : {"A", "B", "C", "D"}) {
    tasks.push_back({name, JobClass::kBestEffort, 0, {{1, 1}, {1, 1}, {1, 1}}});
  }
  std::vector<double> ends;
  for (const JobResult& result : RunTasks(*device, dispatcher, tasks)) {
    ends.push_back(std::chrono::duration<double>(result.computed - begin) / kFigureUnit);
  }
  EXPECT_EQ(ends, (std::vector<double>{3, 3, 6, 6}));
}

}  // namespace
}  // namespace lagoon::testing
