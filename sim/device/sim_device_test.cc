// The model, one mechanism at a time: every test switches on only what it tests.

#include "sim/device/sim_device.h"

#include <gmock/gmock.h>

#include <array>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "sim/device/testing/sim_fixture.h"

namespace lagoon::sim_testing {
namespace {

using std::chrono::microseconds;
using ::testing::HasSubstr;

// Counts the blocks that run at once.
class Crowd final : public DeviceObserver {
 public:
  void OnPlaced(const DeviceBlock&) override { most = std::max(most, ++now); }
  void OnEnded(const DeviceBlock&, TimePoint, bool done) override {
    --now;
    ++(done ? committed : left);
  }
  int now = 0, most = 0, committed = 0, left = 0;
};

// A device, and the records and dependencies of its launches.
class Bench {
 public:
  explicit Bench(const GpuModel& gpu, SimAbort abort = SimAbort::kCheck,
                 bool joined_padding = false) {
    SimDeviceOptions options;
    options.gpu = gpu;
    options.abort = abort;
    options.joined_padding = joined_padding;
    device = Make(options);
    device->SetObserver(&crowd);
    session = std::make_unique<Session>(*device);
  }
  KernelHandle Load(const BlockDemand& block) { return LoadKernel(*device, block); }
  Launch Of(KernelHandle kernel, std::uint32_t blocks) {
    records.push_back(std::make_unique<Record>(blocks));
    return {.kernel = kernel, .progress = records.back()->get()};
  }
  Launch After(const Launch& before, KernelHandle kernel, std::uint32_t blocks) {
    deps.push_back(std::make_unique<Dep>(Dep{before.progress, before.progress->blocks()}));
    Launch launch = Of(kernel, blocks);
    launch.deps = {deps.back().get(), 1};
    return launch;
  }
  double CompleteAt(LaunchId id) {
    session->AwaitRetired(id);
    return Microseconds(session->CompleteAt(id));
  }

  Crowd crowd;
  std::unique_ptr<SimDevice> device;
  std::unique_ptr<Session> session;
  std::vector<std::unique_ptr<Record>> records;
  std::vector<std::unique_ptr<Dep>> deps;
};

TEST(SimDevice, AWaitingKernelTakesAllUnitsThatBecomeFreeAtOnce) {
  for (const std::uint32_t units : {3u, 100u}) {
    Bench bench(Ideal(units));
    const KernelHandle kernel = bench.Load({.time = microseconds(10)});
    bench.session->Submit(bench.Of(kernel, units));
    EXPECT_EQ(bench.CompleteAt(bench.session->Submit(bench.Of(kernel, units))), 20) << units;
  }
}

// REEF 5.1: a kernel and its padding are one launch. Here padding takes longer than its kernel.
TEST(SimDevice, WhatFollowsAKernelWaitsForItsPaddingIfTheTwoAreOneLaunch) {
  for (const bool joined : {false, true}) {
    Bench bench(Ideal(2), SimAbort::kCheck, joined);
    const KernelHandle kernel = bench.Load({.time = microseconds(10)});
    const Launch first = bench.Of(kernel, 1);
    const Launch next = bench.After(first, kernel, 1);
    Launch padding = bench.Of(bench.Load({.time = microseconds(25)}), 1);
    padding.max_claimants = 1;
    padding.guards[0] = {&first.progress->done_word(), 0, true};
    Launch late = bench.Of(kernel, 1);  // begins when the kernel has ended: it leaves instead
    late.guards[0] = padding.guards[0];
    late.deps = next.deps;
    bench.session->Submit(first);
    const LaunchId padded = bench.session->Submit(padding);
    bench.session->Submit(late);
    const LaunchId follows = bench.session->Submit(next);
    EXPECT_EQ(bench.CompleteAt(follows), joined ? 35 : 20);
    EXPECT_EQ(bench.CompleteAt(padded), 25);
    EXPECT_EQ(bench.crowd.committed, 3);
  }
}

TEST(SimDevice, AWaitingKernelTakesTheUnitsToWhichItsShareMoves) {
  Bench bench(Ideal(3));
  const ShareId share = *bench.device->CreateShare("mine", {0, 1});
  const KernelHandle kernel = bench.Load({.time = microseconds(100)});
  for (const int end : {100, 110}) {
    Launch launch = bench.Of(kernel, 1);
    launch.share = share;
    const LaunchId id = bench.session->Submit(launch);
    if (end == 100) continue;
    bench.session->Pass(microseconds(10));
    ASSERT_TRUE(bench.device->MoveShare(share, {2, 1}));
    EXPECT_EQ(bench.CompleteAt(id), end);
  }
}

// Paella, Table 1: each limit alone decides how many blocks a unit holds.
TEST(SimDevice, AUnitHoldsWhatItsScarcestResourceAllows) {
  struct Case {
    const char* limit;
    BlockDemand block;
    int most;
  };
  const BlockDemand base{.time = microseconds(10), .threads = 32};
  BlockDemand threads = base, registers = base, shared = base, whole = base;
  threads.threads = 300;
  registers.registers_per_thread = 256;  // 8192 a block
  shared.shared_bytes = 20'000;
  whole.threads = 0;
  for (const Case& c :
       {Case{"blocks", base, 16}, Case{"threads", threads, 3}, Case{"registers", registers, 8},
        Case{"shared memory", shared, 3}, Case{"all of it", whole, 1}}) {
    Bench bench(Ideal(2));
    bench.session->Submit(bench.Of(bench.Load(c.block), 100));
    bench.session->AwaitAllRetired();
    EXPECT_EQ(bench.crowd.most, 2 * c.most) << c.limit;
    EXPECT_EQ(bench.crowd.committed, 100);
    // In waves: the blocks of one start and end together.
    const int waves = (100 + 2 * c.most - 1) / (2 * c.most);
    EXPECT_DOUBLE_EQ(Microseconds(bench.device->Now()), 10.0 * waves) << c.limit;
  }
}

TEST(SimDevice, AKernelThatDoesNotFitIntoAUnitIsRefusedByName) {
  const auto device = Make(Ideal(2));
  const auto error = [&](const BlockDemand& block) {
    const Result<KernelHandle> kernel = device->Load({"conv", nullptr}, {0, block});
    EXPECT_FALSE(kernel.has_value());
    return kernel ? "" : kernel.error().message;
  };
  const BlockDemand base{.time = microseconds(1), .threads = 512};
  BlockDemand wrong = base;
  wrong.threads = 1025;
  EXPECT_THAT(error(wrong), HasSubstr("kernel 'conv' does not fit into a compute unit: a block "
                                      "needs 1025 threads, a unit has 1024"));
  wrong = base;
  wrong.registers_per_thread = 129;
  EXPECT_THAT(error(wrong), HasSubstr("66048 registers, a unit has 65536"));
  wrong.registers_per_thread = 4'000'000'000u;
  EXPECT_THAT(error(wrong), HasSubstr("2048000000000 registers"));
  wrong = base;
  wrong.shared_bytes = 70'000;
  EXPECT_THAT(error(wrong), HasSubstr("70000 bytes of shared memory, a unit has 65536"));
  wrong = base;
  wrong.time = Nanoseconds(-5);
  EXPECT_THAT(error(wrong), HasSubstr("block time of -5 ns"));
  wrong = base;
  wrong.time_spread = 1;
  EXPECT_THAT(error(wrong), HasSubstr("spread"));
  wrong = base;
  wrong.use_permille = 1001;
  EXPECT_THAT(error(wrong), HasSubstr("kernel 'conv' has a use of 1001 permille"));
}

TEST(SimDevice, OptionsAndConstantsOutOfBoundsAreRefused) {
  SimDeviceOptions options;
  options.gpu = Ideal(0);
  EXPECT_THAT(SimDevice::Create(options).error().message, HasSubstr("'units' is 0"));
  options.gpu = Ideal(1);
  options.max_launches = 1 << 20;
  EXPECT_THAT(SimDevice::Create(options).error().message, HasSubstr("1048576 launches"));
}

// A job's latency is the sum of the steps on its way.
TEST(SimDevice, LatenciesAreSumsOfSteps) {
  GpuModel gpu = Ideal(1);
  gpu.constants.host_submit_ns = 1'000;
  gpu.constants.launch_latency_ns = 20'000;
  gpu.constants.notify_latency_ns = 300'000;
  gpu.constants.host_event_ns = 4'000'000;
  Bench bench(gpu);
  const LaunchId id = bench.session->Submit(bench.Of(bench.Load({.time = microseconds(5'000)}), 1));
  EXPECT_EQ(Microseconds(bench.device->Now()), 1);
  bench.device->Wait(kNoDeadline);
  EXPECT_EQ(Microseconds(bench.device->Now()), 1 + 20 + 5'000 + 300);
  bench.session->Poll();
  EXPECT_TRUE(bench.session->Retired(id));
  EXPECT_EQ(Microseconds(bench.session->PlacedAt(id)), 1 + 20);
  EXPECT_EQ(Microseconds(bench.session->CompleteAt(id)), 1 + 20 + 5'000);
  // Placed, complete, retired.
  EXPECT_EQ(Microseconds(bench.device->Now()), 1 + 20 + 5'000 + 300 + 3 * 4'000);
}

TEST(SimDevice, AQueuedSuccessorStartsAfterTheBubble) {
  GpuModel gpu = Ideal(1);
  gpu.constants.dependent_gap_ns = 2'000;
  Bench bench(gpu);
  const KernelHandle kernel = bench.Load({.time = microseconds(10)});
  const Launch first = bench.Of(kernel, 1);
  bench.session->Submit(first);
  EXPECT_EQ(bench.CompleteAt(bench.session->Submit(bench.After(first, kernel, 1))), 22);
  // No gap if the predecessor is done already.
  EXPECT_EQ(bench.CompleteAt(bench.session->Submit(bench.After(first, kernel, 1))), 32);
}

TEST(SimDevice, KernelsOfDifferentStreamsStartApart) {
  GpuModel gpu = Ideal(8);
  gpu.constants.stream_switch_ns = 30'000;
  gpu.constants.dispatch_ns = 1'000;
  Bench bench(gpu);
  const KernelHandle kernel = bench.Load({.time = microseconds(500)});
  std::vector<LaunchId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(bench.session->Submit(bench.Of(kernel, 1), {bench.session->NewStream()}));
  }
  bench.session->AwaitAllRetired();
  EXPECT_EQ(Microseconds(bench.session->PlacedAt(ids[0])), 0);
  EXPECT_EQ(Microseconds(bench.session->PlacedAt(ids[1])), 30);
  EXPECT_EQ(Microseconds(bench.session->PlacedAt(ids[2])), 60);
}

TEST(SimDevice, AHeadThatWaitsHoldsUpItsHardwareQueueOnly) {
  GpuModel gpu = Ideal(4);
  gpu.constants.hardware_queues = 2;
  Bench bench(gpu);
  const KernelHandle kernel = bench.Load({.time = microseconds(10)});
  const KernelHandle slow = bench.Load({.time = microseconds(100)});
  const StreamId a = bench.session->NewStream(), b = bench.session->NewStream();
  const StreamId c = bench.session->NewStream();  // shares a's queue
  const Launch long_one = bench.Of(slow, 1);
  bench.session->Submit(long_one, {b});
  bench.session->Submit(bench.After(long_one, kernel, 1), {a});
  const LaunchId behind = bench.session->Submit(bench.Of(kernel, 1), {c});
  EXPECT_EQ(bench.CompleteAt(behind), 110) << "it looked behind the head";
}

TEST(SimDevice, LaunchesWithoutAStreamTakeAFreeQueueEach) {
  GpuModel gpu = Ideal(1);
  gpu.constants.hardware_queues = 2;
  Bench bench(gpu);
  const KernelHandle kernel = bench.Load({.time = microseconds(10)});
  // The first two hold both queues while their blocks wait. The third has the best rank, but can
  // start only when one of them has placed its last block.
  const LaunchId first = bench.session->Submit(bench.Of(kernel, 2), {kUnordered, 5});
  const LaunchId second = bench.session->Submit(bench.Of(kernel, 2), {kUnordered, 5});
  bench.session->Pass(Nanoseconds(1));
  const LaunchId urgent = bench.session->Submit(bench.Of(kernel, 1), {kUnordered, 0});
  bench.session->AwaitAllRetired();
  EXPECT_EQ(Microseconds(bench.session->CompleteAt(first)), 20);
  EXPECT_EQ(Microseconds(bench.session->CompleteAt(urgent)), 30);
  EXPECT_EQ(Microseconds(bench.session->CompleteAt(second)), 50);
}

// A kernel that is alone uses 0.7 of a unit. In these tests it has one block on the unit.
class Company : public ::testing::Test {
 protected:
  static GpuModel Gpu(std::uint32_t units, std::int64_t use_permille = 700) {
    GpuModel gpu = Ideal(units);
    gpu.constants.unit_use_permille = use_permille;
    return gpu;
  }
  static BlockDemand Alone(Nanoseconds time) {
    return {.time = time, .threads = 256, .use_permille = 1000};
  }
};

constexpr double kRounding = 0.01;  // us

TEST_F(Company, SlowsABlockDownFromTheMomentItComes) {
  Bench bench(Gpu(1));
  const KernelHandle kernel = bench.Load(Alone(microseconds(100)));
  const LaunchId first = bench.session->Submit(bench.Of(kernel, 1));
  bench.session->Pass(microseconds(50));
  const LaunchId second = bench.session->Submit(bench.Of(kernel, 1));
  bench.session->AwaitAllRetired();
  // Together they ask for 1.4 units. The first has 50 us of work left, which take 70.
  EXPECT_NEAR(Microseconds(bench.session->CompleteAt(first)), 120, kRounding);
  // The second did 50 us of its work meanwhile, and then runs alone.
  EXPECT_NEAR(Microseconds(bench.session->CompleteAt(second)), 170, kRounding);
}

TEST_F(Company, ThatLeavesGivesABlockItsSpeedBack) {
  Bench bench(Gpu(1));
  const KernelHandle kernel = bench.Load(Alone(microseconds(100)));
  // 20 us at 1 / 1.4 of the full speed.
  const KernelHandle short_one = bench.Load(Alone(Nanoseconds(14'286)));
  const LaunchId first = bench.session->Submit(bench.Of(kernel, 1));
  bench.session->Pass(microseconds(50));
  const LaunchId second = bench.session->Submit(bench.Of(short_one, 1));
  bench.session->AwaitAllRetired();
  EXPECT_NEAR(Microseconds(bench.session->CompleteAt(second)), 70, kRounding);
  EXPECT_NEAR(Microseconds(bench.session->CompleteAt(first)), 105.71, kRounding);
}

TEST_F(Company, OfItsOwnKernelCostsNothing) {
  Bench bench(Gpu(1, 1000));
  // Four blocks fit by their threads: what they cost each other is in their measured time.
  const KernelHandle full = bench.Load({.time = microseconds(100), .threads = 256});
  EXPECT_EQ(bench.CompleteAt(bench.session->Submit(bench.Of(full, 4))), 100);
}

TEST_F(Company, ConcernsOnlyTheUnitsThatItIsOn) {
  struct Ends final : DeviceObserver {
    void OnPlaced(const DeviceBlock&) override {}
    void OnEnded(const DeviceBlock& block, TimePoint at, bool) override {
      if (Raw(block.launch) == 1) at_us.emplace(block.tile, Microseconds(at));
    }
    std::map<std::uint32_t, double> at_us;
  } ends;
  Bench bench(Gpu(4));
  bench.device->SetObserver(&ends);
  const KernelHandle kernel = bench.Load(Alone(microseconds(100)));
  const LaunchId wide = bench.session->Submit(bench.Of(kernel, 4));
  ASSERT_EQ(Raw(wide), 1u);
  bench.session->Pass(microseconds(50));
  bench.session->Submit(bench.Of(kernel, 2));
  bench.session->AwaitAllRetired();
  ASSERT_EQ(ends.at_us.size(), 4u);
  for (std::uint32_t tile = 0; tile < 4; ++tile) {
    EXPECT_NEAR(ends.at_us.at(tile), tile < 2 ? 120 : 100, kRounding) << "tile " << tile;
  }
}

TEST_F(Company, AndBandwidthDoNotAddUp) {
  GpuModel gpu = Gpu(1, 850);
  gpu.constants.memory_bytes_per_us = 1'000;
  Bench bench(gpu);
  BlockDemand greedy = Alone(microseconds(100));
  greedy.memory_bytes = 100'000;
  const KernelHandle kernel = bench.Load(greedy);
  const LaunchId first = bench.session->Submit(bench.Of(kernel, 1));
  const LaunchId second = bench.session->Submit(bench.Of(kernel, 1));
  bench.session->AwaitAllRetired();
  // 1.7 of the unit and 2 of the bandwidth: the worse of the two, not 3.4.
  EXPECT_NEAR(Microseconds(bench.session->CompleteAt(first)), 200, kRounding);
  EXPECT_NEAR(Microseconds(bench.session->CompleteAt(second)), 200, kRounding);
}

TEST_F(Company, MakesChecksRarer) {
  Bench bench(Gpu(1, 1000));
  BlockDemand demand = Alone(microseconds(100));
  demand.check_interval = microseconds(20);
  const KernelHandle kernel = bench.Load(demand);
  const GuardId guard = bench.session->NewGuard();
  Launch launch = bench.Of(kernel, 1);
  launch.guards[0] = bench.session->On(guard, 0);
  const LaunchId revoked = bench.session->Submit(launch);
  bench.session->Submit(bench.Of(kernel, 1));
  bench.session->Pass(microseconds(50));
  bench.session->Raise(guard, 1);
  bench.session->AwaitRetired(revoked);
  // At half of its speed a block checks every 40 us.
  EXPECT_NEAR(Microseconds(bench.device->Now()), 80, kRounding);
  EXPECT_EQ(bench.crowd.left, 1);
}

TEST(SimDevice, TwoKernelsThatFillTheBandwidthSlowEachOther) {
  GpuModel gpu = Ideal(2);
  gpu.constants.memory_bytes_per_us = 1'000;
  Bench bench(gpu);
  // Each block asks for 800 bytes a microsecond, more than a unit's share of 500.
  const KernelHandle greedy = bench.Load({.time = microseconds(100), .memory_bytes = 80'000});
  const LaunchId first = bench.session->Submit(bench.Of(greedy, 1));
  const LaunchId second = bench.session->Submit(bench.Of(greedy, 1));
  bench.session->AwaitAllRetired();
  EXPECT_EQ(Microseconds(bench.session->CompleteAt(first)), 160);  // 1600 asked of 1000
  EXPECT_EQ(Microseconds(bench.session->CompleteAt(second)), 160);
  // A kernel that asks for too much by itself was measured with that.
  EXPECT_EQ(bench.CompleteAt(bench.session->Submit(bench.Of(greedy, 2))), 260);
}

TEST(SimDevice, RevokedBlocksLeaveAtTheirNextCheckAndOthersKeepWhatTheyDid) {
  GpuModel gpu = Ideal(1);
  gpu.constants.raise_latency_ns = 1'000;
  gpu.constants.evict_ns = 7'000;
  Bench bench(gpu);
  const KernelHandle kernel =
      bench.Load({.time = microseconds(10'000), .check_interval = microseconds(20)});
  const GuardId guard = bench.session->NewGuard();
  Launch launch = bench.Of(kernel, 2);
  launch.guards[0] = bench.session->On(guard, 0);
  const LaunchId first = bench.session->Submit(launch);
  bench.session->Pass(microseconds(10'039));
  bench.session->Raise(guard, 1);  // seen at 10,040: the second block's check
  bench.session->AwaitRetired(first);
  EXPECT_EQ(Microseconds(bench.device->Now()), 10'040);
  EXPECT_EQ(launch.progress->done(), 1u);
  EXPECT_EQ(bench.crowd.left, 1);
  // Nothing starts until the queue is past the revoked launch.
  launch.guards[0] = bench.session->On(guard, 1);
  EXPECT_EQ(bench.CompleteAt(bench.session->Submit(launch)), 10'047 + 10'000);
}

// REEF Fig. 20: a reset forgets the kernels that the runtime has not passed on. A revocation that
// only keeps kernels from starting has to get past all of them.
TEST(SimDevice, AResetGetsPastNoMoreKernelsThanTheRuntimePassesOn) {
  for (const bool only_before_start : {false, true}) {
    GpuModel gpu = Ideal(1);
    gpu.constants.evict_ns = 7'000;
    gpu.constants.runtime_queue = 3;
    gpu.constants.hardware_queues = 1;
    Bench bench(gpu);
    const KernelHandle kernel = bench.Load({.time = microseconds(100)});
    const Launch running = bench.Of(kernel, 1);
    bench.session->Submit(running);
    const GuardId guard = bench.session->NewGuard();
    for (int i = 0; i < 10; ++i) {
      Launch launch = bench.After(running, kernel, 1);
      launch.guards[0] = bench.session->On(guard, 0);
      launch.guards[0].only_before_start = only_before_start;
      bench.session->Submit(launch);
    }
    bench.session->Pass(microseconds(99));
    bench.session->Raise(guard, 1);
    const double end = bench.CompleteAt(bench.session->Submit(bench.Of(kernel, 1)));
    EXPECT_EQ(end, 99 + 7 * (only_before_start ? 10 : 3) + 100);
  }
}

TEST(SimDevice, ABlockPastItsLastCheckCommits) {
  Bench bench(Ideal(1));
  const KernelHandle kernel =
      bench.Load({.time = microseconds(50), .check_interval = microseconds(20)});
  const GuardId guard = bench.session->NewGuard();
  Launch launch = bench.Of(kernel, 1);
  launch.guards[0] = bench.session->On(guard, 0);
  const LaunchId id = bench.session->Submit(launch);
  bench.session->Pass(microseconds(41));
  bench.session->Raise(guard, 1);
  EXPECT_EQ(bench.CompleteAt(id), 50);
}

TEST(SimDevice, AKilledKernelStartsAnew) {
  GpuModel gpu = Ideal(1);
  gpu.constants.kill_ns = 3'000;
  Bench bench(gpu, SimAbort::kKill);
  const KernelHandle kernel = bench.Load({.time = microseconds(100)});
  const GuardId guard = bench.session->NewGuard();
  Launch launch = bench.Of(kernel, 4);
  launch.guards[0] = bench.session->On(guard, 0);
  const LaunchId first = bench.session->Submit(launch);
  bench.session->Pass(microseconds(250));
  EXPECT_EQ(launch.progress->done(), 2u);
  bench.session->Raise(guard, 1);
  EXPECT_EQ(launch.progress->done(), 0u);
  launch.guards[0] = bench.session->On(guard, 1);
  const LaunchId again = bench.session->Submit(launch);
  bench.session->AwaitRetired(first);
  EXPECT_EQ(Microseconds(bench.device->Now()), 253);
  // A second revocation, of another guard, does not undo what the relaunch did.
  bench.session->Pass(microseconds(147));
  bench.session->Raise(bench.session->NewGuard(), 1);
  EXPECT_EQ(launch.progress->done(), 1u);
  EXPECT_EQ(bench.CompleteAt(again), 253 + 400);
  EXPECT_EQ(bench.crowd.committed, 6);
  EXPECT_EQ(bench.crowd.left, 1);
}

TEST(SimDevice, ACopyTakesItsLatencyAndItsBytes) {
  GpuModel gpu = Ideal(1);
  gpu.constants.copy_latency_ns = 10'000;
  Bench bench(gpu);
  const std::size_t bytes = 3 * kCopyChunkBytes + 1'000;
  Record record(CopyBlocks(bytes));
  const LaunchId id = bench.session->Transfer({.bytes = bytes, .progress = record.get()});
  EXPECT_DOUBLE_EQ(bench.CompleteAt(id), 10 + static_cast<double>(bytes) / 1'000);
}

TEST(SimDevice, BlockTimesSpreadAroundTheirMean) {
  struct Times final : DeviceObserver {
    void OnPlaced(const DeviceBlock&) override {}
    void OnEnded(const DeviceBlock&, TimePoint at, bool) override {
      ends.push_back(Microseconds(at));
    }
    std::vector<double> ends;
  } times;
  const auto device = Make(Ideal(1000));
  device->SetObserver(&times);
  Session session(*device);
  Record record(1000);
  session.Submit(
      Launch{.kernel = LoadKernel(*device, {.time = microseconds(100), .time_spread = 0.2}),
             .progress = record.get()});
  session.AwaitAllRetired();
  double sum = 0;
  for (const double end : times.ends) sum += end;
  EXPECT_NEAR(sum / 1000, 100, 1.5);  // four standard errors
  EXPECT_GE(times.ends.front(), 80);
  EXPECT_LT(times.ends.front(), 81);
  EXPECT_LE(times.ends.back(), 120);
  EXPECT_GT(times.ends.back(), 119);
}

TEST(SimDevice, EveryAdvanceOfTimeIsNewsToTheListener) {
  struct Listener final : DeviceListener {
    void OnDeviceNews() override { ++news; }
    int news = 0;
  } listener;
  Bench bench(Ideal(1));
  bench.device->SetListener(&listener);
  bench.device->Wait(bench.device->Now() + microseconds(5));
  EXPECT_EQ(listener.news, 1);
  bench.session->Submit(bench.Of(bench.Load({.time = microseconds(7)}), 1));
  bench.device->Wait(kNoDeadline);
  EXPECT_EQ(listener.news, 2);
  EXPECT_EQ(Microseconds(bench.device->Now()), 12);
  // Reported once, even if the host does not poll.
  bench.device->Wait(bench.device->Now() + microseconds(5));
  EXPECT_EQ(Microseconds(bench.device->Now()), 17);
}

// What a host sees of a busy device. The host's calls depend on a seed, not on addresses.
using Trace = std::vector<std::tuple<std::uint64_t, int, double>>;

Trace RandomRun(std::uint32_t seed, std::size_t padding) {
  SimDeviceOptions options;
  options.gpu = *LoadGpuModel("t4");
  const auto device = Make(options);
  std::mt19937 random(seed);
  std::vector<KernelHandle> kernels;
  for (std::uint32_t i = 1; i <= 8; ++i) {
    kernels.push_back(LoadKernel(*device, {.time = microseconds(10 * i),
                                           .time_spread = i % 2 == 0 ? 0.3 : 0,
                                           .threads = 64 * i,
                                           .registers_per_thread = 32,
                                           .memory_bytes = 10'000 * i}));
  }
  const GuardId guard = *device->CreateGuard();
  const std::array<StreamId, 3> streams{kUnordered, *device->CreateStream({"a"}),
                                        *device->CreateStream({"b"})};
  // Other addresses in every run.
  const std::vector<char> shift(padding);
  std::vector<std::unique_ptr<Record>> records;
  std::vector<Dep> deps(400);
  Trace trace;
  std::uint32_t epoch = 0;
  const auto poll = [&] {
    std::array<DeviceEvent, 16> events;
    while (const std::size_t count = device->Poll(events)) {
      for (std::size_t i = 0; i < count; ++i) {
        trace.emplace_back(Raw(events[i].launch), static_cast<int>(events[i].kind),
                           Microseconds(events[i].at));
      }
    }
  };
  for (std::uint32_t i = 0; i < deps.size(); ++i) {
    records.push_back(std::make_unique<Record>(1 + random() % 200));
    deps[i] = records.back()->AllDone();
    Launch launch{.kernel = kernels[random() % kernels.size()], .progress = records[i]->get()};
    if (i > 0 && random() % 2 == 0) launch.deps = {&deps[i - 1], 1};
    launch.guards[0] = {device->GuardWord(guard), epoch, random() % 4 == 0};
    launch.id = LaunchId{i};
    launch.stream = streams[random() % 3];
    launch.rank = random() % 3;
    EXPECT_EQ(device->Submit(launch), SubmitResult::kOk);
    if (random() % 8 == 0) device->Raise(guard, ++epoch);
    if (random() % 4 == 0) device->Wait(device->Now() + microseconds(random() % 300));
    poll();
  }
  device->Raise(guard, ++epoch);
  device->Wait(device->Now() + std::chrono::milliseconds(50));
  poll();
  trace.emplace_back(0, -1, Microseconds(device->Now()));
  return trace;
}

TEST(SimDevice, AReplayIsIdenticalWhereverMemoryLies) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const Trace trace = RandomRun(seed, 0);
    EXPECT_GT(trace.size(), 500u);
    EXPECT_EQ(trace, RandomRun(seed, 1000 * seed)) << "seed " << seed;
  }
  EXPECT_NE(RandomRun(1, 0), RandomRun(2, 0));
}

}  // namespace
}  // namespace lagoon::sim_testing
