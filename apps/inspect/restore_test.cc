#include "apps/inspect/testing/restore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "apps/inspect/idempotence.h"
#include "base/testing/paths.h"
#include "policies/registry.h"
#include "program/testing/declared_writes.h"
#include "program/testing/run_graph.h"
#include "sched/dispatcher.h"

namespace lagoon {
namespace {

using testing::TestGraph;

// Residual blocks in which each sum is stored in the shortcut's place.
TestGraph ResidualNetwork(int blocks, std::int64_t size = 32) {
  TestGraph g;
  ValueId x = g.Conv(g.Input({1, 3, size, size}), 16, {}, 1, true, testing::FusedRelu());
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

// The outputs of a job, and its end.
class Answer final : public JobClient {
 public:
  explicit Answer(const Plan& plan) {
    for (const PlanTensor& output : plan.outputs) bytes.emplace_back(output.range.bytes);
    for (std::vector<std::byte>& output : bytes) outputs.push_back(output.data());
  }
  void Finished(const JobResult& of_job) override {
    result = of_job;
    ended = true;
    ended.notify_all();
  }
  void Await() { ended.wait(false); }

  std::vector<std::vector<std::byte>> bytes;
  std::vector<void*> outputs;
  JobResult result;
  std::atomic<bool> ended = false;
};

struct Way {
  const char* scheduler;
  Restart restart;
};

// Runs a model as best effort. Real-time jobs interrupt it at random moments.
class Revoked : public ::testing::TestWithParam<Way> {
 protected:
  Revoked() {
    CpuDeviceOptions options;
    options.workers = 2;
    options.all_background = true;  // a busy machine gives nothing to threads of the idle class
    device_ = *CreateCpuDevice(options);
    options_.model = "revoked";
    options_.restart = GetParam().restart;
    options_.in_place = options_.restart != Restart::kByClaims;
  }

  // Runs the plan until it was revoked 1,000 times, and 50 kernels ran again if it has groups.
  // Compares the bits of every run.
  void Compare(const std::shared_ptr<LoadedPlan>& loaded) {
    const bool groups =
        std::ranges::count(loaded->plan.ops, Restart::kByGroup, &PlanOp::restart) > 0;
    TestGraph small;
    small.Output(small.Op("Relu", {small.Input({1, 16})}));
    const auto urgent = testing::Compile(small.graph(), *device_);
    const auto instance = *Instance::Create(loaded, *device_);
    const auto urgent_instance = *Instance::Create(urgent, *device_);
    const std::vector<const void*> inputs = InputsOf(loaded->plan);
    const std::vector<const void*> urgent_inputs = InputsOf(urgent->plan);
    Answer expected(loaded->plan);
    ASSERT_TRUE(RunOnce(*instance, *device_, inputs, expected.outputs));

    Result<Scheduler> scheduler = MakeScheduler(GetParam().scheduler);
    Dispatcher dispatcher(*device_, scheduler->config, std::move(scheduler->policy));
    const QueueId background = *dispatcher.AddQueue(
        {.name = "m", .job_class = JobClass::kBestEffort, .instances = {instance.get()}});
    const QueueId real_time = *dispatcher.AddQueue(
        {.name = "r", .job_class = JobClass::kRealTime, .instances = {urgent_instance.get()}});
    std::mt19937 random(7);
    const auto enough = [&] {
      const DispatcherStats stats = dispatcher.Stats();
      return stats.revocations >= 1000 && (!groups || stats.reexecuted >= 50);
    };
    for (int run = 0; !enough(); ++run) {
      ASSERT_LT(run, 100'000);
      Answer got(loaded->plan);
      ASSERT_TRUE(dispatcher.Post({background, kNoDeadline, inputs, got.outputs, &got}));
      for (unsigned left = random() % 16; left > 0 && !got.ended; --left) {
        const TimePoint moment = Now() + Nanoseconds(1U << random() % 18);  // at most 131 us
        while (Now() < moment) std::this_thread::yield();
        Answer other(urgent->plan);
        ASSERT_TRUE(
            dispatcher.Post({real_time, kNoDeadline, urgent_inputs, other.outputs, &other}));
        other.Await();
      }
      got.Await();
      ASSERT_EQ(got.result.outcome, Outcome::kDone);
      ASSERT_EQ(got.bytes, expected.bytes) << "run " << run;
    }
    EXPECT_EQ(dispatcher.Stats().reexecuted > 0, groups);
  }

  std::vector<const void*> InputsOf(const Plan& plan) {
    std::mt19937 random(3);
    std::vector<const void*> inputs;
    for (const PlanTensor& input : plan.inputs) {
      std::vector<float>& values = values_.emplace_back(input.range.bytes / sizeof(float));
      for (float& value : values) value = static_cast<float>(random() % 2000) / 1000 - 1;
      inputs.push_back(values.data());
    }
    return inputs;
  }

  std::unique_ptr<Device> device_;
  CompileOptions options_;
  std::deque<std::vector<float>> values_;
};

TEST_P(Revoked, AThousandTimesANetworkGivesTheSameBits) {
  // Kernels that take longer than the time between two checks.
  static const TestGraph kNetwork = ResidualNetwork(6, 64);
  const auto loaded = CompileGraph(kNetwork.graph(), *device_, options_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  Compare(*loaded);
}

TEST_P(Revoked, AThousandTimesAModelGivesTheSameBits) {
  const std::string path = SourceFolder() + "/models/repository/digits/1/model.onnx";
  const auto loaded = CompileModel(path, *device_, options_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  Compare(*loaded);
}

std::string NameOf(const ::testing::TestParamInfo<Way>& info) {
  constexpr const char* kRestarts[] = {"Claims", "Group", "Never"};
  return std::string(info.param.scheduler) + kRestarts[static_cast<int>(info.param.restart)];
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Revoked,
    ::testing::Values(Way{"reset", Restart::kByClaims}, Way{"reset", Restart::kByGroup},
                      Way{"reset", Restart::kNever}, Way{"lagoon", Restart::kByClaims},
                      Way{"lagoon", Restart::kByGroup}, Way{"lagoon", Restart::kNever}),
    NameOf);

}  // namespace
}  // namespace lagoon
