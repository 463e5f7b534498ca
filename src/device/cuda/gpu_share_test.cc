// Shares as green contexts, on the fake driver.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
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
using ::testing::Not;

constexpr char kGreenStream[] = "cuGreenCtxStreamCreate";

class GpuShareTest : public ::testing::Test {
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

  Result<ShareId> Create(UnitRange units) { return device_->CreateShare("mine", units); }
  /// Runs a kernel of the share and returns its launch call.
  Call LaunchIn(ShareId share, std::uint32_t blocks = 3) {
    Session session(*device_);
    CountArgs args;
    Record record(blocks);
    const KernelHandle count = session.Load(CountBody);
    OpenFake().TakeLog();
    session.AwaitRetired(session.Submit(
        Launch{.kernel = count, .args = &args, .progress = record.get(), .share = share}));
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

// The fake driver's number of a green context.
constexpr std::uint64_t ContextOf(UnitRange units) { return units.first * 256 + units.count; }

TEST_F(GpuShareTest, LaunchesOfAShareGoToItsGreenContext) {
  Open(32);
  EXPECT_EQ(device_->info().share_granule, 8u);
  const auto eight = Create({0, 8});
  ASSERT_TRUE(eight) << eight.error().message;
  const std::vector<Call> of_eight = GreenStreams();
  const auto sixteen = Create({8, 16});
  ASSERT_TRUE(sixteen) << sixteen.error().message;
  const std::vector<Call> of_sixteen = GreenStreams();
  ASSERT_FALSE(of_eight.empty() || of_sixteen.empty());
  EXPECT_EQ(of_eight.front().value, ContextOf({0, 8}));
  EXPECT_EQ(of_sixteen.front().value, ContextOf({8, 16}));

  EXPECT_TRUE(IsOf(LaunchIn(*eight), of_eight));
  EXPECT_TRUE(IsOf(LaunchIn(*sixteen), of_sixteen));
  const Call launch = LaunchIn(kAllUnits);
  EXPECT_FALSE(IsOf(launch, of_eight) || IsOf(launch, of_sixteen));
}

TEST_F(GpuShareTest, TheLastUnitsMayBeLessThanAGranule) {
  Open(20);
  ASSERT_TRUE(Create({8, 12}));
  EXPECT_EQ(GreenStreams().front().value, ContextOf({8, 12}));
  EXPECT_FALSE(Create({8, 4}));
}

TEST_F(GpuShareTest, AShareMovesToContextsThatAreThereAlready) {
  Open(32);
  const auto share = Create({0, 8});
  ASSERT_TRUE(share) << share.error().message;
  const std::vector<Call> before = GreenStreams();
  const Status unprepared = device_->MoveShare(*share, {8, 16});
  ASSERT_FALSE(unprepared);
  EXPECT_EQ(unprepared.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(unprepared.error().message, HasSubstr("units 8 to 23"));
  EXPECT_TRUE(IsOf(LaunchIn(*share), before)) << "nothing has changed";

  ASSERT_TRUE(device_->PrepareUnits({8, 16}));
  const std::vector<Call> after = GreenStreams();
  ASSERT_FALSE(after.empty());
  ASSERT_TRUE(device_->PrepareUnits({8, 16}));
  ASSERT_TRUE(device_->MoveShare(*share, {8, 16}));
  EXPECT_TRUE(GreenStreams().empty()) << "a second context";
  EXPECT_TRUE(IsOf(LaunchIn(*share), after));
  ASSERT_TRUE(device_->MoveShare(*share, {0, 8}));
  EXPECT_TRUE(IsOf(LaunchIn(*share), before));
  ASSERT_TRUE(device_->MoveShare(*share, {0, 32}));
  const Call launch = LaunchIn(*share);
  EXPECT_FALSE(IsOf(launch, before) || IsOf(launch, after)) << "all units need no context";
}

TEST_F(GpuShareTest, SharesWithTheSameUnitsHaveOneContext) {
  Open(16);
  const auto first = Create({0, 8});
  const std::vector<Call> streams = GreenStreams();
  const auto second = Create({0, 8});
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_TRUE(GreenStreams().empty());
  EXPECT_TRUE(IsOf(LaunchIn(*second), streams));
}

TEST_F(GpuShareTest, StreamsOfTwoSharesHaveConnectionsOfTheirOwnAndMoreAreSaid) {
  const fake::LogText log;
  Open(32);
  ASSERT_TRUE(Create({0, 8}) && Create({8, 8}));
  EXPECT_EQ(OpenFake().MostPerConnection(), 1u);
  EXPECT_THAT(log.text(), Not(HasSubstr("connections")));
  ASSERT_TRUE(Create({16, 8}));
  EXPECT_EQ(OpenFake().MostPerConnection(), 2u);
  EXPECT_THAT(log.text(), HasSubstr("its 34 streams, for 4 ranges of units, share 32 connections"));
  EXPECT_THAT(log.text(), HasSubstr("have fewer of them"));
  const std::size_t length = log.text().size();
  ASSERT_TRUE(Create({24, 8}));
  EXPECT_EQ(log.text().size(), length) << "said again";
}

TEST_F(GpuShareTest, TooFewConnectionsAreSaidAtTheStart) {
  for (const auto& [number, said] :
       {std::pair{"16", false}, {"10", false}, {"9", true}, {"x", true}}) {
    SCOPED_TRACE(number);
    const fake::Connections connections(number);
    const fake::LogText log;
    Open(16);
    EXPECT_EQ(OpenFake().MostPerConnection() > 1, said);
    EXPECT_EQ(
        log.text().find("set CUDA_DEVICE_MAX_CONNECTIONS, or set it to 32") != std::string::npos,
        said)
        << log.text();
    LaunchIn(kAllUnits);
    device_.reset();
  }
}

TEST_F(GpuShareTest, ADriverWithoutGreenContextsSaysWhichOneHasThem) {
  for (const char* missing : {"cuDeviceGetDevResource", "cuGreenCtxCreate", kGreenStream}) {
    fake::Settings settings = fake::EmulatedSettings(16);
    settings.missing = {missing};
    settings.driver_version = 12020;
    Open(settings);
    EXPECT_EQ(device_->info().share_granule, 0u);
    const auto share = Create({0, 8});
    ASSERT_FALSE(share);
    EXPECT_EQ(share.error().code, ErrorCode::kUnimplemented);
    EXPECT_THAT(share.error().message, HasSubstr("device 'cuda:0': share 'mine'"));
    EXPECT_THAT(share.error().message, HasSubstr("of CUDA 12.2"));
    EXPECT_THAT(share.error().message, HasSubstr("CUDA 12.5 or newer"));
    LaunchIn(kAllUnits);
    device_.reset();
  }
}

// The driver of an H200 may split 132 multiprocessors into 15 granules of 8 and leaves 12.
TEST_F(GpuShareTest, WhatIsLeftOverStaysTogether) {
  fake::Settings settings = fake::EmulatedSettings(28);
  settings.unsplit = 12;
  Open(settings);
  EXPECT_EQ(device_->info().share_granule, 8u);
  for (const UnitRange units : {UnitRange{0, 16}, {8, 20}, {16, 12}, {0, 28}}) {
    const auto share = Create(units);
    ASSERT_TRUE(share) << share.error().message;
  }
  for (const UnitRange units : {UnitRange{24, 4}, {8, 16}, {16, 8}}) {
    const auto share = Create(units);
    ASSERT_FALSE(share) << units.first;
    EXPECT_EQ(share.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(share.error().message, HasSubstr("the last 12 units of the GPU stay together"));
  }
}

TEST_F(GpuShareTest, AGpuThatIsSmallerThanAGranuleHasNoShares) {
  Open(4);
  EXPECT_EQ(device_->info().share_granule, 0u);
  const auto share = Create({0, 4});
  ASSERT_FALSE(share);
  EXPECT_THAT(share.error().message, HasSubstr("share 'mine'"));
  EXPECT_THAT(share.error().message, HasSubstr("4 multiprocessors"));
}

TEST_F(GpuShareTest, ACallThatFailsLeavesNothingBehind) {
  for (const char* name :
       {"cuDevResourceGenerateDesc", "cuGreenCtxCreate", kGreenStream, "cuMemHostAlloc"}) {
    SCOPED_TRACE(name);
    Open(16);
    OpenFake().FailCall(1, 1, name);
    const auto failed = Create({0, 8});
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, HasSubstr(name));
    EXPECT_THAT(failed.error().message, HasSubstr("share 'mine'"));
    const auto second = Create({0, 8});
    ASSERT_TRUE(second) << second.error().message;
    LaunchIn(*second);
    device_.reset();
    EXPECT_EQ(OpenFake().leaks(), 0u);
  }
}

}  // namespace
}  // namespace lagoon::cuda
