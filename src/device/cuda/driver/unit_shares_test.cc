// Streams with multiprocessors of their own, on the fake driver.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/conformance/suite.h"
#include "device/cuda/testing/fake_device.h"

namespace lagoon::cuda {
namespace {

using conformance::CountArgs;
using conformance::CountBody;
using conformance::Record;
using conformance::Session;
using fake::Call;
using fake::OpenFake;
using ::testing::HasSubstr;

constexpr char kGreenStream[] = "cuGreenCtxStreamCreate";

class UnitSharesTest : public ::testing::Test {
 protected:
  void Open(const fake::Settings& settings) {
    OpenFake().Reset(settings);
    conformance::cuda_form = fake::SuiteImage;
    auto device = CreateCudaDevice(fake::FakeOptions());
    ASSERT_TRUE(device.has_value()) << device.error().message;
    device_ = *std::move(device);
    OpenFake().TakeLog();
  }
  void Open(int multiprocessors) { Open(fake::EmulatedSettings(multiprocessors)); }

  Result<StreamId> Create(std::uint32_t units) {
    return device_->CreateStream({.name = "mine", .units = units});
  }
  /// Runs a kernel in `stream` and returns its launch call.
  Call LaunchIn(StreamId stream, std::uint32_t blocks = 3) {
    Session session(*device_);
    CountArgs args;
    Record record(blocks);
    const KernelHandle count = session.Load(CountBody);
    OpenFake().TakeLog();
    session.AwaitRetired(
        session.Submit(Launch{.kernel = count, .args = &args, .progress = record.get()}, {stream}));
    EXPECT_EQ(args.runs.load(), static_cast<int>(blocks));
    for (const Call& call : OpenFake().TakeLog()) {
      if (call.name == "cuLaunchKernel") return call;
    }
    ADD_FAILURE() << "no launch";
    return {};
  }
  static std::vector<Call> GreenStreams() {
    std::vector<Call> calls = OpenFake().TakeLog();
    std::erase_if(calls, [](const Call& call) { return call.name != kGreenStream; });
    return calls;
  }
  static bool IsOf(const Call& launch, const std::vector<Call>& streams) {
    return std::any_of(streams.begin(), streams.end(),
                       [&](const Call& stream) { return stream.stream == launch.stream; });
  }

  std::unique_ptr<Device> device_;
};

TEST_F(UnitSharesTest, LaunchesOfSuchAStreamGoToItsGreenContext) {
  Open(32);
  const auto eight = Create(8);
  ASSERT_TRUE(eight) << eight.error().message;
  const std::vector<Call> of_eight = GreenStreams();
  const auto sixteen = Create(16);
  ASSERT_TRUE(sixteen) << sixteen.error().message;
  const std::vector<Call> of_sixteen = GreenStreams();
  ASSERT_FALSE(of_eight.empty());
  EXPECT_EQ(of_eight.front().value, 8u) << "multiprocessors";
  EXPECT_EQ(of_sixteen.front().value, 16u);

  EXPECT_TRUE(IsOf(LaunchIn(*eight), of_eight));
  EXPECT_TRUE(IsOf(LaunchIn(*sixteen), of_sixteen));
  const auto all = device_->CreateStream({.name = "all"});
  ASSERT_TRUE(all);
  for (const StreamId stream : {*all, kUnordered}) {
    const Call launch = LaunchIn(stream);
    EXPECT_FALSE(IsOf(launch, of_eight) || IsOf(launch, of_sixteen));
  }
}

TEST_F(UnitSharesTest, AGranuleIsTheLeastAndNoUnitIsGivenTwice) {
  Open(20);
  ASSERT_TRUE(Create(3));
  EXPECT_EQ(GreenStreams().front().value, 8u);
  const auto too_many = Create(13);
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(
      too_many.error().message,
      HasSubstr("device 'cuda:0': stream 'mine': 13 units asked for, 12 are not set aside"));
  ASSERT_TRUE(Create(8));
  const auto rest = Create(4);  // a granule is more than what is left
  ASSERT_FALSE(rest);
  EXPECT_EQ(rest.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(UnitSharesTest, MoreUnitsThanTheDeviceHasAreRefused) {
  Open(16);
  const auto stream = Create(17);
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(stream.error().message, HasSubstr("17 units, the device has 16"));
}

TEST_F(UnitSharesTest, ADriverWithoutGreenContextsSaysWhichOneHasThem) {
  for (const char* missing : {"cuDeviceGetDevResource", "cuGreenCtxCreate", kGreenStream}) {
    fake::Settings settings = fake::EmulatedSettings(16);
    settings.missing = {missing};
    settings.driver_version = 12020;
    Open(settings);
    const auto stream = Create(8);
    ASSERT_FALSE(stream);
    EXPECT_EQ(stream.error().code, ErrorCode::kUnimplemented);
    EXPECT_THAT(stream.error().message, HasSubstr("of CUDA 12.2"));
    EXPECT_THAT(stream.error().message, HasSubstr("CUDA 12.5 or newer"));
    LaunchIn(kUnordered);
    device_.reset();
  }
}

TEST_F(UnitSharesTest, ACallThatFailsLeavesNothingBehind) {
  for (const char* name :
       {"cuDeviceGetDevResource", "cuDevSmResourceSplitByCount", "cuDevResourceGenerateDesc",
        "cuGreenCtxCreate", kGreenStream, "cuMemHostAlloc"}) {
    SCOPED_TRACE(name);
    Open(16);
    OpenFake().FailCall(1, 1, name);
    const auto failed = Create(8);
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, HasSubstr(name));
    // All sixteen units can still be set aside.
    ASSERT_TRUE(Create(8));
    const auto second = Create(8);
    ASSERT_TRUE(second) << second.error().message;
    LaunchIn(*second);
    device_.reset();
    EXPECT_EQ(OpenFake().leaks(), 0u);
  }
}

}  // namespace
}  // namespace lagoon::cuda
