#include "serving/model/ensemble_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lagoon {
namespace {

using ::testing::HasSubstr;

/// image -> first (x to y) -> middle -> last (x to y) -> scores.
class EnsembleCheckTest : public ::testing::Test {
 protected:
  EnsembleCheckTest() {
    EnsembleSettings& ensemble = settings_[0].ensemble.emplace();
    ensemble.tensors = {"image", "middle", "scores"};
    ensemble.inputs = 1;
    ensemble.outputs = {2};
    ensemble.steps = {{"step[0] (model 'first')", "first", "", {{"x", 0}}, {{"y", 1}}},
                      {"step[1] (model 'last')", "last", "", {{"x", 1}}, {{"y", 2}}}};
    Set(0, "image", {-1, 4}, "scores", {-1, 2});
    Set(1, "x", {-1, 4}, "y", {-1, 3});
    Set(2, "x", {-1, 3}, "y", {-1, 2});
  }

  /// 0: the ensemble; else a step.
  void Set(std::size_t model, const std::string& input, const Dims& in, const std::string& output,
           const Dims& out) {
    signature_[model].inputs = {{input, DataType::kFloat32, in}};
    signature_[model].outputs = {{output, DataType::kFloat32, out}};
  }
  Status Check() {
    const StepModel steps[] = {{signature_[1], settings_[1]}, {signature_[2], settings_[2]}};
    return CheckSteps({signature_[0], settings_[0]}, steps);
  }
  void ExpectRefused(const std::string& says, ErrorCode code = ErrorCode::kInvalidArgument) {
    const Status checked = Check();
    ASSERT_FALSE(checked) << says;
    EXPECT_THAT(checked.error().message, HasSubstr(says));
    EXPECT_EQ(checked.error().code, code);
  }

  Signature signature_[3];
  ModelSettings settings_[3];
};

TEST_F(EnsembleCheckTest, StepsThatFitAreTaken) {
  EXPECT_TRUE(Check());
  for (Signature& signature : signature_) signature.max_batch = 4;
  signature_[2].max_batch = 8;
  EXPECT_TRUE(Check());
  Set(2, "x", {-1, -1}, "y", {-1, -1});
  EXPECT_TRUE(Check()) << "an open dim takes any size";
  Set(1, "x", {1, 4}, "y", {1, 3});
  signature_[0].max_batch = signature_[1].max_batch = 1;
  EXPECT_TRUE(Check()) << "a batch of one row";
}

TEST_F(EnsembleCheckTest, ABatchOfAStepHoldsTheEnsemblesBatch) {
  for (Signature& signature : signature_) signature.max_batch = 4;
  signature_[2].max_batch = 3;
  ExpectRefused(
      "step[1] (model 'last'): max_batch_size of the model is 3, less than the ensemble's 4");
  signature_[0].max_batch = 0;
  EXPECT_TRUE(Check()) << "requests say how many rows there are";
  signature_[0].inputs[0].dims = {8, 4};
  ExpectRefused(
      "step[0] (model 'first'): max_batch_size of the model is 4, and tensor 'image', the input of "
      "the ensemble, is FP32 [8,4]");
}

TEST_F(EnsembleCheckTest, TypesAndShapesAgree) {
  Set(2, "x", {-1, 5}, "y", {-1, 2});
  ExpectRefused(
      "step[1] (model 'last'): its input 'x' is FP32 [-1,5], and tensor 'middle', output 'y' of "
      "step[0] (model 'first'), is FP32 [-1,3]");
  Set(2, "x", {-1, 3, 1}, "y", {-1, 2});
  ExpectRefused("is FP32 [-1,3,1], and tensor 'middle'");
  Set(2, "x", {-1, 3}, "y", {-1, 7});
  ExpectRefused(
      "output 'scores' of the ensemble is declared as FP32 [-1,2], and output 'y' of step[1] "
      "(model 'last'), which writes it, is FP32 [-1,7]");
  Set(2, "x", {-1, 3}, "y", {-1, 2});
  signature_[1].inputs[0].type = DataType::kInt64;
  ExpectRefused("its input 'x' is INT64 [-1,4], and tensor 'image', the input of the ensemble");
}

TEST_F(EnsembleCheckTest, MapsNameTheTensorsOfTheModel) {
  Set(1, "a", {-1, 4}, "y", {-1, 3});
  ExpectRefused("step[0] (model 'first'): input_map names input 'x'; the model takes 'a'");
  Set(1, "x", {-1, 4}, "b", {-1, 3});
  ExpectRefused("step[0] (model 'first'): output_map names output 'y'; the model gives 'b'");
  Set(1, "x", {-1, 4}, "y", {-1, 3});
  signature_[2].inputs.push_back({"mask", DataType::kFloat32, {1}});
  ExpectRefused("step[1] (model 'last'): input_map does not give the model's input 'mask'");
}

TEST_F(EnsembleCheckTest, OtherKindsOfModelsAreRefused) {
  settings_[2].job_class = JobClass::kRealTime;
  ExpectRefused(
      "step[1] (model 'last'): the model is real-time (PRIORITY_MAX), the ensemble best-effort");
  settings_[0].job_class = JobClass::kRealTime;
  ExpectRefused(
      "step[0] (model 'first'): the model is best-effort, the ensemble real-time (PRIORITY_MAX)");
  settings_[1].job_class = JobClass::kRealTime;
  EXPECT_TRUE(Check());
  settings_[2].decoupled = true;
  ExpectRefused("step[1] (model 'last'): the model is decoupled", ErrorCode::kUnimplemented);
  settings_[2] = settings_[1];
  settings_[2].sequences.emplace();
  ExpectRefused("step[1] (model 'last'): the model has sequence_batching",
                ErrorCode::kUnimplemented);
  settings_[2] = settings_[0];
  ExpectRefused("step[1] (model 'last'): the model is an ensemble itself",
                ErrorCode::kUnimplemented);
}

}  // namespace
}  // namespace lagoon
