#include "apps/inspect/testing/restore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "apps/inspect/idempotence.h"
#include "program/testing/declared_writes.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using testing::TestGraph;

// Residual blocks in which each sum is stored in the shortcut's place.
TestGraph ResidualNetwork(int blocks) {
  TestGraph g;
  ValueId x = g.Conv(g.Input({1, 3, 32, 32}), 16, {}, 1, true, testing::FusedRelu());
  for (int i = 0; i < blocks; ++i) {
    const ValueId branch = g.Conv(x, 16, {}, 1, true, testing::FusedRelu());
    Fused fused = testing::FusedRelu();
    fused.residual = x;
    x = g.Conv(branch, 16, {}, 1, true, fused);
  }
  g.Output(g.Op("GlobalAveragePool", {x}));
  return g;
}

std::shared_ptr<LoadedPlan> CompileInPlace(const TestGraph& g, Device& device) {
  CompileOptions options;
  options.model = "in_place";
  options.in_place = true;
  auto loaded = CompileGraph(g.graph(), device, options);
  if (!loaded) {
    ADD_FAILURE() << loaded.error().message;
    return nullptr;
  }
  return *std::move(loaded);
}

std::size_t InPlaceOps(const Plan& plan) {
  return static_cast<std::size_t>(std::count_if(plan.ops.begin(), plan.ops.end(),
                                                [](const PlanOp& op) { return op.in_place; }));
}

TEST(InPlace, SumsReplaceTheirShortcuts) {
  const TestGraph g = ResidualNetwork(4);
  const auto device = testing::MakeDevice(2);
  const auto apart = testing::Compile(g.graph(), *device);
  const auto in_place = CompileInPlace(g, *device);
  ASSERT_NE(in_place, nullptr);
  EXPECT_EQ(InPlaceOps(apart->plan), 0u);
  EXPECT_EQ(InPlaceOps(in_place->plan), 4u);
  EXPECT_TRUE(CheckPlan(in_place->plan, in_place->weights));
  auto instance = Instance::Create(in_place, *device);
  ASSERT_TRUE(instance);
  testing::ExpectOutputs(g, testing::RunOn(**instance, *device, g));
}

TEST(InPlace, AShortcutThatSomebodyStillReadsStays) {
  TestGraph g;
  const ValueId x = g.Conv(g.Input({1, 3, 16, 16}), 8, {});
  Fused fused;
  fused.residual = x;
  const ValueId y = g.Conv(x, 8, {}, 1, true, fused);  // reads x twice
  Fused again;
  again.residual = y;
  const ValueId z = g.Conv(g.Conv(y, 8, {}), 8, {}, 1, true, again);
  g.Output(g.Op("Add", {z, y}));  // y is read after z
  const auto device = testing::MakeDevice(2);
  const auto loaded = CompileInPlace(g, *device);
  ASSERT_NE(loaded, nullptr);
  EXPECT_TRUE(CheckPlan(loaded->plan, loaded->weights));
  auto instance = Instance::Create(loaded, *device);
  ASSERT_TRUE(instance);
  testing::ExpectOutputs(g, testing::RunOn(**instance, *device, g));
  for (const PlanOp& op : loaded->plan.ops) {
    EXPECT_FALSE(op.in_place && op.kernel_name == "conv2d") << op.name;
  }
}

TEST(InPlace, KernelsThatReplaceAnInputAreNotIdempotentAndOthersAre) {
  const TestGraph g = ResidualNetwork(4);
  const auto device = testing::MakeDevice(2);
  const auto apart = testing::Compile(g.graph(), *device);
  const auto groups = FindIdempotentGroups(AccessSetsOf(apart->plan));
  EXPECT_EQ(Summarize(groups).idempotent, apart->plan.ops.size());

  const auto in_place = CompileInPlace(g, *device);
  ASSERT_NE(in_place, nullptr);
  const auto in_place_groups = FindIdempotentGroups(AccessSetsOf(in_place->plan));
  for (std::uint32_t i = 0; i < in_place_groups.size(); ++i) {
    EXPECT_EQ(in_place_groups[i] == i, !in_place->plan.ops[i].in_place) << "op " << i;
  }
}

// Every op writes exactly the bytes that it declares to write.
TEST(AccessSets, AreWhatTheBodiesWrite) {
  const TestGraph g = ResidualNetwork(2);
  const auto device = testing::MakeDevice(1);
  for (const bool in_place : {false, true}) {
    const auto loaded =
        in_place ? CompileInPlace(g, *device) : testing::Compile(g.graph(), *device);
    ASSERT_NE(loaded, nullptr);
    testing::DeclaredWrites(loaded, *device).Expect();
  }
}

TEST(Restore, ThousandRevocationsGiveTheSameBits) {
  const TestGraph g = ResidualNetwork(6);
  const auto device = testing::MakeDevice(2);
  const auto loaded = CompileInPlace(g, *device);
  ASSERT_NE(loaded, nullptr);
  auto instance = Instance::Create(loaded, *device);
  ASSERT_TRUE(instance);
  const std::vector<std::vector<float>> expected = testing::RunOn(**instance, *device, g);
  const auto groups = FindIdempotentGroups(AccessSetsOf(loaded->plan));
  ASSERT_EQ(Summarize(groups).not_restorable, 0u);

  std::mt19937 random(5);
  RestoreOptions options;
  options.groups = groups;
  options.guard = *device->CreateGuard();
  options.revoke_after = [&]() -> std::optional<Nanoseconds> {
    if (random() % 4 == 0) return std::nullopt;  // so that every run finishes
    return Nanoseconds(random() % 200'000);
  };
  RestoreStats stats;
  std::vector<const void*> inputs;
  for (const ValueId id : g.graph().inputs) inputs.push_back(g.value(id).data.data());
  for (int run = 0; stats.revocations < 1000 && run < 5000; ++run) {
    std::vector<float> got(expected[0].size(), -1);
    void* outputs[] = {got.data()};
    const Status status = RunWithRestore(**instance, *device, inputs, outputs, options, stats);
    ASSERT_TRUE(status) << status.error().message;
    ASSERT_EQ(std::memcmp(got.data(), expected[0].data(), got.size() * sizeof(float)), 0)
        << "run " << run;
  }
  EXPECT_GE(stats.revocations, 1000u);
  EXPECT_GT(stats.reexecuted, stats.revocations);  // some groups have more than one kernel
  EXPECT_LE(stats.max_reexecuted, 9u);             // REEF 4.4: at most nine
  RecordProperty("revocations", static_cast<int>(stats.revocations));
  RecordProperty("reexecuted", static_cast<int>(stats.reexecuted));
}

}  // namespace
}  // namespace lagoon
