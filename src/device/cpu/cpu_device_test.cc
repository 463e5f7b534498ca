#include "device/cpu/cpu_device.h"

#include <gtest/gtest.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <span>
#include <thread>

#include "device/conformance/suite.h"
#include "device/host/machine.h"
#include "device/observer.h"

namespace lagoon {
namespace {

using conformance::Record;
using conformance::Session;

TEST(CpuDevice, TakesAWorkerPerUsableCoreByDefault) {
  const auto device = CreateCpuDevice({});
  ASSERT_TRUE(device.has_value());
  EXPECT_EQ((*device)->info().units, UsableCoreCount());
  EXPECT_EQ((*device)->info().name, "cpu");
  EXPECT_FALSE((*device)->info().description.empty());
  EXPECT_GT((*device)->info().memory_bytes, 0u);
}

TEST(CpuDevice, RefusesMoreWorkersThanItSupportsOrCanPin) {
  const auto many = CreateCpuDevice({.workers = 5000});
  ASSERT_FALSE(many.has_value());
  EXPECT_NE(many.error().message.find("5000"), std::string::npos);
  const auto cores = static_cast<std::uint32_t>(UsableCores().size());
  const auto pinned = CreateCpuDevice({.workers = cores + 1, .pin = true});
  ASSERT_FALSE(pinned.has_value());
  EXPECT_EQ(pinned.error().code, ErrorCode::kInvalidArgument);
}

TEST(CpuDevice, PinnedWorkersRunOnTheirCores) {
  struct Seen {
    mutable std::atomic<std::size_t> cores{0};
  } seen;
  const Body body = [](const void* args, std::uint32_t, BlockContext&) {
    static_cast<const Seen*>(args)->cores.store(UsableCores().size());
    return true;
  };
  auto device = CreateCpuDevice({.workers = 1, .pin = true});
  ASSERT_TRUE(device.has_value());
  Session session(**device);
  Record record(1);
  session.AwaitRetired(session.Submit(
      Launch{.kernel = session.Load(body), .args = &seen, .progress = record.get()}));
  EXPECT_EQ(seen.cores.load(), 1u);
}

// One block of four sleeps, as if its core were away.
TEST(CpuDevice, ReportsTheTimeThatBlocksTookFarBeyondTheirExpectedTime) {
  const Body body = [](const void*, std::uint32_t tile, BlockContext&) {
    if (tile == 2) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return true;
  };
  auto device = CreateCpuDevice({.workers = 1});
  ASSERT_TRUE(device.has_value());
  Session session(**device);
  const auto stolen = [&](Nanoseconds expected) {
    Record record(4);
    const LaunchId id = session.Submit(
        Launch{.kernel = session.Load(body), .progress = record.get(), .expected_block = expected});
    session.AwaitRetired(id);
    return session.StolenOf(id);
  };
  const Nanoseconds told = stolen(std::chrono::milliseconds(5));
  EXPECT_GE(told, std::chrono::milliseconds(25));
  EXPECT_EQ(stolen(std::chrono::hours(1)), Nanoseconds(0)) << "shorter";
  bool none = false;  // a busy machine may take the core away in fact
  for (int i = 0; i < 20 && !none; ++i)
    none = stolen(std::chrono::milliseconds(20)) == Nanoseconds(0);
  EXPECT_TRUE(none) << "not 3 times as long";
  EXPECT_EQ(stolen(Nanoseconds(0)), Nanoseconds(0)) << "its expected time is not known";
}

TEST(CpuDevice, TheProbeSeesEveryGuardCheckOfEveryBlock) {
  struct Counter : CheckProbe {
    bool OnCheck() override {
      ++checks;
      return false;
    }
    std::atomic<int> checks{0};
  } counter;
  auto device = CreateCpuDevice({.workers = 2, .probe = &counter});
  ASSERT_TRUE(device.has_value());
  Session session(**device);
  std::array<std::uint64_t, 5> y{};
  conformance::MixArgs args{.y = y.data(), .checks = 3};
  Record record(5);
  session.AwaitRetired(session.Submit(Launch{
      .kernel = session.Load(conformance::MixBody), .args = &args, .progress = record.get()}));
  EXPECT_EQ(counter.checks.load(), 15);
}

// An observer may therefore measure what a block costs its thread.
TEST(CpuDevice, TheObserverIsCalledOnTheUnitsOwnThread) {
  struct Threads final : DeviceObserver {
    void OnPlaced(const DeviceBlock& block) override {
      thread_of.at(block.unit) = std::this_thread::get_id();
    }
    void OnEnded(const DeviceBlock& block, TimePoint, bool) override {
      if (thread_of.at(block.unit) != std::this_thread::get_id()) wrong.fetch_add(1);
    }
    std::array<std::thread::id, 2> thread_of{};
    std::atomic<int> wrong{0};
  } threads;
  auto device = CreateCpuDevice({.workers = 2});
  ASSERT_TRUE(device.has_value());
  (*device)->SetObserver(&threads);
  Session session(**device);
  conformance::CountArgs args;
  args.work = std::chrono::microseconds(100);
  Record record(100);
  session.AwaitRetired(session.Submit(Launch{
      .kernel = session.Load(conformance::CountBody), .args = &args, .progress = record.get()}));
  EXPECT_EQ(threads.wrong.load(), 0);
  for (const std::thread::id id : threads.thread_of) EXPECT_NE(id, std::this_thread::get_id());
}

#if defined(__x86_64__)
// Whoever opens the device or helps may flush denormal numbers to zero, as audio programs do.
TEST(CpuDevice, BlocksKeepDenormalNumbersWhateverTheirCallerDoes) {
  struct Seen {
    mutable std::atomic<std::uint32_t> controls{0};
    mutable std::atomic<std::uint32_t> word{0};
  };
  const Body body = [](const void* args, std::uint32_t, BlockContext&) {
    const auto& seen = *static_cast<const Seen*>(args);
    seen.controls.store(_mm_getcsr() & 0xffc0);
    seen.word.store(kHelpDone);
    return true;
  };
  constexpr std::uint32_t kFlushes = 0x8040, kDefault = 0x1f80;
  const std::uint32_t before = _mm_getcsr();
  _mm_setcsr(before | kFlushes);
  auto device = CreateCpuDevice({.workers = 1});
  ASSERT_TRUE(device.has_value());
  Session session(**device);
  const KernelHandle kernel = session.Load(body);
  Seen worker, helper;
  Record first(1), second(1);
  session.AwaitRetired(
      session.Submit(Launch{.kernel = kernel, .args = &worker, .progress = first.get()}));
  BorrowedUnit unit = kNoUnit;
  conformance::Await(**device,
                     [&] { return (unit = (*device)->BorrowUnit(kAllUnits)) != kNoUnit; });
  session.Submit(Launch{.kernel = kernel, .args = &helper, .progress = second.get()});
  (*device)->Help(unit, {.word = &helper.word});
  const std::uint32_t after = _mm_getcsr();
  _mm_setcsr(before);
  session.AwaitAllRetired();
  EXPECT_EQ(worker.controls.load(), kDefault);
  EXPECT_EQ(helper.controls.load(), kDefault);
  EXPECT_EQ(after & kFlushes, kFlushes);
}
#endif

// Its threads find no work at the moment at which they are to end.
TEST(CpuDevice, GoesAwayAtAnyMoment) {
  for (int i = 0; i < 500; ++i) {
    const auto device = CreateCpuDevice({.workers = 4});
    ASSERT_TRUE(device.has_value());
    conformance::Spin(std::chrono::microseconds(i % 100));
  }
}

TEST(CpuDevice, GoesAwayWithWorkInFlight) {
  auto device = CreateCpuDevice({.workers = 2});
  ASSERT_TRUE(device.has_value());
  conformance::CountArgs args;
  args.work = std::chrono::microseconds(100);
  Record record(100'000);
  {
    Session session(**device);
    session.Submit(Launch{
        .kernel = session.Load(conformance::CountBody), .args = &args, .progress = record.get()});
  }
  conformance::Await(**device, [&] { return args.runs.load() > 0; });
  device->reset();
  const int runs = args.runs.load();
  EXPECT_LT(runs, 100'000);
}

// The workers go to sleep at any moment before or after the wait begins.
TEST(CpuDevice, AWaitForManyLaunchesEndsWhenNoMoreCanRetire) {
  auto device = CreateCpuDevice({.workers = 2});
  ASSERT_TRUE(device.has_value());
  Session session(**device);
  const KernelHandle kernel = session.Load(conformance::CountBody);
  for (int i = 0; i < 300; ++i) {
    conformance::CountArgs args;
    Record first(1);
    Record second(2);
    for (Record* record : {&first, &second}) {
      ASSERT_EQ((*device)->Submit({.kernel = kernel, .args = &args, .progress = record->get()}),
                SubmitResult::kOk);
    }
    conformance::Spin(std::chrono::microseconds(i));
    int retired = 0;
    while (retired < 2) {
      const TimePoint until = (*device)->Now() + std::chrono::seconds(20);
      const std::size_t wanted = i % 2 == 0 ? 2 : 1000;  // there are no thousand
      (*device)->WaitForMany(until, wanted);
      ASSERT_LT((*device)->Now(), until);
      std::array<DeviceEvent, 16> events;
      const std::size_t count = (*device)->Poll(events);
      for (const DeviceEvent& event : std::span(events).first(count)) {
        retired += event.kind == DeviceEvent::Kind::kRetired ? 1 : 0;
      }
    }
  }
}

// All workers never sleep here: one of them works on another launch all the time.
TEST(CpuDevice, AWaitForManyLaunchesCountsWhatRetiresHoweverManyEventsWerePolledBefore) {
  auto device = CreateCpuDevice({.workers = 2});
  ASSERT_TRUE(device.has_value());
  Session session(**device);
  const KernelHandle kernel = session.Load(conformance::GateBody);
  conformance::GateArgs other, args;
  Record other_record(1), record(1);
  int placed = 0, retired = 0;
  const auto poll = [&] {
    std::array<DeviceEvent, 16> events;
    const std::size_t count = (*device)->Poll(events);
    for (const DeviceEvent& event : std::span(events).first(count)) {
      placed += event.kind == DeviceEvent::Kind::kPlaced ? 1 : 0;
      retired += event.kind == DeviceEvent::Kind::kRetired ? 1 : 0;
    }
  };
  session.Submit(Launch{.kernel = kernel, .args = &other, .progress = other_record.get()});
  session.Submit(Launch{.kernel = kernel, .args = &args, .progress = record.get()});
  conformance::Await(**device, [&] {
    poll();
    return placed == 2;
  });
  args.open.store(true);
  const TimePoint until = (*device)->Now() + std::chrono::seconds(20);
  (*device)->WaitForMany(until, 1);
  EXPECT_LT((*device)->Now(), until);
  poll();
  EXPECT_EQ(retired, 1);
  other.open.store(true);
  conformance::Await(**device, [&] {
    poll();
    return retired == 2;
  });
}

TEST(CpuDevice, BuffersOutliveTheDevice) {
  auto device = CreateCpuDevice({.workers = 1});
  ASSERT_TRUE(device.has_value());
  Buffer buffer = *(*device)->Allocate(3 << 20, MemoryKind::kHostVisible);
  device->reset();
  buffer.data()[(3 << 20) - 1] = std::byte{1};
}

}  // namespace
}  // namespace lagoon
