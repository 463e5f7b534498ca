#include "serving/model/signature.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<TensorSpec> kInputs = {{"image", DataType::kFloat32, {1, 3, 8, 8}},
                                         {"scale", DataType::kFloat32, {1, 2}}};
const std::vector<TensorSpec> kOutputs = {{"scores", DataType::kFloat32, {1, 10}},
                                          {"features", DataType::kFloat32, {1, 64}}};

class CompleteConfigTest : public ::testing::Test {
 protected:
  /// The tensors above, with an open first dim.
  static std::vector<TensorSpec> Open(std::vector<TensorSpec> specs) {
    for (TensorSpec& spec : specs) spec.dims[0] = -1;
    return specs;
  }
  Result<Signature> CompleteOpen(const std::string& text) {
    config_.Clear();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config_));
    return CompleteConfig(Open(kInputs), Open(kOutputs), config_, warnings_);
  }
  Result<Signature> Complete(const std::string& text) {
    config_.Clear();
    warnings_.clear();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config_));
    config_.set_name("m");
    return CompleteConfig(kInputs, kOutputs, config_, warnings_);
  }
  std::string ErrorOf(const std::string& text) {
    const Result<Signature> signature = Complete(text);
    EXPECT_FALSE(signature.has_value()) << text;
    return signature ? "" : signature.error().message;
  }

  inference::ModelConfig config_;
  std::vector<std::string> warnings_;
};

TEST_F(CompleteConfigTest, DeclaresEverythingWhenNothingIsDeclared) {
  const auto signature = Complete("");
  ASSERT_TRUE(signature.has_value()) << signature.error().message;
  inference::ModelConfig expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    name: "m" platform: "lagoon_plan" backend: "lagoon" default_model_filename: "model.onnx"
    version_policy { latest { num_versions: 1 } }
    input [ { name: "image" data_type: TYPE_FP32 dims: [ 1, 3, 8, 8 ] },
            { name: "scale" data_type: TYPE_FP32 dims: [ 1, 2 ] } ]
    output [ { name: "scores" data_type: TYPE_FP32 dims: [ 1, 10 ] },
             { name: "features" data_type: TYPE_FP32 dims: [ 1, 64 ] } ]
    instance_group [ { name: "m_0" kind: KIND_CPU count: 1 } ]
    optimization {}
  )",
                                                            &expected));
  EXPECT_EQ(config_.DebugString(), expected.DebugString());
  EXPECT_EQ(signature->max_batch, 0);
  EXPECT_EQ(signature->inputs.size(), 2u);
  EXPECT_THAT(signature->output_index, ElementsAre(0u, 1u));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CompleteConfigTest, WithABatchSizeTheDimsLackTheBatch) {
  const auto signature = CompleteOpen(R"(max_batch_size: 8
    input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, 8, 8 ] }, { name: "scale" } ])");
  ASSERT_TRUE(signature.has_value()) << signature.error().message;
  EXPECT_EQ(signature->max_batch, 8);
  EXPECT_EQ(signature->inputs[0].dims, (Dims{-1, 3, 8, 8}));
  EXPECT_THAT(config_.input(1).dims(), ElementsAre(2));
  EXPECT_THAT(config_.output(0).dims(), ElementsAre(10));
  EXPECT_EQ(config_.max_batch_size(), 8);
}

TEST_F(CompleteConfigTest, WithoutABatchSizeTheDimsAreComplete) {
  EXPECT_THAT(ErrorOf("input [ { name: 'image' dims: [ 3, 8, 8 ] }, { name: 'scale' } ]"),
              AllOf(HasSubstr("'image'"), HasSubstr("[3,8,8]"), HasSubstr("[1,3,8,8]")));
}

TEST_F(CompleteConfigTest, RefusesDimsThatDiffer) {
  EXPECT_THAT(
      ErrorOf("max_batch_size: 1 output [ { name: 'scores' dims: [ 11 ] } ]"),
      AllOf(HasSubstr("output 'scores' has dims [11]"), HasSubstr("[10] behind the batch")));
}

TEST_F(CompleteConfigTest, RefusesABatchDimensionThatTheModelLacks) {
  const std::vector<TensorSpec> inputs = {{"x", DataType::kFloat32, {4, 3}}};
  inference::ModelConfig config;
  config.set_max_batch_size(4);
  const auto signature = CompleteConfig(inputs, kOutputs, config, warnings_);
  ASSERT_FALSE(signature.has_value());
  EXPECT_THAT(signature.error().message, AllOf(HasSubstr("'x'"), HasSubstr("[4,3]")));
}

TEST_F(CompleteConfigTest, RefusesAWrongType) {
  EXPECT_THAT(ErrorOf("input [ { name: 'image' data_type: TYPE_UINT8 }, { name: 'scale' } ]"),
              AllOf(HasSubstr("'image'"), HasSubstr("TYPE_UINT8"), HasSubstr("TYPE_FP32")));
}

TEST_F(CompleteConfigTest, RefusesTensorsThatTheModelLacks) {
  EXPECT_THAT(ErrorOf("output [ { name: 'label' } ]"),
              AllOf(HasSubstr("output 'label'"), HasSubstr("'scores', 'features'")));
}

TEST_F(CompleteConfigTest, RefusesTheSameTensorTwice) {
  EXPECT_THAT(ErrorOf("output [ { name: 'scores' }, { name: 'scores' } ]"), HasSubstr("twice"));
}

TEST_F(CompleteConfigTest, EveryInputMustBeDeclaredIfOneIs) {
  EXPECT_THAT(ErrorOf("input [ { name: 'image' } ]"), HasSubstr("'scale'"));
}

TEST_F(CompleteConfigTest, OutputsThatAreNotDeclaredAreNotServed) {
  const auto signature = Complete("output [ { name: 'features' } ]");
  ASSERT_TRUE(signature.has_value()) << signature.error().message;
  ASSERT_EQ(signature->outputs.size(), 1u);
  EXPECT_EQ(signature->outputs[0].name, "features");
  EXPECT_THAT(signature->output_index, ElementsAre(1u));
}

TEST_F(CompleteConfigTest, AVariableDimIsServedFixedWithAWarning) {
  const auto signature = Complete("output [ { name: 'scores' dims: [ -1, 10 ] } ]");
  ASSERT_TRUE(signature.has_value()) << signature.error().message;
  EXPECT_THAT(config_.output(0).dims(), ElementsAre(1, 10));
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("'scores'"), HasSubstr("[-1,10]"))));
}

TEST_F(CompleteConfigTest, AnOpenDimIsShownAndMayBeFixed) {
  const auto open = CompleteOpen("");
  ASSERT_TRUE(open.has_value()) << open.error().message;
  EXPECT_THAT(config_.input(0).dims(), ElementsAre(-1, 3, 8, 8));
  EXPECT_EQ(open->inputs[0].dims, (Dims{-1, 3, 8, 8}));
  const auto fixed =
      CompleteOpen("input [ { name: 'image' dims: [ 4, 3, 8, 8 ] }, { name: 'scale' } ]");
  ASSERT_TRUE(fixed.has_value()) << fixed.error().message;
  EXPECT_EQ(fixed->inputs[0].dims, (Dims{4, 3, 8, 8}));
  EXPECT_EQ(fixed->inputs[1].dims, (Dims{-1, 2}));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CompleteConfigTest, ClientsSeeAReshapedTensorInTheirOwnShape) {
  const auto signature = CompleteOpen(R"(max_batch_size: 8
    input [ { name: "image" dims: [ 192 ] reshape { shape: [ 3, 8, 8 ] } }, { name: "scale" } ]
    output [ { name: "scores" dims: [ 2, 5 ] reshape { shape: [ 10 ] } } ])");
  ASSERT_TRUE(signature.has_value()) << signature.error().message;
  EXPECT_EQ(signature->inputs[0].dims, (Dims{-1, 192}));
  EXPECT_EQ(signature->input_reshape[0]->model, (Dims{-1, 3, 8, 8}));
  EXPECT_FALSE(signature->input_reshape[1]);
  EXPECT_EQ(signature->outputs[0].dims, (Dims{-1, 2, 5}));
  EXPECT_EQ(signature->output_reshape[0]->model, (Dims{-1, 10}));
  EXPECT_THAT(config_.input(0).dims(), ElementsAre(192));
}

TEST_F(CompleteConfigTest, OpenDimsOfAReshapeKeepTheirOrder) {
  const std::vector<TensorSpec> inputs = {{"x", DataType::kFloat32, {-1, -1, 4, -1}}};
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    input [ { name: "x" dims: [ -1, 1, 2, -1 ] reshape { shape: [ 1, -1, 4, -1 ] } } ])",
                                                            &config_));
  // Before, between and behind the open dims: 1, 2 and 1 elements, in the model 1, 4 and 1.
  auto signature = CompleteConfig(inputs, kOutputs, config_, warnings_);
  ASSERT_FALSE(signature);
  EXPECT_THAT(signature.error().message, AllOf(HasSubstr("'x'"), HasSubstr("[-1,1,2,-1]")));
  config_.mutable_input(0)->set_dims(1, 2);
  signature = CompleteConfig(inputs, kOutputs, config_, warnings_);
  ASSERT_TRUE(signature.has_value()) << signature.error().message;
  const Reshape& reshape = *signature->input_reshape[0];
  EXPECT_EQ(Reshaped({5, 2, 2, 7}, reshape.client, reshape.model), (Dims{1, 5, 4, 7}));
  EXPECT_EQ(Reshaped({1, 5, 4, 7}, reshape.model, reshape.client), (Dims{5, 2, 2, 7}));
  EXPECT_EQ(Reshaped({5, 2, 3, 7}, reshape.client, reshape.model), std::nullopt);
}

TEST_F(CompleteConfigTest, AnOpenDimOfAReshapeThatTheModelFixesIsServedFixed) {
  const auto signature =
      Complete("output [ { name: 'scores' dims: [ -1, 1 ] reshape { shape: [ 1, -1 ] } } ]");
  ASSERT_TRUE(signature.has_value()) << signature.error().message;
  EXPECT_EQ(signature->outputs[0].dims, (Dims{10, 1}));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("'scores' has the reshape [1,-1]")));
}

TEST_F(CompleteConfigTest, ANumberMayBeDeclaredAsOneElement) {
  for (const std::string text : {"input [ { name: 'x' dims: [ 1 ] } ]",
                                 "input [ { name: 'x' dims: [ 1 ] reshape { shape: [ ] } } ]"}) {
    config_.Clear();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config_));
    const auto signature =
        CompleteConfig({{"x", DataType::kFloat32, {}}}, kOutputs, config_, warnings_);
    ASSERT_TRUE(signature.has_value()) << signature.error().message;
    EXPECT_EQ(signature->inputs[0].dims, Dims{1});
    EXPECT_EQ(signature->input_reshape[0]->model, Dims{});
  }
}

TEST_F(CompleteConfigTest, RefusesAReshapeThatDoesNotFit) {
  for (const char* output :
       {"dims: [ 9 ] reshape { shape: [ 1, 10 ] }", "reshape { shape: [ 1, 10 ] }",
        "dims: [ 10, -1 ] reshape { shape: [ 1, 10 ] }", "dims: [ 0 ] reshape { shape: [ 0 ] }",
        "dims: [ -2 ] reshape { shape: [ -2 ] }",
        "dims: [ 9223372036854775807, 3 ] reshape { shape: [ 9223372036854775807, 3 ] }"}) {
    EXPECT_THAT(ErrorOf("output [ { name: 'scores' " + std::string(output) + " } ]"),
                AllOf(HasSubstr("output 'scores' has dims ["), HasSubstr("a reshape to [")))
        << output;
  }
  EXPECT_THAT(ErrorOf("output [ { name: 'scores' dims: [ 11 ] reshape { shape: [ 1, 11 ] } } ]"),
              AllOf(HasSubstr("has the reshape [1,11]"), HasSubstr("the model has [1,10]")));
}

TEST_F(CompleteConfigTest, DropsFeaturesThatClientsWouldCountOn) {
  ASSERT_TRUE(Complete("response_cache { enable: true } model_transaction_policy {}").has_value());
  EXPECT_FALSE(config_.has_response_cache());
  EXPECT_FALSE(config_.has_model_transaction_policy());
  ASSERT_TRUE(Complete("model_transaction_policy { decoupled: true }").has_value());
  EXPECT_TRUE(config_.model_transaction_policy().decoupled()) << "fronts and clients go by it";
}

}  // namespace
}  // namespace lagoon
