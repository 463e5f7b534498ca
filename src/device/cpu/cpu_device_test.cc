#include "device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <array>

#include "device/conformance/suite.h"
#include "device/cpu/machine.h"

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
      Segment{.kernel = session.Load(body), .args = &seen, .progress = record.get()}));
  EXPECT_EQ(seen.cores.load(), 1u);
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
  session.AwaitRetired(session.Submit(Segment{
      .kernel = session.Load(conformance::MixBody), .args = &args, .progress = record.get()}));
  EXPECT_EQ(counter.checks.load(), 15);
}

TEST(CpuDevice, TheMeterLearnsWhatEveryBlockCosts) {
  struct Meter : BlockMeter {
    void OnBlock(Nanoseconds cpu) override {
      ++blocks;
      if (cpu > Nanoseconds(0)) ++costly;
    }
    std::atomic<int> blocks{0}, costly{0};
  } meter;
  auto device = CreateCpuDevice({.workers = 2, .meter = &meter});
  ASSERT_TRUE(device.has_value());
  Session session(**device);
  std::array<std::uint64_t, 5> y{};
  conformance::MixArgs args{.y = y.data(), .checks = 3};
  Record record(5);
  session.AwaitRetired(session.Submit(Segment{
      .kernel = session.Load(conformance::MixBody), .args = &args, .progress = record.get()}));
  EXPECT_EQ(meter.blocks.load(), 5);
  EXPECT_EQ(meter.costly.load(), 5);
}

TEST(CpuDevice, GoesAwayWithWorkInFlight) {
  auto device = CreateCpuDevice({.workers = 2});
  ASSERT_TRUE(device.has_value());
  conformance::CountArgs args;
  args.work = std::chrono::microseconds(100);
  Record record(100'000);
  {
    Session session(**device);
    session.Submit(Segment{
        .kernel = session.Load(conformance::CountBody), .args = &args, .progress = record.get()});
  }
  conformance::Await(**device, [&] { return args.runs.load() > 0; });
  device->reset();
  const int runs = args.runs.load();
  EXPECT_LT(runs, 100'000);
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
