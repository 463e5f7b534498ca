// Launches that begin a part of their kernel's blocks (Launch::most_blocks) on a simulated device.

#include <gtest/gtest.h>

#include "sim/device/sim_device.h"
#include "sim/device/testing/sim_fixture.h"

namespace lagoon::sim_testing {
namespace {

using std::chrono::microseconds;

class SimSlices : public ::testing::Test {
 protected:
  Launch Slice(Record& record, std::uint32_t most_blocks) const {
    Launch launch{.kernel = kernel_, .progress = record.get()};
    launch.most_blocks = most_blocks;
    return launch;
  }
  double RetiredAt(LaunchId id) {
    session_.AwaitRetired(id);
    return Microseconds(device_->Now());
  }

  std::unique_ptr<SimDevice> device_ = Make(Ideal(4));
  Session session_{*device_};
  KernelHandle kernel_ = LoadKernel(*device_, {.time = microseconds(10)});
};

TEST_F(SimSlices, RetireWhenTheirBlocksHaveEndedAndLeaveTheRest) {
  ASSERT_TRUE(device_->info().slices_kernels);
  Record record(10);
  EXPECT_EQ(RetiredAt(session_.Submit(Slice(record, 6))), 20);
  EXPECT_EQ(record.get()->done(), 6u);
  EXPECT_EQ(RetiredAt(session_.Submit(Slice(record, 3))), 30);
  EXPECT_EQ(record.get()->done(), 9u);
  const LaunchId last = session_.Submit(Slice(record, 6));
  session_.AwaitRetired(last);
  EXPECT_EQ(Microseconds(session_.CompleteAt(last)), 40);
}

// The units that a slice leaves free are others' at once.
TEST_F(SimSlices, KeepNoUnitBeyondTheirBlocks) {
  Record sliced(8), other(2);
  session_.Submit(Slice(sliced, 6));
  const LaunchId id = session_.Submit(Slice(other, 0));
  session_.AwaitRetired(id);
  EXPECT_EQ(Microseconds(session_.CompleteAt(id)), 20);
}

TEST_F(SimSlices, OfAFewUnitsBeginTheirBlocksOneAfterTheOther) {
  Record record(8);
  Launch launch = Slice(record, 3);
  launch.max_claimants = 2;
  EXPECT_EQ(RetiredAt(session_.Submit(launch)), 20);
  EXPECT_EQ(record.get()->done(), 3u);
}

TEST_F(SimSlices, AKernelBehindWaitsForTheWholeKernel) {
  Record record(8), behind(1);
  const Dep dep{record.get(), 8};
  Launch after = Slice(behind, 0);
  after.deps = {&dep, 1};
  const LaunchId last = session_.Submit(after);
  EXPECT_EQ(RetiredAt(session_.Submit(Slice(record, 4))), 10);
  session_.Pass(microseconds(10));
  EXPECT_EQ(behind.get()->done(), 0u);
  EXPECT_EQ(RetiredAt(session_.Submit(Slice(record, 4))), 30);
  session_.AwaitRetired(last);
  EXPECT_EQ(Microseconds(session_.CompleteAt(last)), 40);
}

TEST_F(SimSlices, LeaveWhenTheyAreRevoked) {
  Record record(8);
  const GuardId guard = session_.NewGuard();
  Launch launch = Slice(record, 6);
  launch.guards[0] = session_.On(guard, 0);
  const LaunchId id = session_.Submit(launch);
  session_.Pass(microseconds(12));
  session_.Raise(guard, 1);  // the check after 5 us
  EXPECT_EQ(RetiredAt(id), 15);
  EXPECT_EQ(record.get()->done(), 4u);
}

}  // namespace
}  // namespace lagoon::sim_testing
