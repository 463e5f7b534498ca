// SPLIT's Figures 1 and 3 as numbers, and the systems that it compares with, on one unit. Times
// are in the figures' unit.

#include <gtest/gtest.h>

#include <deque>
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

// `stamp` of each task's result, in units since the begin.
std::vector<double> Stamps(std::string_view scheduler, const std::vector<SimTask>& tasks,
                           TimePoint JobResult::*stamp) {
  const auto device = FigureDevice(1, SimAbort::kCheck);
  Scheduler named = *MakeScheduler(scheduler);
  Dispatcher dispatcher(*device, named.config, std::move(named.policy));
  const TimePoint begin = device->Now();
  std::vector<double> stamps;
  for (const JobResult& result : RunTasks(*device, dispatcher, tasks)) {
    stamps.push_back(std::chrono::duration<double>(result.*stamp - begin) / kFigureUnit);
  }
  return stamps;
}

// When each task's last kernel is complete.
std::vector<double> Ends(std::string_view scheduler, const std::vector<SimTask>& tasks) {
  return Stamps(scheduler, tasks, &JobResult::computed);
}

// When each task's answer leaves.
std::vector<double> Answers(std::string_view scheduler, const std::vector<SimTask>& tasks) {
  return Stamps(scheduler, tasks, &JobResult::finished);
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
  // Aligned operators are one model (SPLIT 2.2): A's answer leaves with B's.
  EXPECT_EQ(Answers("rt-a", tasks), (std::vector<double>{2, 6, 6, 7}));
  const std::vector<double> apart = Answers("rt-a:together=0", tasks);
  EXPECT_EQ(apart[2], 6);
  EXPECT_LT(apart[1], 6);
}

// B and C are cancelled while A's answer waits for them: both end at once, and A's answer leaves
// with the last of them.
TEST(SplitBaselines, ACancelledJobHoldsNoAnswers) {
  const auto device = FigureDevice(1, SimAbort::kCheck);
  Scheduler named = *MakeScheduler("rt-a");
  Dispatcher dispatcher(*device, named.config, std::move(named.policy));
  std::vector<std::unique_ptr<Instance>> instances;
  std::deque<Request> requests(4);
  std::vector<JobId> ids;
  const TimePoint begin = device->Now();
  const auto wait_until = [&](double at) {
    while (device->Now() < begin + FigureTime(at)) device->Wait(begin + FigureTime(at));
  };
  for (const SimTask& task :
       {Task("X", 0, 2), Task("A", 0.25, 1), Task("B", 0.5, 30), Task("C", 0.75, 30)}) {
    instances.push_back(*Instance::Create(PlanOf(task, *device), *device));
    const QueueId queue =
        *dispatcher.AddQueue({.name = task.name, .instances = {instances.back().get()}});
    wait_until(task.arrival);
    Request& request = requests[ids.size()];
    ids.push_back(
        *dispatcher.Post({queue, kNoDeadline, request.inputs, request.outputs, &request}));
  }
  wait_until(12);
  EXPECT_EQ(requests[0].finished, 1);
  EXPECT_EQ(requests[1].finished, 0) << "A has ended, and waits for B";
  dispatcher.Cancel(ids[1]);  // it has ended: nothing to cancel
  dispatcher.Cancel(ids[2]);
  wait_until(15);
  EXPECT_EQ(requests[2].result.outcome, Outcome::kCancelled);
  EXPECT_EQ(requests[2].finished, 1);
  EXPECT_EQ(requests[1].finished, 0) << "C is left";
  dispatcher.Cancel(ids[3]);
  while (requests[3].finished == 0) device->Wait(kNoDeadline);
  EXPECT_EQ(requests[3].result.outcome, Outcome::kCancelled);
  EXPECT_EQ(requests[1].finished, 1);
  EXPECT_EQ(requests[1].result.outcome, Outcome::kDone);
  EXPECT_EQ(requests[1].result.finished, requests[3].result.finished);
}

// Three kernels of 1, and a copy of 1 at each side of two cuts: in parts 3 + 4, whole 3.
std::vector<SimTask> TaskWithCopies() {
  SimTask task = Task("B", 0, 7, {2, 5, 7});
  task.cut_ops = {1, 2, 4, 5};
  return {task};
}

TEST(SplitBaselines, AWholeJobRunsNoCopiesOfItsCuts) {
  EXPECT_EQ(Ends("split:elastic=0", TaskWithCopies()), (std::vector<double>{7}));
  for (const std::string_view name : {"split-whole", "clockwork", "lagoon"}) {
    EXPECT_EQ(Ends(name, TaskWithCopies()), (std::vector<double>{3})) << name;
  }
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
