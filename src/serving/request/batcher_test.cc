// Served models whose requests are joined into batches.

#include "serving/request/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace std::chrono_literals;
using namespace lagoon::testing;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The model with names for the first dims of its input and its output.
onnx::ModelProto WithOpenDims(onnx::ModelProto model, const std::vector<std::string>& names) {
  onnx::GraphProto& graph = *model.mutable_graph();
  for (auto* value : {graph.mutable_input(0), graph.mutable_output(0)}) {
    auto& shape = *value->mutable_type()->mutable_tensor_type()->mutable_shape();
    for (std::size_t i = 0; i < names.size(); ++i) {
      shape.mutable_dim(static_cast<int>(i))->set_dim_param(names[i]);
    }
  }
  return model;
}

// Under `sequential` a request of the slow model keeps the device, so that requests of the model
// "batch" wait: the first one in a batch that is posted, the others for the next batch.
class BatcherTest : public CoreTest {
 protected:
  void Serve(const std::string& batching, const std::string& rest = "") {
    AddHeld();
    repository_.AddModel("batch", SmallBatchModel(),
                         "max_batch_size: 8\ndynamic_batching { " + batching + " }\n" + rest);
    Open("sequential");
  }
  static InferRequest Rows(float first, std::int64_t rows = 1) {
    return SmallRequest("batch", first, rows);
  }
  // SmallModel computes y[0] = x[0] + 4 in each row.
  static bool Right(const Answer& answer, float first, std::int64_t rows = 1) {
    if (!answer || answer->outputs[0].dims != Dims{rows, 2}) return false;
    const std::vector<float> y = Floats(answer->outputs[0]);
    for (std::int64_t row = 0; row < rows; ++row) {
      if (y[static_cast<std::size_t>(2 * row)] != first + static_cast<float>(row) + 4) return false;
    }
    return true;
  }
};

TEST_F(BatcherTest, ABestEffortRequestIsRefusedWhenItHasWaitedTooLong) {
  max_wait_ = std::chrono::milliseconds(1);
  AddHeld(kRealTime);  // waits without a limit
  repository_.AddModel("batch", SmallBatchModel(), "max_batch_size: 8\ndynamic_batching { }\n");
  Open("sequential");
  Sent slow = SendRunning();
  Sent first = Send(Rows(1)), second = Send(Rows(2));  // one in a batch, one waits for the next
  for (Sent* const sent : {&first, &second}) {
    const Answer refused = sent->answer.get();
    ASSERT_EQ(CodeOf(refused), ErrorCode::kUnavailable);
    EXPECT_THAT(refused.error().message, HasSubstr("--max-wait"));
  }
  LetGo();
  EXPECT_EQ(CodeOf(slow.answer.get()), std::nullopt);
  EXPECT_EQ(StatisticsOf("batch").rejected, 2u);
  EXPECT_EQ(StatisticsOf("batch").pending, 0u);
}

TEST_F(BatcherTest, RequestsThatWaitAreOneExecution) {
  Serve("");
  Sent slow = SendRunning();
  std::vector<Sent> sent;
  for (int i = 0; i < 6; ++i) sent.push_back(Send(Rows(static_cast<float>(10 * i))));
  EXPECT_EQ(StatisticsOf("batch").pending, 6u);
  LetGo();
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(Right(sent[static_cast<std::size_t>(i)].answer.get(), static_cast<float>(10 * i)));
  }
  EXPECT_EQ(CodeOf(slow.answer.get()), std::nullopt);
  const ModelStatistics statistics = StatisticsOf("batch");
  EXPECT_EQ(statistics.success.count, 6u);
  EXPECT_EQ(statistics.inference_count, 6u);
  EXPECT_EQ(statistics.execution_count, 2u);
  ASSERT_EQ(statistics.batches.size(), 2u);
  EXPECT_EQ(statistics.batches[0].batch_size, 1u);
  EXPECT_EQ(statistics.batches[1].batch_size, 5u);
  EXPECT_EQ(statistics.batches[1].compute_infer.count, 1u);
  EXPECT_EQ(statistics.pending, 0u);
}

TEST_F(BatcherTest, ACeilingKeepsBatchesSmall) {
  Serve("");
  Sent slow = SendRunning();
  std::vector<Sent> sent;
  for (int i = 0; i < 5; ++i) sent.push_back(Send(Rows(static_cast<float>(10 * i))));
  ASSERT_TRUE(core_->shares()->ResizeShare("batch", "", {.none = true, .rows = 2}));
  EXPECT_EQ(StatisticsOf("batch").most_rows, 2);
  LetGo();
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(Right(sent[i].answer.get(), static_cast<float>(10 * i)));
  }
  const ModelStatistics statistics = StatisticsOf("batch");
  EXPECT_EQ(statistics.execution_count, 3u);
  EXPECT_EQ(statistics.batches.back().batch_size, 2u);
  ASSERT_TRUE(core_->shares()->ResizeShare("batch", "", {.none = true}));
  EXPECT_EQ(StatisticsOf("batch").most_rows, 8);
}

// The first request is a batch alone, the others are one batch.
TEST_F(BatcherTest, ABatchOfSeveralTenantsIsTheModels) {
  tenants_ = TenantSource::kHeader;
  Serve("");
  const auto send = [&](const char* tenant) {
    InferRequest request = Rows(0);
    request.tenant_of_header = tenant;
    return Send(std::move(request));
  };
  const auto kernels = [&] {
    std::map<std::string, std::uint64_t> of;
    for (const TenantStatistics& tenant : core_->schedulers()->Tenants()) {
      of[tenant.name] = tenant.kernels;
    }
    return of;
  };
  Sent slow = SendRunning();
  Sent first = send("a"), second = send("a"), third = send("b");
  LetGo();
  for (Sent* const sent : {&first, &second, &third}) EXPECT_TRUE(Right(sent->answer.get(), 0));
  const auto before = kernels();
  ASSERT_EQ(before.size(), 2u);
  EXPECT_GT(before.at("a"), 0u);
  EXPECT_EQ(before.at("b"), 0u);
  EXPECT_TRUE(Right(send("b").answer.get(), 0));
  EXPECT_EQ(kernels().at("b"), before.at("a"));
  Sent refused = send("no\ntext");
  EXPECT_EQ(CodeOf(refused.answer.get()), ErrorCode::kInvalidArgument);
}

TEST_F(BatcherTest, RequestsBringRowsAndChooseTheirOutputs) {
  Serve("");
  Sent slow = SendRunning();
  Sent first = Send(Rows(0));
  Sent rows = Send(Rows(10, 3));
  InferRequest other = Rows(20, 2);
  other.outputs = {"z"};
  Sent only_z = Send(std::move(other));
  Sent last = Send(Rows(30, 3));
  LetGo();
  EXPECT_TRUE(Right(first.answer.get(), 0));
  EXPECT_TRUE(Right(rows.answer.get(), 10, 3));
  EXPECT_TRUE(Right(last.answer.get(), 30, 3));
  const Answer z = only_z.answer.get();
  ASSERT_TRUE(z.has_value()) << z.error().message;
  ASSERT_EQ(z->outputs.size(), 1u);
  EXPECT_EQ(z->outputs[0].name, "z");
  EXPECT_THAT(Floats(z->outputs[0]), ElementsAre(24, 0, 25, 0));
  const ModelStatistics statistics = StatisticsOf("batch");
  EXPECT_EQ(statistics.inference_count, 9u);
  EXPECT_EQ(statistics.execution_count, 2u);  // one row, then eight
}

TEST_F(BatcherTest, EachRequestOfABatchHasItsOutputsWhereItWantsThem) {
  Serve("");
  Sent slow = SendRunning();
  Sent first = Send(Rows(0));
  std::vector<std::byte> places[2];
  std::vector<Sent> sent;
  for (std::vector<std::byte>& place : places) {
    place.resize(2 * sizeof(float));
    InferRequest request = Rows(static_cast<float>(10 * (sent.size() + 1)));
    request.outputs = {"y"};
    request.places = {place};
    sent.push_back(Send(std::move(request)));
  }
  Sent plain = Send(Rows(30));
  LetGo();
  EXPECT_TRUE(Right(first.answer.get(), 0));
  for (std::size_t i = 0; i < 2; ++i) {
    const Answer answer = sent[i].answer.get();
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_TRUE(answer->outputs[0].in_place);
    float y = 0;
    std::memcpy(&y, places[i].data(), sizeof(y));
    EXPECT_EQ(y, static_cast<float>(10 * (i + 1)) + 4);
  }
  EXPECT_TRUE(Right(plain.answer.get(), 30));
  EXPECT_EQ(StatisticsOf("batch").execution_count, 2u);
}

TEST_F(BatcherTest, ARequestThatIsAloneDoesNotWait) {
  Serve("");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Right(Ask(Rows(5)), 5));
  EXPECT_EQ(StatisticsOf("batch").execution_count, 3u);
}

TEST_F(BatcherTest, TheQueueDelayEndsByItself) {
  Serve("max_queue_delay_microseconds: 20000 preferred_batch_size: [ 2 ]");
  const TimePoint begin = Now();
  EXPECT_TRUE(Right(Ask(Rows(5)), 5));
  EXPECT_GE(Now() - begin, 20ms);
  EXPECT_EQ(StatisticsOf("batch").execution_count, 1u);
}

TEST_F(BatcherTest, APreferredSizeGoesAtOnce) {
  Serve("max_queue_delay_microseconds: 3600000000 preferred_batch_size: [ 2 ]");
  Sent one = Send(Rows(1)), two = Send(Rows(2));
  EXPECT_TRUE(Right(one.answer.get(), 1));
  EXPECT_TRUE(Right(two.answer.get(), 2));
  EXPECT_EQ(StatisticsOf("batch").execution_count, 1u);
}

TEST_F(BatcherTest, OneOfABatchIsCancelledAndTheOthersAreAnswered) {
  Serve("");
  Sent slow = SendRunning();
  Sent first = Send(Rows(0));
  Sent waiting = Send(Rows(1)), stays = Send(Rows(2));
  core_->Cancel(waiting.handle);
  EXPECT_TRUE(waiting.Answered());  // it was in no batch yet
  EXPECT_EQ(CodeOf(waiting.answer.get()), ErrorCode::kCancelled);
  core_->Cancel(first.handle);  // the only one of its batch, which is posted: the job is cancelled
  EXPECT_EQ(CodeOf(first.answer.get()), ErrorCode::kCancelled);
  EXPECT_FALSE(slow.Answered());
  LetGo();
  EXPECT_TRUE(Right(stays.answer.get(), 2));
  core_->Cancel(stays.handle);  // it has been answered
  const ModelStatistics statistics = StatisticsOf("batch");
  EXPECT_EQ(statistics.cancelled, 2u);
  EXPECT_EQ(statistics.execution_count, 1u);
}

TEST_F(BatcherTest, AMemberOfAPostedBatchIsAnsweredWhenTheBatchEnds) {
  Serve("preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 3600000000");
  Sent slow = SendRunning();
  Sent gone = Send(Rows(1)), stays = Send(Rows(2));  // a batch of two is posted
  core_->Cancel(gone.handle);
  LetGo();
  EXPECT_TRUE(Right(stays.answer.get(), 2));
  EXPECT_EQ(CodeOf(gone.answer.get()), ErrorCode::kCancelled);
  EXPECT_EQ(StatisticsOf("batch").execution_count, 1u);
}

TEST_F(BatcherTest, ADeadlineEndsTheWaitForABatch) {
  Serve("");
  Sent slow = SendRunning();
  Sent first = Send(Rows(0));
  std::optional<ErrorCode> code = ErrorCode::kUnavailable;
  // On a busy machine the model is expected to take longer than a short timeout.
  for (Nanoseconds timeout = 5ms; code == ErrorCode::kUnavailable && timeout < 1h; timeout *= 2) {
    InferRequest short_of_time = Rows(1);
    short_of_time.timeout = timeout;
    code = CodeOf(Ask(std::move(short_of_time)));
  }
  EXPECT_EQ(code, ErrorCode::kDeadlineExceeded);
  LetGo();
  EXPECT_TRUE(Right(first.answer.get(), 0));
  EXPECT_EQ(StatisticsOf("batch").deadline_misses, 1u);
}

// The model takes some tens of milliseconds.
TEST_F(BatcherTest, ARequestThatWouldBeLateEvenAloneIsRefusedAtOnce) {
  constexpr std::int64_t kColumns = 1 << 18;
  OnnxBuilder builder;
  builder.Input("x", {1, kColumns});
  for (int i = 0; i < 512; ++i) {
    builder.Node("Neg", {i == 0 ? "x" : "v" + std::to_string(i - 1)},
                 i == 511 ? "y" : "v" + std::to_string(i));
  }
  repository_.AddModel("batch", WithOpenDims(builder.Output("y", {1, kColumns}).Build(), {"rows"}),
                       "max_batch_size: 2\ndynamic_batching { }\n");
  Open();
  InferRequest request = RequestFor("batch", {1, kColumns}, std::vector<float>(kColumns, 1));
  request.timeout = 5ms;
  request.arrival = {};  // when the core gets it
  Sent sent = Send(std::move(request));
  ASSERT_TRUE(sent.Answered());
  const Answer answer = sent.answer.get();
  ASSERT_EQ(CodeOf(answer), ErrorCode::kUnavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("would be late"));
  EXPECT_EQ(StatisticsOf("batch").too_late, 1u);
}

TEST_F(BatcherTest, TheQueueTimeoutRefusesARequest) {
  Serve("default_queue_policy { default_timeout_microseconds: 5000 allow_timeout_override: true }");
  Sent slow = SendRunning();
  InferRequest patient = Rows(0);
  patient.timeout = 1h;  // in place of the queue's, which may pass before the first batch is posted
  Sent first = Send(std::move(patient));
  const Answer refused = Send(Rows(1)).answer.get();
  ASSERT_EQ(CodeOf(refused), ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("model 'batch'"), HasSubstr("5.000 ms")));
  LetGo();
  EXPECT_TRUE(Right(first.answer.get(), 0));
}

TEST_F(BatcherTest, AFullQueueRefusesAtOnce) {
  Serve("default_queue_policy { max_queue_size: 2 }");
  Sent slow = SendRunning();
  Sent posted = Send(Rows(0)), one = Send(Rows(1)), two = Send(Rows(2));
  Sent refused = Send(Rows(3));
  EXPECT_TRUE(refused.Answered());
  const Answer answer = refused.answer.get();
  ASSERT_EQ(CodeOf(answer), ErrorCode::kUnavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("2 requests wait"));
  LetGo();
  EXPECT_TRUE(Right(two.answer.get(), 2));
  EXPECT_EQ(StatisticsOf("batch").rejected, 1u);
}

TEST_F(BatcherTest, EachLevelHasAQueueOfItsOwnSize) {
  Serve("priority_levels: 2 default_priority_level: 2 default_queue_policy { max_queue_size: 1 }");
  const auto of_level = [](std::uint64_t level, float row) {
    InferRequest request = Rows(row);
    request.priority = level;
    return request;
  };
  Sent slow = SendRunning();
  Sent posted = Send(Rows(0)), low = Send(of_level(2, 1)), high = Send(of_level(1, 2));
  for (const std::uint64_t level : {1, 2}) {
    const Answer full = Send(of_level(level, 3)).answer.get();
    ASSERT_EQ(CodeOf(full), ErrorCode::kUnavailable);
    EXPECT_THAT(full.error().message, HasSubstr("1 requests wait"));
  }
  LetGo();
  EXPECT_TRUE(Right(low.answer.get(), 1));
  EXPECT_TRUE(Right(high.answer.get(), 2));
}

TEST_F(BatcherTest, TheNewestRequestWinsWhereTheModelAsksForIt) {
  Serve("default_queue_policy { max_queue_size: 1 }", Parameter("lagoon.overflow", "newest_wins"));
  Sent slow = SendRunning();
  Sent posted = Send(Rows(0)), older = Send(Rows(1)), newest = Send(Rows(2));
  EXPECT_EQ(CodeOf(older.answer.get()), ErrorCode::kUnavailable);
  LetGo();
  EXPECT_TRUE(Right(posted.answer.get(), 0));
  EXPECT_TRUE(Right(newest.answer.get(), 2));
  EXPECT_EQ(StatisticsOf("batch").superseded, 1u);
}

TEST_F(BatcherTest, ABatchWhoseOrderIsKeptRunsAfterTheAnswersBeforeIt) {
  Serve("preserve_ordering: true");
  Sent slow = SendRunning();
  std::atomic<bool> later{false}, overtaken{false};
  std::promise<void> answered;
  core_->Infer(Rows(1), [&](const Answer&) {
    // The other worker is free to run the next batch.
    const TimePoint until = Now() + std::chrono::milliseconds(100);
    while (!later && Now() < until) std::this_thread::yield();
    overtaken = later.load();
    answered.set_value();
  });
  std::promise<void> all;
  core_->Infer(Rows(2), [&](const Answer&) {
    later = true;
    all.set_value();
  });
  LetGo();
  answered.get_future().wait();
  all.get_future().wait();
  EXPECT_FALSE(overtaken);
  EXPECT_EQ(CodeOf(slow.answer.get()), std::nullopt);
}

TEST_F(BatcherTest, DrainingEndsWhatStillWaits) {
  Serve("max_queue_delay_microseconds: 3600000000");
  Sent waiting = Send(Rows(1));
  core_->Drain(Now());
  EXPECT_EQ(CodeOf(waiting.answer.get()), ErrorCode::kUnavailable);
  EXPECT_EQ(CodeOf(Ask(Rows(2))), ErrorCode::kUnavailable);
}

TEST_F(BatcherTest, RequestsOfOtherShapesAreBatchesOfTheirOwn) {
  AddHeld();
  const onnx::ModelProto model = WithOpenDims(
      OnnxBuilder().Input("x", {1, 4}).Node("Neg", {"x"}, "y").Output("y", {1, 4}).Build(),
      {"rows", "length"});
  repository_.AddModel("batch", model, "max_batch_size: 8\ndynamic_batching { }\n");
  Open("sequential");
  const auto request = [](std::int64_t length, float value) {
    return RequestFor("batch", {1, length},
                      std::vector<float>(static_cast<std::size_t>(length), value));
  };
  // Plans for one row and two rows of each length; the core asks for larger ones by itself.
  for (const std::int64_t length : {3, 5}) ASSERT_TRUE(Ask(request(length, 1)).has_value());
  std::uint64_t executions = 0, requests = 0;
  const TimePoint until = Now() + 1min;
  while (executions == requests && Now() < until) {
    const std::uint64_t before = StatisticsOf("batch").execution_count;
    Sent slow = SendRunning();
    std::vector<Sent> sent;
    for (int i = 0; i < 8; ++i)
      sent.push_back(Send(request(i % 2 == 0 ? 3 : 5, static_cast<float>(i))));
    LetGo();
    for (int i = 0; i < 8; ++i) {
      const Answer answer = sent[static_cast<std::size_t>(i)].answer.get();
      ASSERT_TRUE(answer.has_value()) << answer.error().message;
      EXPECT_EQ(answer->outputs[0].dims, (Dims{1, i % 2 == 0 ? 3 : 5}));
      EXPECT_EQ(Floats(answer->outputs[0])[0], static_cast<float>(-i));
    }
    executions = StatisticsOf("batch").execution_count - before;
    requests = 8;
  }
  EXPECT_LT(executions, requests);
}

TEST_F(BatcherTest, RequestsThatLowerTheirClassAreBatchesOfTheirOwn) {
  Serve("", kRealTime);
  Sent slow = SendRunning();
  std::vector<Sent> sent;
  for (int i = 0; i < 4; ++i) {
    InferRequest request = Rows(static_cast<float>(i));
    request.priority = i % 2 == 0 ? 0 : 2;
    sent.push_back(Send(std::move(request)));
  }
  LetGo();
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(Right(sent[static_cast<std::size_t>(i)].answer.get(), static_cast<float>(i)));
  }
}

// Full batches in time let the limit grow by a row each.
TEST_F(BatcherTest, AnSloBoundsTheRowsOfABatch) {
  Serve("", Parameter("lagoon.slo_ms", "3600000") + Parameter("lagoon.batching", "aimd"));
  EXPECT_EQ(StatisticsOf("batch").most_rows, 1);
  EXPECT_EQ(StatisticsOf("slow").most_rows, 0);
  Sent slow = SendRunning();
  std::vector<Sent> sent;
  for (int i = 0; i < 6; ++i) sent.push_back(Send(Rows(static_cast<float>(10 * i))));
  LetGo();
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(Right(sent[static_cast<std::size_t>(i)].answer.get(), static_cast<float>(10 * i)));
  }
  const ModelStatistics statistics = StatisticsOf("batch");
  EXPECT_EQ(statistics.most_rows, 4);
  ASSERT_EQ(statistics.batches.size(), 3u);  // of 1, 2 and 3 rows
  EXPECT_EQ(statistics.batches[2].batch_size, 3u);
  EXPECT_TRUE(Right(Ask(Rows(0, 8)), 0, 8));  // a request is not cut
}

TEST_F(BatcherTest, AnSloThatNoBatchKeepsIsReported) {
  Serve("", Parameter("lagoon.slo_ms", "0.01"));
  const auto models = core_->Models();
  const auto model = std::ranges::find(models, "batch", &ModelStatus::name);
  ASSERT_NE(model, models.end());
  if (model->standalone > 5us) {  // half of the SLO
    EXPECT_THAT(model->warnings,
                Contains(AllOf(HasSubstr("lagoon.slo_ms of 0.010"), HasSubstr("one row"))));
  }
  EXPECT_TRUE(Right(Ask(Rows(1)), 1));
  EXPECT_EQ(StatisticsOf("batch").most_rows, 1);
}

// Many clients with rows, cancellations and deadlines of every kind: each request is answered once,
// and rightly.
TEST_F(BatcherTest, ManyClientsAtOnce) {
  repository_.AddModel(
      "batch", SmallBatchModel(),
      "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 200 }\n" +
          Parameter("lagoon.places", "2"));
  Open();
  std::atomic<int> wrong{0}, right{0};
  {
    std::vector<std::jthread> clients;
    for (unsigned client = 0; client < 4; ++client) {
      clients.emplace_back([&, client] {
        std::mt19937 random(client);
        for (int i = 0; i < 150; ++i) {
          const auto first = static_cast<float>(1000 * client + static_cast<unsigned>(i));
          const auto rows = static_cast<std::int64_t>(1 + random() % 8);
          InferRequest request = Rows(first, rows);
          const unsigned dice = random() % 8;
          if (dice == 0) request.timeout = std::chrono::microseconds(random() % 2000);
          Sent sent = Send(std::move(request));
          if (dice == 1) core_->Cancel(sent.handle);
          const Answer answer = sent.answer.get();
          const bool may_fail = dice <= 1;
          if (answer ? !Right(answer, first, rows) : !may_fail) ++wrong;
          if (answer) ++right;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 300);
  const ModelStatistics statistics = StatisticsOf("batch");
  EXPECT_EQ(statistics.success.count, static_cast<std::uint64_t>(right));
  EXPECT_LE(statistics.execution_count, statistics.success.count);
  EXPECT_EQ(statistics.pending, 0u);
}

}  // namespace
}  // namespace lagoon
