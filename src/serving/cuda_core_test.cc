// The core on the GPU of the fake driver, which emulates kernels.

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/testing/paths.h"
#include "device/cuda/driver/session.h"
#include "program/testing/emulated_gpu.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using testing::Floats;
using ::testing::HasSubstr;
using testing::RequestFor;
using testing::SmallRequest;

class CudaCoreTest : public testing::CoreTest {
 protected:
  void TearDown() override {
    core_.reset();
    cuda::GpuSession::ForgetAbandoned();
  }
  void OpenOnGpu(Nanoseconds silence = std::chrono::minutes(5)) {
    CoreOptions options;
    options.repository = repository_.path();
    options.device = testing::StartEmulatedGpu(2);
    options.device.cuda_silence = silence;
    options.profile.runs = 1;
    options.reopen = {.first = std::chrono::milliseconds(1),
                      .longest = std::chrono::milliseconds(20),
                      .tries = 3};
    options.on_gone = [this](const std::string&) { ++gone_; };
    auto core = OpenCore(options);
    ASSERT_TRUE(core.has_value()) << core.error().message;
    core_ = *std::move(core);
  }
  void AwaitAnswers();
  /// Waits until the core says that the device is gone.
  void AwaitGone(int times);

  std::atomic<int> gone_{0};  // how often the core has said so
};

TEST_F(CudaCoreTest, AnswersAsTheCpuDoes) {
  repository_.AddModel("small", testing::SmallModel());
  repository_.AddModel("batch", testing::SmallBatchModel(), "max_batch_size: 3");
  OpenOnGpu();
  EXPECT_EQ(core_->schedulers()->device().name, "cuda:0");
  const auto answer = Ask(SmallRequest());
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(Floats(answer->outputs.at(0)), (std::vector<float>{5, -39}));
  EXPECT_EQ(Floats(answer->outputs.at(1)), (std::vector<float>{5, 0}));
  const auto rows = Ask(RequestFor("batch", {2, 4}, {1, 2, 3, -40, 5, 6, 7, 8}));
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ(Floats(rows->outputs.at(0)), (std::vector<float>{5, -39, 13, 13}));
}

TEST_F(CudaCoreTest, RealTimeRequestsRevokeBestEffortOnesAndAllAreAnswered) {
  repository_.AddModel("urgent", testing::SmallModel(), testing::kRealTime);
  std::filesystem::create_directory(repository_.path() + "/digits");
  // Without its config file, which would make the model real-time.
  std::filesystem::copy(SourceFolder() + "/models/repository/digits/1",
                        repository_.path() + "/digits/1", std::filesystem::copy_options::recursive);
  OpenOnGpu();
  const auto image = [] {
    InferRequest request = RequestFor("digits", {1, 1, 8, 8}, std::vector<float>(64, 0.5F));
    request.inputs[0].name = "image";
    return request;
  };
  const auto alone = Ask(image());
  ASSERT_TRUE(alone.has_value()) << alone.error().message;
  for (int round = 0; round < 5; ++round) {
    Sent best_effort = Send(image());
    // Only a few, as an emulated block takes longer than the time between two requests.
    for (int i = 0; i < 4 && !best_effort.Answered(); ++i) {
      const auto urgent = Ask(SmallRequest("urgent"));
      ASSERT_TRUE(urgent.has_value()) << urgent.error().message;
      ASSERT_EQ(Floats(urgent->outputs.at(0)), (std::vector<float>{5, -39}));
    }
    const auto answer = best_effort.answer.get();
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    ASSERT_EQ(Floats(answer->outputs.at(0)), Floats(alone->outputs.at(0)));
  }
  EXPECT_GT(StatisticsOf("digits").revocations, 0u);
}

TEST_F(CudaCoreTest, AModelWithoutCudaBodiesSaysSoAndOthersAreServed) {
  repository_.AddModel("small", testing::SmallModel());
  repository_.AddModel("norm", testing::OnnxBuilder()
                                   .Input("x", {1, 4})
                                   .Node("ReduceL1", {"x"}, "y")
                                   .Output("y", {1, 1})
                                   .Build());
  OpenOnGpu();
  EXPECT_TRUE(Ask(SmallRequest()).has_value());
  EXPECT_THAT(ReasonOf("norm"), HasSubstr("has no CUDA body yet; run it with --device cpu"));
}

TEST_F(CudaCoreTest, AJobProgramIsRefused) {
  repository_.WriteFile("program/1/job.so", "");
  repository_.WriteFile("program/config.pbtxt",
                        "backend: \"lagoon_job\"\n"
                        "input { name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] }\n"
                        "output { name: \"y\" data_type: TYPE_FP32 dims: [ 4 ] }\n");
  OpenOnGpu();
  EXPECT_THAT(ReasonOf("program"), HasSubstr("runs on device 'cpu' only, not on 'cuda:0'"));
}

/// Sends requests until one succeeds; all others must fail as kUnavailable.
void CudaCoreTest::AwaitAnswers() {
  const TimePoint until = Now() + std::chrono::minutes(1);
  for (;;) {
    const auto answer = Ask(SmallRequest());
    if (answer.has_value()) {
      EXPECT_EQ(Floats(answer->outputs.at(0)), (std::vector<float>{5, -39}));
      return;
    }
    ASSERT_EQ(answer.error().code, ErrorCode::kUnavailable) << answer.error().message;
    ASSERT_THAT(answer.error().message, HasSubstr("lost"));
    ASSERT_LT(Now(), until) << "the device does not come back";
  }
}

TEST_F(CudaCoreTest, ALostDeviceIsOpenedAgainWithItsModels) {
  repository_.AddModel("small", testing::SmallModel());
  OpenOnGpu();
  const auto switched = std::make_shared<std::promise<Status>>();  // outlives its set_value
  core_->schedulers()->SwitchScheduler(*MakeScheduler("reset:depth=2"), [switched](Status status) {
    switched->set_value(std::move(status));
  });
  ASSERT_TRUE(switched->get_future().get());
  for (int loss = 0; loss < 3; ++loss) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(Ask(SmallRequest()).has_value());
    testing::EmulatedDriver().LoseContext(cuda::fake::kPassingFault);
    ASSERT_NO_FATAL_FAILURE(AwaitAnswers());
    EXPECT_TRUE(core_->Ready());
    EXPECT_EQ(ChoiceOf(core_->schedulers()->scheduler()).Text(), "reset:depth=2");
    EXPECT_EQ(StatisticsOf("small").success.count, 1u) << "the statistics did not start anew";
  }
}

TEST_F(CudaCoreTest, RequestsInFlightOnALostDeviceAreAnswered) {
  repository_.AddModel("small", testing::SmallModel());
  OpenOnGpu();
  for (int round = 0; round < 5; ++round) {
    std::vector<Sent> sent;
    for (int i = 0; i < 8; ++i) sent.push_back(Send(SmallRequest()));
    testing::EmulatedDriver().LoseContext(cuda::fake::kPassingFault);
    for (Sent& request : sent) {
      const auto answer = request.answer.get();
      if (!answer.has_value()) {
        EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
      }
      core_->Cancel(request.handle);  // answered long ago, before the device was opened again
    }
    ASSERT_NO_FATAL_FAILURE(AwaitAnswers());
  }
}

TEST_F(CudaCoreTest, ADeviceThatDoesNotOpenAgainSaysWhyAndIsTriedAgain) {
  repository_.AddModel("small", testing::SmallModel());
  OpenOnGpu();
  testing::EmulatedDriver().RefuseCall("cuStreamCreateWithPriority", 1);
  testing::EmulatedDriver().LoseContext(cuda::fake::kPassingFault);
  const TimePoint until = Now() + std::chrono::minutes(1);
  std::string said;
  while (said.find("does not open again") == std::string::npos) {
    ASSERT_LT(Now(), until) << said;
    const auto models = core_->Models();
    ASSERT_EQ(models.size(), 1u);
    said = models[0].reason;
  }
  EXPECT_THAT(said, HasSubstr("cuStreamCreateWithPriority"));
  EXPECT_FALSE(core_->Ready());
  const auto refused = Ask(SmallRequest());
  ASSERT_EQ(testing::CodeOf(refused), ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("the server's log says why"));
  EXPECT_EQ(core_->Statistics("small", "").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(core_->schedulers()->device().name, "cuda:0");
  testing::EmulatedDriver().RefuseCall("", 0);
  ASSERT_NO_FATAL_FAILURE(AwaitAnswers());
  EXPECT_TRUE(core_->Ready());
}

void CudaCoreTest::AwaitGone(int times) {
  const TimePoint until = Now() + std::chrono::minutes(1);
  while (gone_.load() < times) {
    ASSERT_LT(Now(), until);
    std::this_thread::yield();
  }
}

// NVIDIA's drivers refuse a process one of whose kernels has failed.
TEST_F(CudaCoreTest, AfterAFaultTheServerSaysThatItMustBeRestarted) {
  repository_.AddModel("small", testing::SmallModel());
  OpenOnGpu();
  testing::EmulatedDriver().LoseContext(700);
  ASSERT_NO_FATAL_FAILURE(AwaitGone(1));
  EXPECT_THAT(ReasonOf("small"), HasSubstr("the driver refuses this process: restart it"));
  EXPECT_EQ(testing::CodeOf(Ask(SmallRequest())), ErrorCode::kUnavailable);
  EXPECT_FALSE(core_->Ready());
}

TEST_F(CudaCoreTest, AGridThatNeverEndsIsAnsweredAndTheServerSaysThatItMustBeRestarted) {
  repository_.AddModel("small", testing::SmallModel());
  OpenOnGpu(std::chrono::seconds(3));
  ASSERT_TRUE(Ask(SmallRequest()).has_value());
  testing::EmulatedDriver().HangKernels();
  EXPECT_EQ(testing::CodeOf(Ask(SmallRequest())), ErrorCode::kUnavailable);
  ASSERT_NO_FATAL_FAILURE(AwaitGone(1));
  EXPECT_THAT(ReasonOf("small"), HasSubstr("restart this one"));
  EXPECT_EQ(testing::CodeOf(Ask(SmallRequest())), ErrorCode::kUnavailable);
}

TEST_F(CudaCoreTest, ADeviceThatDoesNotOpenInSoManyTriesIsGoneOncePerLoss) {
  repository_.AddModel("small", testing::SmallModel());
  OpenOnGpu();
  for (int loss = 1; loss <= 2; ++loss) {
    testing::EmulatedDriver().RefuseCall("cuInit", 1);
    testing::EmulatedDriver().LoseContext(cuda::fake::kPassingFault);
    ASSERT_NO_FATAL_FAILURE(AwaitGone(loss));
    testing::EmulatedDriver().RefuseCall("", 0);
    ASSERT_NO_FATAL_FAILURE(AwaitAnswers());
    EXPECT_EQ(gone_.load(), loss);
  }
}

TEST_F(CudaCoreTest, TheServerCanEndWhileItsDeviceIsAway) {
  repository_.AddModel("small", testing::SmallModel());
  OpenOnGpu();
  testing::EmulatedDriver().RefuseCall("cuInit", 1);
  testing::EmulatedDriver().LoseContext(cuda::fake::kPassingFault);
  (void)Ask(SmallRequest());  // so that the loss is noticed
  while (core_->Ready()) std::this_thread::yield();
  core_->Drain(Now());
  core_.reset();
  testing::EmulatedDriver().RefuseCall("", 0);
}

TEST_F(CudaCoreTest, AMissingDriverIsAnErrorOfTheCore) {
  CoreOptions options;
  options.repository = repository_.path();
  options.device.name = "cuda:0";
  options.device.cuda_driver = "libno-such-driver.so.1";
  const auto core = OpenCore(options);
  ASSERT_FALSE(core.has_value());
  EXPECT_THAT(core.error().message, HasSubstr("install NVIDIA's driver"));
}

}  // namespace
}  // namespace lagoon
