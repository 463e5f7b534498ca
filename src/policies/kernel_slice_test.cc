// Slices of best-effort kernels: those of Tally, Hummingbird and LithOS
// (SchedulerConfig::kernel_slice), and padding that ends in its room
// (SchedulerConfig::padding_leaves). Four units, and blocks that take a whole unit; times are in
// units of 100 us.

#include <gtest/gtest.h>

#include "policies/registry.h"
#include "sched/testing/sim_scenario.h"

namespace lagoon::testing {
namespace {

class KernelSlices : public ::testing::Test {
 protected:
  // When each task's last kernel is complete.
  std::vector<double> Run(std::string_view scheduler, const std::vector<SimTask>& tasks) {
    const auto device = FigureDevice(4, SimAbort::kCheck);
    Scheduler named = *MakeScheduler(scheduler);
    Dispatcher dispatcher(*device, named.config, std::move(named.policy));
    const TimePoint begin = device->Now();
    std::vector<double> ends;
    for (const JobResult& result : RunTasks(*device, dispatcher, tasks)) {
      ends.push_back(std::chrono::duration<double>(result.computed - begin) / kFigureUnit);
    }
    stats_ = dispatcher.Stats();
    return ends;
  }
  DispatcherStats stats_;
};

using KernelEnds = std::vector<double>;

// r alone takes 3, in three rounds of four blocks; v comes in the first round and takes 2.
const std::vector<SimTask> kLongBehindUrgent = {{"r", JobClass::kBestEffort, 0, {{12, 1}}},
                                                {"v", JobClass::kRealTime, 0.5, {{4, 2}}}};

TEST_F(KernelSlices, RealTimeWorkWaitsForTheSliceThatRuns) {
  EXPECT_EQ(Run("wait", kLongBehindUrgent), (KernelEnds{3, 5}));
  EXPECT_EQ(Run("tally:slice_us=0", kLongBehindUrgent), (KernelEnds{3, 5})) << "whole kernels";
  EXPECT_EQ(Run("tally", kLongBehindUrgent), (KernelEnds{5, 3})) << "slices of one round";
  EXPECT_EQ(stats_.revocations, 1u);
  EXPECT_EQ(Run("tally:slice_us=299", kLongBehindUrgent), (KernelEnds{5, 4})) << "of two rounds";
  EXPECT_EQ(Run("hummingbird", kLongBehindUrgent), (KernelEnds{5, 3}))
      << "a slice is never shorter than a round";
}

TEST_F(KernelSlices, TheRestOfAKernelFollowsWithoutARevocation) {
  for (const Restart restart : {Restart::kByClaims, Restart::kByGroup, Restart::kNever}) {
    std::vector<SimTask> alone = {{"r", JobClass::kBestEffort, 0, {{12, 1}, {2, 1}}}};
    alone.front().restart = restart;
    EXPECT_EQ(Run("wait", alone), (KernelEnds{4}));
    const std::uint64_t whole = stats_.launches;
    EXPECT_EQ(Run("tally", alone), (KernelEnds{4}));
    EXPECT_EQ(stats_.launches, whole + 2);
    EXPECT_EQ(stats_.revocations, 0u);
    EXPECT_EQ(stats_.resumed_blocks, 0u);
    EXPECT_EQ(stats_.reexecuted, 0u) << "no block of a slice is interrupted";
  }
}

TEST_F(KernelSlices, RealTimeKernelsAreNotSliced) {
  const std::vector<SimTask> alone = {{"v", JobClass::kRealTime, 0, {{12, 1}}}};
  EXPECT_EQ(Run("wait", alone), (KernelEnds{3}));
  const std::uint64_t whole = stats_.launches;
  EXPECT_EQ(Run("tally", alone), (KernelEnds{3}));
  EXPECT_EQ(stats_.launches, whole);
}

// The kernels of either job leave two units free.
TEST_F(KernelSlices, HummingbirdHasOneBestEffortSliceOnTheDevice) {
  const std::vector<SimTask::Kernel> narrow = {{2, 1}, {2, 1}};
  const std::vector<SimTask> both = {{"r", JobClass::kBestEffort, 0, narrow},
                                     {"b", JobClass::kBestEffort, 0, narrow}};
  EXPECT_EQ(Run("tally", both), (KernelEnds{2, 2}));
  EXPECT_EQ(Run("hummingbird", both), (KernelEnds{2, 4}));
  const std::vector<SimTask> urgent = {{"v", JobClass::kRealTime, 0, narrow},
                                       {"u", JobClass::kRealTime, 0, narrow}};
  EXPECT_EQ(Run("hummingbird", urgent), (KernelEnds{2, 2}))
      << "the limit is of the best-effort class";
}

// The device starts the blocks of v before those of the slice that are left.
TEST_F(KernelSlices, LithosRanksByClassAndRevokesNothing) {
  EXPECT_EQ(Run("lithos", kLongBehindUrgent), (KernelEnds{5, 3}));
  EXPECT_EQ(stats_.revocations, 0u);
}

TEST_F(KernelSlices, LithosLendsTheUnitsOfAShareThatIsNotInUse) {
  std::vector<SimTask> halves = {{"r", JobClass::kBestEffort, 0, {{4, 1}}},
                                 {"v", JobClass::kRealTime, 1, {{4, 1}}}};
  halves[0].units = {0, 2};
  halves[1].units = {2, 2};
  EXPECT_EQ(Run("lithos", halves), (KernelEnds{1, 2}));
  EXPECT_EQ(Run("lithos:slice_us=100", halves), (KernelEnds{1, 2}))
      << "lent units count for a slice";
  EXPECT_EQ(Run("lithos:lend_units=0,slice_us=100", halves), (KernelEnds{2, 3}));
}

// v's first kernel leaves two units free for 5: four of r's twelve blocks pad in two rounds. A
// third round would end at 6, and v's second kernel needs all units from 5 on.
TEST_F(KernelSlices, PaddingIsAsManyBlocksAsEndInTheRoom) {
  for (const char* scheduler : {"reef", "lagoon:padding_kernels=1"}) {
    for (const Restart restart : {Restart::kByClaims, Restart::kByGroup, Restart::kNever}) {
      std::vector<SimTask> tasks = {{"v", JobClass::kRealTime, 0, {{2, 5}, {4, 2}}},
                                    {"r", JobClass::kBestEffort, 0, {{12, 2}, {1, 1}}}};
      tasks.back().restart = restart;
      EXPECT_EQ(Run(scheduler, tasks), (KernelEnds{7, 7 + 4 + 1})) << scheduler;
      EXPECT_EQ(stats_.padded_launches, 1u);
      EXPECT_EQ(stats_.revocations, 0u);
      EXPECT_EQ(stats_.reexecuted, 0u) << "no block of a slice is interrupted";
    }
  }
}

// v's second kernel leaves two units too: r's padding goes on there, until 9. What is left of the
// room is less than r's last block and a launch.
TEST_F(KernelSlices, TheRestOfPaddingFollowsInTheNextRoom) {
  const std::vector<SimTask> tasks = {{"v", JobClass::kRealTime, 0, {{2, 5}, {2, 5}, {4, 2}}},
                                      {"r", JobClass::kBestEffort, 0, {{8, 2}, {1, 1}}}};
  EXPECT_EQ(Run("reef", tasks), (KernelEnds{12, 13}));
  EXPECT_EQ(stats_.padded_launches, 2u);
  EXPECT_EQ(stats_.revocations, 0u);
}

// r's block takes 4.95 of a room of 5: it fits if it begins with v's kernel, and not if it is
// submitted when that runs. r comes at 1, when v's first kernel runs; that one needs all units, or
// leaves two.
TEST_F(KernelSlices, PaddingBeginsWithTheKernelThatItPads) {
  for (const char* scheduler : {"reef", "lagoon:padding_kernels=1"}) {
    for (const std::uint32_t first : {4, 2}) {
      const std::vector<SimTask> tasks = {
          {"v", JobClass::kRealTime, 0, {{first, 5}, {2, 5}, {4, 2}}},
          {"r", JobClass::kBestEffort, 1, {{2, 4.95}}}};
      EXPECT_EQ(Run(scheduler, tasks), (KernelEnds{12, 5 + 4.95})) << scheduler << " " << first;
      EXPECT_EQ(stats_.padded_launches, 1u);
      EXPECT_EQ(stats_.revocations, 0u);
    }
  }
}

// From 5 on v leaves two units, but u has one of them.
TEST_F(KernelSlices, PaddingIsNotSubmittedAheadBesideTwoRealTimeJobs) {
  const std::vector<SimTask> tasks = {{"v", JobClass::kRealTime, 0, {{2, 5}, {2, 5}}},
                                      {"u", JobClass::kRealTime, 0, {{1, 12}}},
                                      {"r", JobClass::kBestEffort, 1, {{2, 4.95}}}};
  EXPECT_EQ(Run("lagoon:padding_kernels=1", tasks), (KernelEnds{10, 12, 12 + 4.95}));
  EXPECT_EQ(stats_.padded_launches, 0u);
}

// At 1, u comes and takes the units on which r pads: r's blocks there are interrupted.
TEST_F(KernelSlices, ASliceOfPaddingThatIsRevokedRunsItsGroupAgain) {
  std::vector<SimTask> tasks = {{"v", JobClass::kRealTime, 0, {{2, 5}}},
                                {"r", JobClass::kBestEffort, 0, {{12, 2}}},
                                {"u", JobClass::kRealTime, 1, {{2, 4}}}};
  for (const Restart restart : {Restart::kByClaims, Restart::kByGroup}) {
    tasks[1].restart = restart;
    EXPECT_EQ(Run("lagoon", tasks), (KernelEnds{5, 5 + 6, 5}));
    EXPECT_EQ(stats_.revocations, 1u);
    EXPECT_EQ(stats_.reexecuted, restart == Restart::kByGroup ? 1u : 0u);
  }
}

}  // namespace
}  // namespace lagoon::testing
