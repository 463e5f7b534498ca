// Which grids the device issues: into which stream, after what, and with which parameters.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "device/conformance/suite.h"
#include "device/cuda/testing/gpu_calls.h"

namespace lagoon::cuda {
namespace {

using conformance::CountArgs;
using conformance::CountBody;
using conformance::GateArgs;
using conformance::Record;
using conformance::Session;
using fake::Call;
using fake::EmulatedSettings;
using fake::Named;
using fake::Open;
using fake::OpenFake;
using fake::ParamsOf;

constexpr Rank kBestEffort = Rank{1} << 63;

TEST(GpuIssue, ALaunchIsABlockATileWithTheRecordInItsParameters) {
  const auto device = Open();
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  const GuardId guard = session.NewGuard();
  CountArgs args;
  Record record(7);
  Launch launch{.kernel = count, .args = &args, .progress = record.get()};
  launch.guards[0] = session.On(guard, 5, /*only_before_start=*/true);
  OpenFake().TakeLog();
  session.AwaitRetired(session.Submit(launch));
  const std::vector<Call> launches = Named(OpenFake().TakeLog(), "cuLaunchKernel");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].entry, "lagoon_suite");
  EXPECT_EQ(launches[0].value, 7u) << "the grid";
  const GridParams params = ParamsOf(launches[0]);
  EXPECT_EQ(params.record.blocks, 7u);
  EXPECT_EQ(params.tiles_per_block, 1u);
  EXPECT_EQ(params.opening, 1u);
  EXPECT_EQ(params.guards[0].limit, 5u);
  EXPECT_EQ(params.guards[0].only_before_start, 1u);
  EXPECT_EQ(params.guards[1].word, nullptr);
  EXPECT_EQ(args.runs.load(), 7);
}

TEST(GpuIssue, ALimitedLaunchIsThatManyBlocksThatLoop) {
  const auto device = Open(4);
  Session session(*device);
  CountArgs args;
  Record record(50);
  OpenFake().TakeLog();
  session.AwaitRetired(session.Submit(Launch{.kernel = session.Load(CountBody),
                                             .args = &args,
                                             .progress = record.get(),
                                             .max_claimants = 3}));
  const std::vector<Call> launches = Named(OpenFake().TakeLog(), "cuLaunchKernel");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].value, 3u);
  EXPECT_EQ(ParamsOf(launches[0]).tiles_per_block, 0u);
  EXPECT_EQ(ParamsOf(launches[0]).opening, 0u);
  EXPECT_EQ(args.runs.load(), 50);
}

// The suite's bodies behind two entries.
class TwoClasses final : public Program {
 public:
  const std::string& name() const override { return name_; }
  std::span<const EntryName> entries() const override { return entries_; }
  Result<std::string> ImageFor(const GpuInfo&) const override { return std::string("two"); }

 private:
  const std::string name_ = "two";
  const std::vector<EntryName> entries_ = {{"lagoon_suite", 32}, {"lagoon_suite_heavy", 32}};
};

TEST(GpuIssue, ALaunchTakesTheEntryAndSharedMemoryOfItsKernel) {
  const auto device = Open(1);
  Session session(*device);
  const TwoClasses program;
  const CudaImage light{.program = &program, .entry = 0};
  const CudaImage heavy{.program = &program, .entry = 1};
  const auto call_of = [&](const CudaImage& image, std::size_t shared_bytes) {
    const KernelHandle kernel =
        device->Load({"kernel", nullptr, &image}, {shared_bytes, {}}).value();
    CountArgs args;
    Record record(5);
    OpenFake().TakeLog();
    session.AwaitRetired(
        session.Submit(Launch{.kernel = kernel, .args = &args, .progress = record.get()}));
    EXPECT_EQ(args.runs.load(), 5);
    const std::vector<Call> calls = Named(OpenFake().TakeLog(), "cuLaunchKernel");
    EXPECT_EQ(calls.size(), 1u);
    return calls.at(0).entry + "/" + std::to_string(calls.at(0).value);
  };
  EXPECT_EQ(call_of(light, 0), "lagoon_suite/5");
  EXPECT_EQ(call_of(heavy, 0), "lagoon_suite_heavy/5");
}

// REEF 4.3 in CUDA's terms: first the flag, then the real-time kernel. All words are written in one
// stream that never holds a kernel: in two streams, the older value could land last.
TEST(GpuIssue, WordsOfGuardsAreWrittenInOneStreamBeforeTheRealTimeLaunch) {
  const auto device = Open(1);
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  const KernelHandle count = session.Load(CountBody);
  const GuardId group = session.NewGuard();
  GateArgs gate;
  CountArgs args;
  Record best_effort(1), real_time(1);
  OpenFake().TakeLog();
  Launch low{.kernel = gate_kernel, .args = &gate, .progress = best_effort.get()};
  low.guards[0] = session.On(group, 0);
  session.Submit(low, {kUnordered, kBestEffort});
  session.Await([&] { return gate.waiting.load() == 1; });
  session.Raise(group, 1);
  session.Submit(Launch{.kernel = count, .args = &args, .progress = real_time.get()});
  session.Raise(group, 2);
  gate.open.store(true);
  session.AwaitAllRetired();
  const std::vector<Call> log = OpenFake().TakeLog();
  const std::vector<Call> launches = Named(log, "cuLaunchKernel");
  ASSERT_EQ(launches.size(), 2u);
  std::vector<std::size_t> writes;  // of the word, by place in the log
  for (std::size_t i = 0; i < log.size(); ++i) {
    const bool write = log[i].name == "cuMemcpyHtoDAsync";
    const auto word = reinterpret_cast<std::uint64_t>(ParamsOf(launches[0]).guards[0].word);
    if (write && log[i].to == word) writes.push_back(i);
  }
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(log[writes[0]].value, 1u);
  EXPECT_EQ(log[writes[1]].value, 2u);
  EXPECT_EQ(log[writes[0]].stream, log[writes[1]].stream);
  for (const Call& launch : launches) EXPECT_NE(launch.stream, log[writes[0]].stream);
  const auto between =
      std::count_if(log.begin() + static_cast<std::ptrdiff_t>(writes[0]),
                    log.begin() + static_cast<std::ptrdiff_t>(writes[1]),
                    [](const Call& call) { return call.name == "cuLaunchKernel"; });
  EXPECT_EQ(between, 1);
}

TEST(GpuIssue, RealTimeStreamsHaveAHigherPriorityThanBestEffortOnes) {
  OpenFake().TakeLog();
  const auto device = Open(1);
  Session session(*device);
  std::map<std::uint64_t, std::uint64_t> priority;
  for (const Call& call : Named(OpenFake().TakeLog(), "cuStreamCreateWithPriority")) {
    priority[call.stream] = call.value;
  }
  const KernelHandle count = session.Load(CountBody);
  const auto stream_of = [&](Rank rank) {
    CountArgs args;
    Record record(1);
    session.AwaitRetired(session.Submit(
        Launch{.kernel = count, .args = &args, .progress = record.get()}, {kUnordered, rank}));
    return Named(OpenFake().TakeLog(), "cuLaunchKernel").at(0).stream;
  };
  EXPECT_EQ(priority.at(stream_of(kBestEffort + 3)), 0u) << "CUDA's lowest";
  EXPECT_GT(priority.at(stream_of(3)), 0u);
}

// Attention: three products of one input, and their join. If the stream has places for them all,
// the host has nothing to do between them.
TEST(GpuIssue, AForkAndItsJoinAreInTheStreamOfWhatIsBeforeThem) {
  CudaDeviceOptions options = fake::FakeOptions();
  options.depth = 6;
  const auto device = Open(EmulatedSettings(1), options);
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  const KernelHandle count = session.Load(CountBody);
  GateArgs gate;
  CountArgs args;
  Record before(1), normal(1), query(1), key(1), value(1), join(1);
  const std::vector<Dep> on_before = {before.AllDone()}, on_normal = {normal.AllDone()};
  const std::vector<Dep> on_three = {query.AllDone(), key.AllDone(), value.AllDone()};
  OpenFake().TakeLog();
  session.Submit(Launch{.kernel = gate_kernel, .args = &gate, .progress = before.get()});
  const auto submit = [&](Record& record, const std::vector<Dep>& deps) {
    session.Submit(Launch{.kernel = count, .args = &args, .progress = record.get(), .deps = deps});
  };
  submit(normal, on_before);
  for (Record* const record : {&query, &key, &value}) submit(*record, on_normal);
  submit(join, on_three);
  session.Await([&] { return gate.waiting.load() == 1; });
  const std::vector<Call> launches = Named(OpenFake().TakeLog(), "cuLaunchKernel");
  ASSERT_EQ(launches.size(), 6u);
  for (const Call& launch : launches) EXPECT_EQ(launch.stream, launches[0].stream);
  EXPECT_EQ(ParamsOf(launches[5]).dep_count, 3u) << "a product may leave without a result";
  gate.open.store(true);
  session.AwaitAllRetired();
  EXPECT_EQ(args.runs.load(), 5);
  EXPECT_TRUE(Named(OpenFake().TakeLog(), "cuLaunchKernel").empty());
}

TEST(GpuIssue, AtMostDepthKernelsOfAChainAreInAStream) {
  CudaDeviceOptions options = fake::FakeOptions();
  options.depth = 3;
  const auto device = Open(EmulatedSettings(1), options);
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  std::vector<GateArgs> gates(6);
  std::vector<std::unique_ptr<Record>> records;
  std::vector<Dep> deps;
  for (std::size_t i = 0; i < gates.size(); ++i) {
    records.push_back(std::make_unique<Record>(1));
    deps.push_back(records.back()->AllDone());
  }
  OpenFake().TakeLog();
  for (std::size_t i = 0; i < gates.size(); ++i) {
    session.Submit(Launch{.kernel = gate_kernel,
                          .args = &gates[i],
                          .progress = records[i]->get(),
                          .deps = std::span(deps).subspan(i == 0 ? 0 : i - 1, i == 0 ? 0 : 1)});
  }
  session.Await([&] { return gates[0].waiting.load() == 1; });
  const std::vector<Call> first = Named(OpenFake().TakeLog(), "cuLaunchKernel");
  ASSERT_EQ(first.size(), 3u);
  EXPECT_TRUE(std::all_of(first.begin(), first.end(),
                          [&](const Call& call) { return call.stream == first[0].stream; }));
  EXPECT_EQ(ParamsOf(first[0]).dep_count, 0u);
  EXPECT_EQ(ParamsOf(first[1]).dep_count, 1u);
  for (GateArgs& gate : gates) gate.open.store(true);
  session.AwaitAllRetired();
  for (const GateArgs& gate : gates) EXPECT_EQ(gate.waiting.load(), 1);
}

TEST(GpuIssue, LaunchesOfAnOrderedStreamAreIssuedBehindOneAnother) {
  const auto device = Open(2);
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  const StreamId stream = session.NewStream();
  std::vector<GateArgs> gates(3);
  std::vector<std::unique_ptr<Record>> records;
  OpenFake().TakeLog();
  for (GateArgs& gate : gates) {
    records.push_back(std::make_unique<Record>(1));
    session.Submit(Launch{.kernel = gate_kernel, .args = &gate, .progress = records.back()->get()},
                   {stream});
  }
  ASSERT_TRUE(session.Await([&] { return gates[0].waiting.load() == 1; }));
  const std::vector<Call> launches = Named(OpenFake().TakeLog(), "cuLaunchKernel");
  ASSERT_EQ(launches.size(), 3u) << "though the first one still runs";
  for (std::size_t i = 1; i < launches.size(); ++i) {
    EXPECT_EQ(launches[i].stream, launches[0].stream);
    EXPECT_EQ(ParamsOf(launches[i]).dep_count, 1u);
  }
  gates[2].open.store(true);
  gates[1].open.store(true);
  session.Pass(std::chrono::milliseconds(20));
  EXPECT_EQ(gates[1].waiting.load(), 0) << "the first one is not complete";
  gates[0].open.store(true);
  session.AwaitAllRetired();
  EXPECT_TRUE(Named(OpenFake().TakeLog(), "cuLaunchKernel").empty());
}

// The last launch is behind the revoked one in CUDA's stream, leaves with it, and is issued again.
TEST(GpuIssue, ARevokedLaunchOfAnOrderedStreamLetsTheNextOneRun) {
  const auto device = Open(2);
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  const KernelHandle count = session.Load(CountBody);
  const StreamId stream = session.NewStream();
  const GuardId guard = session.NewGuard();
  GateArgs gate;
  CountArgs skipped, last;
  Record first(1), second(1), third(1);
  session.Submit(Launch{.kernel = gate_kernel, .args = &gate, .progress = first.get()}, {stream});
  Launch revoked{.kernel = count, .args = &skipped, .progress = second.get()};
  revoked.guards[0] = session.On(guard, 0);
  session.Submit(revoked, {stream});
  session.Submit(Launch{.kernel = count, .args = &last, .progress = third.get()}, {stream});
  ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
  session.Raise(guard, 1);
  OpenFake().AwaitWords();
  gate.open.store(true);
  session.AwaitAllRetired();
  EXPECT_EQ(skipped.runs.load(), 0);
  EXPECT_EQ(last.runs.load(), 1);
}

// The launch's grid finds every tile claimed. Until the old block has ended, another grid would
// find no more.
TEST(GpuIssue, ALaunchThatFoundNothingToClaimIsNotIssuedOverAndOver) {
  const auto device = Open(2);
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  GateArgs gate;
  Record record(1);
  const Launch launch{.kernel = gate_kernel, .args = &gate, .progress = record.get()};
  OpenFake().TakeLog();
  session.Submit(launch);
  ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
  session.Submit(launch);
  session.Pass(std::chrono::milliseconds(50));  // a grid and its news take far less
  gate.open.store(true);
  session.AwaitAllRetired();
  EXPECT_EQ(Named(OpenFake().TakeLog(), "cuLaunchKernel").size(), 2u);
  EXPECT_EQ(gate.waiting.load(), 1);
}

}  // namespace
}  // namespace lagoon::cuda
