#include "serving/model/program_warmup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/test_folder.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FitWarmupTest : public ::testing::Test {
 protected:
  FitWarmupTest() {
    signature_.inputs = {{"prompt", DataType::kInt64, {2}}, {"scale", DataType::kFloat32, {1}}};
    std::filesystem::create_directories(folder_ / "warmup");
    request_.name = "short";
    request_.inputs = {{"scale", {inference::TYPE_FP32, {1}, ""}},
                       {"prompt", {inference::TYPE_INT64, {2}, "tokens"}}};
    Write(std::string(16, '\3'));
  }

  void Write(const std::string& bytes) { std::ofstream(folder_ / "warmup/tokens") << bytes; }
  std::string ErrorOfFit() {
    const auto fitted = FitWarmup({request_}, folder_.path(), signature_);
    return fitted ? "" : fitted.error().message;
  }

  TestFolder folder_;
  Signature signature_;
  WarmupRequest request_;
};

TEST_F(FitWarmupTest, InputsComeInTheOrderOfTheProgram) {
  const auto fitted = FitWarmup({request_}, folder_.path(), signature_);
  ASSERT_TRUE(fitted) << fitted.error().message;
  ASSERT_EQ(fitted->size(), 1u);
  EXPECT_EQ(fitted->front().runs, 3u);
  EXPECT_EQ(fitted->front().inputs,
            (std::vector<std::string>{std::string(16, '\3'), std::string(4, '\0')}));
}

TEST_F(FitWarmupTest, AFileHasTheBytesOfItsInput) {
  Write("123");
  EXPECT_THAT(ErrorOfFit(), AllOf(HasSubstr("model_warmup 'short': input 'prompt'"),
                                  HasSubstr("has 16 bytes, its file 3")));
  Write(std::string(17, '1'));
  EXPECT_THAT(ErrorOfFit(), HasSubstr("input 'prompt'"));
  request_.inputs["prompt"].file = "../../tokens";
  EXPECT_THAT(ErrorOfFit(), HasSubstr("input 'prompt'"));
  request_.inputs["prompt"].file = "none";
  EXPECT_THAT(ErrorOfFit(), HasSubstr("input 'prompt'"));
}

TEST_F(FitWarmupTest, TypeAndDimsAreTheProgramsOwn) {
  request_.inputs["scale"].type = inference::TYPE_FP64;
  EXPECT_THAT(ErrorOfFit(),
              HasSubstr("input 'scale': is TYPE_FP64 [1], the program takes TYPE_FP32 [1]"));
  request_.inputs["scale"] = {inference::TYPE_FP32, {2}, ""};
  EXPECT_THAT(ErrorOfFit(), HasSubstr("is TYPE_FP32 [2]"));
}

TEST_F(FitWarmupTest, EachInputIsThereAndNoOther) {
  request_.inputs["other"] = {inference::TYPE_FP32, {1}, ""};
  EXPECT_THAT(ErrorOfFit(),
              HasSubstr("input 'other' is not one of the program, which has 'prompt', 'scale'"));
  request_.inputs.erase("other");
  request_.inputs.erase("scale");
  EXPECT_THAT(ErrorOfFit(), HasSubstr("input 'scale' is missing"));
}

}  // namespace
}  // namespace lagoon
