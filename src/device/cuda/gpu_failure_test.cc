// What happens when calls of the driver fail, and when kernels do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "device/conformance/suite.h"
#include "device/cuda/gpu_device.h"
#include "device/cuda/testing/gpu_calls.h"

namespace lagoon::cuda {
namespace {

using conformance::GateArgs;
using conformance::MixArgs;
using conformance::MixBody;
using conformance::Record;
using conformance::Session;
using fake::EmulatedSettings;
using fake::Open;
using fake::OpenFake;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GpuFailure, AFaultInAKernelLosesTheDeviceOnceAndForAll) {
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

std::string AwaitLoss(Device& device) {
  conformance::Await(device, [&] {
    DeviceEvent event;
    while (device.Poll({&event, 1}) == 1) {
      if (event.kind == DeviceEvent::Kind::kLost) return true;
    }
    return false;
  });
  return static_cast<GpuDevice&>(device).lost_because();
}

TEST(GpuFailure, AfterAFaultOnlyANewProcessOpensTheGpu) {
  auto device = Open(1);
  OpenFake().LoseContext(719);
  EXPECT_THAT(AwaitLoss(*device), HasSubstr("the driver refuses this process: restart it"));
  device.reset();
  const auto again = CreateCudaDevice(fake::FakeOptions());
  ASSERT_FALSE(again.has_value());
  EXPECT_THAT(again.error().message,
              AllOf(HasSubstr("cuDevicePrimaryCtxRetain"), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"),
                    HasSubstr("restart it")));
}

TEST(GpuFailure, AfterAnotherErrorTheGpuCanBeOpenedAgain) {
  auto device = Open(1);
  OpenFake().LoseContext(fake::kPassingFault);
  EXPECT_THAT(AwaitLoss(*device), Not(HasSubstr("restart")));
  device.reset();
  EXPECT_TRUE(CreateCudaDevice(fake::FakeOptions()).has_value());
}

CudaDeviceOptions ImpatientOptions() {
  CudaDeviceOptions options = fake::FakeOptions();
  options.silence = std::chrono::milliseconds(50);
  return options;
}

// The driver would wait for such a grid for ever. The test ends because the device does not ask it
// to wait.
TEST(GpuFailure, AGridThatNeverEndsLosesTheDeviceForThisProcess) {
  auto device = Open(EmulatedSettings(1), ImpatientOptions());
  Session session(*device);
  const KernelHandle mix = session.Load(MixBody);
  auto buffer = device->Allocate(1000, MemoryKind::kDevice);
  ASSERT_TRUE(buffer.has_value());
  MixArgs args{.y = reinterpret_cast<std::uint64_t*>(buffer->data()), .in_place = true};
  Record record(1);
  OpenFake().HangKernels();
  session.Submit({.kernel = mix, .args = &args, .progress = record.get()});
  const std::string why = AwaitLoss(*device);
  if (why.empty()) OpenFake().LoseContext(fake::kPassingFault);  // so that the test ends at least
  EXPECT_THAT(why, AllOf(HasSubstr("reported nothing for 0.05 s"),
                         HasSubstr("(grids in flight: 1)"), HasSubstr("restart this one")));
  EXPECT_FALSE(device->Allocate(100, MemoryKind::kDevice).has_value());
  *buffer = {};
  device.reset();
  const auto again = CreateCudaDevice(ImpatientOptions());
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(again.error().message, HasSubstr("restart this one"));
  GpuSession::ForgetAbandoned();
  EXPECT_NE(Open(1), nullptr);
}

TEST(GpuFailure, ADeviceThatIsDestroyedDoesNotWaitForAGridWithoutEnd) {
  auto device = Open(EmulatedSettings(1), ImpatientOptions());
  {
    // In its own thread's time the watchdog may see the silence first; the end is the same.
    Session session(*device);
    const KernelHandle gate_kernel = session.LoadGate();
    GateArgs gate;
    Record record(1);
    session.Submit({.kernel = gate_kernel, .args = &gate, .progress = record.get()});
    ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
    device.reset();
    // The gate and its record end after the fake GPU's block.
    OpenFake().Reset(EmulatedSettings(1));
  }
  GpuSession::ForgetAbandoned();
}

TEST(Watchdog, OnlySilenceWithWorkCountsAndAtMostASecondPerLook) {
  const TimePoint begin{};
  const auto at = [&](int milliseconds) { return begin + std::chrono::milliseconds(milliseconds); };
  Watchdog watchdog(std::chrono::milliseconds(1500), begin);
  EXPECT_FALSE(watchdog.Look(true, at(1000)));
  EXPECT_FALSE(watchdog.Look(false, at(2000))) << "without work";
  EXPECT_FALSE(watchdog.Look(true, at(3000)));
  watchdog.Hear();
  EXPECT_FALSE(watchdog.Look(true, at(4000)));
  EXPECT_TRUE(watchdog.Look(true, at(5000)));
  watchdog.Hear();
  EXPECT_FALSE(watchdog.Look(true, at(60000))) << "the process had been stopped";
  EXPECT_TRUE(watchdog.Look(true, at(61000)));
  Watchdog patient(Nanoseconds(0), begin);
  for (int second = 1; second < 100; ++second) EXPECT_FALSE(patient.Look(true, at(1000 * second)));
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
    OpenFake().AwaitWords();
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

  // Returns false if the device is lost.
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

TEST(GpuFailure, ALaunchThatLacksMemoryIsTriedAgain) {
  for (const Code code : {kOutOfMemory, kLaunchOutOfResources}) {
    OpenFake().Reset(EmulatedSettings(2));
    OpenFake().FailCall(1, code, "cuLaunchKernel");
    Scenario scenario;
    EXPECT_EQ(scenario.Run(), Scenario::End::kDone) << scenario.message();
    EXPECT_EQ(OpenFake().failed(), "cuLaunchKernel");
  }
}

TEST(GpuFailure, AnErrorInAnyCallEndsInAMessageThatNamesIt) {
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
