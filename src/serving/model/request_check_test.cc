#include "serving/model/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BindRequestTest : public ::testing::Test {
 protected:
  BindRequestTest() : bytes_(64) {
    signature_.inputs = {{"a", DataType::kFloat32, {1, 4}}, {"b", DataType::kFloat32, {1, 2}}};
    signature_.outputs = {{"y", DataType::kFloat32, {1, 3}}, {"z", DataType::kFloat32, {1}}};
    signature_.input_reshape.resize(2);
    signature_.output_reshape.resize(2);
    request_.model = "m";
    request_.inputs = {Input("b", {1, 2}), Input("a", {1, 4})};
  }

  void SetBatch(std::int64_t max) {
    signature_.max_batch = max;
    for (TensorSpec& input : signature_.inputs) input.dims[0] = max == 0 ? 1 : -1;
  }
  InputTensor Input(const std::string& name, const Dims& dims) {
    const auto bytes = static_cast<std::size_t>(ElementCount(dims)) * 4;
    return {name, DataType::kFloat32, dims, std::span(bytes_).first(bytes)};
  }
  std::string ErrorOf() {
    const auto binding = BindRequest(request_, signature_);
    EXPECT_FALSE(binding.has_value());
    if (binding) return "";
    EXPECT_EQ(binding.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(binding.error().message, HasSubstr("model 'm': "));
    return binding.error().message;
  }

  std::vector<std::byte> bytes_;
  Signature signature_;
  InferRequest request_;
};

TEST_F(BindRequestTest, PointsAtTheRequestsBytesInTheOrderOfThePlan) {
  std::vector<std::byte> other(16);
  request_.inputs[1].data = other;
  const auto binding = BindRequest(request_, signature_);
  ASSERT_TRUE(binding.has_value()) << binding.error().message;
  EXPECT_EQ(binding->inputs[0].data(), other.data());
  EXPECT_EQ(binding->inputs[1].data(), bytes_.data());
  EXPECT_THAT(binding->dims, ElementsAre(Dims{1, 4}, Dims{1, 2}));
  EXPECT_THAT(binding->outputs, ElementsAre(0u, 1u));
}

TEST_F(BindRequestTest, TheModelSeesItsOwnShape) {
  signature_.inputs[0].dims = {-1, 4};
  signature_.input_reshape[0] = Reshape{{-1, 4}, {-1, 2, 2}};
  EXPECT_THAT(BindRequest(request_, signature_)->dims, ElementsAre(Dims{1, 2, 2}, Dims{1, 2}));
}

TEST_F(BindRequestTest, ClassesAreOfTheOutputsThatAskForThem) {
  signature_.outputs[0].type = DataType::kFloat16;
  request_.form = OutputForm::kText;  // which FP16 has not, and classes are
  request_.outputs = {"z", "y"};
  request_.classes = {0, 3};
  EXPECT_THAT(BindRequest(request_, signature_)->classes, ElementsAre(0u, 3u));
}

TEST_F(BindRequestTest, AnswersTheOutputsAskedForInTheirOrder) {
  request_.outputs = {"z", "y"};
  EXPECT_THAT(BindRequest(request_, signature_)->outputs, ElementsAre(1u, 0u));
  request_.outputs = {"z"};
  EXPECT_THAT(BindRequest(request_, signature_)->outputs, ElementsAre(1u));
}

TEST_F(BindRequestTest, RefusesA16BitFloatAsTextAndSaysWhatToAskFor) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    signature_.outputs[1].type = type;
    request_.outputs.clear();
    request_.forms.clear();
    request_.form = OutputForm::kBytes;
    EXPECT_TRUE(BindRequest(request_, signature_));  // as bytes
    request_.form = OutputForm::kText;
    const auto all = BindRequest(request_, signature_);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, ErrorCode::kUnimplemented);
    EXPECT_THAT(all.error().message,
                AllOf(HasSubstr("model 'm': output 'z' has type"), HasSubstr(OipName(type)),
                      HasSubstr("'binary_data': true")));
    request_.outputs = {"y"};
    EXPECT_TRUE(BindRequest(request_, signature_));  // does not ask for that output
    request_.outputs = {"y", "z"};
    request_.forms = {OutputForm::kText, OutputForm::kBytes};
    EXPECT_TRUE(BindRequest(request_, signature_));
    request_.forms = {OutputForm::kBytes, OutputForm::kText};
    EXPECT_FALSE(BindRequest(request_, signature_));
  }
}

TEST_F(BindRequestTest, NamesAnUnknownInput) {
  request_.inputs.push_back(Input("c", {1}));
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr("input 'c' is unknown"), HasSubstr("'a', 'b'"),
                               HasSubstr("expected 2 inputs but got 3 inputs for model ")));
}

TEST_F(BindRequestTest, NamesAMissingInput) {
  request_.inputs.pop_back();
  EXPECT_THAT(ErrorOf(), HasSubstr("input 'a' is missing"));
  EXPECT_THAT(ErrorOf(), HasSubstr("expected 2 inputs but got 1 inputs for model "));
  request_.inputs.clear();
  EXPECT_THAT(ErrorOf(), HasSubstr("is missing"));
}

TEST_F(BindRequestTest, NamesADuplicateInput) {
  request_.inputs.push_back(Input("a", {1, 4}));
  EXPECT_THAT(ErrorOf(), HasSubstr("input 'a' is there twice"));
}

TEST_F(BindRequestTest, NamesAWrongTypeAndBothTypes) {
  request_.inputs[0].type = DataType::kInt32;
  EXPECT_THAT(ErrorOf(), HasSubstr("input 'b' has type INT32, the model takes FP32"));
}

TEST_F(BindRequestTest, NamesAWrongShapeAndBothShapes) {
  request_.inputs[1] = Input("a", {1, 5});
  EXPECT_THAT(ErrorOf(), HasSubstr("input 'a' has shape [1,5], the model takes [1,4]"));
  request_.inputs[1] = Input("a", {4});
  EXPECT_THAT(ErrorOf(), HasSubstr("[4]"));
}

TEST_F(BindRequestTest, ShapesThatOverflowAreJustWrong) {
  request_.inputs[1].dims = {std::int64_t{1} << 62, std::int64_t{1} << 62};
  EXPECT_THAT(ErrorOf(), HasSubstr("the model takes [1,4]"));
  request_.inputs[1].dims = {-1, -4};
  EXPECT_THAT(ErrorOf(), HasSubstr("[-1,-4]"));
  request_.inputs[1].dims = Dims(100000, 1);
  EXPECT_THAT(ErrorOf(), HasSubstr("of 100000 dimensions"));
}

TEST_F(BindRequestTest, TakesEveryBatchUpToTheMaximum) {
  SetBatch(4);
  for (const std::int64_t batch : {1, 3, 4}) {
    request_.inputs = {Input("b", {batch, 2}), Input("a", {batch, 4})};
    const auto binding = BindRequest(request_, signature_);
    ASSERT_TRUE(binding.has_value()) << binding.error().message;
    EXPECT_THAT(binding->dims, ElementsAre(Dims{batch, 4}, Dims{batch, 2}));
  }
}

TEST_F(BindRequestTest, RefusesABatchAboveTheMaximumAndAnEmptyOne) {
  SetBatch(2);
  request_.inputs = {Input("b", {3, 2}), Input("a", {3, 4})};
  EXPECT_THAT(ErrorOf(),
              HasSubstr("input 'b' has shape [3,2], a batch of 3; the model takes 1 to 2"));
  request_.inputs = {Input("b", {0, 2}), Input("a", {0, 4})};
  EXPECT_THAT(ErrorOf(),
              HasSubstr("input 'b' has shape [0,2], a batch of 0; the model takes 1 to 2"));
  request_.inputs = {Input("b", {1, 2})};
  request_.inputs[0].dims = {std::int64_t{1} << 62, 2};
  EXPECT_THAT(ErrorOf(), HasSubstr("the model takes 1 to 2"));
  SetBatch(0);
  request_.inputs = {Input("b", {2, 2}), Input("a", {2, 4})};
  EXPECT_THAT(ErrorOf(), HasSubstr("input 'b' has shape [2,2], the model takes [1,2]"));
}

TEST_F(BindRequestTest, TakesAnySizeWhereTheModelLeavesItOpen) {
  signature_.inputs[0].dims = {-1, 4, -1};
  request_.inputs = {Input("b", {1, 2}), Input("a", {1, 4, 3})};
  const auto binding = BindRequest(request_, signature_);
  ASSERT_TRUE(binding.has_value()) << binding.error().message;
  EXPECT_THAT(binding->dims, ElementsAre(Dims{1, 4, 3}, Dims{1, 2}));
  request_.inputs[1].dims = {1, 4, -3};
  EXPECT_THAT(ErrorOf(), HasSubstr("has shape [1,4,-3], the model takes [-1,4,-1]"));
  request_.inputs[1].dims = {std::int64_t{1} << 40, 4, std::int64_t{1} << 40};
  EXPECT_THAT(ErrorOf(), HasSubstr("input 'a' has shape"));
}

TEST_F(BindRequestTest, RefusesInputsOfDifferentBatches) {
  SetBatch(4);
  request_.inputs = {Input("b", {3, 2}), Input("a", {2, 4})};
  EXPECT_THAT(ErrorOf(), HasSubstr("input 'a' has a batch of 2, input 'b' one of 3"));
}

TEST_F(BindRequestTest, NamesAWrongShapeBehindTheBatch) {
  SetBatch(4);
  request_.inputs = {Input("b", {2, 3}), Input("a", {2, 4})};
  EXPECT_THAT(ErrorOf(), HasSubstr("input 'b' has shape [2,3], the model takes [-1,2] with a "
                                   "batch of 1 to 4"));
  request_.inputs[0] = Input("b", {2});
  EXPECT_THAT(ErrorOf(), HasSubstr("input 'b' has shape [2], the model takes [-1,2]"));
}

TEST_F(BindRequestTest, CountsTheBytesOfAllRows) {
  SetBatch(4);
  request_.inputs = {Input("b", {2, 2}), Input("a", {2, 4})};
  request_.inputs[1].data = std::span(bytes_).first(16);
  EXPECT_THAT(
      ErrorOf(),
      HasSubstr("input 'a' got unexpected byte size 16, expected 32 for FP32 of shape [2,4]"));
}

TEST_F(BindRequestTest, NamesAWrongNumberOfBytes) {
  request_.inputs[1].data = std::span(bytes_).first(15);
  EXPECT_THAT(
      ErrorOf(),
      HasSubstr("input 'a' got unexpected byte size 15, expected 16 for FP32 of shape [1,4]"));
  request_.inputs[1].data = {};
  EXPECT_THAT(ErrorOf(), HasSubstr("got unexpected byte size 0"));
}

TEST_F(BindRequestTest, NamesAnUnknownOrRepeatedOutput) {
  request_.outputs = {"x"};
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr("output 'x' is unknown"), HasSubstr("'y', 'z'")));
  request_.outputs = {"y", "y"};
  EXPECT_THAT(ErrorOf(), HasSubstr("output 'y' is asked for twice"));
}

TEST_F(BindRequestTest, CutsAHugeName) {
  request_.outputs = {std::string(1 << 20, 'x')};
  EXPECT_LT(ErrorOf().size(), 500u);
}

}  // namespace
}  // namespace lagoon
