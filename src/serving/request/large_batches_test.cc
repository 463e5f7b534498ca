// Models whose largest batch has more rows than those that are ready from the load on.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serving/request/plan_maker.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;

class LargeBatchesTest : public CoreTest {
 protected:
  void Serve(const std::string& rest = "") {
    repository_.AddModel("batch", SmallBatchModel(), "max_batch_size: 256\n" + rest);
    Open("sequential");
  }
  static InferRequest Rows(float first, std::int64_t rows = 1) {
    return SmallRequest("batch", first, rows);
  }
  // SmallModel computes y[0] = x[0] + 4 in each row.
  static void ExpectRight(const Answer& answer, float first, std::int64_t rows = 1) {
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    ASSERT_EQ(answer->outputs[0].dims, (Dims{rows, 2}));
    const std::vector<float> y = Floats(answer->outputs[0]);
    for (std::int64_t row = 0; row < rows; ++row) {
      ASSERT_EQ(y[static_cast<std::size_t>(2 * row)], first + static_cast<float>(row) + 4);
    }
  }
  std::uint64_t ExecutionsOf(std::uint64_t rows) {
    for (const BatchStatistics& batch : StatisticsOf("batch").batches) {
      if (batch.batch_size == rows) return batch.compute_infer.count;
    }
    return 0;
  }
  // One row runs and `rows` more wait meanwhile.
  void Burst(int rows) {
    Sent slow = SendRunning();
    std::vector<Sent> sent;
    for (int i = 0; i <= rows; ++i) sent.push_back(Send(Rows(static_cast<float>(i))));
    LetGo();
    for (int i = 0; i <= rows; ++i) {
      ExpectRight(sent[static_cast<std::size_t>(i)].answer.get(), static_cast<float>(i));
    }
  }
};

TEST_F(LargeBatchesTest, ARequestBringsAllRows) {
  Serve();
  for (const std::int64_t rows : {64, 65, 200, 256, 256}) ExpectRight(Ask(Rows(5, rows)), 5, rows);
  EXPECT_EQ(CodeOf(Ask(Rows(5, 257))), ErrorCode::kInvalidArgument);
  const ModelStatistics statistics = StatisticsOf("batch");
  EXPECT_EQ(statistics.inference_count, 64u + 65 + 200 + 2 * 256);
  EXPECT_EQ(statistics.execution_count, 5u);
  ASSERT_EQ(statistics.batches.size(), 4u);
  EXPECT_EQ(ExecutionsOf(64), 1u);
  EXPECT_EQ(ExecutionsOf(200), 1u);
  EXPECT_EQ(ExecutionsOf(256), 2u);
}

TEST_F(LargeBatchesTest, ThePlanOfALargeBatchIsMadeOnceAndKept) {
  Serve(Parameter("lagoon.max_plans", "1"));
  EXPECT_EQ(Ask(Rows(0, 64))->plan_wait, Nanoseconds(0));
  for (const std::int64_t rows : {65, 100, 200}) {
    EXPECT_GT(Ask(Rows(0, rows))->plan_wait, Nanoseconds(0));
  }
  for (const std::int64_t rows : {65, 100, 200}) {
    EXPECT_EQ(Ask(Rows(0, rows))->plan_wait, Nanoseconds(0));
  }
}

TEST_F(LargeBatchesTest, RequestsThatWaitAreJoinedToALargeBatch) {
  AddHeld();
  Serve("dynamic_batching { }\n");
  ExpectRight(Ask(Rows(0, 200)), 0, 200);  // makes the plan
  const TimePoint until = Now() + std::chrono::minutes(1);
  while (ExecutionsOf(200) < 2 && Now() < until) Burst(200);
  EXPECT_GE(ExecutionsOf(200), 2u);
}

// No request brings more than a row: the plan is made because batches could be larger.
TEST_F(LargeBatchesTest, ThePlanOfALargerBatchIsMadeMeanwhile) {
  AddHeld();
  Serve("dynamic_batching { preferred_batch_size: [ 100 ] }\n");
  const TimePoint until = Now() + std::chrono::minutes(1);
  while (ExecutionsOf(100) == 0 && Now() < until) Burst(100);
  EXPECT_GE(ExecutionsOf(100), 1u);
  for (const BatchStatistics& batch : StatisticsOf("batch").batches) {
    EXPECT_LE(batch.batch_size, 100u);
  }
}

TEST_F(LargeBatchesTest, ManyNewSizesAtOnceAreAnswered) {
  Serve();
  std::vector<Sent> sent;
  constexpr std::int64_t kSizes = 3 * PlanMaker::kMaxShapes;
  for (std::int64_t i = 0; i < kSizes; ++i) sent.push_back(Send(Rows(1, 65 + i)));
  for (std::int64_t i = 0; i < kSizes; ++i) {
    ExpectRight(sent[static_cast<std::size_t>(i)].answer.get(), 1, 65 + i);
  }
}

// A number of rows is no other shape.
TEST_F(LargeBatchesTest, AreServedWhereOtherShapesAreRefused) {
  onnx::ModelProto model =
      OnnxBuilder().Input("x", {1, 4}).Node("Relu", {"x"}, "y").Output("y", {1, 4}).Build();
  for (auto* value :
       {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)}) {
    auto& shape = *value->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.mutable_dim(0)->set_dim_param("rows");
    shape.mutable_dim(1)->set_dim_param("length");
  }
  repository_.AddModel("buckets", model,
                       "max_batch_size: 256\n" + Parameter("lagoon.buckets.length", "4,8") +
                           Parameter("lagoon.other_shapes", "refuse"));
  repository_.AddModel("listed", model,
                       "max_batch_size: 256\n" + Parameter("lagoon.shapes", "x=64x4") +
                           Parameter("lagoon.other_shapes", "refuse"));
  Open();
  const auto ask = [this](const std::string& name, std::int64_t rows, std::int64_t length) {
    return CodeOf(Ask(RequestFor(name, {rows, length},
                                 std::vector<float>(static_cast<std::size_t>(rows * length), 1))));
  };
  EXPECT_EQ(ask("buckets", 100, 5), std::nullopt);
  EXPECT_EQ(ask("buckets", 100, 9), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ask("listed", 64, 4), std::nullopt);
  EXPECT_EQ(ask("listed", 100, 4), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lagoon
