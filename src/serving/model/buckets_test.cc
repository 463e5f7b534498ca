#include "serving/model/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using testing::Answer;
using testing::CodeOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Floats;
using ::testing::HasSubstr;
using testing::OnnxBuilder;
using testing::Parameter;
using testing::RequestFor;

/// The model with axis 1 of all inputs and outputs open, by the name "steps".
onnx::ModelProto AnySteps(const OnnxBuilder& builder) {
  onnx::ModelProto model = builder.Build();
  onnx::GraphProto& graph = *model.mutable_graph();
  for (auto* values : {graph.mutable_input(), graph.mutable_output()}) {
    for (onnx::ValueInfoProto& value : *values) {
      auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
      if (shape.dim_size() > 1) shape.mutable_dim(1)->set_dim_param("steps");
    }
  }
  return model;
}

/// y = relu(x) [1, steps, 4]: padding changes nothing else.
onnx::ModelProto Relu() {
  return AnySteps(
      OnnxBuilder().Input("x", {1, 1, 4}).Node("Relu", {"x"}, "y").Output("y", {1, 1, 4}));
}

std::vector<float> Counting(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

InferRequest Steps(const std::string& model, std::int64_t steps) {
  return RequestFor(model, {1, steps, 4}, Counting(steps * 4));
}

TEST(CopyCommonPart, CutsAndPadsEachAxis) {
  const std::vector<float> from = Counting(6);  // [2,3]
  std::vector<float> cut(2), padded(12);
  const auto bytes = [](std::vector<float>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  };
  const auto* source = reinterpret_cast<const std::byte*>(from.data());
  CopyCommonPart({2, 3}, source, {1, 2}, bytes(cut), sizeof(float));
  EXPECT_THAT(cut, ElementsAre(1, 2));
  CopyCommonPart({2, 3}, source, {3, 4}, bytes(padded), sizeof(float));
  EXPECT_THAT(padded, ElementsAre(1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0));
  CopyCommonPart({0, 3}, nullptr, {3, 4}, bytes(padded), sizeof(float));
}

class BucketsTest : public testing::CoreTest {};

TEST_F(BucketsTest, RequestsUseThePlanOfTheNextSizeAndGetTheirOwnShapeBack) {
  repository_.AddModel("relu", Relu(), Parameter("lagoon.buckets.steps", "16,8"));
  Open();
  for (const std::int64_t steps : {3, 8, 9, 16, 1}) {
    const Answer answer = Ask(Steps("relu", steps));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->outputs[0].dims, (Dims{1, steps, 4}));
    EXPECT_THAT(Floats(answer->outputs[0]), ElementsAreArray(Counting(steps * 4)));
    EXPECT_EQ(answer->plan_wait, Nanoseconds(0)) << "the plans are ready";
  }
  const Answer larger = Ask(Steps("relu", 17));
  ASSERT_TRUE(larger) << larger.error().message;
  EXPECT_EQ(larger->outputs[0].dims, (Dims{1, 17, 4}));
  EXPECT_GT(larger->plan_wait, Nanoseconds(0)) << "above the largest size, each has a plan";
}

TEST_F(BucketsTest, OtherShapesAreThoseAboveTheLargestSize) {
  repository_.AddModel(
      "relu", Relu(),
      Parameter("lagoon.buckets.x[1]", "8") + Parameter("lagoon.other_shapes", "refuse"));
  Open();
  EXPECT_TRUE(Ask(Steps("relu", 5)));
  EXPECT_EQ(CodeOf(Ask(Steps("relu", 9))), ErrorCode::kInvalidArgument);
}

TEST_F(BucketsTest, AMaskHidesThePadding) {
  repository_.AddModel("masked",
                       AnySteps(OnnxBuilder()
                                    .Input("x", {1, 1, 4})
                                    .Input("mask", {1, 1, 1})
                                    .Node("Mul", {"x", "mask"}, "shown")
                                    .Node("ReduceSum", {"shown"}, "sum")
                                    .Node("Add", {"x", "sum"}, "y")
                                    .Output("y", {1, 1, 4})),
                       Parameter("lagoon.buckets.steps", "4,8"));
  Open();
  InferRequest request = Steps("masked", 3);
  const auto mask = std::make_shared<std::vector<float>>(3, 1.0F);
  request.inputs.push_back(
      {"mask", DataType::kFloat32, {1, 3, 1}, std::as_bytes(std::span(*mask))});
  const Answer answer = Ask(request);
  ASSERT_TRUE(answer) << answer.error().message;
  std::vector<float> expected = Counting(12);
  for (float& value : expected) value += 78;  // 1 + 2 + ... + 12
  EXPECT_THAT(Floats(answer->outputs[0]), ElementsAreArray(expected));

  request.inputs[1].dims = {1, 2, 1};
  request.inputs[1].data = request.inputs[1].data.first(2 * sizeof(float));
  const Answer refused = Ask(request);
  ASSERT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("'x' has shape [1,3,4]"), HasSubstr("'mask' has shape [1,2,1]"),
                    HasSubstr("'steps'")));
}

TEST_F(BucketsTest, RoundsUpSeveralDimsAtOnce) {
  onnx::ModelProto model = Relu();
  for (auto* value :
       {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)}) {
    value->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param(
        "rows");
  }
  repository_.AddModel(
      "relu", model,
      Parameter("lagoon.buckets.steps", "2,4") + Parameter("lagoon.buckets.rows", "3,6"));
  Open();
  const Answer answer = Ask(RequestFor("relu", {5, 3, 4}, Counting(60)));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->outputs[0].dims, (Dims{5, 3, 4}));
  EXPECT_THAT(Floats(answer->outputs[0]), ElementsAreArray(Counting(60)));
  EXPECT_EQ(answer->plan_wait, Nanoseconds(0));
}

TEST_F(BucketsTest, AModelWhoseAnswerThePaddingChangesIsNotServed) {
  repository_.AddModel("mean",
                       AnySteps(OnnxBuilder()
                                    .Input("x", {1, 1, 4})
                                    .Node("ReduceMean", {"x"}, "mean")
                                    .Node("Add", {"x", "mean"}, "y")
                                    .Output("y", {1, 1, 4})),
                       Parameter("lagoon.buckets.steps", "8"));
  repository_.AddModel("relu", Relu());
  Open();
  EXPECT_THAT(ReasonOf("mean"),
              AllOf(HasSubstr("padding 'steps' from 4 to 8"), HasSubstr("changes output 'y'")));
  EXPECT_TRUE(core_->ModelReady("relu", ""));
}

TEST_F(BucketsTest, AnOutputWhoseSizeIsAnotherOneIsNamed) {
  repository_.AddModel("twice",
                       AnySteps(OnnxBuilder()
                                    .Input("x", {1, 1, 4})
                                    .Constant("scales", {3}, {1, 2, 1})
                                    .Constant("roi", {0}, {})
                                    .Node("Resize", {"x", "roi", "scales"}, "y")
                                    .Output("y", {1, 1, 4})),
                       Parameter("lagoon.buckets.steps", "4,8"));
  Open();
  EXPECT_THAT(ReasonOf("twice"), AllOf(HasSubstr("output 'y' has shape [1,8,4]"),
                                       HasSubstr("'steps' is 4"), HasSubstr("[1,16,4]")));
}

TEST_F(BucketsTest, AnOutputWhoseRankDependsOnOtherSizesIsNamed) {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {1, 1})
                               .Input("at", {1, 1})
                               .Node("GatherND", {"x", "at"}, "y")
                               .Build();
  const char* const names[] = {"rows", "columns", "count", "depth"};
  for (int i = 0; i < 4; ++i) {
    auto& type =
        *model.mutable_graph()->mutable_input(i / 2)->mutable_type()->mutable_tensor_type();
    if (i / 2 == 1) type.set_elem_type(onnx::TensorProto::INT64);
    type.mutable_shape()->mutable_dim(i % 2)->set_dim_param(names[i]);
  }
  model.mutable_graph()->add_output()->set_name("y");
  repository_.AddModel("picks", model, Parameter("lagoon.buckets.columns", "4,8"));
  Open();
  EXPECT_THAT(ReasonOf("picks"), HasSubstr("the rank of output 'y' depends on open sizes"));
}

TEST_F(BucketsTest, RefusesAnUnknownDim) {
  repository_.AddModel("relu", Relu(), Parameter("lagoon.buckets.width", "8"));
  Open();
  EXPECT_THAT(ReasonOf("relu"), AllOf(HasSubstr("lagoon.buckets.width"), HasSubstr("steps")));
}

TEST_F(BucketsTest, ASmallRequestCannotTakeMuchMemory) {
  onnx::ModelProto model = Relu();
  for (auto* value :
       {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)}) {
    value->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param(
        "rows");
  }
  repository_.AddModel("relu", model, Parameter("lagoon.buckets.steps", "65536"));
  Open();
  const Answer refused = Ask(RequestFor("relu", {300, 1, 4}, Counting(1200)));
  ASSERT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("[300,1,4]"), HasSubstr("[300,65536,4]"), HasSubstr("bytes")));
}

}  // namespace
}  // namespace lagoon
