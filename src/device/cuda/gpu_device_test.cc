// Which calls the GPU device makes, in which order, and what happens when calls fail.

#include "device/cuda/gpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "device/conformance/suite.h"
#include "device/cuda/testing/fake_device.h"

namespace lagoon::cuda {
namespace {

using conformance::CountArgs;
using conformance::CountBody;
using conformance::GateArgs;
using conformance::MixArgs;
using conformance::MixBody;
using conformance::Record;
using conformance::Session;
using fake::Call;
using fake::EmulatedSettings;
using fake::OpenFake;
using ::testing::HasSubstr;

constexpr Rank kBestEffort = Rank{1} << 63;

std::unique_ptr<Device> Open(const fake::Settings& settings, CudaDeviceOptions options) {
  OpenFake().Reset(settings);
  conformance::cuda_form = fake::SuiteImage;
  Result<std::unique_ptr<Device>> device = CreateCudaDevice(options);
  EXPECT_TRUE(device.has_value()) << device.error().message;
  return device ? *std::move(device) : nullptr;
}

std::unique_ptr<Device> Open(int units = 2) {
  return Open(EmulatedSettings(units), fake::FakeOptions());
}

std::vector<Call> Named(const std::vector<Call>& log, const std::string& name) {
  std::vector<Call> found;
  std::copy_if(log.begin(), log.end(), std::back_inserter(found),
               [&](const Call& call) { return call.name == name; });
  return found;
}

GridParams ParamsOf(const Call& launch) {
  GridParams params;
  EXPECT_EQ(launch.parameter.size(), sizeof(params));
  std::memcpy(&params, launch.parameter.data(), sizeof(params));
  return params;
}

TEST(GpuDevice, ALaunchIsABlockATileWithTheRecordInItsParameters) {
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
  EXPECT_EQ(params.guards[0].limit, 5u);
  EXPECT_EQ(params.guards[0].only_before_start, 1u);
  EXPECT_EQ(params.guards[1].word, nullptr);
  EXPECT_EQ(args.runs.load(), 7);
}

TEST(GpuDevice, ALimitedLaunchIsThatManyBlocksThatLoop) {
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

TEST(GpuDevice, ALaunchTakesTheEntryAndSharedMemoryOfItsKernel) {
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

// REEF 4.3 in CUDA's terms: first the flag, then the real-time kernel, and no best-effort work
// between.
TEST(GpuDevice, AGroupsWordIsWrittenRightBeforeTheRealTimeLaunchInItsStream) {
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
  gate.open.store(true);
  session.AwaitAllRetired();
  const std::vector<Call> log = OpenFake().TakeLog();
  const std::vector<Call> launches = Named(log, "cuLaunchKernel");
  ASSERT_EQ(launches.size(), 2u);
  const auto write = std::find_if(log.begin(), log.end(), [&](const Call& call) {
    return call.name == "cuStreamWriteValue32" && call.stream == launches[1].stream;
  });
  ASSERT_NE(write, log.end());
  EXPECT_EQ(write->value, 1u);
  EXPECT_EQ(write->to, reinterpret_cast<std::uint64_t>(ParamsOf(launches[0]).guards[0].word));
  ASSERT_NE(write + 1, log.end());
  EXPECT_EQ((write + 1)->name, "cuLaunchKernel");
  EXPECT_NE(launches[0].stream, launches[1].stream);
}

TEST(GpuDevice, RealTimeStreamsHaveAHigherPriorityThanBestEffortOnes) {
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

TEST(GpuDevice, AtMostDepthKernelsOfAChainAreInAStream) {
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

TEST(GpuDevice, LaunchesOfAnOrderedStreamAreIssuedBehindOneAnother) {
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
TEST(GpuDevice, ARevokedLaunchOfAnOrderedStreamLetsTheNextOneRun) {
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
  gate.open.store(true);
  session.AwaitAllRetired();
  EXPECT_EQ(skipped.runs.load(), 0);
  EXPECT_EQ(last.runs.load(), 1);
}

// Blocks in flight may still look at a detached record, so the next record gets other words.
TEST(GpuDevice, TheWordsOfARecordAreNotUsedAgainAtOnce) {
  const auto device = Open(1);
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  CountArgs args;
  std::set<const void*> words;
  for (int i = 0; i < 50; ++i) {
    Record record(1);
    OpenFake().TakeLog();
    session.AwaitRetired(
        session.Submit(Launch{.kernel = count, .args = &args, .progress = record.get()}));
    const std::vector<Call> launches = Named(OpenFake().TakeLog(), "cuLaunchKernel");
    words.insert(ParamsOf(launches.at(0)).record.done);
  }
  EXPECT_EQ(words.size(), 50u);
}

// The done tiles go to the GPU with the relaunch. The host's record has had them since the
// retirement.
TEST(GpuDevice, APartlyDoneRecordGoesBackAndForth) {
  const auto device = Open(1);
  Session session(*device);
  const KernelHandle mix = session.Load(MixBody);
  const GuardId guard = session.NewGuard();
  constexpr std::uint32_t kBlocks = 70;
  std::vector<std::uint64_t> y(kBlocks, 9);
  std::atomic<int> checks{0};
  std::atomic<bool> stopped{false}, resume{false};
  MixArgs args{.y = y.data(),
               .in_place = true,
               .checks = 1,
               .check_count = &checks,
               .stop_at = 40,
               .stopped = &stopped,
               .resume = &resume};
  Record record(kBlocks);
  Launch launch{.kernel = mix, .args = &args, .progress = record.get()};
  launch.guards[0] = session.On(guard, 0);
  const LaunchId first = session.Submit(launch);
  ASSERT_TRUE(session.Await([&] { return stopped.load(); }));
  session.Raise(guard, 1);
  resume.store(true);
  session.AwaitRetired(first);
  EXPECT_EQ(record->done(), 39u);
  std::uint32_t unclaimed = 0;
  for (const auto& word : record->unclaimed()) {
    unclaimed += static_cast<std::uint32_t>(std::popcount(word.load()));
  }
  EXPECT_EQ(unclaimed, kBlocks - 39);
  OpenFake().TakeLog();
  launch.guards[0] = {};
  session.AwaitRetired(session.Submit(launch));
  const std::vector<Call> log = OpenFake().TakeLog();
  EXPECT_EQ(Named(log, "cuMemcpyHtoDAsync").size(), 2u) << "the count and the bitmap";
  EXPECT_EQ(Named(log, "cuLaunchKernel").at(0).value, kBlocks - 39);
  for (std::uint32_t i = 0; i < kBlocks; ++i) EXPECT_EQ(y[i], conformance::Mix(9, i + 1));
}

// The launch's grid finds every tile claimed. Until the old block has ended, another grid would
// find no more.
TEST(GpuDevice, ALaunchThatFoundNothingToClaimIsNotIssuedOverAndOver) {
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

TEST(GpuDevice, KernelsThatDoNotFitAreRefusedWithTheirNumbers) {
  const auto device = Open();
  const Result<KernelHandle> none = device->Load({"conv", CountBody, nullptr}, {});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message, "device 'cuda:0': kernel 'conv' has no body for CUDA");
  const Result<KernelHandle> kernel =
      device->Load({"conv", nullptr, fake::SuiteImage(CountBody)}, {.scratch_bytes = 1 << 20});
  ASSERT_FALSE(kernel.has_value());
  EXPECT_THAT(kernel.error().message, HasSubstr(std::to_string((1 << 20) + kProtocolSharedBytes)));
}

TEST(GpuDevice, MemoryThatAnotherProcessHasTakenIsMissingInTheMessage) {
  fake::Settings settings = EmulatedSettings(1);
  settings.memory_bytes = std::size_t{8} << 20;  // the device itself needs a part of it
  const auto device = Open(settings, fake::FakeOptions());
  const Result<Buffer> buffer = device->Allocate(std::size_t{8} << 20, MemoryKind::kDevice);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(buffer.error().message, HasSubstr("8388608 bytes"));
  EXPECT_THAT(buffer.error().message, HasSubstr("the GPU has no memory"));
}

TEST(GpuDevice, AFaultInAKernelLosesTheDeviceOnceAndForAll) {
  const auto device = Open(1);
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  GateArgs gate;
  Record record(1);
  const Launch launch{.kernel = gate_kernel, .args = &gate, .progress = record.get()};
  session.Submit(launch);
  ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
  OpenFake().LoseContext(700);
  std::vector<DeviceEvent> seen;
  session.Await([&] {
    DeviceEvent event;
    while (device->Poll({&event, 1}) == 1) seen.push_back(event);
    return !seen.empty() && seen.back().kind == DeviceEvent::Kind::kLost;
  });
  EXPECT_THAT(static_cast<GpuDevice&>(*device).lost_because(),
              HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EQ(device->Submit(launch.As(LaunchId{77})), SubmitResult::kLost);
  EXPECT_EQ(device->Transfer({.id = LaunchId{78}, .progress = record.get()}), SubmitResult::kLost);
  EXPECT_FALSE(device->Allocate(100, MemoryKind::kDevice).has_value());
  DeviceEvent event;
  EXPECT_EQ(device->Poll({&event, 1}), 0u);
}

TEST(GpuDevice, NothingIsLeftBehind) {
  {
    const auto device = Open();
    Session session(*device);
    session.Load(CountBody);
    const Result<Buffer> buffer = device->Allocate(1000, MemoryKind::kDevice);
    const Result<Buffer> host = device->Allocate(1000, MemoryKind::kHostVisible);
    EXPECT_GT(OpenFake().leaks(), 0u);
  }
  EXPECT_EQ(OpenFake().leaks(), 0u);
}

// A short life of a device that does a bit of everything. It ends, whichever call fails.
class Scenario {
 public:
  enum class End { kNoDevice, kNoKernel, kNoMemory, kNoUpload, kLost, kDone };

  End Run() {
    Result<std::unique_ptr<Device>> created = CreateCudaDevice(fake::FakeOptions());
    if (!created) return Ended(End::kNoDevice, created.error().message);
    Device& device = **created;
    const Result<KernelHandle> mix = device.Load({"mix", MixBody, fake::SuiteImage(MixBody)}, {});
    if (!mix) return Ended(End::kNoKernel, mix.error().message);
    const Result<Buffer> buffer = device.Allocate(kBytes, MemoryKind::kDevice);
    if (!buffer) return Ended(End::kNoMemory, buffer.error().message);
    const Status uploaded = device.Upload(buffer->data(), std::as_bytes(std::span(values_)));
    if (!uploaded) return Ended(End::kNoUpload, uploaded.error().message);
    const bool done = RunJob(device, *mix, *buffer);
    return Ended(done ? End::kDone : End::kLost, static_cast<GpuDevice&>(device).lost_because());
  }

  const std::string& message() const { return message_; }

 private:
  static constexpr std::uint32_t kBlocks = 20;
  static constexpr std::size_t kBytes = kBlocks * sizeof(std::uint64_t);

  End Ended(End end, std::string message) {
    message_ = std::move(message);
    return end;
  }

  // Copies up, runs a kernel that is revoked half-way and resumed, and copies down.
  bool RunJob(Device& device, KernelHandle mix, const Buffer& buffer) {
    const GuardId guard = *device.CreateGuard();
    args_.y = reinterpret_cast<std::uint64_t*>(buffer.data());
    Launch launch{.kernel = mix, .args = &args_, .progress = kernel_.get(), .deps = {&up_done_, 1}};
    launch.guards[0] = {device.GuardWord(guard), 0};
    const auto ok = [](SubmitResult submitted) { return submitted == SubmitResult::kOk; };
    const bool begun = ok(device.Transfer({.id = LaunchId{1},
                                           .to = buffer.data(),
                                           .from = values_.data(),
                                           .bytes = kBytes,
                                           .progress = up_.get()})) &&
                       ok(device.Submit(launch.As(LaunchId{2}))) &&
                       Await(device, [&] { return stopped_.load(); });
    const bool revoked = begun && ok(device.Raise(guard, 1));
    resume_.store(true);
    if (!revoked || !Await(device, [&] { return retired_.contains(LaunchId{2}); })) return false;
    EXPECT_FALSE(kernel_->Complete());
    launch.guards[0].limit = 1;
    return ok(device.Submit(launch.As(LaunchId{3}))) &&
           ok(device.Transfer({.id = LaunchId{4},
                               .to = result_.data(),
                               .from = buffer.data(),
                               .bytes = kBytes,
                               .progress = down_.get(),
                               .deps = {&kernel_done_, 1}})) &&
           Await(device, [&] { return retired_.size() == 4; }) && IsRight(result_);
  }

  // False: the device is lost.
  bool Await(Device& device, const std::function<bool()>& condition) {
    bool lost = false;
    conformance::Await(device, [&] {
      DeviceEvent event;
      while (device.Poll({&event, 1}) == 1) {
        lost = lost || event.kind == DeviceEvent::Kind::kLost;
        if (event.kind == DeviceEvent::Kind::kRetired) retired_.insert(event.launch);
      }
      return lost || condition();
    });
    return !lost;
  }

  static bool IsRight(const std::vector<std::uint64_t>& result) {
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      EXPECT_EQ(result[i], conformance::Mix(3, i + 1)) << "tile " << i;
    }
    return true;
  }

  // Blocks may use all of this until the device is destroyed.
  std::vector<std::uint64_t> values_ = std::vector<std::uint64_t>(kBlocks, 3);
  std::vector<std::uint64_t> result_ = std::vector<std::uint64_t>(kBlocks);
  Record up_{1}, kernel_{kBlocks}, down_{1};
  const Dep up_done_ = up_.AllDone(), kernel_done_ = kernel_.AllDone();
  std::atomic<int> checks_{0};
  std::atomic<bool> stopped_{false}, resume_{false};
  MixArgs args_{.in_place = true,
                .checks = 1,
                .check_count = &checks_,
                .stop_at = 9,
                .stopped = &stopped_,
                .resume = &resume_};
  std::set<LaunchId> retired_;
  std::string message_;
};

// Runs the scenario with the `nth` call of `call` failing. False: there is no `nth` call.
bool SurvivesAFailure(const std::string& call, std::uint64_t nth) {
  // A call that gives something back is made only once: after its failure the thing is lost.
  static const std::set<std::string> giving_back = {"cuMemFree",       "cuMemFreeHost",
                                                    "cuStreamDestroy", "cuModuleUnload",
                                                    "cuCtxSetCurrent", "cuDevicePrimaryCtxRelease"};
  OpenFake().Reset(EmulatedSettings(2));
  OpenFake().FailCall(nth, 700, call);
  Scenario scenario;
  const Scenario::End end = scenario.Run();
  if (OpenFake().failed().empty()) {
    EXPECT_EQ(end, Scenario::End::kDone) << scenario.message();
    return false;
  }
  if (end != Scenario::End::kDone) {
    EXPECT_THAT(scenario.message(), HasSubstr(call)) << "call " << nth;
  }
  if (!giving_back.contains(call)) {
    EXPECT_EQ(OpenFake().leaks(), 0u) << call << ", call " << nth;
  }
  return true;
}

TEST(GpuDevice, AnErrorInAnyCallEndsInAMessageThatNamesIt) {
  // Calls that are made only after an error, by chance, or by benchmarks.
  const std::set<std::string> not_needed = {
      "cuGetErrorName",       "cuGetErrorString",   "cuMemGetInfo",
      "cuStreamQuery",        "cuStreamBatchMemOp", "cuEventCreate",
      "cuEventDestroy",       "cuEventRecord",      "cuEventSynchronize",
      "cuEventElapsedTime",   "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
      "cuStreamBeginCapture", "cuGraphLaunch",      "cuGraphExecDestroy",
      "cuGraphDestroy"};
#define LAGOON_CALL_NAME(member, name, parameters) name,
  for (const char* call : {LAGOON_CUDA_DRIVER_CALLS(LAGOON_CALL_NAME)}) {
    std::uint64_t nth = 1;
    while (SurvivesAFailure(call, nth)) ASSERT_LT(++nth, 1000u) << call << " is called for ever";
    EXPECT_TRUE(nth > 1 || not_needed.contains(call)) << call << " was never made";
  }
#undef LAGOON_CALL_NAME
}

}  // namespace
}  // namespace lagoon::cuda
