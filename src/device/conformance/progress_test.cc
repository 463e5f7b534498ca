// Conformance: how a device tells of the blocks of a launch (kProgress). Session checks that counts
// only grow, that no more are done than have begun, and the order of the events.

#include "device/conformance/suite.h"

namespace lagoon::conformance {
namespace {

TEST(ProgressStep, GivesAtMostSixteenEvents) {
  EXPECT_EQ(ProgressStep(0, 1000), 0u);
  EXPECT_EQ(ProgressStep(16, 1), 16u);
  EXPECT_EQ(ProgressStep(16, 128), 16u);
  EXPECT_EQ(ProgressStep(16, 129), 17u);
  EXPECT_EQ(ProgressStep(1, ~0u), 1u << 29);
}

TEST_P(DeviceConformance, TellsOfBlocksWhereALaunchAsksForIt) {
  const auto device = Create();
  if (!device->info().tells_blocks) GTEST_SKIP() << "the device does not tell of blocks";
  Session session(*device);
  const KernelHandle kernel = session.Load(CountBody);
  constexpr std::uint32_t kBlocks = 40;
  CountArgs args;
  Record asking(kBlocks), silent(kBlocks);
  const LaunchId told = session.Submit(
      Launch{.kernel = kernel, .args = &args, .progress = asking.get(), .tell_every = 2});
  const LaunchId untold =
      session.Submit(Launch{.kernel = kernel, .args = &args, .progress = silent.get()});
  session.AwaitAllRetired();
  EXPECT_TRUE(session.ProgressOf(untold).empty());
  const Session::Counts& counts = session.ProgressOf(told);
  ASSERT_FALSE(counts.empty());
  EXPECT_LE(counts.size(), kMostProgress);
  EXPECT_EQ(counts.back().first, kBlocks) << "the last block began before the kernel was complete";
  EXPECT_LT(counts.back().second, kBlocks);
  if (!session.virtual_time()) return;  // threads may be later than all other blocks
  EXPECT_EQ(counts.front(), std::pair(5u, 4u)) << "of two units, each ends its block of 10 us";
}

// More launches ask than there is room for events. Once they have ended, as many fit again.
TEST_P(DeviceConformance, RefusesWhatItHasNoRoomToTellOf) {
  const auto device = Create({.units = 1});
  if (!device->info().tells_blocks) GTEST_SKIP() << "the device does not tell of blocks";
  Session session(*device);
  const KernelHandle kernel = session.LoadGate();
  std::size_t fitted = 0;
  for (int round = 0; round < 2; ++round) {
    GateArgs gate;
    std::vector<std::unique_ptr<Record>> records;
    LaunchId id{};
    SubmitResult result = SubmitResult::kOk;
    while (result == SubmitResult::kOk && records.size() <= device->info().max_launches) {
      records.push_back(std::make_unique<Record>(1));
      result = session.TrySubmit(
          Launch{
              .kernel = kernel, .args = &gate, .progress = records.back()->get(), .tell_every = 1},
          id);
    }
    EXPECT_EQ(result, SubmitResult::kFull);
    EXPECT_LT(records.size(), device->info().max_launches);
    if (round > 0) {
      EXPECT_EQ(records.size(), fitted);
    }
    fitted = records.size();
    gate.open.store(true);
    session.AwaitAllRetired();
  }
}

// A launch that leaves tells no more, and the next one of the record counts its own blocks.
TEST_P(DeviceConformance, TellsOfTheBlocksOfEachLaunch) {
  const auto device = Create({.units = 1});
  if (!device->info().tells_blocks) GTEST_SKIP() << "the device does not tell of blocks";
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  const GuardId guard = session.NewGuard();
  GateArgs gate;
  Record record(3);
  Launch launch{.kernel = gate_kernel, .args = &gate, .progress = record.get(), .tell_every = 1};
  launch.guards[0] = session.On(guard, 0);
  const LaunchId first = session.Submit(launch);
  ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
  session.RaiseAndAwait(guard, 1);
  gate.open.store(true);
  session.AwaitAllRetired();
  EXPECT_EQ(session.ProgressOf(first).front(), std::pair(1u, 0u));
  EXPECT_EQ(session.ProgressOf(first).back().first, 1u);
  launch.guards[0] = session.On(guard, 1);
  const LaunchId second = session.Submit(launch);
  session.AwaitAllRetired();
  EXPECT_TRUE(session.Complete(second));
  EXPECT_EQ(session.ProgressOf(second), (Session::Counts{{1, 0}, {1, 1}, {2, 1}}));
}

}  // namespace
}  // namespace lagoon::conformance
