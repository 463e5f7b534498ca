// Conformance: threads that take the place of a unit without work (Device::BorrowUnit, Help).

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/conformance/suite.h"
#include "device/observer.h"

namespace lagoon::conformance {
namespace {

// Sets the word of its caller when so many blocks have run, and counts those of each thread.
struct WordArgs {
  int blocks = 1;
  std::thread::id caller = std::this_thread::get_id();
  Nanoseconds work{0};
  mutable std::atomic<int> by_caller{0}, by_others{0};
  mutable std::atomic<std::uint32_t> word{0};
};
bool WordBody(const void* args, std::uint32_t, BlockContext&) {
  const auto& own = *static_cast<const WordArgs*>(args);
  Spin(own.work);
  (std::this_thread::get_id() == own.caller ? own.by_caller : own.by_others).fetch_add(1);
  if (own.by_caller.load() + own.by_others.load() >= own.blocks) own.word.fetch_or(kHelpDone);
  return true;
}

bool Helps(const Device& device) { return device.info().takes_help; }

// Workers begin to wait a moment after they have begun.
BorrowedUnit Borrow(Device& device, ShareId share = kAllUnits) {
  BorrowedUnit unit = kNoUnit;
  Await(device, [&] { return (unit = device.BorrowUnit(share)) != kNoUnit; });
  return unit;
}

Launch Of(KernelHandle kernel, const WordArgs& args, Record& record) {
  return {.kernel = kernel, .args = &args, .progress = record.get()};
}

TEST_P(DeviceConformance, HelpOfADeviceThatLendsNoUnitReturnsAtOnce) {
  const auto device = Create();
  if (Helps(*device)) GTEST_SKIP() << "this device lends its units";
  EXPECT_EQ(device->BorrowUnit(kAllUnits), kNoUnit);
  const std::atomic<std::uint32_t> word{0};
  device->Help(kNoUnit, {.word = &word});
}

TEST_P(DeviceConformance, AHelperRunsAllBlocksOnTheOnlyUnit) {
  const auto device = Create({.units = 1});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  Session session(*device);
  const KernelHandle kernel = session.Load(WordBody);
  const BorrowedUnit unit = Borrow(*device);
  EXPECT_EQ(device->BorrowUnit(kAllUnits), kNoUnit) << "the unit is lent";
  WordArgs args{.blocks = 12};
  Record first(6), second(6);
  const Dep dep = first.AllDone();
  Launch later = Of(kernel, args, second);
  later.deps = {&dep, 1};
  session.Submit(later);
  session.Submit(Of(kernel, args, first));
  device->Help(unit, {.word = &args.word});
  EXPECT_EQ(args.by_caller.load(), 12);
  session.AwaitAllRetired();

  // The unit is its worker's again.
  WordArgs next;
  Record record(3);
  session.AwaitRetired(session.Submit(Of(kernel, next, record)));
  EXPECT_EQ(next.by_others.load(), 3);
}

TEST_P(DeviceConformance, AHelperEndsAtItsTimeOrWithoutWork) {
  const auto device = Create({.units = 1});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  Session session(*device);
  const KernelHandle kernel = session.Load(WordBody);
  const std::atomic<std::uint32_t> never{0};
  device->Help(Borrow(*device), {.word = &never});  // there is nothing to run
  device->Help(Borrow(*device), {.word = &never, .time = device->Now()});

  WordArgs args{.blocks = 1000, .work = std::chrono::microseconds(100)};
  Record record(1000);
  const BorrowedUnit unit = Borrow(*device);
  session.Submit(Of(kernel, args, record));
  device->Help(unit, {.word = &never, .time = device->Now() + std::chrono::milliseconds(20)});
  EXPECT_LT(args.by_caller.load(), 1000);
  session.AwaitAllRetired();  // the worker runs the others
  EXPECT_EQ(args.by_caller.load() + args.by_others.load(), 1000);
}

TEST_P(DeviceConformance, AHelperLooksAtItsWordAfterEveryBlock) {
  const auto device = Create({.units = 1});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  Session session(*device);
  const KernelHandle kernel = session.Load(WordBody);
  const BorrowedUnit unit = Borrow(*device);
  WordArgs args{.blocks = 3};
  Record record(50);
  session.Submit(Of(kernel, args, record));
  device->Help(unit, {.word = &args.word});
  EXPECT_EQ(args.by_caller.load(), 3);
  session.AwaitAllRetired();
  EXPECT_EQ(args.by_others.load(), 47);
}

TEST_P(DeviceConformance, AHelperTakesNoBlockOfAWorseLevel) {
  const auto device = Create({.units = 1});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  Session session(*device);
  const KernelHandle kernel = session.Load(WordBody);
  for (const Rank worse : {Rank{0}, Rank{1} << 63}) {
    const BorrowedUnit unit = Borrow(*device);
    WordArgs best_effort{.blocks = 5}, real_time{.blocks = 5};
    Record below(5), own(5);
    Launch launch = Of(kernel, best_effort, below);
    launch.help.level = 1;
    session.Submit(launch, {.rank = worse});
    session.Submit(Of(kernel, real_time, own), {.rank = 1});
    device->Help(unit, {.word = &real_time.word, .level = 0});
    EXPECT_EQ(real_time.by_caller.load(), 5);
    EXPECT_EQ(best_effort.by_caller.load(), 0);
    session.AwaitAllRetired();
    EXPECT_EQ(best_effort.by_others.load(), 5) << "the worker was woken for what was left";
  }
}

TEST_P(DeviceConformance, ABestEffortHelperRunsBothLevels) {
  const auto device = Create({.units = 1});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  Session session(*device);
  const KernelHandle kernel = session.Load(WordBody);
  const BorrowedUnit unit = Borrow(*device);
  WordArgs best_effort{.blocks = 4}, real_time{.blocks = 4};
  Record below(4), above(4);
  session.Submit(Of(kernel, real_time, above));
  Launch launch = Of(kernel, best_effort, below);
  launch.help.level = 1;
  session.Submit(launch, {.rank = 9});
  device->Help(unit, {.word = &best_effort.word, .level = 1});
  EXPECT_EQ(real_time.by_caller.load(), 4);
  EXPECT_EQ(best_effort.by_caller.load(), 4);
  session.AwaitAllRetired();
}

TEST_P(DeviceConformance, MoreHelpersThanUnits) {
  const auto device = Create({.units = 2});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  Session session(*device);
  const KernelHandle kernel = session.Load(WordBody);
  constexpr int kRounds = 200;
  constexpr std::size_t kCallers = 4;  // more than units: those that get none wait
  std::mutex submitting;
  std::atomic<int> helped{0}, waited{0};
  std::vector<std::unique_ptr<Record>> records;
  std::vector<std::unique_ptr<WordArgs>> all;
  {
    std::vector<std::jthread> callers;
    for (std::size_t i = 0; i < kCallers; ++i) {
      callers.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) {
          const BorrowedUnit unit = device->BorrowUnit(kAllUnits);
          WordArgs* args = nullptr;
          {
            const std::lock_guard lock(submitting);
            args = all.emplace_back(std::make_unique<WordArgs>()).get();
            args->blocks = 3;
            args->caller = std::this_thread::get_id();
            Launch launch = Of(kernel, *args, *records.emplace_back(std::make_unique<Record>(3)));
            launch.help = {.helper = unit, .alone = round % 2 == 0};
            session.Submit(launch);
            session.Poll();
          }
          if (unit != kNoUnit) device->Help(unit, {.word = &args->word});
          (unit != kNoUnit ? helped : waited).fetch_add(1);
          while (args->word.load() == 0) std::this_thread::yield();
        }
      });
    }
  }
  session.AwaitAllRetired();
  int blocks = 0;
  for (const auto& args : all) blocks += args->by_caller.load() + args->by_others.load();
  EXPECT_EQ(blocks, 3 * kRounds * static_cast<int>(kCallers));
  EXPECT_EQ(helped + waited, kRounds * static_cast<int>(kCallers));
  EXPECT_GT(helped.load(), 0);
}

TEST_P(DeviceConformance, AHelperTakesAUnitOfItsShareAndKeepsToIt) {
  const auto device = Create({.units = 3});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  if (device->info().share_granule != 1) GTEST_SKIP() << "shares of this device are larger";
  Session session(*device);
  const KernelHandle kernel = session.Load(WordBody);
  const ShareId left = device->CreateShare("left", {0, 1}).value();
  const ShareId right = device->CreateShare("right", {1, 2}).value();
  const BorrowedUnit unit = Borrow(*device, left);
  EXPECT_EQ(device->BorrowUnit(left), kNoUnit) << "the share's only unit is lent";
  WordArgs others{.blocks = 6}, own{.blocks = 6};
  Record there(6), here(6);
  Launch launch = Of(kernel, others, there);
  launch.share = right;
  session.Submit(launch);
  launch = Of(kernel, own, here);
  launch.share = left;
  launch.help = {.helper = unit, .alone = true};
  session.Submit(launch);
  device->Help(unit, {.word = &own.word});
  EXPECT_EQ(own.by_caller.load(), 6);
  session.AwaitAllRetired();
  EXPECT_EQ(others.by_caller.load(), 0);

  // The share moves away from the unit that the caller has: others run what is left.
  const BorrowedUnit again = Borrow(*device, left);
  WordArgs moved{.blocks = 6};
  Record record(6);
  ASSERT_TRUE(device->PrepareUnits({2, 1}));
  ASSERT_TRUE(device->MoveShare(left, {2, 1}));
  launch = Of(kernel, moved, record);
  launch.share = left;
  launch.help = {.helper = again, .alone = true};
  session.Submit(launch);
  device->Help(again, {.word = &moved.word});
  session.AwaitAllRetired();
  EXPECT_EQ(moved.by_caller.load(), 0);
  EXPECT_EQ(moved.by_others.load(), 6);
}

TEST_P(DeviceConformance, AHelperLeavesARevokedBlockAndGoesOn) {
  const auto device = Create({.units = 1});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  Session session(*device);
  const KernelHandle mixes = session.Load(MixBody);
  const KernelHandle words = session.Load(WordBody);
  const GuardId guard = session.NewGuard();
  std::atomic<int> checks{0}, left{0};
  std::atomic<bool> stopped{false}, resume{false};
  std::array<std::uint64_t, 4> y{};
  MixArgs mix{.y = y.data(), .checks = 3};
  mix.check_count = &checks;
  mix.stop_at = 2;
  mix.stopped = &stopped;
  mix.resume = &resume;
  mix.left = &left;
  const BorrowedUnit unit = Borrow(*device);
  Record revoked(4), record(2);
  Launch launch{.kernel = mixes, .args = &mix, .progress = revoked.get()};
  launch.guards[0] = session.On(guard, 0);
  const LaunchId id = session.Submit(launch);
  WordArgs args{.blocks = 2};
  session.Submit(Of(words, args, record), {.rank = 5});
  std::jthread other([&] {
    while (!stopped.load()) std::this_thread::yield();
    session.Raise(guard, 1);
    resume.store(true);
  });
  device->Help(unit, {.word = &args.word});
  other.join();
  EXPECT_EQ(left.load(), 1);
  EXPECT_EQ(args.by_caller.load(), 2);
  session.AwaitAllRetired();
  EXPECT_FALSE(session.Complete(id));
}

TEST_P(DeviceConformance, AHelperDeliversNewsAndStopsAtItsOwn) {
  struct Listener final : DeviceListener {
    void OnDeviceNews() override {
      (std::this_thread::get_id() == caller ? by_caller : by_others).fetch_add(1);
      std::array<DeviceEvent, 8> events;
      const std::lock_guard lock(mutex);
      while (const std::size_t count = device->Poll(events)) {
        for (const DeviceEvent& event : std::span(events).first(count)) {
          if (event.kind != DeviceEvent::Kind::kRetired) continue;
          retired.fetch_add(1);
          if (event.launch == LaunchId{1}) word.fetch_or(kHelpDone);
        }
      }
    }
    Device* device = nullptr;
    std::thread::id caller = std::this_thread::get_id();
    std::mutex mutex;
    std::atomic<int> by_caller{0}, by_others{0}, retired{0};
    std::atomic<std::uint32_t> word{0};
  };
  Listener listener;
  const auto device = Create({.units = 1});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  listener.device = device.get();
  const KernelHandle kernel = Session(*device).Load(WordBody);
  const BorrowedUnit unit = Borrow(*device);
  device->SetListener(&listener);
  WordArgs own{.blocks = 2}, others{.blocks = 2};
  Record first(2), second(2);
  {
    const std::lock_guard lock(listener.mutex);
    const Launch launch = Of(kernel, own, first);
    EXPECT_EQ(device->Submit(launch.As(LaunchId{1})), SubmitResult::kOk);
    const Launch next = Of(kernel, others, second);
    EXPECT_EQ(device->Submit(next.As(LaunchId{2})), SubmitResult::kOk);
  }
  device->Help(unit, {.word = &listener.word});
  EXPECT_EQ(own.by_caller.load(), 2);
  EXPECT_GT(listener.by_caller.load(), 0);
  EXPECT_EQ(others.by_caller.load(), 0) << "its own news came first";
  EXPECT_TRUE(Await(*device, [&] { return listener.retired.load() == 2; }));
  device->SetListener(nullptr);
}

// Callers, workers, revocations and launches of all kinds at once.
TEST_P(DeviceConformance, HelpersAndWorkersHaveNoUnitTogether) {
  const auto device = Create({.units = 2});
  if (!Helps(*device)) GTEST_SKIP() << "the device lends no unit";
  struct Alone final : DeviceObserver {
    void OnPlaced(const DeviceBlock& block) override {
      if (of_unit.at(block.unit).fetch_add(1) != 0) together.fetch_add(1);
    }
    void OnEnded(const DeviceBlock& block, TimePoint, bool) override {
      of_unit.at(block.unit).fetch_sub(1);
    }
    std::array<std::atomic<int>, 4> of_unit{};
    std::atomic<int> together{0};
  } alone;
  device->SetObserver(&alone);
  Session session(*device);
  const KernelHandle counting = session.Load(CountBody);
  const KernelHandle words = session.Load(WordBody);
  const GuardId guard = session.NewGuard();
  std::mutex submitting;
  std::uint32_t limit = 0;
  constexpr int kRounds = 300;
  CountArgs below;
  below.work = std::chrono::microseconds(5);
  std::vector<std::unique_ptr<Record>> records;
  std::vector<std::unique_ptr<WordArgs>> all;
  const auto submit = [&](Launch launch, std::uint32_t blocks, Rank rank) {
    launch.progress = records.emplace_back(std::make_unique<Record>(blocks))->get();
    session.Submit(launch, {.rank = rank});
    session.Poll();
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < kRounds; ++round) {
          if (i == 2) {  // best-effort work, revoked now and then
            const std::lock_guard lock(submitting);
            if (round % 3 == 0) session.Raise(guard, ++limit);
            Launch launch{.kernel = counting, .args = &below};
            launch.guards[0] = session.On(guard, limit);
            launch.help.level = 1;
            submit(launch, 7, Rank{1} << 63);
            continue;
          }
          const BorrowedUnit unit = device->BorrowUnit(kAllUnits);
          WordArgs* args = nullptr;
          {
            const std::lock_guard lock(submitting);
            args = all.emplace_back(std::make_unique<WordArgs>()).get();
            args->blocks = 5;
            args->caller = std::this_thread::get_id();
            Launch launch{.kernel = words, .args = args};
            launch.help = {.helper = unit, .alone = round % 3 != 0};
            submit(launch, 5, static_cast<Rank>(round));
          }
          if (unit != kNoUnit) device->Help(unit, {.word = &args->word});
          while (args->word.load() == 0) std::this_thread::yield();
        }
      });
    }
  }
  session.AwaitAllRetired();
  for (const auto& args : all) {
    EXPECT_EQ(args->by_caller.load() + args->by_others.load(), 5);
  }
  EXPECT_EQ(alone.together.load(), 0) << "two threads on one unit";
  device->SetObserver(nullptr);
}

}  // namespace
}  // namespace lagoon::conformance
