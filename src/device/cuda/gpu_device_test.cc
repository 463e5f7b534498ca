// Records, kernels and memory of the GPU device.

#include "device/cuda/gpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <vector>

#include "device/conformance/suite.h"
#include "device/cuda/testing/gpu_calls.h"

namespace lagoon::cuda {
namespace {

using conformance::CountArgs;
using conformance::CountBody;
using conformance::MixArgs;
using conformance::MixBody;
using conformance::Record;
using conformance::Session;
using fake::Call;
using fake::EmulatedSettings;
using fake::Named;
using fake::Open;
using fake::OpenFake;
using fake::ParamsOf;
using ::testing::HasSubstr;

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
  OpenFake().AwaitWords();
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

TEST(GpuDevice, AKernelThatIsLoadedAgainNeedsNoFormerImage) {
  const auto device = Open(1);
  Session session(*device);
  const auto load = [&] {
    const auto image = std::make_unique<CudaImage>(*conformance::cuda_form(CountBody));
    const Result<KernelHandle> kernel =
        device->Load({.name = "count", .body = CountBody, .cuda = image.get()}, {});
    EXPECT_TRUE(kernel) << (kernel ? "" : kernel.error().message);
    return kernel.value_or(KernelHandle{});
  };
  const KernelHandle first = load();
  EXPECT_EQ(load(), first);
  CountArgs args;
  Record record(3);
  session.AwaitRetired(
      session.Submit(Launch{.kernel = first, .args = &args, .progress = record.get()}));
  EXPECT_EQ(args.runs.load(), 3);
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

}  // namespace
}  // namespace lagoon::cuda
