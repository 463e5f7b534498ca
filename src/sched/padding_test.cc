#include "sched/padding.h"

#include <gtest/gtest.h>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using std::chrono::microseconds;
using testing::ChainPlan;
using testing::Request;

constexpr SchedulerConfig kPadding = {.name = "padding",
                                      .preemption = SchedulerConfig::Preemption::kReset,
                                      .padding_kernels = 16,
                                      .padding_versions = true};

// A chain whose op i has blocks[i] blocks, each of which takes the time `block`.
std::shared_ptr<const LoadedPlan> Chain(const std::vector<std::uint32_t>& blocks,
                                        Nanoseconds block = microseconds(50)) {
  auto loaded =
      std::const_pointer_cast<LoadedPlan>(ChainPlan(static_cast<std::uint32_t>(blocks.size()), 1));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    loaded->plan.ops[i].blocks = blocks[i];
    loaded->plan.ops[i].cost = {block * blocks[i], block};
  }
  return loaded;
}

class RoomTest : public ::testing::Test {
 protected:
  std::optional<PaddingRoom> Room(const std::shared_ptr<const LoadedPlan>& plan,
                                  std::uint32_t units, std::size_t first = 0) {
    instance_ = *Instance::Create(plan, device_);
    QueueOptions options;
    options.instances = {instance_.get()};
    options.units = share_;
    queue_ = std::make_unique<JobQueue>(QueueId{});
    queue_->Use(options);
    job_.queue = queue_.get();
    job_.costs = &queue_->first->costs();
    job_.instance = instance_.get();
    job_.first_incomplete = first;
    return RoomBeside(job_, units, kernels_, packed_);
  }
  bool packed_ = false;
  std::uint32_t kernels_ = 16;
  UnitRange share_;
  testing::FakeDevice device_;
  std::unique_ptr<Instance> instance_;
  std::unique_ptr<JobQueue> queue_;
  Job job_;
};

TEST_F(RoomTest, ReachesToTheNextWideKernel) {
  const auto room = Room(Chain({2, 2, 2, 4, 1}), 4);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->units, 2u);
  EXPECT_EQ(room->time, microseconds(300));
  EXPECT_EQ(room->until, &instance_->progress(2));
}

TEST_F(RoomTest, TakesInAWiderKernelOnlyWhereThatLeavesMoreThanARoomOfItsOwn) {
  auto room = Room(Chain({1, 6}), 8);  // 7 units for 40 us and 2 for 290 us, or 2 for 340
  ASSERT_TRUE(room);
  EXPECT_EQ(room->units, 7u);
  EXPECT_EQ(room->time, microseconds(50));
  room = Room(Chain({1, 2}, microseconds(15)), 8);  // 7 for 5 us and 6 for 20, or 6 for 35
  ASSERT_TRUE(room);
  EXPECT_EQ(room->units, 6u);
  EXPECT_EQ(room->time, microseconds(45));
}

TEST_F(RoomTest, ThereIsNoneBesideAKernelThatNeedsAllUnits) {
  EXPECT_FALSE(Room(Chain({4, 1}), 4));
  EXPECT_FALSE(Room(Chain({1, 1}), 4, /*first=*/2));
  EXPECT_FALSE(Room(Chain({1}), 1));
}

TEST_F(RoomTest, AJobNeedsNoMoreThanTheUnitsOfItsShare) {
  share_ = {0, 2};
  const auto room = Room(Chain({8}), 4);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->units, 2u);
  // The best-effort queue's share may be the same two units, or have one of them.
  QueueOptions options;
  options.instances = {instance_.get()};
  JobQueue queue{QueueId{}};
  queue.Use(options);
  EXPECT_EQ(UnitsIn(*room, queue), 2u);
  queue.options.units = {0, 2};
  EXPECT_EQ(UnitsIn(*room, queue), 0u);
  queue.options.units = {1, 3};
  EXPECT_EQ(UnitsIn(*room, queue), 1u);
}

TEST_F(RoomTest, KernelsThatDoNotWaitForOneAnotherAddUp) {
  auto plan = std::const_pointer_cast<LoadedPlan>(Chain({1, 1, 2, 1}));
  plan->plan.ops[2].deps = {0};  // beside op 1
  kernels_ = 1;
  const auto room = Room(plan, 4, /*first=*/1);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->units, 1u);
  EXPECT_EQ(room->until, &instance_->progress(2));
}

TEST_F(RoomTest, IsBesideAsManyKernelsAsTheSchedulerSays) {
  kernels_ = 7;
  auto room = Room(Chain(std::vector<std::uint32_t>(100, 1)), 2);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->until, &instance_->progress(6));
  kernels_ = 1;
  room = Room(Chain({1, 3}), 4);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->units, 3u);
  EXPECT_EQ(room->time, microseconds(50));
}

TEST_F(RoomTest, PackedItLeavesTheUnitsThatTheKernelDoesNotFill) {
  auto plan = std::const_pointer_cast<LoadedPlan>(Chain({9}));
  plan->plan.ops[0].occupancy = 4;
  EXPECT_FALSE(Room(plan, 8));
  packed_ = true;
  const auto room = Room(plan, 8);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->taken, 3u);
  EXPECT_EQ(room->units, 5u);
}

TEST_F(RoomTest, KnowsWhatBandwidthItsKernelsTake) {
  auto plan = std::const_pointer_cast<LoadedPlan>(Chain({2, 2, 2}));
  plan->plan.ops[0].cost.bandwidth_ppm = 100'000;
  plan->plan.ops[1].cost.bandwidth_ppm = 70'000;
  const auto room = Room(plan, 8);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->until, &instance_->progress(2));
  EXPECT_EQ(room->bandwidth_ppm, 200'000u);  // the most at any time
}

TEST_F(RoomTest, HasTheHighestOccupancyOfItsKernels) {
  auto plan = std::const_pointer_cast<LoadedPlan>(Chain({1, 1, 1}));
  plan->plan.ops[1].occupancy = 6;
  const auto room = Room(plan, 4);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->occupancy, 6u);
}

// Six blocks on four units: when four are done, two units are left for the time of one block.
TEST_F(RoomTest, TheTailOfAWideKernelIsARoom) {
  const auto plan = Chain({6, 1});
  ASSERT_FALSE(Room(plan, 4));
  EXPECT_FALSE(LaterRoomBeside(job_, 4, {.tails = true}, device_.Now()))
      << "the device does not have it yet";
  job_.next_op = 1;
  auto room = LaterRoomBeside(job_, 4, {.tails = true}, device_.Now());
  ASSERT_TRUE(room);
  EXPECT_EQ(room->units, 2u);
  EXPECT_EQ(room->taken, 2u);
  EXPECT_EQ(room->time, microseconds(50));
  EXPECT_EQ(room->begun, Nanoseconds(0));
  EXPECT_EQ(room->until, &instance_->progress(0));
  EXPECT_EQ(room->after->on, &instance_->progress(0));
  EXPECT_EQ(room->after->blocks, 4u);
  // Of the six blocks' 300 us, the tail has the last 50: 20 of them and 10 for the launch are over.
  job_.op_since = device_.Now() - microseconds(270);
  instance_->progress(0).Mirror(4);
  room = LaterRoomBeside(job_, 4, {.tails = true}, device_.Now());
  ASSERT_TRUE(room);
  EXPECT_EQ(room->begun, microseconds(30));
  job_.next_op = 2;
  room = LaterRoomBeside(job_, 4, {}, device_.Now());
  ASSERT_TRUE(room);
  EXPECT_EQ(room->until, &instance_->progress(1)) << "without tails";
}

TEST_F(RoomTest, PackedTheTailHasTheUnitsThatItsBlocksDoNotFill) {
  auto plan = std::const_pointer_cast<LoadedPlan>(Chain({11}));
  plan->plan.ops[0].occupancy = 2;
  ASSERT_FALSE(Room(plan, 4));
  job_.next_op = 1;
  auto room = LaterRoomBeside(job_, 4, {.tails = true}, device_.Now());
  ASSERT_TRUE(room);
  EXPECT_EQ(room->after->blocks, 8u);
  EXPECT_EQ(room->units, 1u);
  room = LaterRoomBeside(job_, 4, {.packed = true, .tails = true}, device_.Now());
  ASSERT_TRUE(room);
  EXPECT_EQ(room->units, 2u);
}

TEST_F(RoomTest, WithoutATailTheRoomBesideTheNextKernelsBeginsWithThem) {
  ASSERT_FALSE(Room(Chain({8, 1, 2, 4}), 4));
  job_.next_op = 1;
  const auto room = LaterRoomBeside(job_, 4, {.kernels = 1}, device_.Now());
  ASSERT_TRUE(room);
  EXPECT_EQ(room->units, 3u);
  EXPECT_EQ(room->time, microseconds(50));
  EXPECT_EQ(room->after->on, &instance_->progress(0));
  EXPECT_EQ(room->after->blocks, 8u);
  EXPECT_EQ(room->until, &instance_->progress(1));
  EXPECT_EQ(room->begun, Nanoseconds(0));
  instance_->progress(0).Mirror(8);
  EXPECT_EQ(LaterRoomBeside(job_, 4, {.kernels = 1}, device_.Now())->begun, microseconds(10));
  ASSERT_FALSE(Room(Chain({8, 8, 1}), 4));
  EXPECT_FALSE(LaterRoomBeside(job_, 4, {}, device_.Now()));
}

TEST_F(RoomTest, BesideKernelsThatDoNotWaitForOneAnotherThereIsNoLaterRoom) {
  auto plan = std::const_pointer_cast<LoadedPlan>(Chain({6, 1}));
  plan->plan.ops[1].deps.clear();
  Room(plan, 4);
  job_.next_op = 1;
  for (const bool tails : {false, true}) {
    EXPECT_FALSE(LaterRoomBeside(job_, 4, {.tails = tails}, device_.Now()));
  }
}

// Versions of one kernel: the number of blocks, and the time of one block.
PlanOp Versions(const std::vector<std::pair<std::uint32_t, Nanoseconds>>& cuts) {
  PlanOp op;
  for (const auto& [blocks, block] : cuts) {
    op.versions.push_back({"v", {}, blocks, 0, {block * blocks, block}});
  }
  op.blocks = cuts.front().first;
  op.cost = op.versions.front().cost;
  return op;
}
const PlanOp kCuts = Versions({{2, microseconds(100)},
                               {8, microseconds(30)},
                               {12, microseconds(19)},
                               {40, microseconds(10)},
                               {1, Nanoseconds(0)}});  // not measured

TEST(VersionBeside, IsTheOneThatIsThroughSoonestAmongThoseShorterThanTheRoom) {
  PaddingRoom room{.units = 4, .time = microseconds(500), .occupancy = 1, .until = nullptr};
  EXPECT_EQ(VersionBeside(kCuts, {}, room), 2u);  // 3 x 19 us < 2 x 30, 1 x 100, 10 x 10
  room.time = microseconds(19);                   // Rule 1
  EXPECT_EQ(VersionBeside(kCuts, {}, room), 3u);
  room.time = microseconds(10);
  EXPECT_EQ(VersionBeside(kCuts, {}, room), std::nullopt);
  room = {.units = 2, .time = microseconds(500), .occupancy = 1, .until = nullptr};
  EXPECT_EQ(VersionBeside(kCuts, {}, room), 0u);  // 100 us, less than 4 x 30, 6 x 19 and 20 x 10
}

/// A kernel of an engine whose longest run took 80 us.
class EngineOp final : public OpaqueOp {
 public:
  const std::vector<std::string>& ops() const override { return ops_; }
  const std::string& why() const override { return why_; }
  Nanoseconds longest() const override { return microseconds(80); }
  std::shared_ptr<const Error> TakeError(const void*) const override { return nullptr; }
  bool assumed() const override { return false; }
  bool outdated() const override { return false; }
  std::shared_ptr<const MadeTensor> Take(const void*, std::size_t) const override {
    return nullptr;
  }

 private:
  std::vector<std::string> ops_;
  std::string why_;
};

TEST(VersionBeside, AKernelOfAnEngineMustFitAtItsLongest) {  // it cannot leave
  PlanOp op;
  op.blocks = 1;
  op.cost.block = microseconds(20);
  PaddingRoom room{.units = 4, .time = microseconds(50), .occupancy = 1, .until = nullptr};
  EXPECT_TRUE(VersionBeside(op, {}, room));
  op.opaque = std::make_shared<EngineOp>();
  EXPECT_FALSE(VersionBeside(op, {}, room));
  room.time = microseconds(100);
  EXPECT_TRUE(VersionBeside(op, {}, room));
}

TEST(VersionBeside, WhatDoesNotLeaveFitsBlockByBlock) {
  PlanOp op;
  op.blocks = 12;
  op.cost.block = microseconds(20);
  PaddingRoom room{.units = 4, .time = microseconds(50), .occupancy = 1, .until = nullptr};
  room.leaves = false;
  op.restart = Restart::kNever;  // 60 us on four units
  EXPECT_TRUE(VersionBeside(op, {}, room));
  room.leaves = true;
  EXPECT_FALSE(VersionBeside(op, {}, room));
}

TEST(BlocksInRoom, AreThoseThatEndThere) {
  PlanOp op;
  op.blocks = 12;
  op.occupancy = 2;
  op.cost.block = microseconds(20);
  PaddingRoom room{.units = 4, .time = microseconds(50), .occupancy = 1, .until = nullptr};
  EXPECT_EQ(BlocksInRoom(op, op.version, room), 8u);
  room.begun = microseconds(15);
  EXPECT_EQ(BlocksInRoom(op, op.version, room), 4u);
  room.packed = true;
  EXPECT_EQ(BlocksInRoom(op, op.version, room), 8u);
  room.begun = {};
  EXPECT_EQ(BlocksInRoom(op, op.version, room), 12u) << "all of them";
  op.cost.block = {};
  EXPECT_EQ(BlocksInRoom(op, op.version, room), 8u) << "no time is known: one round";
}

TEST(VersionBeside, StaysWhatItIsOnceBlocksHaveRun) {
  const PaddingRoom room{.units = 4, .time = microseconds(50), .occupancy = 1, .until = nullptr};
  EXPECT_EQ(VersionBeside(kCuts, 1, room), 1u);
  EXPECT_EQ(VersionBeside(kCuts, 0, room), std::nullopt);
}

TEST(VersionBeside, MustNotLowerTheOccupancyOfRealTimeKernels) {  // Rule 2
  PlanOp op = kCuts;
  op.occupancy = 4;
  PaddingRoom room{.units = 4, .time = microseconds(500), .occupancy = 4, .until = nullptr};
  EXPECT_TRUE(VersionBeside(op, {}, room));
  room.occupancy = 5;
  EXPECT_FALSE(VersionBeside(op, {}, room));
}

// A unit holds one block of the plan's version, and two of the other one.
TEST(VersionBeside, Rule2IsOfEachVersion) {
  PlanOp op = Versions({{2, microseconds(100)}, {6, microseconds(40)}});
  op.versions[1].occupancy = 2;
  PaddingRoom room{.units = 4, .time = microseconds(50), .occupancy = 2, .until = nullptr};
  EXPECT_EQ(VersionBeside(op, {}, room), 1u);
  room.time = microseconds(500);
  EXPECT_EQ(VersionBeside(op, {}, room), 1u) << "the plan's would lower the occupancy";
  room.occupancy = 1;
  EXPECT_EQ(VersionBeside(op, {}, room), 1u) << "2 x 40 us < 100";
  room.units = 2;
  EXPECT_EQ(VersionBeside(op, {}, room), 0u);
  room.occupancy = 3;
  EXPECT_EQ(VersionBeside(op, {}, room), std::nullopt);
}

TEST(VersionBeside, IsThePlansWhereTheSchedulerHasNoVersions) {
  PaddingRoom room{
      .units = 4, .time = microseconds(50), .occupancy = 1, .versions = false, .until = nullptr};
  EXPECT_EQ(VersionBeside(kCuts, {}, room), std::nullopt);
  EXPECT_EQ(VersionBeside(kCuts, 1, room), 1u) << "blocks of it have run";
  room.time = microseconds(500);
  EXPECT_EQ(VersionBeside(kCuts, {}, room), 0u);
}

// As many units as the version has blocks, of which a unit holds as many as of the version.
TEST_F(RoomTest, AVersionHasAKernelAndAnOccupancyOfItsOwn) {
  auto plan = std::const_pointer_cast<LoadedPlan>(Chain({2, 1}));
  PlanOp& op = plan->plan.ops[0];
  op.versions = {{"wide", op.args, 2, 0, {}}, {"narrow", op.args, 4, 0, {}}};
  op.kernel = KernelHandle{3};
  op.versions[0].kernel = op.kernel;
  op.versions[1].kernel = KernelHandle{7};
  op.versions[1].occupancy = 4;
  Room(plan, 4);
  EXPECT_EQ(instance_->launch(0).kernel, KernelHandle{3});
  instance_->UseVersion(0, 1);
  EXPECT_EQ(instance_->launch(0).kernel, KernelHandle{7});
  EXPECT_EQ(OccupancyOf(op, 1), 4u);
  EXPECT_EQ(OccupancyOf(op, 0), 1u);
  instance_->Reset();
  EXPECT_EQ(instance_->launch(0).kernel, KernelHandle{3});
}

TEST_F(RoomTest, AnInstanceCutsAKernelAnewUntilItIsReset) {
  auto plan = std::const_pointer_cast<LoadedPlan>(Chain({2, 1}));
  PlanOp& op = plan->plan.ops[0];
  op.args.assign(8, std::byte{1});
  op.versions = {{"wide", op.args, 2, 0, {}}, {"narrow", op.args, 130, 0, {}}};
  op.versions[1].args.assign(8, std::byte{2});
  Room(plan, 4);
  const auto args = [&] { return *static_cast<const std::byte*>(instance_->launch(0).args); };
  instance_->UseVersion(0, 1);
  EXPECT_EQ(instance_->version(0), 1u);
  EXPECT_EQ(args(), std::byte{2});
  EXPECT_EQ(instance_->launch(1).deps[0].blocks, 130u);
  std::vector<std::uint32_t> claimed;
  while (const auto block = instance_->progress(0).Claim()) {
    claimed.push_back(*block);
    instance_->progress(0).Commit();
  }
  EXPECT_EQ(claimed.size(), 130u);
  EXPECT_TRUE(instance_->progress(0).Complete());
  instance_->Reset();
  EXPECT_EQ(instance_->version(0), 0u);
  EXPECT_EQ(args(), std::byte{1});
  EXPECT_EQ(instance_->launch(1).deps[0].blocks, 2u);
  EXPECT_EQ(instance_->progress(0).blocks(), 2u);
}

class PaddingTest : public testing::DispatcherFixture {
 protected:
  // Posts best-effort work, runs `blocks` of it, and posts real-time work beside it.
  void Contend(const std::shared_ptr<const LoadedPlan>& real_time,
               const std::shared_ptr<const LoadedPlan>& best_effort, int blocks = 2) {
    Use(kPadding, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
        /*units=*/2);
    const QueueId background = AddQueue(JobClass::kBestEffort, best_effort);
    const QueueId urgent = AddQueue(JobClass::kRealTime, real_time);
    ASSERT_TRUE(Post(background, background_));
    for (int i = 0; i < blocks; ++i) ASSERT_TRUE(device_->RunBlock());
    ASSERT_TRUE(Post(urgent, urgent_));
  }
  // Destroys the dispatcher before the requests, which are destroyed before the fixture's members.
  ~PaddingTest() override { dispatcher_.reset(); }

  Request urgent_, background_;
};

TEST_F(PaddingTest, BestEffortKernelsGetTheUnitsThatNarrowOnesLeave) {
  Contend(Chain({1, 1, 1}), Chain({4, 4}));
  EXPECT_GT(dispatcher_->Stats().padded_launches, 0u);
  EXPECT_EQ(dispatcher_->Stats().revocations, 1u);  // work without the room's guard was revoked
  device_->RunAll();
  EXPECT_EQ(urgent_.result.outcome, Outcome::kDone);
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (1 + 3 + 1) + (1 + 8 + 1));  // no tile twice
}

TEST_F(PaddingTest, TakesNoMoreUnitsThanAreLeft) {
  Use(kPadding, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
      /*units=*/8);
  const QueueId background = AddQueue(JobClass::kBestEffort, Chain({20}, microseconds(20)));
  const QueueId urgent = AddQueue(JobClass::kRealTime, Chain({3}));
  ASSERT_TRUE(Post(urgent, urgent_));
  ASSERT_TRUE(Post(background, background_));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  EXPECT_EQ(device_->max_claimants(), 5u);
}

TEST_F(PaddingTest, SeveralJobsShareARoomEachOnUnitsOfItsOwn) {  // REEF 5.2
  Use(kPadding, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
      /*units=*/8);
  const QueueId narrow = AddQueue(JobClass::kBestEffort, Chain({2}, microseconds(20)));
  const QueueId wide = AddQueue(JobClass::kBestEffort, Chain({5}, microseconds(20)));
  const QueueId left_out = AddQueue(JobClass::kBestEffort, Chain({1}, microseconds(20)));
  const QueueId urgent = AddQueue(JobClass::kRealTime, Chain({4}));
  Request& second = Add();
  Request& third = Add();
  ASSERT_TRUE(Post(urgent, urgent_));
  ASSERT_TRUE(Post(narrow, background_));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  EXPECT_EQ(device_->max_claimants(), 2u);  // of four units, as many as it has blocks
  ASSERT_TRUE(Post(wide, second));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 2u);
  EXPECT_EQ(device_->max_claimants(), 2u);  // what is left
  ASSERT_TRUE(Post(left_out, third));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 2u);
  device_->RunAll();
  for (const Request* request : {&urgent_, &background_, &second, &third}) {
    EXPECT_EQ(request->result.outcome, Outcome::kDone);
  }
}

// The policy's choice and the next job are too long for the room. The third one fits.
TEST_F(PaddingTest, LooksAtNoMoreJobsThanTheSchedulerSays) {
  SchedulerConfig config = kPadding;
  for (const std::uint32_t candidates : {2u, 3u}) {
    config.padding_candidates = candidates;
    Use(config, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
        /*units=*/4);
    const QueueId urgent = AddQueue(JobClass::kRealTime, Chain({2}));
    std::vector<QueueId> background;
    for (const int us : {110, 120, 20}) {
      background.push_back(AddQueue(JobClass::kBestEffort, Chain({1}, microseconds(us))));
    }
    Request& real_time = Add();
    ASSERT_TRUE(Post(urgent, real_time));
    for (const QueueId queue : background) ASSERT_TRUE(Post(queue, Add()));
    const DispatcherStats stats = dispatcher_->Stats();
    EXPECT_EQ(stats.padded_launches, candidates == 3 ? 1u : 0u);
    EXPECT_GT(stats.padding_candidates, stats.padding_choices);
    device_->RunAll();
    EXPECT_EQ(real_time.result.outcome, Outcome::kDone);
  }
}

// Eight real-time blocks fill two of the eight units, and twenty blocks of padding five.
TEST_F(PaddingTest, PackedItHasAUnitForAsManyBlocksAsTheUnitHolds) {
  SchedulerConfig config = kPadding;
  for (const bool packed : {false, true}) {
    config.packed_padding = packed;
    Use(config, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
        /*units=*/8);
    auto wide = std::const_pointer_cast<LoadedPlan>(Chain({20}, microseconds(20)));
    auto narrow = std::const_pointer_cast<LoadedPlan>(Chain({8}));
    for (const auto& plan : {wide, narrow}) plan->plan.ops[0].occupancy = 4;
    const QueueId background = AddQueue(JobClass::kBestEffort, wide);
    const QueueId urgent = AddQueue(JobClass::kRealTime, narrow);
    Request &first = Add(), &second = Add();
    ASSERT_TRUE(Post(urgent, first));
    ASSERT_TRUE(Post(background, second));
    EXPECT_EQ(dispatcher_->Stats().padded_launches, packed ? 1u : 0u);
    if (packed) {
      EXPECT_EQ(device_->max_claimants(), 20u);
    }
    device_->RunAll();
    EXPECT_EQ(second.result.outcome, Outcome::kDone);
  }
}

// REEF 7. Real-time blocks take 0.4 of the bandwidth, the first job of padding 0.3, the second 0.2.
TEST_F(PaddingTest, TakesNoMoreBandwidthThanIsAllowed) {
  for (const auto& [most, padded] : {std::pair{0.0, 2u}, {0.6, 1u}, {0.8, 1u}, {0.95, 2u}}) {
    SchedulerConfig config = kPadding;
    config.padding_bandwidth = most;
    Use(config, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
        /*units=*/8);
    const auto with = [](std::uint32_t blocks, Nanoseconds block, std::uint32_t ppm) {
      auto plan = std::const_pointer_cast<LoadedPlan>(Chain({blocks}, block));
      plan->plan.ops[0].cost.bandwidth_ppm = ppm;
      return plan;
    };
    const QueueId greedy = AddQueue(JobClass::kBestEffort, with(2, microseconds(20), 150'000));
    const QueueId modest = AddQueue(JobClass::kBestEffort, with(2, microseconds(20), 100'000));
    const QueueId urgent = AddQueue(JobClass::kRealTime, with(4, microseconds(50), 100'000));
    Request &first = Add(), &second = Add(), &third = Add();
    ASSERT_TRUE(Post(urgent, first));
    ASSERT_TRUE(Post(greedy, second));
    ASSERT_TRUE(Post(modest, third));
    EXPECT_EQ(dispatcher_->Stats().padded_launches, padded) << most;
    device_->RunAll();
    for (const Request* request : {&first, &second, &third}) {
      EXPECT_EQ(request->result.outcome, Outcome::kDone);
    }
  }
}

TEST_F(PaddingTest, AnotherRealTimeJobRevokesIt) {
  Use(kPadding, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
      /*units=*/4);
  const QueueId background = AddQueue(JobClass::kBestEffort, Chain({20}, microseconds(20)));
  const QueueId first = AddQueue(JobClass::kRealTime, Chain({2}));
  const QueueId other = AddQueue(JobClass::kRealTime, Chain({1}));
  Request& second = Add();
  ASSERT_TRUE(Post(first, urgent_));
  ASSERT_TRUE(Post(background, background_));
  EXPECT_EQ(device_->max_claimants(), 2u);
  EXPECT_EQ(dispatcher_->Stats().revocations, 0u);
  ASSERT_TRUE(Post(other, second));
  EXPECT_EQ(dispatcher_->Stats().revocations, 1u);
  EXPECT_EQ(background_.finished, 0);
  // The room is found anew: one unit is left.
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 2u);
  EXPECT_EQ(device_->max_claimants(), 1u);
  device_->RunAll();
  EXPECT_EQ(second.result.outcome, Outcome::kDone);
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (1 + 2 + 1) + (1 + 1 + 1) + (1 + 20 + 1));  // no tile twice
}

TEST_F(PaddingTest, ABlockMustEndInWhatIsLeftOfTheRoom) {
  for (const bool late : {false, true}) {
    Use(kPadding, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
        /*units=*/4);
    const QueueId background = AddQueue(JobClass::kBestEffort, Chain({2}, microseconds(25)));
    const QueueId urgent = AddQueue(JobClass::kRealTime, Chain({2}, microseconds(15)));  // 30 us
    Request& request = Add();
    Request& padding = Add();
    ASSERT_TRUE(Post(urgent, request));
    if (late) {
      ASSERT_TRUE(device_->RunBlock());    // its input
      ASSERT_TRUE(device_->StartBlock());  // its kernel begins
      device_->Advance(microseconds(10));
    }
    ASSERT_TRUE(Post(background, padding));
    EXPECT_EQ(dispatcher_->Stats().padded_launches, late ? 0u : 1u);
    if (late) device_->FinishBlock(true);
    device_->RunAll();
    EXPECT_EQ(padding.result.outcome, Outcome::kDone);
  }
}

TEST_F(PaddingTest, AKernelThatALaunchNamesIsNotCutAnew) {
  auto background = std::const_pointer_cast<LoadedPlan>(Chain({1}, microseconds(200)));
  PlanOp& op = background->plan.ops[0];
  op.versions = {{"long", {}, 1, 0, op.cost},
                 {"short", {}, 5, 0, {microseconds(200), microseconds(40)}}};
  Use(kPadding, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
      /*units=*/2);
  const QueueId slow = AddQueue(JobClass::kBestEffort, background);
  const QueueId urgent = AddQueue(JobClass::kRealTime, Chain({1, 1}));
  ASSERT_TRUE(Post(slow, background_));
  ASSERT_TRUE(device_->RunBlock());    // its input
  ASSERT_TRUE(device_->StartBlock());  // its only block, too long for the room
  ASSERT_TRUE(Post(urgent, urgent_));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 0u);
  device_->FinishBlock(false);  // the block leaves: now another version may be chosen
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  device_->RunAll();
  EXPECT_EQ(urgent_.result.outcome, Outcome::kDone);
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
}

TEST_F(PaddingTest, NothingIsPaddedBesideWideKernels) {
  Contend(Chain({2, 2, 2}), Chain({4, 4}));
  for (int i = 0; i < 1 + 5; ++i) ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 0u);
  EXPECT_TRUE(device_->work_held());
}

TEST_F(PaddingTest, ABlockLongerThanTheRoomIsNotPadded) {  // Rule 1
  Contend(Chain({1, 1}, microseconds(10)), Chain({4}, microseconds(20)));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 0u);
  Contend(Chain({1, 1, 1}, microseconds(10)), Chain({4}, microseconds(20)));
  EXPECT_GT(dispatcher_->Stats().padded_launches, 0u);
}

TEST_F(PaddingTest, PaddingLeavesWhenItsRoomEndsAndGoesOnLater) {
  Contend(Chain({1, 2, 2}), Chain({8}, microseconds(20)));
  ASSERT_TRUE(device_->RunBlock());  // the real-time input
  ASSERT_TRUE(device_->RunBlock());  // its first kernel
  EXPECT_EQ(background_.finished, 0);
  const std::uint64_t padded = dispatcher_->Stats().padded_launches;
  EXPECT_EQ(padded, 1u);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(device_->RunBlock());  // wide kernels: alone
  EXPECT_EQ(dispatcher_->Stats().padded_launches, padded);
  device_->RunAll();
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (1 + 5 + 1) + (1 + 8 + 1));
}

TEST_F(PaddingTest, ARunningBlockOfPaddingIsAskedToLeaveAtTheEndOfItsRoom) {
  Contend(Chain({1, 2}), Chain({8}, microseconds(20)), /*blocks=*/1);
  ASSERT_TRUE(device_->RunBlock());  // the real-time input
  ASSERT_TRUE(device_->StartBlock());
  EXPECT_FALSE(device_->GuardsRaised());  // the running block is one of the real-time kernel
  device_->FinishBlock(true);
  ASSERT_TRUE(device_->StartBlock());
  EXPECT_FALSE(device_->GuardsRaised());
  device_->FinishBlock(true);
  device_->RunAll();
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
}

TEST_F(PaddingTest, WhatLeavesLaterThanItsSuccessorIsRunAgainToo) {
  // The device's last block is one of padding's first kernel; its second one is queued behind it.
  Use(kPadding, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
      /*units=*/2);
  const QueueId background = AddQueue(JobClass::kBestEffort, Chain({2, 1}, microseconds(20)));
  const QueueId urgent = AddQueue(JobClass::kRealTime, Chain({1}));
  ASSERT_TRUE(Post(urgent, urgent_));
  ASSERT_TRUE(device_->RunBlock());  // the real-time input
  ASSERT_TRUE(Post(background, background_));
  device_->PreferLast(true);
  ASSERT_TRUE(device_->RunBlock());    // the background's input
  ASSERT_TRUE(device_->StartBlock());  // its first kernel, as padding
  device_->PreferLast(false);
  ASSERT_TRUE(device_->RunBlockBeside());  // the real-time kernel: the room ends
  ASSERT_TRUE(device_->GuardsRaised());
  device_->FinishBlock(false);
  device_->RunAll();
  EXPECT_EQ(urgent_.result.outcome, Outcome::kDone);
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
}

TEST_F(PaddingTest, AKernelTooLongForTheRoomIsCutAnew) {
  auto background = std::const_pointer_cast<LoadedPlan>(Chain({2, 1}, microseconds(200)));
  PlanOp& op = background->plan.ops[1];
  op.versions = {{"long", {}, 1, 0, op.cost},
                 {"short", {}, 5, 0, {microseconds(200), microseconds(40)}}};
  Contend(Chain({1, 1}), background, /*blocks=*/3);  // the input and the first kernel are done
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  device_->PreferLast(true);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(urgent_.finished, 0);
  device_->PreferLast(false);
  device_->RunAll();
  EXPECT_EQ(urgent_.result.outcome, Outcome::kDone);
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (1 + 2 + 1) + (1 + 2 + 5 + 1));
  // Without real-time work, the version that the profile chose is used again.
  ASSERT_TRUE(Post(QueueId{0}, background_));
  device_->RunAll();
  EXPECT_EQ(device_->blocks_run, (1 + 2 + 1) + (1 + 2 + 5 + 1) + (1 + 2 + 1 + 1));
}

TEST_F(PaddingTest, AKernelThatHasBegunKeepsItsVersionOutsideOfTheRoomToo) {
  auto background = std::const_pointer_cast<LoadedPlan>(Chain({1}, microseconds(200)));
  PlanOp& op = background->plan.ops[0];
  op.versions = {{"long", {}, 1, 0, op.cost},
                 {"short", {}, 5, 0, {microseconds(200), microseconds(40)}}};
  Contend(Chain({1, 2}), background, /*blocks=*/1);  // its input is there
  device_->PreferLast(true);
  ASSERT_TRUE(device_->RunBlock());  // one of five, beside the first real-time kernel
  device_->PreferLast(false);
  device_->RunAll();
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (1 + 3 + 1) + (1 + 5 + 1));
}

TEST_F(PaddingTest, TheFirstJobThatFitsIsPaddedWhereThePolicysChoiceDoesNot) {
  Use(kPadding, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
      /*units=*/2);
  const QueueId slow = AddQueue(JobClass::kBestEffort, Chain({2}, microseconds(200)));
  const QueueId fast = AddQueue(JobClass::kBestEffort, Chain({2}, microseconds(20)));
  const QueueId urgent = AddQueue(JobClass::kRealTime, Chain({1}));
  Request& other = Add();
  std::vector<std::string> order;
  for (Request* request : {&urgent_, &background_, &other}) request->order = &order;
  urgent_.name = "urgent";
  background_.name = "background";
  other.name = "other";
  ASSERT_TRUE(Post(urgent, urgent_));
  ASSERT_TRUE(Post(slow, background_));
  ASSERT_TRUE(Post(fast, other));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  device_->PreferLast(true);
  for (int i = 0; i < 1 + 2 + 1; ++i) ASSERT_TRUE(device_->RunBlock());
  device_->PreferLast(false);
  device_->RunAll();
  EXPECT_EQ(order, (std::vector<std::string>{"other", "urgent", "background"}));
}

}  // namespace
}  // namespace lagoon
