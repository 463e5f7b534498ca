#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/testing/allocations.h"
#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;

class OutputsTest : public CoreTest {
 protected:
  static constexpr std::int64_t kWide = 1 << 16;
  [[maybe_unused]] static constexpr std::size_t kWideBytes = kWide * sizeof(float);

  /// Outputs of x [1,4]: "wide" [1,kWide] = x W, "narrow" [1,4] = relu(x).
  static onnx::ModelProto WideModel() {
    return OnnxBuilder()
        .Input("x", {1, 4})
        .Constant("w", {4, kWide}, std::vector<float>(4 * kWide, 1))
        .Node("MatMul", {"x", "w"}, "wide")
        .Node("Relu", {"x"}, "narrow")
        .Output("wide", {1, kWide})
        .Output("narrow", {1, 4})
        .Build();
  }
  Answer AskFor(const std::vector<std::string>& outputs) {
    InferRequest request = SmallRequest("wide");
    request.outputs = outputs;
    return Ask(std::move(request));
  }
};

TEST_F(OutputsTest, AnOutputThatWasNotAskedForIsNotAllocated) {
#ifndef LAGOON_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "ThreadSanitizer brings an operator new of its own, which counts nothing";
#else
  repository_.AddModel("wide", WideModel());
  Open();
  largest_allocation = 0;
  const Answer all = AskFor({});
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_GE(largest_allocation, kWideBytes);  // the counter does see such an allocation
  largest_allocation = 0;
  const Answer one = AskFor({"narrow"});
  ASSERT_TRUE(one.has_value()) << one.error().message;
  EXPECT_LT(largest_allocation, kWideBytes);
#endif
}

TEST_F(OutputsTest, AnswersTheSameWhateverElseIsAskedFor) {
  repository_.AddModel("wide", WideModel());
  Open();
  for (const std::vector<std::string>& outputs :
       {std::vector<std::string>{"narrow"}, {"wide"}, {"narrow", "wide"}, {"wide", "narrow"}, {}}) {
    const Answer answer = AskFor(outputs);
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    ASSERT_EQ(answer->outputs.size(), outputs.empty() ? 2 : outputs.size());
    for (const OutputTensor& output : answer->outputs) {
      const std::vector<float> expected =
          output.name == "wide" ? std::vector<float>(kWide, -34) : std::vector<float>{1, 2, 3, 0};
      EXPECT_EQ(Floats(output), expected) << output.name;
    }
  }
}

TEST_F(OutputsTest, A16BitFloatThatWouldHaveToBeTextIsRefusedBeforeAnythingIsComputed) {
  onnx::ModelProto model =
      OnnxBuilder().Input("x", {1, 4}).Node("Cast", {"x"}, "y").Output("y", {1, 4}).Build();
  onnx::AttributeProto& to = *model.mutable_graph()->mutable_node(0)->add_attribute();
  to.set_name("to");
  to.set_type(onnx::AttributeProto::INT);
  to.set_i(onnx::TensorProto::FLOAT16);
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::FLOAT16);
  repository_.AddModel("half", model);
  Open();
  InferRequest request = SmallRequest("half");
  request.form = OutputForm::kText;
  EXPECT_EQ(CodeOf(Ask(request)), ErrorCode::kUnimplemented);
  EXPECT_EQ(core_->SchedulerStatistics().launches, 0u);
  EXPECT_EQ(CodeOf(Ask(SmallRequest("half"))), std::nullopt);  // as bytes
}

}  // namespace
}  // namespace lagoon
