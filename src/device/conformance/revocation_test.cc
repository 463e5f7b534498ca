// Conformance: guards, relaunches, and results that do not depend on them.

#include <array>
#include <vector>

#include "device/conformance/suite.h"

namespace lagoon::conformance {
namespace {

// A job of chained kernels whose result depends on every tile of every kernel, half of them in
// place.
class ChainJob {
 public:
  static constexpr std::size_t kKernels = 4;
  static constexpr std::uint32_t kBlocks = 3;
  static constexpr int kChecks = 3;
  static constexpr Nanoseconds kStretch = std::chrono::microseconds(10);  // in virtual time
  static constexpr int kAllChecks = kChecks * static_cast<int>(kKernels * kBlocks);

  explicit ChainJob(Session& session)
      : session_(session), mix_(session.Load(MixBody, {.block = 4 * kStretch, .check = kStretch})) {
    for (std::size_t k = 0; k < kKernels; ++k) {
      records_.push_back(std::make_unique<Record>(kBlocks));
      values_[k].fill(k);
      MixArgs& args = args_[k];
      args = {.y = values_[k].data(), .in_place = k % 2 == 1, .checks = kChecks};
      if (k > 0) {
        args.x = values_[k - 1].data();
        args.x_count = kBlocks;
        deps_[k] = records_[k - 1]->AllDone();
      }
      args.check_count = &check_count_;
      args.stopped = &stopped_;
      args.resume = &resume_;
    }
  }

  /// Stops a body at the job's `check`-th guard check until Resume().
  void StopAt(int check) {
    for (MixArgs& args : args_) args.stop_at = check;
  }
  /// In virtual time the body does not stop: the time from its block's start to that check passes.
  /// With the latency of a revocation, this is late in the stretch, but before its end.
  bool AwaitStop(int check) {
    if (!session_.Await([&] { return stopped_.load(); })) return false;
    if (session_.virtual_time()) session_.Pass((check - 1) % kChecks * kStretch);
    return true;
  }
  void Resume() { resume_.store(true); }

  /// Submits the kernels that are not complete.
  void Submit(Guard guard) {
    for (std::size_t k = 0; k < kKernels; ++k) {
      if ((*records_[k])->Complete()) continue;
      Launch launch{.kernel = mix_,
                    .args = &args_[k],
                    .progress = records_[k]->get(),
                    .deps = {&deps_[k], k == 0 ? 0u : 1u}};
      launch.guards[0] = guard;
      session_.Submit(launch);
    }
  }

  bool Complete() { return (*records_.back())->Complete(); }
  const std::array<std::uint64_t, kBlocks>& result() const { return values_.back(); }

 private:
  Session& session_;
  KernelHandle mix_;
  std::vector<std::unique_ptr<Record>> records_;
  std::array<std::array<std::uint64_t, kBlocks>, kKernels> values_;
  std::array<MixArgs, kKernels> args_;
  std::array<Dep, kKernels> deps_;
  std::atomic<int> check_count_{0};
  std::atomic<bool> stopped_{false}, resume_{false};
};

TEST_P(DeviceConformance, ResultsAreTheSameWhereverAJobIsRevoked) {
  const auto device = Create();
  Session session(*device);
  ChainJob undisturbed(session);
  undisturbed.Submit({});
  session.AwaitAllRetired();
  ASSERT_TRUE(undisturbed.Complete());

  const GuardId guard = session.NewGuard();
  std::uint32_t epoch = 0;
  int missed = 0;
  for (int check = 1; check <= ChainJob::kAllChecks; ++check) {
    ChainJob job(session);
    job.StopAt(check);
    job.Submit(session.On(guard, epoch));
    ASSERT_TRUE(job.AwaitStop(check)) << "check " << check;
    session.Raise(guard, ++epoch);
    job.Resume();
    session.AwaitAllRetired();
    missed += job.Complete() ? 1 : 0;
    job.Submit(session.On(guard, epoch));
    session.AwaitAllRetired();
    EXPECT_TRUE(job.Complete());
    EXPECT_EQ(job.result(), undisturbed.result()) << "check " << check;
  }
  // A raised guard takes some microseconds to reach a GPU. The last blocks may end before.
  EXPECT_LE(missed, device->info().blocks_on_host ? 0 : ChainJob::kAllChecks / 2);
}

TEST_P(DeviceConformance, ResultsAreTheSameWhenTheRelaunchDoesNotWaitForOldBlocks) {
  const auto device = Create();
  Session session(*device);
  ChainJob undisturbed(session);
  undisturbed.Submit({});
  session.AwaitAllRetired();

  const GuardId guard = session.NewGuard();
  std::uint32_t epoch = 0;
  for (int check = 1; check <= ChainJob::kAllChecks; ++check) {
    ChainJob job(session);
    job.StopAt(check);
    job.Submit(session.On(guard, epoch));
    ASSERT_TRUE(job.AwaitStop(check)) << "check " << check;
    session.Raise(guard, ++epoch);
    job.Submit(session.On(guard, epoch));
    job.Resume();
    session.AwaitAllRetired();
    EXPECT_TRUE(job.Complete());
    EXPECT_EQ(job.result(), undisturbed.result()) << "check " << check;
  }
}

TEST_P(DeviceConformance, AHundredBlocksLeaveInTheMiddleOfTheirBodies) {
  const auto device = Create();
  Session session(*device);
  constexpr Nanoseconds kStretch = std::chrono::microseconds(10);
  constexpr int kChecks = 1'000'000;
  const KernelHandle mix = session.Load(MixBody, {.block = kChecks * kStretch, .check = kStretch});
  const GuardId guard = session.NewGuard();
  constexpr std::uint32_t kBlocks = 4;
  std::vector<std::uint64_t> y(kBlocks, 5);
  std::atomic<int> checks{0}, left{0};
  // Does not end before it is revoked: its checks take about 10 s.
  MixArgs args{.y = y.data(),
               .in_place = true,
               .checks = kChecks,
               .check_count = &checks,
               .left = &left,
               .work = kStretch};
  Record record(kBlocks);
  Launch launch{.kernel = mix, .args = &args, .progress = record.get()};
  std::uint32_t epoch = 0;
  while (left.load() < 100) {
    checks.store(0);
    launch.guards[0] = session.On(guard, epoch);
    const LaunchId id = session.Submit(launch);
    ASSERT_TRUE(session.Await([&] { return checks.load() > 10; }));
    session.Raise(guard, ++epoch);
    session.AwaitRetired(id);
    ASSERT_FALSE(session.Complete(id));
  }
  args.checks = 1;
  launch.guards[0] = session.On(guard, epoch);
  session.AwaitRetired(session.Submit(launch));
  for (std::uint32_t i = 0; i < kBlocks; ++i) EXPECT_EQ(y[i], Mix(5, i + 1));
}

// The body runs for 10 ms and checks about every microsecond. How long the rest of the block takes
// depends on the machine, so the checks are counted: at most the one under way when Raise() returns
// may say "go on". Runs in which Raise() came after the 10 ms prove nothing.
TEST_P(DeviceConformance, ATenMillisecondBlockLeavesAtItsNextCheck) {
  struct LongArgs {
    mutable std::atomic<bool> running{false};
    mutable std::atomic<int> checks{0};  // begun
    mutable std::atomic<bool> left{false};
  };
  const Body body = [](const void* args, std::uint32_t, BlockContext& ctx) {
    const auto& state = *static_cast<const LongArgs*>(args);
    const TimePoint until = Now() + std::chrono::milliseconds(10);
    state.running.store(true);
    bool leave = false;
    while (!leave && Now() < until) {
      Spin(std::chrono::microseconds(1));
      ++state.checks;
      leave = ctx.ShouldLeave();
    }
    state.left.store(leave);
    return !leave;
  };
  const auto device = Create({.units = 1});
  if (!device->info().computes || !device->info().blocks_on_host) {
    GTEST_SKIP() << "no thread to watch from the host, for ever";
  }
  Session session(*device);
  const KernelHandle kernel = session.Load(body);
  const GuardId guard = session.NewGuard();
  int left = 0;
  for (std::uint32_t epoch = 0; left < 101; ++epoch) {
    ASSERT_LT(epoch, 2000u) << "this machine has no time for the test";
    LongArgs args;
    Record record(1);
    Launch launch{.kernel = kernel, .args = &args, .progress = record.get()};
    launch.guards[0] = session.On(guard, epoch);
    const LaunchId id = session.Submit(launch);
    ASSERT_TRUE(session.Await([&] { return args.running.load(); }));
    session.Raise(guard, epoch + 1);
    const int begun = args.checks.load();
    session.AwaitRetired(id);
    if (!args.left.load()) continue;
    ++left;
    ASSERT_LE(args.checks.load(), begun + 1);
  }
}

TEST_P(DeviceConformance, QueuedLaunchesRetireBeforeRaiseReturns) {
  if (!GetParam().prompt) GTEST_SKIP() << "nothing retires while the only unit is in a block";
  const auto device = Create({.units = 1});
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  const KernelHandle count = session.Load(CountBody);
  const GuardId guard = session.NewGuard();
  const StreamId stream = session.NewStream();
  GateArgs gate;
  CountArgs args;
  Record held(1);
  session.Submit(Launch{.kernel = gate_kernel, .args = &gate, .progress = held.get()}, {stream});
  ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
  std::vector<std::unique_ptr<Record>> records;
  for (int i = 0; i < 20; ++i) {
    records.push_back(std::make_unique<Record>(2));
    Launch launch{.kernel = count, .args = &args, .progress = records.back()->get()};
    launch.guards[0] = session.On(guard, 0);
    session.Submit(launch, {i % 2 == 0 ? stream : kUnordered});
  }
  session.RaiseAndAwait(guard, 1);
  session.Poll();
  // A GPU may have a few of them in hardware, behind the running one.
  EXPECT_LE(session.live(), device->info().blocks_on_host ? 1u : 4u);
  gate.open.store(true);
  session.AwaitAllRetired();
  EXPECT_EQ(args.runs.load(), 0);
}

TEST_P(DeviceConformance, WhatFindsNothingToDoRetiresAtOnce) {
  const auto device = Create();
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  const GuardId guard = session.NewGuard();
  session.Raise(guard, 1);
  CountArgs args;
  Record record(2);
  Launch launch{.kernel = count, .args = &args, .progress = record.get()};
  launch.guards[0] = session.On(guard, 0);
  const LaunchId revoked = session.Submit(launch);
  EXPECT_TRUE(RetiredAtOnce(session, revoked));
  EXPECT_FALSE(session.Placed(revoked));
  launch.guards[0] = {};
  session.AwaitRetired(session.Submit(launch));
  EXPECT_EQ(args.runs.load(), 2);
  const LaunchId complete = session.Submit(launch);
  EXPECT_TRUE(RetiredAtOnce(session, complete));
  EXPECT_FALSE(session.Complete(complete)) << "no block of this launch completed it";
  EXPECT_EQ(args.runs.load(), 2);
}

TEST_P(DeviceConformance, AStartedLaunchOutlivesAGuardThatHoldsOnlyBeforeTheStart) {
  if (!GetParam().prompt) GTEST_SKIP() << "nothing retires while the only unit is in a block";
  const auto device = Create({.units = 1});
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  const GuardId guard = session.NewGuard();
  GateArgs gate;
  Record started(3), queued(1);
  Launch launch{.kernel = gate_kernel, .args = &gate, .progress = started.get()};
  launch.guards[0] = session.On(guard, 0, /*only_before_start=*/true);
  const LaunchId first = session.Submit(launch, {kUnordered, 9});
  ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
  launch.progress = queued.get();
  const LaunchId second = session.Submit(launch, {kUnordered, 9});
  session.Raise(guard, 1);
  EXPECT_TRUE(RetiredAtOnce(session, second));
  EXPECT_FALSE(session.Retired(first));
  // In between, a launch of a better rank takes the unit; then the unit comes back.
  CountArgs args;
  Record urgent(1);
  const LaunchId third = session.Submit(
      Launch{.kernel = session.Load(CountBody), .args = &args, .progress = urgent.get()});
  gate.open.store(true);
  session.AwaitAllRetired();
  EXPECT_TRUE(session.Complete(first));
  EXPECT_EQ(gate.waiting.load(), 3);
  EXPECT_LT(session.CompleteAt(third), session.CompleteAt(first));
}

TEST_P(DeviceConformance, GuardWordsWrapAround) {
  const auto device = Create();
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  const GuardId guard = session.NewGuard();
  session.Raise(guard, 0x7fffffff);
  session.Raise(guard, 0xfffffff0);
  session.Raise(guard, 0xffffff00);  // earlier: ignored
  EXPECT_EQ(device->GuardWord(guard)->load(), 0xfffffff0);

  CountArgs args;
  Record never(1);
  const Dep dep = never.AllDone();
  Record waiting(1), running(1);
  Launch launch{.kernel = count, .args = &args, .progress = running.get()};
  launch.guards[0] = session.On(guard, 0xfffffff0);
  session.AwaitRetired(session.Submit(launch));
  EXPECT_EQ(args.runs.load(), 1);
  launch.progress = waiting.get();
  launch.deps = {&dep, 1};
  const LaunchId id = session.Submit(launch);
  session.Raise(guard, 3);  // later, across the wrap
  EXPECT_TRUE(RetiredAtOnce(session, id));
  EXPECT_EQ(args.runs.load(), 1);
}

// The old block is past its last check: it commits under the old launch, while the relaunch does
// the rest.
TEST_P(DeviceConformance, ARelaunchIsCompletedByABlockOfTheLaunchBefore) {
  const auto device = Create({.units = 2});
  Session session(*device);
  const KernelHandle kernel = session.LoadGate();
  const GuardId guard = session.NewGuard();
  GateArgs gate;
  Record record(2);
  Launch launch{.kernel = kernel, .args = &gate, .progress = record.get(), .max_claimants = 1};
  launch.guards[0] = session.On(guard, 0);
  const LaunchId old_launch = session.Submit(launch);
  ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
  session.Raise(guard, 1);
  launch.guards[0] = session.On(guard, 1);
  const LaunchId relaunch = session.Submit(launch);
  ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 2; }));
  session.Poll();
  EXPECT_FALSE(session.Retired(old_launch)) << "retired while its block runs";
  EXPECT_FALSE(session.Retired(relaunch));
  gate.open.store(true);
  session.AwaitAllRetired();
  EXPECT_NE(session.Complete(old_launch), session.Complete(relaunch)) << "one of them, not both";
  EXPECT_EQ(gate.waiting.load(), 2);
}

// The old block leaves long after all other units ran out of work and slept: its tile must not be
// lost.
TEST_P(DeviceConformance, ATileThatAnOldBlockGivesBackLateIsRunByTheRelaunch) {
  const auto device = Create({.units = 2});
  Session session(*device);
  const KernelHandle mix = session.Load(MixBody);
  // In virtual time the old block is late because its next check is far away.
  const KernelHandle stopping = session.Load(
      MixBody, {.block = std::chrono::milliseconds(4), .check = std::chrono::milliseconds(3)});
  const GuardId guard = session.NewGuard();
  std::uint32_t epoch = 0;
  for (const auto sleep : {std::chrono::microseconds(0), std::chrono::microseconds(20),
                           std::chrono::microseconds(2000)}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<std::uint64_t> y(3, 1);
      std::atomic<int> checks{0};
      std::atomic<bool> stopped{false}, resume{false};
      MixArgs args{.y = y.data(),
                   .in_place = true,
                   .checks = 1,
                   .check_count = &checks,
                   .stop_at = 1,
                   .stopped = &stopped,
                   .resume = &resume};
      Record record(3);
      Launch launch{
          .kernel = stopping, .args = &args, .progress = record.get(), .max_claimants = 1};
      launch.guards[0] = session.On(guard, epoch);
      session.Submit(launch);
      ASSERT_TRUE(session.Await([&] { return stopped.load(); }));
      session.Raise(guard, ++epoch);
      launch.guards[0] = session.On(guard, epoch);
      launch.kernel = mix;
      const LaunchId relaunch = session.Submit(launch);
      ASSERT_TRUE(session.Await([&] { return record->done() == 2; }));
      const TimePoint until = device->Now() + sleep;
      session.Await([&] { return device->Now() >= until; });
      resume.store(true);
      session.AwaitAllRetired();
      EXPECT_TRUE(session.Complete(relaunch));
      for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(y[i], Mix(1, i + 1));
    }
  }
}

}  // namespace
}  // namespace lagoon::conformance
