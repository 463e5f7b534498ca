#include "program/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "device/forwarding_device.h"
#include "program/profile/part_times.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using testing::MakeDevice;
using testing::TestGraph;

/// A few ops of every kind that can leave in the middle: convolutions, a branch, pooling, a matrix.
TestGraph SmallNet() {
  TestGraph g;
  const ValueId x = g.Conv(g.Input({1, 3, 12, 12}), 8, {}, 1, true, testing::FusedRelu());
  const ValueId left = g.Conv(x, 8, {}, 8);
  const ValueId right = g.Pool("MaxPool", x, {});
  Fused fused = testing::FusedRelu();
  fused.residual = g.Op("Add", {left, right});
  const ValueId y = g.Conv(x, 8, {}, 1, true, fused);
  const ValueId flat = g.View("Flatten", y, {1, 8 * 12 * 12});
  const ValueId logits = g.Op("MatMul", {flat, g.Constant({8 * 12 * 12, 10})});
  g.Output(g.Op("Softmax", {logits}, {{"axis", std::int64_t{1}}}));
  return g;
}

/// Makes the n-th check from now on leave, once.
class LeaveAt final : public CheckProbe {
 public:
  bool OnCheck() override { return ++checks_ == at_; }
  void Arm(std::int64_t at) {
    checks_ = 0;
    at_ = at;
  }
  std::int64_t checks() const { return checks_; }

 private:
  std::atomic<std::int64_t> checks_{0};
  std::atomic<std::int64_t> at_{0};
};

TEST(RunOnce, RevokedAtAnyCheckComputesTheSameBits) {
  const TestGraph g = SmallNet();
  LeaveAt probe;
  const auto device = MakeDevice(2, &probe);
  const auto loaded = testing::Compile(g.graph(), *device);
  ASSERT_NE(loaded, nullptr);
  const auto instance = Instance::Create(loaded, *device);
  ASSERT_TRUE(instance.has_value());
  const auto expected = testing::RunOn(**instance, *device, g);
  testing::ExpectOutputs(g, expected);
  const std::int64_t checks = probe.checks();
  ASSERT_GE(checks, static_cast<std::int64_t>(loaded->plan.ops.size()));
  for (std::int64_t at = 1; at <= checks; ++at) {
    probe.Arm(at);
    ASSERT_EQ(testing::RunOn(**instance, *device, g), expected) << "revoked at check " << at;
    ASSERT_GE(probe.checks(), at);
  }
}

TEST(RunOnce, RunsMoreOpsThanTheDeviceTakesAtOnce) {
  TestGraph g;
  ValueId x = g.Input({4});
  const auto device = MakeDevice(2);
  const std::uint32_t ops = device->info().max_launches + 50;
  for (std::uint32_t i = 0; i < ops; ++i) x = g.Op("Neg", {x});
  g.Output(x);
  const auto loaded = testing::Compile(g.graph(), *device);
  ASSERT_NE(loaded, nullptr);
  ASSERT_EQ(loaded->plan.ops.size(), ops);
  const auto instance = Instance::Create(loaded, *device);
  ASSERT_TRUE(instance.has_value());
  testing::ExpectOutputs(g, testing::RunOn(**instance, *device, g));
}

TEST(RunPlan, APartStartsWhenThePartBeforeIsComplete) {
  const TestGraph g = SmallNet();
  const auto device = MakeDevice(2);
  const auto loaded = testing::Compile(g.graph(), *device);
  ASSERT_NE(loaded, nullptr);
  const auto instance = Instance::Create(loaded, *device);
  ASSERT_TRUE(instance.has_value());
  const auto ops = static_cast<std::uint32_t>(loaded->plan.ops.size());
  const std::vector<std::uint32_t> ends = {1, 4, ops};
  std::vector<OpTimes> times(ops);
  RunOptions options;
  options.times = times;
  options.part_ends = ends;
  std::vector<float> output(10);
  const void* const inputs[] = {g.value(g.graph().inputs[0]).data.data()};
  void* const outputs[] = {output.data()};
  ASSERT_TRUE(RunPlan(**instance, *device, inputs, outputs, options));
  testing::ExpectOutputs(g, {output});
  for (const std::uint32_t end : {ends[0], ends[1]}) {
    for (std::uint32_t before = 0; before < end; ++before) {
      for (std::uint32_t behind = end; behind < ops; ++behind) {
        EXPECT_LE(times[before].complete, times[behind].placed);
      }
    }
  }
}

TEST(MeasureParts, GivesATimeForEachPart) {
  const TestGraph g = SmallNet();
  const auto device = MakeDevice(2);
  const auto loaded = testing::Compile(g.graph(), *device);
  ASSERT_NE(loaded, nullptr);
  const auto ops = static_cast<std::uint32_t>(loaded->plan.ops.size());
  const std::vector<std::vector<std::uint32_t>> candidates = {{2, ops}, {ops}};
  int called = 0;
  const auto measured = MeasureParts(*loaded, *device, candidates, 3, [&](int turn, int of) {
    EXPECT_EQ(turn, called++);
    EXPECT_EQ(of, 4);
  });
  EXPECT_EQ(called, 4);
  ASSERT_TRUE(measured);
  ASSERT_EQ(measured->size(), 2u);
  EXPECT_EQ(measured->at(0).parts.size(), 2u);
  EXPECT_EQ(measured->at(1).parts.size(), 1u);
  EXPECT_EQ(measured->at(1).parts[0], measured->at(1).whole);
  for (const Nanoseconds part : measured->at(0).parts) EXPECT_GT(part.count(), 0);
}

/// Fails from the `after`-th submission on, in the way of `how`; forwards everything before.
class FailingDevice final : public ForwardingDevice {
 public:
  enum class How { kRefuses, kTells, kFull };
  FailingDevice(Device& device, How how, int after)
      : ForwardingDevice(device), how_(how), after_(after) {}

  SubmitResult Submit(const Launch& launch) override {
    return Fails() ? result() : device_.Submit(launch);
  }
  SubmitResult Transfer(const Copy& copy) override {
    return Fails() ? result() : device_.Transfer(copy);
  }
  std::size_t Poll(std::span<DeviceEvent> events) override {
    if (how_ != How::kTells || !Fails()) return device_.Poll(events);
    events[0] = {};
    events[0].kind = DeviceEvent::Kind::kLost;
    return 1;
  }

 private:
  bool Fails() { return ++calls_ > after_; }
  SubmitResult result() const {
    if (how_ == How::kTells) return SubmitResult::kOk;  // and never reports the launch
    return how_ == How::kFull ? SubmitResult::kFull : SubmitResult::kLost;
  }

  How how_;
  int after_;
  int calls_ = 0;
};

Status RunOnFailingDevice(FailingDevice::How how) {
  const TestGraph g = SmallNet();
  const auto device = MakeDevice(1);
  const auto loaded = testing::Compile(g.graph(), *device);
  const auto instance = Instance::Create(loaded, *device);
  FailingDevice failing(*device, how, 0);
  std::vector<float> output(10);
  const void* const inputs[] = {g.value(g.graph().inputs[0]).data.data()};
  void* const outputs[] = {output.data()};
  return RunOnce(**instance, failing, inputs, outputs);
}

TEST(RunOnce, ReportsADeviceThatIsLost) {
  for (const auto how : {FailingDevice::How::kRefuses, FailingDevice::How::kTells}) {
    const Status status = RunOnFailingDevice(how);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kInternal);
    EXPECT_THAT(status.error().message, HasSubstr("model 'test': device 'cpu' was lost"));
  }
}

TEST(RunOnce, ReportsADeviceThatIsFullWithoutReason) {
  const Status status = RunOnFailingDevice(FailingDevice::How::kFull);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
}

TEST(ProfilePlan, MeasuresEveryKernelAndTheWhole) {
  const TestGraph g = SmallNet();
  const auto device = MakeDevice(2);
  const auto loaded = testing::Compile(g.graph(), *device);
  ASSERT_NE(loaded, nullptr);
  for (PlanOp& op : loaded->plan.ops) op.cost = {};
  EXPECT_EQ(loaded->plan.standalone.count(), 0);
  const TimePoint start = device->Now();
  const Status profiled = ProfilePlan(*loaded, *device, 5);
  const Nanoseconds spent = device->Now() - start;
  ASSERT_TRUE(profiled.has_value());
  for (const PlanOp& op : loaded->plan.ops) {
    EXPECT_GT(op.cost.kernel.count(), 0) << op.name;
    EXPECT_GT(op.cost.block.count(), 0) << op.name;
    EXPECT_LE(op.cost.block, op.cost.kernel) << op.name;
    EXPECT_LT(op.cost.kernel, spent) << op.name;
  }
  EXPECT_GT(loaded->plan.standalone.count(), 0);
  EXPECT_LT(loaded->plan.standalone, spent);
}

TEST(ProfilePlan, FailsWithoutMemoryForAnArena) {
  TestGraph g;
  g.Output(g.Op("Neg", {g.Input({1 << 18})}));
  CpuDeviceOptions options;
  options.workers = 1;
  options.memory_limit_bytes = 1 << 20;
  const auto device = CreateCpuDevice(options);
  ASSERT_TRUE(device.has_value());
  const auto loaded = testing::Compile(g.graph(), **device);
  ASSERT_NE(loaded, nullptr);
  const Status profiled = ProfilePlan(*loaded, **device, 1);
  ASSERT_FALSE(profiled.has_value());
  EXPECT_EQ(profiled.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace lagoon
