// Conformance: what runs before what.

#include <array>
#include <numeric>
#include <vector>

#include "device/conformance/suite.h"

namespace lagoon::conformance {
namespace {

// One-block kernels that write their names into a list, held back until Release().
class Log {
 public:
  Log(Session& session, int size)
      : session_(session), kernel_(session.Load(LogBody)), list_(static_cast<std::size_t>(size)) {
    gate_kernel_ = session.LoadGate();
    for (int i = 0; i < size; ++i) {
      records_.push_back(std::make_unique<Record>(1));
      args_.push_back({&next_, list_.data(), i});
    }
  }

  /// Occupies all units, so that what is submitted next is queued.
  void Hold() {
    const std::uint32_t units = session_.device().info().units;
    held_ = std::make_unique<Record>(units);
    const Launch launch{.kernel = gate_kernel_, .args = &gate_, .progress = held_->get()};
    session_.Submit(launch);
    session_.Await([&] { return gate_.waiting.load() == static_cast<int>(units); });
  }
  void Release() { gate_.open.store(true); }

  LaunchId Submit(int name, Place place, std::span<const Dep> deps = {}) {
    const auto index = static_cast<std::size_t>(name);
    const Launch launch{
        .kernel = kernel_, .args = &args_[index], .progress = records_[index]->get(), .deps = deps};
    return session_.Submit(launch, place);
  }
  Dep Done(int name) { return records_[static_cast<std::size_t>(name)]->AllDone(); }
  const std::vector<int>& list() const { return list_; }
  int written() const { return next_.load(); }

 private:
  Session& session_;
  KernelHandle kernel_, gate_kernel_;
  GateArgs gate_;
  std::atomic<int> next_{0};
  std::vector<int> list_;
  std::vector<LogArgs> args_;
  std::vector<std::unique_ptr<Record>> records_;
  std::unique_ptr<Record> held_;
};

std::vector<int> Ascending(int size) {
  std::vector<int> names(static_cast<std::size_t>(size));
  std::iota(names.begin(), names.end(), 0);
  return names;
}

TEST_P(DeviceConformance, AnOrderedStreamRunsInOrderOfSubmission) {
  const auto device = Create();
  Session session(*device);
  Log log(session, 50);
  const StreamId stream = session.NewStream();
  log.Hold();
  // Ranks that ask for the opposite: the stream's order wins.
  for (int i = 0; i < 50; ++i) log.Submit(i, {stream, static_cast<Rank>(1000 - i)});
  log.Release();
  session.AwaitAllRetired();
  EXPECT_EQ(log.list(), Ascending(50));
}

TEST_P(DeviceConformance, AStreamWaitsForEveryBlockOfTheLaunchBefore) {
  const auto device = Create();
  Session session(*device);
  constexpr Nanoseconds kWork = std::chrono::microseconds(20);
  const KernelHandle count = session.Load(CountBody, {.block = kWork});
  const StreamId stream = session.NewStream();
  std::array<CountArgs, 20> args;
  std::vector<std::unique_ptr<Record>> records;
  for (CountArgs& arg : args) {
    arg.work = kWork;
    records.push_back(std::make_unique<Record>(5));
    session.Submit(Launch{.kernel = count, .args = &arg, .progress = records.back()->get()},
                   {stream});
  }
  session.AwaitAllRetired();
  for (std::uint64_t id = 1; id < args.size(); ++id) {
    EXPECT_LE(session.CompleteAt(LaunchId{id}), session.PlacedAt(LaunchId{id + 1}));
    EXPECT_EQ(args[id].runs.load(), 5);
  }
}

TEST_P(DeviceConformance, SmallerRanksRunFirstAndEqualOnesInOrderOfSubmission) {
  const auto device = Create({.units = 1});
  Session session(*device);
  Log log(session, 9);
  log.Hold();
  // The names are in the expected order.
  for (const int name : {6, 3, 0, 7, 4, 1, 8, 5, 2}) {
    log.Submit(name, {kUnordered, static_cast<Rank>(name / 3)});
  }
  log.Release();
  session.AwaitAllRetired();
  // The launches of rank 0 have the names 0, 1, 2 in the order of their submission, and so on.
  EXPECT_EQ(log.list(), Ascending(9));
}

TEST_P(DeviceConformance, ABetterRankTakesOverBetweenTheBlocksOfARunningLaunch) {
  const auto device = Create({.units = 1});
  Session session(*device);
  constexpr Nanoseconds kWork = std::chrono::microseconds(200);
  const KernelHandle count = session.Load(CountBody, {.block = kWork});
  CountArgs slow, urgent;
  slow.work = kWork;
  Record slow_record(200), urgent_record(1);
  const std::uint32_t claimants = real_gpu ? 1 : 0;  // or all of the blocks are resident at once
  const LaunchId first = session.Submit(Launch{.kernel = count,
                                               .args = &slow,
                                               .progress = slow_record.get(),
                                               .max_claimants = claimants},
                                        {kUnordered, 9});
  session.Await([&] { return slow.runs.load() > 0; });
  const LaunchId second =
      session.Submit(Launch{.kernel = count, .args = &urgent, .progress = urgent_record.get()});
  session.AwaitRetired(second);
  EXPECT_LT(session.CompleteAt(second), [&] {
    session.AwaitRetired(first);
    return session.CompleteAt(first);
  }());
  EXPECT_EQ(slow.runs.load(), 200);
}

TEST_P(DeviceConformance, AStreamThatWaitsAtItsHeadDoesNotHoldUpOthers) {
  const auto device = Create();
  Session session(*device);
  Log log(session, 12);
  std::array<StreamId, 3> streams;
  for (StreamId& stream : streams) stream = session.NewStream();
  Record never(1);
  const Dep dep = never.AllDone();
  const GuardId guard = session.NewGuard();
  const KernelHandle count = session.Load(CountBody);
  CountArgs unused;
  Record blocked(1);
  Launch head{.kernel = count, .args = &unused, .progress = blocked.get(), .deps = {&dep, 1}};
  head.guards[0] = session.On(guard, 0);
  session.Submit(head, {streams[0]});
  for (int i = 0; i < 4; ++i) log.Submit(8 + i, {streams[0]});
  for (int i = 0; i < 8; ++i) log.Submit(i, {streams[1 + static_cast<std::size_t>(i) % 2]});
  session.PollUntil([&] { return session.live() == 5; });
  EXPECT_EQ(log.written(), 8);
  // Once its head has been revoked, the stream moves on.
  session.Raise(guard, 1);
  session.AwaitAllRetired();
  EXPECT_EQ(unused.runs.load(), 0);
  EXPECT_EQ(std::vector<int>(log.list().begin() + 8, log.list().end()),
            (std::vector<int>{8, 9, 10, 11}));
}

TEST_P(DeviceConformance, AQueuedSuccessorWaitsForItsDependencies) {
  const auto device = Create();
  Session session(*device);
  constexpr int kLength = 30;
  Log log(session, kLength);
  std::vector<Dep> deps;
  for (int i = 0; i < kLength; ++i) deps.push_back(log.Done(i));
  // All submitted at once, in no stream, the last one first and with the best rank.
  for (int i = kLength - 1; i >= 0; --i) {
    const std::size_t before = i == 0 ? 0 : static_cast<std::size_t>(i) - 1;
    log.Submit(i, {kUnordered, static_cast<Rank>(kLength - i)},
               std::span(deps).subspan(before, i == 0 ? 0 : 1));
  }
  session.AwaitAllRetired();
  EXPECT_EQ(log.list(), Ascending(kLength));
}

TEST_P(DeviceConformance, APartialDependencyIsMetByTheTileThatMakesItSo) {
  const auto device = Create({.units = 2});
  Session session(*device);
  constexpr Nanoseconds kWork = std::chrono::milliseconds(1);
  const KernelHandle count = session.Load(CountBody, {.block = kWork});
  CountArgs slow, after;
  slow.work = kWork;
  constexpr int kTiles = 20'000;  // long, as the waiting unit may get no core for a while
  Record slow_record(kTiles), after_record(1);
  const GuardId guard = session.NewGuard();
  // One unit works on the slow kernel, the other one waits for its third tile.
  Launch launch{.kernel = count, .args = &slow, .progress = slow_record.get(), .max_claimants = 1};
  launch.guards[0] = session.On(guard, 0);
  session.Submit(launch);
  const Dep dep{slow_record.get(), 3};
  const LaunchId id = session.Submit(
      Launch{.kernel = count, .args = &after, .progress = after_record.get(), .deps = {&dep, 1}});
  session.AwaitRetired(id);
  const int runs = slow.runs.load();
  EXPECT_GE(runs, 3);
  EXPECT_LT(runs, kTiles) << "waited for the whole kernel";
  session.Raise(guard, 1);
  session.AwaitAllRetired();
}

TEST_P(DeviceConformance, NoMoreUnitsThanMaxClaimantsWorkOnALaunch) {
  const auto device = Create({.units = 3});
  Session session(*device);
  constexpr Nanoseconds kWork = std::chrono::microseconds(50);
  const KernelHandle count = session.Load(CountBody, {.block = kWork});
  for (const std::uint32_t limit : {1u, 2u}) {
    CountArgs args;
    args.work = kWork;
    Record record(60);
    session.Submit(
        Launch{.kernel = count, .args = &args, .progress = record.get(), .max_claimants = limit});
    session.AwaitAllRetired();
    EXPECT_EQ(args.runs.load(), 60);
    EXPECT_LE(args.most_inside.load(), static_cast<int>(limit));
  }
}

// As in padding (REEF 5): a real-time kernel, and a best-effort one on at most one unit. The second
// leaves when the first is done, and another launch resumes it.
TEST_P(DeviceConformance, APaddingLaunchLeavesWhenTheKernelThatItPadsIsDone) {
  const auto device = Create({.units = 2});
  Session session(*device);
  constexpr Nanoseconds kWork = std::chrono::microseconds(300);
  constexpr Nanoseconds kCheck = std::chrono::microseconds(100);
  constexpr int kChecks = 10;
  const KernelHandle mix = session.Load(MixBody, {.block = kChecks * kCheck, .check = kCheck});
  const KernelHandle count = session.Load(CountBody, {.block = kWork});
  const GuardId group = session.NewGuard();
  constexpr std::uint32_t kPaddingBlocks = 64;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::uint64_t> y(kPaddingBlocks, 7);
    MixArgs padding{.y = y.data(), .in_place = true, .checks = kChecks, .work = kCheck};
    CountArgs first;
    first.work = kWork;
    Record first_record(2), padding_record(kPaddingBlocks);
    const LaunchId padded =
        session.Submit(Launch{.kernel = count, .args = &first, .progress = first_record.get()});
    Launch beside{
        .kernel = mix, .args = &padding, .progress = padding_record.get(), .max_claimants = 1};
    beside.guards[0] = session.On(group, 0);
    beside.guards[1] = {&first_record->done_word(), first_record->blocks() - 1};
    const LaunchId launch = session.Submit(beside, {kUnordered, 1});
    session.AwaitRetired(launch);
    session.AwaitRetired(padded);
    EXPECT_TRUE(session.Complete(padded));
    EXPECT_FALSE(session.Complete(launch)) << "the padding ran on alone";
    beside.guards[1] = {};
    beside.max_claimants = 0;
    padding.work = Nanoseconds(0);
    session.AwaitRetired(session.Submit(beside));
    for (std::uint32_t i = 0; i < kPaddingBlocks; ++i) EXPECT_EQ(y[i], Mix(7, i + 1));
  }
}

// Nothing else happens on the device by then: the commit itself must make the launch leave.
TEST_P(DeviceConformance, AQueuedLaunchLeavesWhenTheKernelThatGuardsItIsDone) {
  const auto device = Create({.units = 1});
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  for (int round = 0; round < 20; ++round) {
    CountArgs first, padding;
    first.work = std::chrono::microseconds(200);
    Record first_record(2), padding_record(4);
    session.Submit(Launch{.kernel = count, .args = &first, .progress = first_record.get()});
    Launch launch{.kernel = count, .args = &padding, .progress = padding_record.get()};
    launch.guards[0] = {&first_record->done_word(), first_record->blocks() - 1};
    const LaunchId id = session.Submit(launch);
    session.AwaitRetired(id);
    EXPECT_FALSE(session.Complete(id));
    session.AwaitAllRetired();
  }
}

// The first kernel has one block. It ends after the other unit has been idle for some time: right
// after that unit ran out of work, or long enough for it to sleep.
TEST_P(DeviceConformance, AnActivatedSuccessorGetsAllUnits) {
  const auto device = Create({.units = 2});
  Session session(*device);
  const KernelHandle gate = session.LoadGate();
  for (const auto idle : {std::chrono::microseconds(0), std::chrono::microseconds(50),
                          std::chrono::microseconds(20'000)}) {
    GateArgs before, after;
    Record one(1), wide(2);
    const Dep dep = one.AllDone();
    session.Submit(Launch{.kernel = gate, .args = &before, .progress = one.get()});
    session.Submit(
        Launch{.kernel = gate, .args = &after, .progress = wide.get(), .deps = {&dep, 1}});
    session.Await([&] { return before.waiting.load() == 1; });
    const Nanoseconds idle_before = device->Times().idle;
    session.Await([&] { return device->Times().idle - idle_before >= idle; });
    before.open.store(true);
    EXPECT_TRUE(session.Await([&] { return after.waiting.load() == 2; }));
    after.open.store(true);
    session.AwaitAllRetired();
  }
}

TEST_P(DeviceConformance, IndependentLaunchesUseAllUnitsAtOnce) {
  const auto device = Create({.units = 2});
  Session session(*device);
  const KernelHandle gate = session.LoadGate();
  GateArgs args;
  Record a(1), b(1);
  session.Submit(Launch{.kernel = gate, .args = &args, .progress = a.get()});
  session.Submit(Launch{.kernel = gate, .args = &args, .progress = b.get()});
  EXPECT_TRUE(session.Await([&] { return args.waiting.load() == 2; }));
  args.open.store(true);
  session.AwaitAllRetired();
}

}  // namespace
}  // namespace lagoon::conformance
