// SPLIT's Figures 1 and 3 as numbers, and the systems that it compares with, on one unit. Times
// are in the figures' unit.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policies/registry.h"
#include "sched/testing/sim_scenario.h"

namespace lagoon::testing {
namespace {

using Kernels = std::vector<SimTask::Kernel>;

constexpr SimTask::Kernel kOne{1, 1};

SimTask Task(std::string name, double arrival, std::size_t kernels,
             std::vector<std::uint32_t> part_ends = {}) {
  return {std::move(name), JobClass::kBestEffort, arrival, Kernels(kernels, kOne),
          std::move(part_ends)};
}

// When each task's last kernel is complete.
std::vector<double> Ends(std::string_view scheduler, const std::vector<SimTask>& tasks) {
  const auto device = FigureDevice(1, SimAbort::kCheck);
  Scheduler named = *MakeScheduler(scheduler);
  Dispatcher dispatcher(*device, named.config, std::move(named.policy));
  const TimePoint begin = device->Now();
  std::vector<double> ends;
  for (const JobResult& result : RunTasks(*device, dispatcher, tasks)) {
    ends.push_back(std::chrono::duration<double>(result.computed - begin) / kFigureUnit);
  }
  return ends;
}

// B runs, and A comes at 0.5.
std::vector<SimTask> Figure1() { return {Task("B", 0, 3, {1, 2, 3}), Task("A", 0.5, 1)}; }

// A passes B between B's first and second part: A ends at 2 and not at 4.
TEST(SplitFigures, Figure1PreemptionBetweenParts) {
  EXPECT_EQ(Ends("split", Figure1()), (std::vector<double>{4, 2}));
}

TEST(SplitFigures, Figure1WithoutParts) {
  for (const std::string_view name : {"split-whole", "clockwork", "prema", "rt-a"}) {
    EXPECT_EQ(Ends(name, Figure1()), (std::vector<double>{3, 4})) << name;
  }
  // One part is what a plan without part_ends has.
  EXPECT_EQ(Ends("split", {Task("B", 0, 3), Task("A", 0.5, 1)}), (std::vector<double>{3, 4}));
}

// Full preemption: both parts of A go before B's second part. Partial preemption would end A at 4.
TEST(SplitFigures, Figure3AllPartsOfTheNewRequestPassTogether) {
  EXPECT_EQ(Ends("split", {Task("B", 0, 3, {1, 2, 3}), Task("A", 0.5, 2, {1, 2})}),
            (std::vector<double>{5, 3}));
}

// B has 2 left of 3 when A of 2 comes: 2 * 3 > 2 * 2, so A passes. With 1 left of 3 it does not.
TEST(SplitFigures, ALongerRequestPassesOnlyWhereThatLowersTheMeanResponseRatio) {
  EXPECT_EQ(Ends("split", {Task("B", 0, 3, {1, 2, 3}), Task("A", 1.5, 2, {1, 2})}),
            (std::vector<double>{3, 5}));
}

// The queueing order of parts in unequal sizes: a part is not interrupted, whatever its length.
TEST(SplitFigures, APartIsNotInterrupted) {
  EXPECT_EQ(Ends("split", {Task("B", 0, 3, {2, 3}), Task("A", 0.5, 1)}),
            (std::vector<double>{4, 3}));
}

// A, B and C wait for X. Clockwork serves them as they came, PREMA the shortest first (all have as
// many tokens as the threshold wants), and so does SPLIT.
TEST(SplitBaselines, OrderOfService) {
  const std::vector<SimTask> tasks = {Task("X", 0, 2), Task("A", 0.25, 3), Task("B", 0.5, 1),
                                      Task("C", 0.75, 2)};
  EXPECT_EQ(Ends("clockwork", tasks), (std::vector<double>{2, 5, 6, 8}));
  EXPECT_EQ(Ends("prema", tasks), (std::vector<double>{2, 8, 3, 5}));
  EXPECT_EQ(Ends("split", tasks), (std::vector<double>{2, 8, 3, 5}));
}

// PREMA: at 12, W has waited longest compared with its own time and has at least nine tokens; S has
// begun with three and has collected fewer than six. S is shorter, but no candidate.
TEST(SplitBaselines, PremaServesWhoHasWaitedLong) {
  const std::vector<SimTask> tasks = {Task("X", 0, 12), Task("W", 0.5, 4), Task("S", 11.5, 3)};
  EXPECT_EQ(Ends("prema", tasks), (std::vector<double>{12, 16, 19}));
  EXPECT_EQ(Ends("split", tasks), (std::vector<double>{12, 19, 15}));
}

// Between kernels PREMA takes the shorter job, once the threshold lets it.
TEST(SplitBaselines, PremaPreemptsBetweenKernelsIfTold) {
  EXPECT_EQ(Ends("prema-kernel", Figure1()), (std::vector<double>{4, 2}));
}

// RT-A: A and B form the second round, and C waits for both, though it came before they began.
TEST(SplitBaselines, RoundsWaitForTheWholeRound) {
  const std::vector<SimTask> tasks = {Task("X", 0, 2), Task("A", 0.25, 1), Task("B", 0.5, 3),
                                      Task("C", 2.5, 1)};
  const std::vector<double> ends = Ends("rt-a", tasks);
  EXPECT_EQ(ends[0], 2);
  EXPECT_EQ(ends[2], 6);  // A and B take 4 together
  EXPECT_LT(ends[1], 6);
  EXPECT_EQ(ends[3], 7);
}

// `lagoon-ratio` needs no parts: A gets the next block or, if B's block can leave, the unit now.
// B's block leaves at its next check, after 0.05, and runs again.
TEST(SplitBeyond, ResponseRatioOrderWithoutParts) {
  const std::vector<SimTask> tasks = {Task("B", 0, 3), Task("A", 0.5, 1)};
  EXPECT_EQ(Ends("lagoon-ratio:preempt_by_rank=0", tasks), (std::vector<double>{4, 2}));
  EXPECT_EQ(Ends("lagoon-ratio", tasks), (std::vector<double>{4.55, 1.55}));
}

}  // namespace
}  // namespace lagoon::testing
