#include "device/observer.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <tuple>

#include "device/conformance/suite.h"

namespace lagoon::conformance {
namespace {

// What happened to each block, by launch and tile.
class Log final : public DeviceObserver {
 public:
  struct Entry {
    int placed = 0, committed = 0, left = 0;
    std::uint32_t unit = 0;
    TimePoint from, to;
    bool copy = false;
  };
  void OnPlaced(const DeviceBlock& block) override {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[Key(block)];
    ++entry.placed;
    entry.unit = block.unit;
    entry.from = block.placed;
    entry.copy = block.copy != nullptr;
  }
  void OnEnded(const DeviceBlock& block, TimePoint at, bool committed) override {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[Key(block)];
    EXPECT_EQ(block.unit, entry.unit);
    EXPECT_EQ(block.placed, entry.from);
    entry.to = at;
    ++(committed ? entry.committed : entry.left);
  }
  std::vector<Entry> Of(LaunchId launch) {
    const std::lock_guard lock(mutex_);
    std::vector<Entry> found;
    for (const auto& [key, entry] : entries_) {
      if (std::get<0>(key) == launch) found.push_back(entry);
    }
    return found;
  }

 private:
  using KeyOf = std::pair<LaunchId, std::uint32_t>;
  static KeyOf Key(const DeviceBlock& block) { return {block.launch, block.tile}; }

  std::mutex mutex_;
  std::map<KeyOf, Entry> entries_;
};

TEST_P(DeviceConformance, AnObserverSeesEveryBlockAndChunkOnce) {
  Log log;
  const auto device = Create();
  if (!device->info().blocks_on_host) GTEST_SKIP() << "it does not see single blocks, for ever";
  device->SetObserver(&log);
  Session session(*device);
  CountArgs args;
  Record record(10);
  const TimePoint begin = device->Now();
  const LaunchId kernel = session.Submit(
      Launch{.kernel = session.Load(CountBody), .args = &args, .progress = record.get()});
  std::vector<std::byte> from(2 * kCopyChunkBytes + 1), to(from.size());
  Record chunks(CopyBlocks(from.size()));
  const LaunchId copy = session.Transfer(
      {.to = to.data(), .from = from.data(), .bytes = from.size(), .progress = chunks.get()});
  session.AwaitAllRetired();
  ASSERT_EQ(log.Of(kernel).size(), 10u);
  ASSERT_EQ(log.Of(copy).size(), 3u);
  for (const LaunchId launch : {kernel, copy}) {
    for (const Log::Entry& entry : log.Of(launch)) {
      EXPECT_EQ(entry.placed, 1);
      EXPECT_EQ(entry.committed, 1);
      EXPECT_EQ(entry.left, 0);
      EXPECT_EQ(entry.copy, launch == copy);
      EXPECT_GE(entry.from, begin);
      EXPECT_LE(entry.from, entry.to);
      EXPECT_LE(entry.to, device->Now());
      if (launch == kernel) {
        EXPECT_LT(entry.unit, device->info().units);
      }
    }
  }
}

TEST_P(DeviceConformance, AnObserverSeesWhichBlocksLeft) {
  Log log;
  const auto device = Create();
  if (!device->info().blocks_on_host) GTEST_SKIP() << "it does not see single blocks, for ever";
  device->SetObserver(&log);
  Session session(*device);
  const GuardId guard = session.NewGuard();
  std::atomic<bool> stopped{false}, resume{false};
  std::atomic<int> checks{0};
  std::uint64_t y = 0;
  MixArgs args{.y = &y,
               .checks = 3,
               .check_count = &checks,
               .stop_at = 1,
               .stopped = &stopped,
               .resume = &resume};
  Record record(1);
  Launch launch{.kernel = session.Load(MixBody, {.block = std::chrono::microseconds(30),
                                                 .check = std::chrono::microseconds(10)}),
                .args = &args,
                .progress = record.get()};
  launch.guards[0] = session.On(guard, 0);
  const LaunchId id = session.Submit(launch);
  session.Await([&] { return stopped.load() || !log.Of(id).empty(); });
  session.Raise(guard, 1);
  resume.store(true);
  session.AwaitRetired(id);
  ASSERT_EQ(log.Of(id).size(), 1u);
  EXPECT_EQ(log.Of(id).front().left, 1);
  EXPECT_EQ(log.Of(id).front().committed, 0);
}

TEST_P(DeviceConformance, NobodySeesBlocksAfterTheObserverHasGone) {
  Log log;
  const auto device = Create();
  if (!device->info().blocks_on_host) GTEST_SKIP() << "it does not see single blocks, for ever";
  Session session(*device);
  CountArgs args;
  Record first(4), second(4);
  Launch launch{.kernel = session.Load(CountBody), .args = &args, .progress = first.get()};
  device->SetObserver(&log);
  const LaunchId seen = session.Submit(launch);
  session.AwaitAllRetired();
  device->SetObserver(nullptr);
  launch.progress = second.get();
  const LaunchId unseen = session.Submit(launch);
  session.AwaitAllRetired();
  EXPECT_EQ(log.Of(seen).size(), 4u);
  EXPECT_TRUE(log.Of(unseen).empty());
}

}  // namespace
}  // namespace lagoon::conformance
