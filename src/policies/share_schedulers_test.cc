// How `shares`, `time-slice` and `weighted` divide a device, on a simulated device without latency.
// Times are in units of kFigureUnit.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "policies/registry.h"
#include "sched/cost_table.h"
#include "sched/testing/sim_scenario.h"

namespace lagoon::testing {
namespace {

// `count` kernels of one block of time 1.
std::vector<SimTask::Kernel> Narrow(std::size_t count) {
  return std::vector<SimTask::Kernel>(count, {1, 1});
}

SimTask Task(const std::string& name, std::vector<SimTask::Kernel> kernels, UnitRange units = {},
             double weight = 1, double arrival = 0) {
  SimTask task{name, JobClass::kBestEffort, arrival, std::move(kernels)};
  task.units = units;
  task.weight = weight;
  return task;
}

// When each task's last kernel is complete.
std::vector<double> Ends(std::string_view scheduler, std::uint32_t units,
                         const std::vector<SimTask>& tasks) {
  const auto device = FigureDevice(units, SimAbort::kCheck);
  Scheduler named = *MakeScheduler(scheduler);
  Dispatcher dispatcher(*device, named.config, std::move(named.policy));
  const TimePoint begin = device->Now();
  std::vector<double> ends;
  for (const JobResult& result : RunTasks(*device, dispatcher, tasks)) {
    ends.push_back(std::chrono::duration<double>(result.computed - begin) / kFigureUnit);
  }
  return ends;
}

using Times = std::vector<double>;

// Two kernels of four blocks on four units. Each on half of the units takes two rounds of blocks.
TEST(Shares, EachQueueRunsOnItsUnits) {
  const std::vector<SimTask> bound = {Task("A", {{4, 1}}, {0, 2}), Task("B", {{4, 1}}, {2, 2})};
  EXPECT_EQ(Ends("shares", 4, bound), (Times{2, 2}));
  const std::vector<SimTask> free = {Task("A", {{4, 1}}), Task("B", {{4, 1}})};
  EXPECT_EQ(Ends("streams", 4, free), (Times{1, 2}));
  EXPECT_EQ(Ends("shares", 4, free), (Times{1, 2})) << "without shares";
}

// A has unit 1, B units 0 and 1: the two contend for unit 1.
TEST(Shares, OverlappingSharesContend) {
  const std::vector<SimTask> tasks = {Task("A", {{3, 1}}, {1, 1}), Task("B", {{3, 1}}, {0, 2})};
  EXPECT_EQ(Ends("shares", 2, tasks), (Times{3, 3}));
}

// Alone on four units, with a share of one: kernels of 4 and 2 blocks of time 1. Where units are
// lent, the blocks of a kernel run at the same time.
TEST(Shares, AShareHoldsUnderEverySchedulerThatDoesNotLendUnits) {
  int lending = 0;
  for (const std::string_view name : SchedulerNames()) {
    const bool lends = MakeScheduler(name)->config.lend_units;
    lending += lends ? 1 : 0;
    const std::vector<SimTask> tasks = {Task("A", {{4, 1}, {2, 1}}, {1, 1})};
    EXPECT_EQ(Ends(name, 4, tasks), Times{lends ? 2.0 : 6.0}) << name;
  }
  EXPECT_EQ(lending, 3);
  const std::vector<SimTask> tasks = {Task("A", {{4, 1}, {2, 1}}, {1, 1})};
  EXPECT_EQ(Ends("lagoon:lend_units=0", 4, tasks), Times{6});
  EXPECT_EQ(Ends("shares:lend_units=1", 4, tasks), Times{2});
}

// Two units, one for each. A has blocks without end; B comes meanwhile and ends as if it were alone
// on its unit: at 1, 2 and 3, behind the block of A that runs there.
TEST(Shares, ALentUnitIsGivenBackWithinOneBlock) {
  const std::vector<SimTask> tasks = {Task("A", {{20, 1}}, {0, 1}), Task("B", Narrow(3), {1, 1})};
  EXPECT_EQ(Ends("shares", 2, tasks)[1], 3);
  EXPECT_LE(Ends("shares:lend_units=1", 2, tasks)[1], 4);
  EXPECT_LT(Ends("shares:lend_units=1", 2, tasks)[0], Ends("shares", 2, tasks)[0]);
}

// Eight blocks of time 1, on one unit until the move at 1.5.
TEST(Shares, AMoveHoldsFromTheNextBlockOn) {
  const auto device = FigureDevice(4, SimAbort::kCheck);
  Scheduler shares = *MakeScheduler("shares");
  Dispatcher dispatcher(*device, shares.config, std::move(shares.policy));
  const SimTask task = Task("A", {{8, 1}}, {0, 1});
  const auto instance = *Instance::Create(PlanOf(task, *device), *device);
  const QueueId queue =
      *dispatcher.AddQueue({.name = "A", .instances = {instance.get()}, .units = task.units});
  Request request;
  const TimePoint begin = device->Now();
  ASSERT_TRUE(dispatcher.Post({queue, kNoDeadline, request.inputs, request.outputs, &request}));
  const TimePoint moved = begin + FigureTime(1.5);
  while (device->Now() < moved) device->Wait(moved);
  ASSERT_TRUE(dispatcher.MoveShare(queue, {}));
  while (request.finished == 0) device->Wait(kNoDeadline);
  // One block is done at 1 and one runs to 2. The six others: three run on the new units from 1.5
  // to 2.5, one on the first unit from 2 to 3, and two from 2.5 to 3.5.
  EXPECT_EQ(request.result.computed, begin + FigureTime(3.5));
}

// Kernels of one block on two units: nothing runs beside the job of the turn.
TEST(TimeSlice, JobsOfDifferentQueuesDoNotOverlap) {
  const std::vector<SimTask> tasks = {Task("A", Narrow(3)), Task("B", Narrow(3))};
  EXPECT_EQ(Ends("time-slice", 2, tasks), (Times{3, 6}));
  EXPECT_EQ(Ends("shares", 2, tasks), (Times{3, 3}));
}

// A turn of 1.5 is two kernels of time 1: A, A, B, B, A, B.
TEST(TimeSlice, AQuantumEndsATurnInTheMiddleOfAJob) {
  const std::vector<SimTask> tasks = {Task("A", Narrow(3)), Task("B", Narrow(3))};
  EXPECT_EQ(Ends("time-slice:depth=1,quantum_us=150", 2, tasks), (Times{5, 6}));
}

TEST(TimeSlice, AClientAloneKeepsTheDevice) {
  EXPECT_EQ(Ends("time-slice:quantum_us=100", 1, {Task("A", Narrow(5))}), Times{5});
}

// On one unit. While both have work, three kernels of A run for one of B.
TEST(Weighted, ClientsGetUnitTimeByWeight) {
  const std::vector<SimTask> tasks = {Task("A", Narrow(12), {}, 3), Task("B", Narrow(12))};
  const Times ends = Ends("weighted", 1, tasks);
  EXPECT_NEAR(ends[0], 16, 1);
  EXPECT_EQ(ends[1], 24) << "B has the device for itself when A has ended";
}

// A kernel of B is as long as two of A: of equal weights each gets half of the time. With a depth
// of 1 the two would take turns, because nothing of a client waits on the device when one ends.
TEST(Weighted, LongKernelsCountForTheirTime) {
  const std::vector<SimTask> tasks = {Task("A", Narrow(12)),
                                      Task("B", std::vector<SimTask::Kernel>(12, {1, 2}))};
  EXPECT_NEAR(Ends("weighted:depth=2", 1, tasks)[0], 24, 2);
}

// B comes when A has had the device for 10. B does not get the device for 10 in return.
TEST(Weighted, AClientWithoutWorkSavesUpNothing) {
  const std::vector<SimTask> tasks = {Task("A", Narrow(20)),
                                      Task("B", Narrow(10), {}, 1, /*arrival=*/10)};
  const Times ends = Ends("weighted:depth=2", 1, tasks);
  EXPECT_NEAR(ends[0], 30, 2);
  EXPECT_GE(ends[1], 26);
}

TEST(CostTable, TimesFollowTheUnits) {
  const auto loaded = std::const_pointer_cast<LoadedPlan>(ChainPlan(3, 10));
  Plan& plan = loaded->plan;
  const Nanoseconds block = std::chrono::microseconds(10);
  for (PlanOp& op : plan.ops) op.cost = {3 * block, block};  // ten blocks on four units
  plan.ops[1].occupancy = 2;
  plan.ops[2].blocks = 1;
  CostTable costs(plan);
  costs.UseUnits(4, 4);
  EXPECT_EQ(costs.total(), 9 * block);
  costs.UseUnits(1, 4);
  EXPECT_EQ(costs.kernel(0), 10 * block);
  EXPECT_EQ(costs.kernel(1), 3 * block * 5 / 2);
  EXPECT_EQ(costs.kernel(2), 3 * block) << "one block is no slower on one unit";
  EXPECT_EQ(costs.total(), costs.kernel(0) + costs.kernel(1) + costs.kernel(2));
  costs.UseUnits(4, 4);
  EXPECT_EQ(costs.total(), 9 * block);
}

}  // namespace
}  // namespace lagoon::testing
