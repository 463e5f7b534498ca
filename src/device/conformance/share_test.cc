// Conformance: shares bound the units on which their launches run, and move.

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "device/conformance/suite.h"
#include "device/observer.h"

namespace lagoon::conformance {
namespace {

/// The units on which each launch's blocks began.
class UnitLog final : public DeviceObserver {
 public:
  void OnPlaced(const DeviceBlock& block) override {
    const std::lock_guard lock(mutex_);
    ++blocks_[block.launch][block.unit];
  }
  void OnEnded(const DeviceBlock& block, TimePoint, bool) override {
    const std::lock_guard lock(mutex_);
    ++ended_[block.launch];
  }

  /// Number of blocks by unit.
  std::map<std::uint32_t, int> Of(LaunchId launch) const {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(launch);
    return found == blocks_.end() ? std::map<std::uint32_t, int>() : found->second;
  }
  int Begun(LaunchId launch) const {
    int sum = 0;
    for (const auto& [unit, blocks] : Of(launch)) sum += blocks;
    return sum;
  }
  int Ended(LaunchId launch) const {
    const std::lock_guard lock(mutex_);
    const auto found = ended_.find(launch);
    return found == ended_.end() ? 0 : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<LaunchId, std::map<std::uint32_t, int>> blocks_;
  std::map<LaunchId, int> ended_;
};

/// A device whose shares come in granules, and shares on it.
class SharedDevice {
 public:
  using Open = std::function<std::unique_ptr<Device>(const Needs&)>;

  /// A device of at least `granules` granules.
  SharedDevice(const Open& open, std::uint32_t granules)
      : granule_(open({.units = 16})->info().share_granule) {
    device_ = open({.units = granules * std::max(granule_, 1u)});
    EXPECT_EQ(device_->info().share_granule, granule_);
    EXPECT_GE(device_->info().units, granules * granule_);
  }

  Device& operator*() { return *device_; }
  Device* operator->() { return device_.get(); }
  std::uint32_t granule() const { return granule_; }
  /// A range in granules.
  UnitRange Granules(std::uint32_t first, std::uint32_t count) const {
    return {first * granule_, count * granule_};
  }
  ShareId New(UnitRange units, const std::string& name = "mine") {
    const Result<ShareId> share = device_->CreateShare(name, units);
    EXPECT_TRUE(share) << (share ? "" : share.error().message);
    return share.value_or(kAllUnits);
  }
  void Move(ShareId share, UnitRange units) {
    const Status prepared = device_->PrepareUnits(units);
    EXPECT_TRUE(prepared) << (prepared ? "" : prepared.error().message);
    const Status moved = device_->MoveShare(share, units);
    EXPECT_TRUE(moved) << (moved ? "" : moved.error().message);
  }

 private:
  const std::uint32_t granule_;
  std::unique_ptr<Device> device_;
};

bool Has(const Error& error, const std::string& part) {
  return error.message.find(part) != std::string::npos;
}

#define LAGOON_OPEN_OR_SKIP(granules)                                                    \
  SharedDevice device([this](const Needs& needs) { return Create(needs); }, (granules)); \
  if (device.granule() == 0) GTEST_SKIP() << "it has no shares, for ever"
#define LAGOON_SKIP_UNSEEN() \
  if (!device->info().blocks_on_host) GTEST_SKIP() << "it does not see single blocks, for ever"

TEST_P(DeviceConformance, OnlyUnitsOfTheShareRunItsBlocks) {
  LAGOON_OPEN_OR_SKIP(4);
  LAGOON_SKIP_UNSEEN();
  UnitLog log;
  device->SetObserver(&log);
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  CountArgs args{.work = std::chrono::microseconds(20)};
  Record bound(100), free(100);
  const LaunchId in_share = session.Submit(Launch{.kernel = count,
                                                  .args = &args,
                                                  .progress = bound.get(),
                                                  .share = device.New(device.Granules(1, 2))});
  session.Submit(Launch{.kernel = count, .args = &args, .progress = free.get()});
  session.AwaitAllRetired();
  EXPECT_EQ(log.Begun(in_share), 100);
  for (const auto& [unit, blocks] : log.Of(in_share)) {
    EXPECT_TRUE(device.Granules(1, 2).Has(unit)) << blocks << " blocks on unit " << unit;
  }
}

TEST_P(DeviceConformance, TwoSharesRunAtTheSameTimeEachOnItsUnits) {
  LAGOON_OPEN_OR_SKIP(3);
  Session session(*device);
  const KernelHandle gate = session.LoadGate();
  GateArgs small, large;
  // The emulated GPU does not keep a grid within its context.
  const std::uint32_t waves = device->info().blocks_on_host ? 2 : 1;
  Record first(waves * device.granule()), second(2 * waves * device.granule());
  // Before the launches: CUDA creates no context for a share while a kernel runs.
  const ShareId one = device.New(device.Granules(0, 1)), two = device.New(device.Granules(1, 2));
  session.Submit(Launch{.kernel = gate, .args = &small, .progress = first.get(), .share = one});
  session.Submit(Launch{.kernel = gate, .args = &large, .progress = second.get(), .share = two});
  const int units = static_cast<int>(device.granule());
  EXPECT_TRUE(session.Await(
      [&] { return small.waiting.load() >= units && large.waiting.load() >= 2 * units; }));
  if (device->info().blocks_on_host) {
    session.Pass(std::chrono::milliseconds(1));
    EXPECT_EQ(small.waiting.load(), units);
    EXPECT_EQ(large.waiting.load(), 2 * units);
  }
  small.open = large.open = true;
  session.AwaitAllRetired();
  EXPECT_TRUE(first->Complete() && second->Complete());
}

// The former units become free while the new ones are still busy.
TEST_P(DeviceConformance, AfterAMoveNoBlockBeginsOnTheFormerUnits) {
  LAGOON_OPEN_OR_SKIP(4);
  LAGOON_SKIP_UNSEEN();
  UnitLog log;
  device->SetObserver(&log);
  Session session(*device);
  const KernelHandle kernel = session.LoadGate();
  const ShareId share = device.New(device.Granules(0, 2));
  const ShareId target = device.New(device.Granules(2, 2));
  GateArgs gate, busy;
  const int units = static_cast<int>(2 * device.granule());
  Record record(12 * device.granule()), later(12 * device.granule()), held(2 * device.granule());
  const LaunchId holding = session.Submit(
      Launch{.kernel = kernel, .args = &busy, .progress = held.get(), .share = target});
  Launch launch{.kernel = kernel, .args = &gate, .progress = record.get(), .share = share};
  const LaunchId running = session.Submit(launch);
  ASSERT_TRUE(
      session.Await([&] { return log.Begun(running) == units && log.Begun(holding) == units; }));
  device.Move(share, device.Granules(2, 2));
  launch.progress = later.get();
  const LaunchId queued = session.Submit(launch);
  gate.open = true;
  ASSERT_TRUE(session.Await([&] { return log.Ended(running) >= units; }));
  session.Pass(std::chrono::milliseconds(2));
  busy.open = true;
  session.AwaitAllRetired();
  for (const auto& [unit, blocks] : log.Of(running)) {
    EXPECT_LT(unit, 4 * device.granule());
    if (device.Granules(0, 2).Has(unit)) {
      EXPECT_EQ(blocks, 1) << "unit " << unit;
    }
  }
  for (const auto& [unit, blocks] : log.Of(queued)) {
    EXPECT_TRUE(device.Granules(2, 2).Has(unit)) << blocks << " blocks on unit " << unit;
  }
  EXPECT_EQ(log.Begun(queued), static_cast<int>(later->blocks()));
}

TEST_P(DeviceConformance, RevocationAndResumeAcrossMovesGiveTheSameBits) {
  LAGOON_OPEN_OR_SKIP(2);
  Session session(*device);
  const KernelHandle mix = session.Load(
      MixBody, {.block = std::chrono::microseconds(30), .check = std::chrono::microseconds(10)});
  const ShareId share = device.New(device.Granules(0, 1));
  const GuardId guard = session.NewGuard();
  const std::uint32_t tiles = 40 * device.granule();
  std::vector<std::uint64_t> y(tiles), expected(tiles);
  for (std::uint32_t i = 0; i < tiles; ++i) y[i] = expected[i] = i * 77;
  MixArgs args{.y = y.data(), .in_place = true, .checks = 3, .work = std::chrono::microseconds(3)};
  MixArgs reference{.y = expected.data(), .in_place = true};
  for (std::uint32_t i = 0; i < tiles; ++i) WriteMix(reference, i);
  Record record(tiles);
  Launch launch{.kernel = mix, .args = &args, .progress = record.get(), .share = share};
  for (std::uint32_t round = 0; round < 8; ++round) {
    launch.guards[0] = session.On(guard, round);
    session.Submit(launch);
    session.Pass(std::chrono::microseconds(40));
    device.Move(share, device.Granules((round + 1) % 2, 1));
    session.Pass(std::chrono::microseconds(40));
    if (round % 3 == 0) device.Move(share, device.Granules(0, 2));
    session.Raise(guard, round + 1);
    if (round % 2 == 0) session.AwaitAllRetired();
  }
  launch.guards[0] = {};
  session.Submit(launch);
  session.AwaitAllRetired();
  EXPECT_TRUE(record->Complete());
  EXPECT_EQ(y, expected);
}

// All workers sleep, and the work is for one of them.
TEST_P(DeviceConformance, TheUnitsOfAShareWakeUpForItsWork) {
  LAGOON_OPEN_OR_SKIP(4);
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  std::vector<ShareId> shares;
  for (std::uint32_t i = 0; i < 4; ++i) shares.push_back(device.New(device.Granules(i, 1)));
  CountArgs args;
  const int rounds = device->info().blocks_on_host ? 40 : 4;  // an emulated block takes long
  for (int round = 0; round < rounds; ++round) {
    const ShareId share = shares[static_cast<std::size_t>(round) % 4];
    const ShareId other = shares[static_cast<std::size_t>(round / 4 + 1) % 4];
    Record first(1), second(1);
    const Dep dep = first.AllDone();
    session.Pass(std::chrono::milliseconds(1));
    session.Submit(Launch{.kernel = count,
                          .args = &args,
                          .progress = second.get(),
                          .share = other,
                          .deps = {&dep, 1}});
    session.Pass(std::chrono::milliseconds(1));
    session.Submit(Launch{.kernel = count, .args = &args, .progress = first.get(), .share = share});
    session.AwaitAllRetired();
  }
  EXPECT_EQ(args.runs.load(), 2 * rounds);
}

// The block that waits is for a unit that works; then it is for one that sleeps.
TEST_P(DeviceConformance, AMoveWakesTheNewUnits) {
  LAGOON_OPEN_OR_SKIP(4);
  LAGOON_SKIP_UNSEEN();
  Session session(*device);
  const KernelHandle kernel = session.LoadGate();
  const ShareId share = device.New(device.Granules(0, 1));
  for (std::uint32_t to = 1; to < 4; ++to) {
    device.Move(share, device.Granules(0, 1));
    GateArgs gate;
    Record record(2 * device.granule());
    session.Submit(
        Launch{.kernel = kernel, .args = &gate, .progress = record.get(), .share = share});
    const int units = static_cast<int>(device.granule());
    ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == units; }));
    session.Pass(std::chrono::milliseconds(1));
    EXPECT_EQ(gate.waiting.load(), units);
    device.Move(share, device.Granules(to, 1));
    EXPECT_TRUE(session.Await([&] { return gate.waiting.load() == 2 * units; }));
    gate.open = true;
    session.AwaitAllRetired();
  }
}

TEST_P(DeviceConformance, ALaunchMayGoBeyondItsShareWhereNobodyElseHasWork) {
  LAGOON_OPEN_OR_SKIP(4);
  LAGOON_SKIP_UNSEEN();
  Session session(*device);
  const KernelHandle kernel = session.LoadGate();
  GateArgs gate, own;
  const auto units = static_cast<int>(device.granule());
  Record visiting(8 * device.granule()), held(device.granule());
  session.Submit(Launch{.kernel = kernel,
                        .args = &own,
                        .progress = held.get(),
                        .share = device.New(device.Granules(3, 1))});
  ASSERT_TRUE(session.Await([&] { return own.waiting.load() == units; }));
  session.Submit(Launch{.kernel = kernel,
                        .args = &gate,
                        .progress = visiting.get(),
                        .share = device.New(device.Granules(0, 1)),
                        .beyond_share = true});
  // The units of the other share are taken.
  const int expected = device->info().lends_units ? 3 * units : units;
  EXPECT_TRUE(session.Await([&] { return gate.waiting.load() == expected; }));
  session.Pass(std::chrono::milliseconds(1));
  EXPECT_EQ(gate.waiting.load(), expected);
  gate.open = own.open = true;
  session.AwaitAllRetired();
  EXPECT_TRUE(visiting->Complete() && held->Complete());
}

TEST_P(DeviceConformance, UnitsOfAShareAreGivenBackWithinOneBlockWhateverTheRanks) {
  LAGOON_OPEN_OR_SKIP(2);
  LAGOON_SKIP_UNSEEN();
  UnitLog log;
  device->SetObserver(&log);
  Session session(*device);
  const auto work = std::chrono::microseconds(200);
  const KernelHandle count = session.Load(CountBody, {.block = work});
  const KernelHandle gate = session.LoadGate();
  const UnitRange mine = device.Granules(1, 1);
  CountArgs args{.work = work};
  GateArgs own;
  Record visiting(1000 * device.granule()), taken(2 * device.granule());
  const auto visitors = [&](LaunchId launch) {
    int sum = 0;
    for (const auto& [unit, blocks] : log.Of(launch)) sum += mine.Has(unit) ? blocks : 0;
    return sum;
  };
  const LaunchId visitor = session.Submit(Launch{.rank = 1,
                                                 .kernel = count,
                                                 .args = &args,
                                                 .progress = visiting.get(),
                                                 .share = device.New(device.Granules(0, 1)),
                                                 .beyond_share = true});
  if (device->info().lends_units) {
    ASSERT_TRUE(session.Await([&] { return visitors(visitor) > 0; }));
  }
  const ShareId share = device.New(mine);
  const int before = visitors(visitor);
  const LaunchId owner = session.Submit(
      Launch{.rank = 9, .kernel = gate, .args = &own, .progress = taken.get(), .share = share});
  const auto units = static_cast<int>(device.granule());
  ASSERT_TRUE(session.Await([&] { return log.Begun(owner) == units; }));
  // One that began while the launch was submitted, and no other.
  EXPECT_LE(visitors(visitor) - before, units);
  own.open = true;
  session.AwaitAllRetired();
  EXPECT_TRUE(visiting->Complete() && taken->Complete());
}

TEST_P(DeviceConformance, UnitsOutOfBoundsAreRefusedByName) {
  LAGOON_OPEN_OR_SKIP(4);
  const std::uint32_t units = device->info().units;
  const ShareId share = device.New(device.Granules(1, 1));
  std::vector<UnitRange> wrong = {
      {0, 0}, {units, device.granule()}, {0, units + 1}, {~0u, 2}, {2, ~0u}};
  if (device.granule() > 1)
    wrong.insert(wrong.end(),
                 {{1, device.granule()}, {0, 1}, {device.granule(), device.granule() + 1}});
  for (const UnitRange range : wrong) {
    SCOPED_TRACE(std::to_string(range.first) + " " + std::to_string(range.count));
    const Result<ShareId> created = device->CreateShare("greedy", range);
    ASSERT_FALSE(created);
    EXPECT_EQ(created.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(Has(created.error(), "device '" + device->info().name + "'"))
        << created.error().message;
    EXPECT_TRUE(Has(created.error(), "share 'greedy'")) << created.error().message;
    EXPECT_TRUE(Has(created.error(), "unit")) << created.error().message;
    EXPECT_FALSE(device->PrepareUnits(range));
    const Status moved = device->MoveShare(share, range);
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(Has(moved.error(), "share 'mine'")) << moved.error().message;
  }
  for (const ShareId unknown : {kAllUnits, ShareId{2}}) {
    const Status moved = device->MoveShare(unknown, device.Granules(0, 1));
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(Has(moved.error(), "share " + std::to_string(Raw(unknown))))
        << moved.error().message;
  }
}

TEST_P(DeviceConformance, SharesAreBoundedInNumber) {
  LAGOON_OPEN_OR_SKIP(2);
  ASSERT_GT(device->info().max_shares, 0u);
  std::set<ShareId> shares = {kAllUnits};
  for (std::uint32_t i = 0; i < device->info().max_shares; ++i) {
    EXPECT_TRUE(shares.insert(device.New(device.Granules(i % 2, 1))).second);
  }
  const Result<ShareId> last = device->CreateShare("the last", device.Granules(0, 1));
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(Has(last.error(), "the last")) << last.error().message;
}

}  // namespace
}  // namespace lagoon::conformance
