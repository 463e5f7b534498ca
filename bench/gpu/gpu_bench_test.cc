// The benchmarks of a GPU, on the emulated one. The numbers mean nothing there: the tests check
// that every way and mode runs to its end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/testing/paths.h"
#include "bench/gpu/block_events.h"
#include "bench/gpu/guards.h"
#include "bench/gpu/isolation.h"
#include "bench/gpu/machinery.h"
#include "bench/gpu/probe_bodies.cuh"
#include "bench/gpu/probe_program.h"
#include "device/cuda/driver/nvrtc.h"
#include "kernels/cuda/bodies/bodies.cuh"
#include "program/testing/emulated_gpu.h"

namespace lagoon::bench {
namespace {

using lagoon::testing::EmulatedDriver;
using lagoon::testing::EmulatedEntries;
using lagoon::testing::EmulatedProgram;
using lagoon::testing::StartEmulatedGpu;
using ::testing::HasSubstr;

const EmulatedProgram& Probe() {
  static const EmulatedProgram program(cuda::ProbeEntries());
  return program;
}

DeviceChoice StartGpu(EmulatedEntries entries = {}) {
  entries.insert({{"lagoon_probe", lagoon_probe},
                  {"lagoon_watch", lagoon_watch},
                  {"lagoon_busy", lagoon_busy}});
  return StartEmulatedGpu(2, std::move(entries));
}

double MetricOf(const Report& report, const std::string& name) {
  const nlohmann::json& metrics = report.json()["metrics"];
  EXPECT_TRUE(metrics.contains(name)) << name;
  return metrics.value(name, -1.0);
}

std::ptrdiff_t CallsOf(const std::string& name, const std::vector<cuda::fake::Call>& log) {
  return std::count_if(log.begin(), log.end(),
                       [&](const cuda::fake::Call& call) { return call.name == name; });
}

GuardsOptions SmallGuards(const DeviceChoice& device) {
  GuardsOptions options;
  options.device = device;
  options.rounds = 12;
  options.watchers = 1;  // leaves a multiprocessor for the busy kernel
  options.program = &Probe();
  return options;
}

TEST(Guards, EveryWayIsSeenIdleAndSaturated) {
  Report report("guards", {}, "test");
  const GuardsOptions options = SmallGuards(StartGpu());
  const Status status = RunGuards(options, report);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  for (const char* way : {"pinned_poll", "write_value32", "batch_mem_op", "memcpy_async"}) {
    for (const char* state : {"idle", "saturated"}) {
      const std::string of = std::string(".") + way + "." + state;
      EXPECT_GT(MetricOf(report, "guard_us_p50" + of), 0);
      EXPECT_GE(MetricOf(report, "guard_us_p99" + of), MetricOf(report, "guard_us_p50" + of));
      EXPECT_GE(MetricOf(report, "guard_us_p50" + of + ".all"),
                MetricOf(report, "guard_us_p50" + of));
    }
  }
  EXPECT_EQ(EmulatedDriver().fault(), "");
  EXPECT_EQ(EmulatedDriver().leaks(), 0u);
}

TEST(Guards, EachWayTakesItsOwnCall) {
  Report report("guards", {}, "test");
  const GuardsOptions options = SmallGuards(StartGpu());
  EmulatedDriver().TakeLog();
  ASSERT_TRUE(RunGuards(options, report).has_value());
  const auto log = EmulatedDriver().TakeLog();
  for (const char* name : {"cuStreamWriteValue32", "cuStreamBatchMemOp", "cuMemcpyHtoDAsync"}) {
    EXPECT_EQ(CallsOf(name, log), 2 * options.rounds) << name;
  }
}

TEST(Guards, SayWhichCallFails) {
  Report report("guards", {}, "test");
  const GuardsOptions options = SmallGuards(StartGpu());
  EmulatedDriver().RefuseCall("cuStreamBatchMemOp", 801);
  const Status status = RunGuards(options, report);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("cuStreamBatchMemOp"));
  EXPECT_EQ(EmulatedDriver().leaks(), 0u);
}

TEST(Guards, AreForAGpu) {
  Report report("guards", {}, "test");
  GuardsOptions options;
  options.device.name = "cpu";
  const Status status = RunGuards(options, report);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("device 'cpu'"));
}

TEST(Isolation, EveryModeRunsOnAGpuOrIsRefusedWithTheReason) {
  Report report("isolation", {}, "test");
  IsolationOptions options;
  options.device = StartGpu();
  options.rounds = 10;
  options.windows = 2;
  options.best_effort_block_us = 2;
  options.real_time_block_us = options.piece_us = 1;
  options.program = &Probe();
  const Status status = RunIsolation(options, report);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  for (const char* mode : {"alone", "priority", "guard", "abort"}) {
    const std::string of = std::string(".") + mode;
    EXPECT_GT(MetricOf(report, "isolation_placed_us_p50" + of), 0);
    EXPECT_GE(MetricOf(report, "isolation_complete_us_p50" + of),
              MetricOf(report, "isolation_placed_us_p50" + of));
  }
  EXPECT_GT(MetricOf(report, "isolation_best_effort_share.abort"), 0);
  EXPECT_GE(MetricOf(report, "isolation_best_effort_places"), 2);
  // The emulated GPU has two multiprocessors, but the smallest share is eight.
  EXPECT_THAT(report.json()["refused"]["share"].get<std::string>(), HasSubstr("2 multiprocessors"));
  EXPECT_EQ(EmulatedDriver().fault(), "");
  EXPECT_EQ(EmulatedDriver().leaks(), 0u);
}

TEST(Isolation, LongBlocksLeaveWhenTheyAreTold) {
  Report report("isolation", {}, "test");
  IsolationOptions options;
  options.device.workers = 2;
  options.rounds = 30;
  options.windows = 2;
  options.best_effort_block_us = 3000;
  const Status status = RunIsolation(options, report);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  const double abort = MetricOf(report, "isolation_placed_us_p50.abort");
  EXPECT_LT(2 * abort, MetricOf(report, "isolation_placed_us_p50.guard"));
  EXPECT_LT(2 * abort, MetricOf(report, "isolation_placed_us_p50.priority"));
}

void ExpectBlockEvents(const BlockEventsOptions& options) {
  Report report("block-events", {}, "test");
  const Status status = RunBlockEvents(options, report);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  for (const char* which : {"b16.none", "b16.often", "b16.every16", "b160.none", "b160.often"}) {
    const std::string of = std::string(".") + which;
    EXPECT_GE(MetricOf(report, "kernel_us_p90" + of), 0);
    EXPECT_GT(MetricOf(report, "seen_us_p50" + of), 0);
  }
  // The begin, the end and the retirement.
  EXPECT_EQ(MetricOf(report, "events_per_launch.b160.none"), 3);
  EXPECT_GT(MetricOf(report, "events_per_launch.b160.often"), 4);
  EXPECT_GT(MetricOf(report, "events_per_launch.b160.often"),
            MetricOf(report, "events_per_launch.b160.none"));
}

TEST(BlockEvents, OfACpu) {
  BlockEventsOptions options;
  options.device.workers = 2;
  options.rounds = 20;
  options.windows = 2;
  ExpectBlockEvents(options);
}

TEST(BlockEvents, OfADeviceThatReportsNoneAreRefusedByName) {
  BlockEventsOptions options;
  options.device = StartGpu();
  options.program = &Probe();
  Report report("block-events", {}, "test");
  const Status status = RunBlockEvents(options, report);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(status.error().message, HasSubstr("'cuda:0' does not report blocks"));
}

template <cuda::BodyId kId>
void AddPlain(EmulatedEntries& entries) {
  const PlainBody plain{static_cast<std::uint32_t>(kId), cuda::kBodyThreads};
  entries[PlainEntries({&plain, 1}).front().name] = [](const cuda::GridParams& params,
                                                       unsigned char* shared) {
    cuda::RunPlainBlock<cuda::OpBody<kId>>(params, shared);
  };
}

EmulatedEntries AllPlain() {
  EmulatedEntries entries;
#define LAGOON_ADD_PLAIN(Body) AddPlain<cuda::BodyId::k##Body>(entries);
  LAGOON_BODIES(LAGOON_ADD_PLAIN)
#undef LAGOON_ADD_PLAIN
  return entries;
}

MachineryOptions SmallMachinery(const DeviceChoice& device) {
  MachineryOptions options;
  options.device = device;
  options.zoo = SourceFolder() + "/models/repository";
  options.models = {"digits"};
  options.rounds = 2;
  options.repeats = 3;
  options.plain = [](std::span<const PlainBody> bodies) {
    return std::make_unique<EmulatedProgram>(PlainEntries(bodies));
  };
  return options;
}

TEST(Machinery, EveryKernelRunsPlainUnderTheProtocolAndWithNotes) {
  const DeviceChoice device = StartGpu(AllPlain());
  Report report("machinery", {}, "test");
  const Status status = RunMachinery(SmallMachinery(device), report);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  for (const char* variant : {"plain", "protocol", "notes"}) {
    EXPECT_GT(MetricOf(report, std::string("kernels_us.digits.") + variant), 0);
  }
  for (const char* variant : {"plain.launches", "plain.graph", "notes.launches", "notes.graph"}) {
    EXPECT_GT(MetricOf(report, std::string("chain_us.digits.") + variant), 0);
  }
  EXPECT_GE(MetricOf(report, "protocol_cost_most.digits"),
            MetricOf(report, "protocol_cost.digits"));
  EXPECT_EQ(EmulatedDriver().fault(), "");
  EXPECT_EQ(EmulatedDriver().leaks(), 0u);
  EXPECT_GT(CallsOf("cuGraphLaunch", EmulatedDriver().TakeLog()), 0);
}

TEST(Machinery, AFailingCallLeavesNothingBehind) {
  for (const char* call : {"cuGraphInstantiateWithFlags", "cuStreamEndCapture", "cuEventRecord"}) {
    const DeviceChoice device = StartGpu(AllPlain());
    EmulatedDriver().RefuseCall(call, 801);
    Report report("machinery", {}, "test");
    const Status status = RunMachinery(SmallMachinery(device), report);
    ASSERT_FALSE(status.has_value()) << call;
    EXPECT_THAT(status.error().message, HasSubstr(call));
    EXPECT_EQ(EmulatedDriver().leaks(), 0u) << call;
  }
}

TEST(Machinery, PlainEntriesAreTheirBodysAlone) {
  const PlainBody body{19, 256};
  EXPECT_EQ(PlainEntries({&body, 1}).front().name, "lagoon_plain_19");
}

// Compiles the programs as for a GPU. NVRTC works without one.
TEST(GpuPrograms, TheCompilerTakesThem) {
  if (!cuda::Nvrtc::Load()) GTEST_SKIP() << "no NVRTC on this machine";
  cuda::GpuInfo gpu;
  gpu.major = 9;
  const auto probe = cuda::ProbeProgram().ImageFor(gpu);
  EXPECT_TRUE(probe.has_value()) << probe.error().message;
  const std::vector<PlainBody> bodies = {
      {static_cast<std::uint32_t>(cuda::BodyId::kPool), cuda::kBodyThreads},
      {static_cast<std::uint32_t>(cuda::BodyId::kConv64x64Fp32), cuda::kBodyThreads},
      {static_cast<std::uint32_t>(cuda::BodyId::kConv128x128Bf16), cuda::kBodyThreads}};
  const auto plain = PlainProgram(bodies)->ImageFor(gpu);
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  for (const cuda::EntryName& entry : PlainEntries(bodies)) {
    EXPECT_THAT(*plain, HasSubstr(entry.name));
  }
}

}  // namespace
}  // namespace lagoon::bench
