// Requests of any shape: plans that are made while the server runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "serving/request/plan_maker.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using testing::Answer;
using testing::CodeOf;
using testing::Floats;
using ::testing::HasSubstr;
using testing::OnnxBuilder;
using testing::Parameter;
using testing::RequestFor;

/// "y" = relu("x" * w), any number of rows and of steps: x [rows, steps, 4], y [rows, steps, 2].
onnx::ModelProto AnySteps() {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {1, 1, 4})
                               .Constant("w", {4, 2}, {1, 0, 0, 1, 1, 0, 0, 1})
                               .Node("MatMul", {"x", "w"}, "xw")
                               .Node("Relu", {"xw"}, "y")
                               .Output("y", {1, 1, 2})
                               .Build();
  for (auto* values :
       {model.mutable_graph()->mutable_input(), model.mutable_graph()->mutable_output()}) {
    auto& shape = *values->Mutable(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.mutable_dim(0)->set_dim_param("rows");
    shape.mutable_dim(1)->set_dim_param("steps");
  }
  return model;
}

InferRequest Steps(std::int64_t rows, std::int64_t steps, const std::string& model = "any") {
  std::vector<float> x(static_cast<std::size_t>(rows * steps * 4));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11) - 3;
  return RequestFor(model, {rows, steps, 4}, std::move(x));
}

/// Checks the answer to Steps(rows, steps).
void ExpectSteps(const Answer& answer, std::int64_t rows, std::int64_t steps) {
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->outputs[0].dims, (Dims{rows, steps, 2}));
  const std::vector<float> y = Floats(answer->outputs[0]);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / 2 * 4 + i % 2;
    const auto x = [](std::size_t at) { return static_cast<float>(at % 11) - 3; };
    // Column 0 sums x[0] and x[2], column 1 x[1] and x[3].
    EXPECT_FLOAT_EQ(y[i], std::max(0.0F, x(row) + x(row + 2))) << i;
  }
}

class ShapesTest : public testing::CoreTest {};

TEST_F(ShapesTest, ServesAnyShapeAndSaysWhichSizesAreOpen) {
  repository_.AddModel("any", AnySteps());
  Open();
  const auto metadata = core_->Metadata("any", "");
  ASSERT_TRUE(metadata);
  EXPECT_EQ(metadata->inputs[0].dims, (Dims{-1, -1, 4}));
  EXPECT_EQ(metadata->outputs[0].dims, (Dims{-1, -1, 2}));
  for (const auto& [rows, steps] : {std::pair{1, 16}, {1, 3}, {7, 1}, {2, 40}, {1, 3}}) {
    ExpectSteps(Ask(Steps(rows, steps)), rows, steps);
  }
}

TEST_F(ShapesTest, TellsHowLongARequestHasWaitedForItsPlan) {
  repository_.AddModel("any", AnySteps());
  Open();
  const Answer first = Ask(Steps(5, 5)), second = Ask(Steps(5, 5));
  ASSERT_TRUE(first && second);
  EXPECT_GT(first->plan_wait, Nanoseconds(0));
  EXPECT_EQ(second->plan_wait, Nanoseconds(0));
}

TEST_F(ShapesTest, PlansOfTheConfigurationAreReady) {
  repository_.AddModel("any", AnySteps(), Parameter("lagoon.shapes", "x=2x9x4; x=1x1x4"));
  Open();
  for (const auto& [rows, steps] : {std::pair{2, 9}, {1, 1}}) {
    const Answer answer = Ask(Steps(rows, steps));
    ExpectSteps(answer, rows, steps);
    EXPECT_EQ(answer->plan_wait, Nanoseconds(0));
  }
}

TEST_F(ShapesTest, RefusesOtherShapesWhereTheOperatorSaysSo) {
  repository_.AddModel(
      "any", AnySteps(),
      Parameter("lagoon.shapes", "x=2x9x4") + Parameter("lagoon.other_shapes", "refuse"));
  Open();
  ExpectSteps(Ask(Steps(2, 9)), 2, 9);
  const Answer refused = Ask(Steps(2, 8));
  ASSERT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("lagoon.shapes"));
}

TEST_F(ShapesTest, ASizeThatTheConfigurationFixesHolds) {
  repository_.AddModel("any", AnySteps(),
                       "input { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 6, 4 ] }");
  Open();
  ExpectSteps(Ask(Steps(3, 6)), 3, 6);
  const Answer refused = Ask(Steps(3, 7));
  ASSERT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("has shape [3,7,4], the model takes [-1,6,4]"));
}

TEST_F(ShapesTest, RefusesWhatDoesNotFitTheModel) {
  repository_.AddModel("any", AnySteps());
  Open();
  for (const Dims& dims : {Dims{1, 4}, Dims{1, 2, 5}, Dims{-1, -1, 4}}) {
    InferRequest request = Steps(1, 1);
    request.inputs[0].dims = dims;
    const Answer refused = Ask(std::move(request));
    ASSERT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("the model takes [-1,-1,4]"));
  }
  InferRequest request = Steps(1, 1);
  request.inputs[0].dims = {std::int64_t{1} << 40, std::int64_t{1} << 40, 4};
  EXPECT_EQ(CodeOf(Ask(std::move(request))), ErrorCode::kInvalidArgument);
}

/// The shapes of "a" and "b" must fit each other, which only the graph says.
onnx::ModelProto SumOfTwo() {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {1})
                               .Input("b", {1})
                               .Node("Add", {"x", "b"}, "y")
                               .Output("y", {1})
                               .Build();
  for (auto& value : *model.mutable_graph()->mutable_input()) {
    value.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param(
        "n");
  }
  model.mutable_graph()->mutable_output(0)->clear_type();
  return model;
}

TEST_F(ShapesTest, AShapeThatTheGraphRefusesIsAnsweredWithTheRule) {
  repository_.AddModel("sum", SumOfTwo());
  Open();
  auto values = std::make_shared<std::vector<float>>(8, 1.0F);
  InferRequest request;
  request.model = "sum";
  request.arrival = Now();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*values));
  request.inputs = {{"x", DataType::kFloat32, {5}, bytes.first(20)},
                    {"b", DataType::kFloat32, {3}, bytes.first(12)}};
  request.payload = values;
  const Answer refused = Ask(std::move(request));
  ASSERT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message,
              HasSubstr("dimension 'n' is 5 in input 'x' and 3 in input 'b'"));
}

TEST_F(ShapesTest, AFloodOfNewShapesIsBoundedAndDisturbsNoOtherModel) {
  repository_.AddModel("any", AnySteps());
  repository_.AddModel("other", testing::SmallModel());
  testing::Gate& plans = UseGates().plans;
  Open();
  // Used again, so that the plans of the flood go first.
  for (int i = 0; i < 2; ++i) ExpectSteps(Ask(Steps(1, 2)), 1, 2);
  std::vector<Sent> flood;
  plans.Close();
  for (int i = 0; i < 400; ++i) flood.push_back(Send(Steps(1, 100 + i)));
  // Known shapes and other models do not wait for the flood.
  const Answer known = Ask(Steps(1, 2));
  ExpectSteps(known, 1, 2);
  EXPECT_EQ(known->plan_wait, Nanoseconds(0));
  EXPECT_TRUE(Ask(testing::SmallRequest("other")));
  plans.Open();
  int served = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    const Answer answer = flood[static_cast<std::size_t>(i)].answer.get();
    if (answer) {
      ExpectSteps(answer, 1, 100 + i);
      ++served;
      continue;
    }
    ++refused;
    EXPECT_EQ(CodeOf(answer), ErrorCode::kUnavailable);
    EXPECT_THAT(answer.error().message, HasSubstr("new input shapes wait to be compiled"));
  }
  EXPECT_GE(served, static_cast<int>(PlanMaker::kMaxShapes));
  EXPECT_GT(refused, 0);
}

TEST_F(ShapesTest, ARequestThatWaitsForItsPlanCanExpireAndBeCancelled) {
  repository_.AddModel("any", AnySteps());
  testing::Gate& plans = UseGates().plans;
  Open();
  plans.Close();
  std::vector<Sent> before;  // keep the compiling thread busy
  for (int i = 0; i < 15; ++i) before.push_back(Send(Steps(1, 500 + i)));
  InferRequest late = Steps(1, 9);
  late.timeout = std::chrono::microseconds(1);
  EXPECT_EQ(CodeOf(Ask(std::move(late))), ErrorCode::kDeadlineExceeded);
  Sent gone = Send(Steps(1, 11));
  core_->Cancel(gone.handle);
  EXPECT_EQ(CodeOf(gone.answer.get()), ErrorCode::kCancelled);
  plans.Open();
  for (Sent& sent : before) EXPECT_TRUE(sent.answer.get());
}

TEST_F(ShapesTest, ADrainAnswersTheRequestsThatWait) {
  repository_.AddModel("any", AnySteps());
  Open();
  std::vector<Sent> sent;
  for (int i = 0; i < 12; ++i) sent.push_back(Send(Steps(1, 300 + i)));
  core_->Drain(Now());
  for (Sent& request : sent) {
    const Answer answer = request.answer.get();
    if (!answer) {
      EXPECT_EQ(CodeOf(answer), ErrorCode::kUnavailable);
    }
  }
  EXPECT_EQ(CodeOf(Ask(Steps(1, 400))), ErrorCode::kUnavailable);
}

TEST_F(ShapesTest, KeepsAsManyPlansAsTheConfigurationSays) {
  repository_.AddModel("any", AnySteps(), Parameter("lagoon.max_plans", "3"));
  Open();
  ExpectSteps(Ask(Steps(1, 2)), 1, 2);
  ExpectSteps(Ask(Steps(1, 2)), 1, 2);  // used again: stays
  for (int i = 0; i < 10; ++i) ExpectSteps(Ask(Steps(1, 20 + i)), 1, 20 + i);
  EXPECT_EQ(Ask(Steps(1, 2))->plan_wait, Nanoseconds(0));
  EXPECT_GT(Ask(Steps(1, 20))->plan_wait, Nanoseconds(0));  // is gone
}

TEST_F(ShapesTest, ManyClientsOfManyShapes) {
  repository_.AddModel(
      "any", AnySteps(),
      Parameter("lagoon.max_plans", "4") + testing::kRealTime + "instance_group { count: 2 }");
  Open();
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 60; ++i) {
        const int steps = 1 + (client * 7 + i * 3) % 9;
        InferRequest request = Steps(1 + client % 2, steps);
        request.priority = i % 3;
        const Answer answer = Ask(std::move(request));
        ExpectSteps(answer, 1 + client % 2, steps);
        if (answer) ++answered;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 240);
}

/// "y" = the first "count" numbers of x.
onnx::ModelProto TakesSome() {
  onnx::ModelProto model = OnnxBuilder().Input("x", {8}).Input("count", {1}).Build();
  auto& graph = *model.mutable_graph();
  graph.mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  onnx::TensorProto& zero = *graph.add_initializer();
  zero.set_name("zero");
  zero.set_data_type(onnx::TensorProto::INT64);
  zero.add_dims(1);
  zero.add_int64_data(0);
  onnx::NodeProto& slice = *graph.add_node();
  slice.set_op_type("Slice");
  for (const char* input : {"x", "zero", "count"}) slice.add_input(input);
  slice.add_output("s");
  onnx::NodeProto& negate = *graph.add_node();
  negate.set_op_type("Neg");
  negate.add_input("s");
  negate.add_output("y");
  graph.add_output()->set_name("y");
  return model;
}

TEST_F(ShapesTest, ContentsThatDecideShapesGetAPlanForEachValue) {
  repository_.AddModel("some", TakesSome());
  Open();
  for (const std::int64_t count : {3, 5, 3, 1}) {
    struct Payload {
      std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
      std::int64_t count = 0;
    };
    auto payload = std::make_shared<Payload>();
    payload->count = count;
    InferRequest request;
    request.model = "some";
    request.arrival = Now();
    request.inputs = {
        {"x", DataType::kFloat32, {8}, std::as_bytes(std::span(payload->x))},
        {"count", DataType::kInt64, {1}, std::as_bytes(std::span(&payload->count, 1))}};
    request.payload = payload;
    const Answer answer = Ask(std::move(request));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->outputs[0].dims, Dims{count});
    EXPECT_FLOAT_EQ(Floats(answer->outputs[0]).back(), -static_cast<float>(count));
  }
}

/// "y" = zeros of the shape "p" [1], whose contents decide everything: a constant.
onnx::ModelProto Zeros() {
  onnx::ModelProto model =
      OnnxBuilder().Input("p", {1}).Node("ConstantOfShape", {"p"}, "y").Build();
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

InferRequest ZerosOf(std::int64_t count) {
  auto payload = std::make_shared<std::int64_t>(count);
  InferRequest request;
  request.model = "zeros";
  request.arrival = Now();
  request.inputs = {{"p", DataType::kInt64, {1}, std::as_bytes(std::span(payload.get(), 1))}};
  request.payload = payload;
  return request;
}

// Such a plan has neither kernels nor bytes to copy.
TEST_F(ShapesTest, AConstantWithoutElementsIsAnswered) {
  repository_.AddModel("zeros", Zeros());
  Open();
  for (const std::int64_t count : {0, 3, 0, 0}) {
    const Answer answer = Ask(ZerosOf(count));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->outputs[0].dims, Dims{count});
    EXPECT_EQ(Floats(answer->outputs[0]), std::vector<float>(static_cast<std::size_t>(count)));
  }
  InferRequest in_time = ZerosOf(0);
  in_time.timeout = std::chrono::hours(1);
  EXPECT_TRUE(Ask(std::move(in_time)));
  Sent sent = Send(ZerosOf(0));
  core_->Cancel(sent.handle);  // answered by then
  EXPECT_TRUE(sent.answer.get());
  EXPECT_EQ(StatisticsOf("zeros").pending, 0u);
  EXPECT_EQ(StatisticsOf("zeros").success.count, 6u);
}

TEST_F(ShapesTest, ARequestWhoseOnlyInputAndOutputAreEmptyIsAnswered) {
  repository_.AddModel("any", AnySteps());
  Open();
  for (int i = 0; i < 3; ++i) ExpectSteps(Ask(Steps(2, 0)), 2, 0);
}

}  // namespace
}  // namespace lagoon
