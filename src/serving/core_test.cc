#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "policies/registry.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace std::chrono_literals;
using namespace lagoon::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

// ---- Answers

TEST_F(CoreTest, ComputesTheModel) {
  repository_.AddModel("small", SmallModel());
  Open();
  InferRequest request = SmallRequest();
  request.id = "seven";
  const Answer answer = Ask(std::move(request));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->model, "small");
  EXPECT_EQ(answer->version, "1");
  EXPECT_EQ(answer->id, "seven");
  ASSERT_THAT(answer->outputs, SizeIs(2));
  EXPECT_EQ(answer->outputs[0].name, "y");
  EXPECT_EQ(answer->outputs[0].type, DataType::kFloat32);
  EXPECT_EQ(answer->outputs[0].dims, (Dims{1, 2}));
  EXPECT_THAT(Floats(answer->outputs[0]), ElementsAre(5, -39));
  EXPECT_THAT(Floats(answer->outputs[1]), ElementsAre(5, 0));

  const JobResult& job = answer->job;
  EXPECT_EQ(job.outcome, Outcome::kDone);
  EXPECT_LE(job.posted, job.started);
  EXPECT_LE(job.started, job.inputs_copied);
  EXPECT_LE(job.inputs_copied, job.computed);
  EXPECT_LE(job.computed, job.finished);
}

TEST_F(CoreTest, AnswersOnlyTheOutputsAskedFor) {
  repository_.AddModel("small", SmallModel());
  Open();
  InferRequest request = SmallRequest();
  request.outputs = {"z"};
  const Answer answer = Ask(std::move(request));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  ASSERT_THAT(answer->outputs, SizeIs(1));
  EXPECT_EQ(answer->outputs[0].name, "z");
  EXPECT_THAT(Floats(answer->outputs[0]), ElementsAre(5, 0));
}

TEST_F(CoreTest, ReadsExternalDataBesideTheModel) {
  const std::vector<float> weights = {1, 0, 0, 1, 1, 0, 0, 1};
  repository_.AddModel("small", OnnxBuilder()
                                    .Input("x", {1, 4})
                                    .ExternalConstant("w", {4, 2}, "weights.bin")
                                    .Node("MatMul", {"x", "w"}, "y")
                                    .Output("y", {1, 2})
                                    .Build());
  repository_.WriteFile(
      "small/1/weights.bin",
      std::string(reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(float)));
  Open();
  const Answer answer = Ask(SmallRequest());
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_THAT(Floats(answer->outputs[0]), ElementsAre(4, -38));
}

class EveryScheduler : public CoreTest, public ::testing::WithParamInterface<std::string_view> {};

TEST_P(EveryScheduler, AnswersConcurrentRequestsOfTwoModels) {
  constexpr int kThreads = 4;
  constexpr int kRequests = 20;
  repository_.AddModel("small", SmallModel(),
                       std::string(kRealTime) + "instance_group [ { count: 2 } ]");
  repository_.AddModel("slow", SlowModel(8));
  Open(std::string(GetParam()));
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> clients;
    for (int client = 0; client < kThreads; ++client) {
      clients.emplace_back([&, client] {
        for (int i = 0; i < kRequests; ++i) {
          const auto first = static_cast<float>(client * kRequests + i);
          const Answer small = Ask(SmallRequest("small", first));
          if (!small || Floats(small->outputs[0])[0] != first + 4) ++wrong;
          const InferRequest request = SlowRequest();
          const Answer slow = Ask(request);
          if (!slow || std::memcmp(slow->outputs[0].data.data(), request.inputs[0].data.data(),
                                   slow->outputs[0].data.size()) != 0) {
            ++wrong;
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  for (const char* model : {"small", "slow"}) {
    const ModelStatistics statistics = StatisticsOf(model);
    EXPECT_EQ(statistics.success.count, static_cast<unsigned>(kThreads * kRequests));
    EXPECT_EQ(statistics.queue.count, static_cast<unsigned>(kThreads * kRequests));
    EXPECT_EQ(statistics.fail.count, 0u);
    EXPECT_EQ(statistics.pending, 0u);
  }
}

TEST_F(CoreTest, SwitchesTheSchedulerWhileRequestsComeIn) {
  repository_.AddModel("small", SmallModel());
  repository_.AddModel("slow", SlowModel());
  Open();
  std::atomic<bool> enough{false};
  std::atomic<int> wrong{0}, answered{0};
  {
    const std::jthread slow([&] {
      while (!enough) wrong += Ask(SlowRequest()) ? 0 : 1;
    });
    const std::jthread small([&] {
      while (!enough) {
        const Answer answer = Ask(SmallRequest("small", 2));
        if (!answer || Floats(answer->outputs[0])[0] != 6) ++wrong;
        answered.fetch_add(1);
        answered.notify_all();
      }
    });
    for (const std::string_view name : SchedulerNames()) {
      answered.wait(answered.load());  // at least one request is answered under each scheduler
      const auto switched = std::make_shared<std::promise<Status>>();  // outlives its set_value
      core_->schedulers()->SwitchScheduler(*MakeScheduler(name), [switched](Status status) {
        switched->set_value(std::move(status));
      });
      const Status status = switched->get_future().get();
      EXPECT_TRUE(status) << name;
      EXPECT_EQ(core_->schedulers()->scheduler().name, name);
    }
    enough = true;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(Ask(SmallRequest()).has_value());
}

INSTANTIATE_TEST_SUITE_P(Core, EveryScheduler, ::testing::ValuesIn(SchedulerNames()));

// ---- Queues

TEST_F(CoreTest, AFullQueueIsRefusedAtOnce) {
  AddHeld(Parameter("lagoon.max_queue_size", "2"));
  Open();
  const InferRequest request = SlowRequest();
  std::vector<Sent> accepted;
  Sent last = SendRunning();
  while (!last.Answered()) {
    accepted.push_back(std::move(last));
    ASSERT_LT(accepted.size(), 100u);
    last = Send(request);
  }
  LetGo();
  const Answer answer = last.answer.get();
  ASSERT_EQ(CodeOf(answer), ErrorCode::kUnavailable);
  EXPECT_THAT(answer.error().message, AllOf(HasSubstr("model 'slow'"), HasSubstr("full")));
  EXPECT_GE(accepted.size(), 3u);  // one runs, two wait
  for (Sent& sent : accepted) EXPECT_EQ(CodeOf(sent.answer.get()), std::nullopt);
  EXPECT_EQ(StatisticsOf("slow").rejected, 1u);
  EXPECT_EQ(StatisticsOf("slow").success.count, accepted.size());
}

TEST_F(CoreTest, TheNewestRequestWinsWhereTheModelAsksForIt) {
  AddHeld(Parameter("lagoon.max_queue_size", "1") + Parameter("lagoon.overflow", "newest_wins"));
  Open();
  Sent running = SendRunning();
  Sent older = Send(SlowRequest());
  Sent newest = Send(SlowRequest());
  const Answer superseded = older.answer.get();
  ASSERT_EQ(CodeOf(superseded), ErrorCode::kUnavailable);
  EXPECT_THAT(superseded.error().message, HasSubstr("superseded"));
  LetGo();
  EXPECT_EQ(CodeOf(running.answer.get()), std::nullopt);
  EXPECT_EQ(CodeOf(newest.answer.get()), std::nullopt);
  EXPECT_EQ(StatisticsOf("slow").superseded, 1u);
}

// ---- Deadlines

InferRequest WithTimeout(InferRequest request, Nanoseconds timeout) {
  request.timeout = timeout;
  return request;
}

TEST_F(CoreTest, ARequestExpiresWhileItRuns) {
  AddHeld();
  Open();
  gates_->blocks.Close();
  std::uint64_t asked = 0;
  // On a busy machine a request may expire before it runs.
  for (bool ran = false; !ran; ++asked) {
    Sent sent = Send(WithTimeout(SlowRequest(), 5ms * (1 << std::min<std::uint64_t>(asked, 20))));
    AwaitRunning(sent);
    ran = !sent.Answered();
    const Answer answer = sent.answer.get();
    ASSERT_EQ(CodeOf(answer), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(answer.error().message,
                AllOf(HasSubstr("Request timeout expired"), HasSubstr("'slow'")));
  }
  const ModelStatistics statistics = StatisticsOf("slow");
  EXPECT_EQ(statistics.deadline_misses, asked);
  EXPECT_EQ(statistics.success.count, 0u);
  // The instance is free again and computes correctly.
  LetGo();
  EXPECT_EQ(CodeOf(Ask(SlowRequest())), std::nullopt);
}

TEST_F(CoreTest, ARequestExpiresWhileItWaitsAndIsAnsweredThen) {
  AddHeld();
  Open();
  Sent running = SendRunning();
  Sent waiting = Send(WithTimeout(SlowRequest(), 2ms));
  EXPECT_EQ(CodeOf(waiting.answer.get()), ErrorCode::kDeadlineExceeded);
  EXPECT_FALSE(running.Answered());
  core_->Cancel(running.handle);
}

TEST_F(CoreTest, ARequestThatIsLateAlreadyIsAnsweredAtOnce) {
  repository_.AddModel("small", SmallModel());
  Open();
  InferRequest request = WithTimeout(SmallRequest(), 1ms);
  request.arrival -= 2ms;
  Sent sent = Send(std::move(request));
  ASSERT_TRUE(sent.Answered());
  EXPECT_EQ(CodeOf(sent.answer.get()), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(core_->schedulers()->SchedulerStatistics().launches, 0u);
  EXPECT_EQ(StatisticsOf("small").deadline_misses, 1u);
}

TEST_F(CoreTest, ARequestThatWouldBeLateIsRefusedAtOnceIfTheSchedulerSaysSo) {
  repository_.AddModel("slow", SlowModel());
  Open("clockwork");
  InferRequest request = WithTimeout(SlowRequest(), 1ms);
  request.arrival = {};  // when the core gets it
  const Answer answer = Ask(request);
  ASSERT_EQ(CodeOf(answer), ErrorCode::kUnavailable);
  const std::string& message = answer.error().message;
  EXPECT_THAT(message, MatchesRegex("model 'slow': would be late: .* take [0-9]+\\.[0-9]{3} ms"));
  EXPECT_GE(std::stod(message.substr(message.find("take ") + 5)), 1);
  EXPECT_EQ(core_->schedulers()->SchedulerStatistics().launches, 0u);
  EXPECT_EQ(StatisticsOf("slow").too_late, 1u);
  EXPECT_EQ(StatisticsOf("slow").rejected, 1u);
  EXPECT_EQ(StatisticsOf("slow").deadline_misses, 0u);
  EXPECT_EQ(CodeOf(Ask(WithTimeout(SlowRequest(), 600s))), std::nullopt);
}

TEST_F(CoreTest, TheModelsDeadlineHoldsUnlessARequestBringsItsOwn) {
  AddHeld(Parameter("lagoon.deadline_ms", "3"));
  Open();
  gates_->blocks.Close();
  EXPECT_EQ(CodeOf(Ask(SlowRequest())), ErrorCode::kDeadlineExceeded);
  LetGo();
  EXPECT_EQ(CodeOf(Ask(WithTimeout(SlowRequest(), 60s))), std::nullopt);
}

TEST_F(CoreTest, AHugeTimeoutIsNone) {
  repository_.AddModel("small", SmallModel());
  Open();
  EXPECT_EQ(CodeOf(Ask(WithTimeout(SmallRequest(), Nanoseconds::max()))), std::nullopt);
  EXPECT_EQ(StatisticsOf("small").deadline_misses, 0u);
}

TEST_F(CoreTest, AModelThatCannotMeetItsDeadlineIsReported) {
  repository_.AddModel("slow", SlowModel(), Parameter("lagoon.deadline_ms", "0.01"));
  repository_.AddModel("small", SmallModel(), Parameter("lagoon.deadline_ms", "60000"));
  Open();
  const std::vector<ModelStatus> models = core_->Models();
  ASSERT_THAT(models, SizeIs(2));
  EXPECT_THAT(models[0].warnings,
              ElementsAre(AllOf(HasSubstr("lagoon.deadline_ms"), HasSubstr("0.010"))));
  EXPECT_EQ(models[0].state, ModelState::kReady);
  EXPECT_GT(models[0].standalone, 10us);
  EXPECT_THAT(models[1].warnings, IsEmpty());
}

// ---- Cancelling and draining

TEST_F(CoreTest, CancelEndsARequestThatRunsAndOneThatWaits) {
  AddHeld();
  Open();
  Sent running = SendRunning();
  Sent waiting = Send(SlowRequest());
  core_->Cancel(waiting.handle);
  EXPECT_EQ(CodeOf(waiting.answer.get()), ErrorCode::kCancelled);
  EXPECT_FALSE(running.Answered());
  core_->Cancel(running.handle);
  EXPECT_EQ(CodeOf(running.answer.get()), ErrorCode::kCancelled);
  EXPECT_EQ(StatisticsOf("slow").cancelled, 2u);
  LetGo();
  EXPECT_EQ(CodeOf(Ask(SlowRequest())), std::nullopt);
}

TEST_F(CoreTest, ARequestsMemoryIsFreeWhenItIsAnswered) {
  repository_.AddModel("small", SmallModel());
  AddHeld();
  Open();
  gates_->blocks.Close();
  for (const bool cancelled : {false, true}) {
    InferRequest request = cancelled ? SlowRequest() : SmallRequest();
    const std::weak_ptr<const void> payload = request.payload;
    std::promise<bool> freed;
    const RequestHandle handle = core_->Infer(
        std::move(request), [&](const Answer&) { freed.set_value(payload.expired()); });
    if (cancelled) core_->Cancel(handle);
    EXPECT_TRUE(freed.get_future().get());
  }
}

TEST_F(CoreTest, CancelAfterTheAnswerIsIgnored) {
  repository_.AddModel("small", SmallModel());
  Open();
  Sent first = Send(SmallRequest());
  EXPECT_EQ(CodeOf(first.answer.get()), std::nullopt);
  core_->Cancel(first.handle);
  core_->Cancel(RequestHandle{});
  EXPECT_EQ(CodeOf(Ask(SmallRequest())), std::nullopt);
  EXPECT_EQ(StatisticsOf("small").cancelled, 0u);
}

TEST_F(CoreTest, DrainWaitsForWhatIsInFlight) {
  AddHeld();
  Open();
  EXPECT_TRUE(core_->Ready());
  Sent running = SendRunning();
  Sent waiting = Send(SlowRequest());
  {
    const std::jthread let_go([&] {
      while (core_->Ready()) std::this_thread::yield();
      EXPECT_FALSE(running.Answered());
      LetGo();
    });
    core_->Drain(kNoDeadline);
  }
  EXPECT_FALSE(core_->Ready());
  ASSERT_TRUE(running.Answered() && waiting.Answered());
  EXPECT_EQ(CodeOf(running.answer.get()), std::nullopt);
  EXPECT_EQ(CodeOf(waiting.answer.get()), std::nullopt);

  const Answer late = Ask(SlowRequest());
  ASSERT_EQ(CodeOf(late), ErrorCode::kUnavailable);
  EXPECT_THAT(late.error().message, HasSubstr("shutting down"));
}

TEST_F(CoreTest, DrainEndsWhatIsLeftAndSaysWhy) {
  AddHeld();
  Open();
  Sent running = SendRunning();
  Sent waiting = Send(SlowRequest());
  core_->Drain(Now());
  ASSERT_TRUE(running.Answered() && waiting.Answered());
  for (Sent* sent : {&running, &waiting}) {
    const Answer answer = sent->answer.get();
    ASSERT_EQ(CodeOf(answer), ErrorCode::kUnavailable);  // no client has cancelled it
    EXPECT_THAT(answer.error().message, HasSubstr("model 'slow': the server is shutting down"));
  }
}

TEST_F(CoreTest, DrainAnswersEveryRequestOfClientsThatGoOnSending) {
  repository_.AddModel("small", SmallModel());
  Open();
  std::atomic<int> sent{0};
  std::atomic<int> answered{0};
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 3; ++i) {
      clients.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested() && core_->Ready()) {
          ++sent;
          core_->Infer(SmallRequest(), [&](const Answer&) { ++answered; });
        }
      });
    }
    while (answered < 100) std::this_thread::yield();
    core_->Drain(Now());
  }
  EXPECT_EQ(sent, answered);
}

TEST_F(CoreTest, AnswersWhatIsInFlightWhenItIsDestroyed) {
  AddHeld();
  Open();
  Sent running = SendRunning();
  core_.reset();
  ASSERT_TRUE(running.Answered());
  EXPECT_EQ(CodeOf(running.answer.get()), ErrorCode::kUnavailable);
}

// ---- Classes

TEST_F(CoreTest, ARealTimeRequestTakesTheUnitsFromBestEffortWork) {
  AddHeld();
  repository_.AddModel("small", SmallModel(), kRealTime);
  Open();
  Sent running = SendRunning();
  EXPECT_EQ(CodeOf(Ask(SmallRequest())), std::nullopt);
  EXPECT_EQ(core_->schedulers()->SchedulerStatistics().revocations, 1u);
  EXPECT_FALSE(running.Answered());
  LetGo();
  const Answer answer = running.answer.get();
  ASSERT_EQ(CodeOf(answer), std::nullopt);
  EXPECT_EQ(answer->job.revocations, 1u);
  EXPECT_EQ(StatisticsOf("slow").revocations, 1u);
  EXPECT_EQ(Floats(answer->outputs[0])[777], 777.0f);
}

TEST_F(CoreTest, ARequestMayLowerItsClass) {
  AddHeld();
  repository_.AddModel("small", SmallModel(), kRealTime);
  Open();
  Sent running = SendRunning();
  InferRequest request = SmallRequest();
  request.priority = 2;
  Sent lowered = Send(std::move(request));
  LetGo();
  EXPECT_EQ(CodeOf(lowered.answer.get()), std::nullopt);
  EXPECT_EQ(core_->schedulers()->SchedulerStatistics().revocations, 0u);
  EXPECT_EQ(StatisticsOf("small").success.count, 1u);
}

TEST_F(CoreTest, ARequestNeverRaisesItsClass) {
  AddHeld();
  repository_.AddModel("small", SmallModel());
  Open();
  Sent running = SendRunning();
  InferRequest request = SmallRequest();
  request.priority = 1;
  Sent sent = Send(std::move(request));
  LetGo();
  EXPECT_EQ(CodeOf(sent.answer.get()), std::nullopt);
  EXPECT_EQ(core_->schedulers()->SchedulerStatistics().revocations, 0u);
}

// ---- Wrong requests

TEST_F(CoreTest, NamesWhatIsWrongWithARequestAndServesOn) {
  repository_.AddModel("small", SmallModel());
  Open();
  const Answer shape = Ask(RequestFor("small", {1, 5}, {1, 2, 3, 4, 5}));
  ASSERT_EQ(CodeOf(shape), ErrorCode::kInvalidArgument);
  EXPECT_THAT(shape.error().message,
              AllOf(HasSubstr("model 'small'"), HasSubstr("'x'"), HasSubstr("[1,5]")));
  EXPECT_EQ(CodeOf(Ask(SmallRequest("other"))), ErrorCode::kNotFound);
  InferRequest version = SmallRequest();
  version.version = "9";
  EXPECT_EQ(CodeOf(Ask(version)), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(Ask(SmallRequest())), std::nullopt);
  EXPECT_EQ(StatisticsOf("small").other, 1u);
  EXPECT_EQ(StatisticsOf("small").fail.count, 1u);
}

using BatchTest = testing::CoreTest;

TEST_F(BatchTest, ABatchIsAnsweredRowByRow) {
  repository_.AddModel("batch", testing::SmallBatchModel(), "max_batch_size: 5");
  Open();
  std::vector<float> rows, y, z;
  for (int row = 0; row < 5; ++row) {
    const Answer one = Ask(testing::SmallRequest("batch", static_cast<float>(row * row)));
    ASSERT_TRUE(one.has_value()) << one.error().message;
    for (const float value : {static_cast<float>(row * row), 2.F, 3.F, -40.F})
      rows.push_back(value);
    for (const float value : testing::Floats(one->outputs[0])) y.push_back(value);
    for (const float value : testing::Floats(one->outputs[1])) z.push_back(value);
  }
  for (const std::int64_t batch : {2, 5, 3, 4, 1}) {
    const auto count = static_cast<std::ptrdiff_t>(batch);
    const Answer all = Ask(testing::RequestFor(
        "batch", {batch, 4}, std::vector<float>(rows.begin(), rows.begin() + 4 * count)));
    ASSERT_TRUE(all.has_value()) << all.error().message;
    EXPECT_EQ(all->outputs[0].dims, (Dims{batch, 2}));
    EXPECT_EQ(testing::Floats(all->outputs[0]),
              std::vector<float>(y.begin(), y.begin() + 2 * count));
    EXPECT_EQ(testing::Floats(all->outputs[1]),
              std::vector<float>(z.begin(), z.begin() + 2 * count));
  }
  const ModelStatistics statistics = StatisticsOf("batch");
  EXPECT_EQ(statistics.inference_count, 5u + 15u);
  EXPECT_EQ(statistics.execution_count, 10u);
  ASSERT_EQ(statistics.batches.size(), 5u);
  EXPECT_EQ(statistics.batches[0].compute_infer.count, 6u);
}

TEST_F(BatchTest, AnUnwantedOutputOfABatchHasRoom) {
  repository_.AddModel("batch", testing::SmallBatchModel(), "max_batch_size: 64");
  Open();
  InferRequest request = testing::RequestFor("batch", {64, 4}, std::vector<float>(256, 1));
  request.outputs = {"z"};
  const Answer answer = Ask(std::move(request));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  ASSERT_EQ(answer->outputs.size(), 1u);
  EXPECT_EQ(answer->outputs[0].dims, (Dims{64, 2}));
}

}  // namespace
}  // namespace lagoon
