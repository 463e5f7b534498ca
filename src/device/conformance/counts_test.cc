// Conformance: queued launches that are guarded by a part of another kernel's count of blocks.

#include <atomic>
#include <vector>

#include "device/conformance/suite.h"

namespace lagoon::conformance {
namespace {

/// A kernel of two blocks on a device of one unit. The first block ends by itself, the second waits
/// for Resume(). In virtual time the second also ends by itself.
class HalvedKernel {
 public:
  explicit HalvedKernel(KernelHandle mix) : mix_(mix) {}

  Launch launch() { return {.kernel = mix_, .args = &args_, .progress = record_.get()}; }
  /// Asks to leave as soon as the first block is done.
  Guard AfterTheFirst() { return {&record_->done_word(), 0}; }
  void Resume() { resume_.store(true); }

 private:
  KernelHandle mix_;
  std::vector<std::uint64_t> y_ = std::vector<std::uint64_t>(2);
  std::atomic<int> checks_{0};
  std::atomic<bool> stopped_{false}, resume_{false};
  MixArgs args_{.y = y_.data(),
                .checks = 1,
                .check_count = &checks_,
                .stop_at = 2,
                .stopped = &stopped_,
                .resume = &resume_};
  Record record_{2};
};

constexpr Nanoseconds kBlock = std::chrono::microseconds(100);  // in virtual time
constexpr Rank kWorse = 9;

// The unit commits a block, and leaves because of its own launch's guard before it looks at others.
TEST_P(DeviceConformance, AQueuedLaunchRetiresWhenTheKernelThatItCountsIsRevokedHalfway) {
  const auto device = Create({.units = 1});
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  const KernelHandle count = session.Load(CountBody);
  const GuardId guard = session.NewGuard();
  for (std::uint32_t round = 0; round < 10; ++round) {
    GateArgs gate;
    CountArgs args;
    Record counting(3), guarded(1);
    Launch first{.kernel = gate_kernel, .args = &gate, .progress = counting.get()};
    first.guards[0] = session.On(guard, round);
    const LaunchId revoked = session.Submit(first);
    ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
    Launch second{.kernel = count, .args = &args, .progress = guarded.get()};
    second.guards[0] = {&counting->done_word(), 0};
    session.Submit(second, {kUnordered, kWorse});
    session.RaiseAndAwait(guard, round + 1);
    gate.open.store(true);
    session.AwaitAllRetired();
    EXPECT_FALSE(session.Complete(revoked));
    EXPECT_EQ(counting->done(), 1u);
    EXPECT_EQ(args.runs.load(), 0);
  }
}

// The submission and the commit happen at the same time; after them only the second block runs.
TEST_P(DeviceConformance, AQueuedLaunchRetiresWhenItsCountIsReachedWhileItIsSubmitted) {
  if (!GetParam().prompt) GTEST_SKIP() << "nothing retires while the only unit is in a block";
  const auto device = Create({.units = 1});
  Session session(*device);
  const KernelHandle mix = session.Load(MixBody, {.block = kBlock});
  const KernelHandle count = session.Load(CountBody);
  // A GPU reports the count later, at the latest when the kernel that counts has ended.
  const bool at_once = device->info().blocks_on_host;
  const int rounds = at_once ? 300 : 10;  // an emulated block takes long
  for (int round = 0; round < rounds; ++round) {
    HalvedKernel counting(mix);
    CountArgs args;
    Record guarded(1);
    session.Submit(counting.launch());
    Launch second{.kernel = count, .args = &args, .progress = guarded.get()};
    second.guards[0] = counting.AfterTheFirst();
    const LaunchId queued = session.Submit(second, {kUnordered, kWorse});
    if (!at_once) counting.Resume();
    session.AwaitRetired(queued);
    counting.Resume();
    session.AwaitAllRetired();
    EXPECT_EQ(args.runs.load(), 0);
  }
}

TEST_P(DeviceConformance, ALaunchBehindAnotherOfItsStreamRetiresWhenItsCountIsReached) {
  const auto device = Create({.units = 1});
  Session session(*device);
  const KernelHandle mix = session.Load(MixBody, {.block = kBlock});
  const KernelHandle count = session.Load(CountBody);
  const StreamId stream = session.NewStream();
  HalvedKernel counting(mix);
  CountArgs args, args_before, args_guarded;
  Record needed(1), before(1), guarded(1);
  const Dep dep = needed.AllDone();
  session.Submit(
      Launch{.kernel = count, .args = &args_before, .progress = before.get(), .deps = {&dep, 1}},
      {stream, kWorse});
  Launch second{.kernel = count, .args = &args_guarded, .progress = guarded.get()};
  second.guards[0] = counting.AfterTheFirst();
  session.Submit(second, {stream, kWorse});
  const LaunchId id = session.Submit(counting.launch());
  counting.Resume();
  session.AwaitRetired(id);
  // A device may look at the first launch of a stream only: let that launch run.
  session.Submit(Launch{.kernel = count, .args = &args, .progress = needed.get()});
  session.AwaitAllRetired();
  EXPECT_EQ(args_before.runs.load(), 1);
  EXPECT_EQ(args_guarded.runs.load(), 0);
}

}  // namespace
}  // namespace lagoon::conformance
