#include "serving/config/ensemble_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "serving/config/config_file.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Result<ConfigFile> Parse(const std::string& text) { return ParseConfig(text, "e", "config.pbtxt"); }

constexpr char kTensors[] = R"(
input { name: "image" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "scores" data_type: TYPE_FP32 dims: [ 2 ] }
)";

std::string Steps(const std::string& steps) {
  return std::string(kTensors) + "platform: \"ensemble\" ensemble_scheduling { " + steps + " }";
}

std::string Map(const std::string& kind, const std::string& key, const std::string& value) {
  return kind + "_map { key: \"" + key + "\" value: \"" + value + "\" } ";
}

std::string Step(const std::string& model, const std::string& in, const std::string& out) {
  return "step { model_name: \"" + model + "\" model_version: -1 " + Map("input", "x", in) +
         Map("output", "y", out) + "} ";
}

TEST(EnsembleSettings, StepsAreInTheOrderOfTheirData) {
  const auto file = Parse(Steps(Step("last", "middle", "scores") + "step { model_name: \"first\" " +
                                "model_version: 3 " + Map("input", "x", "image") +
                                Map("output", "y", "middle") + "}"));
  ASSERT_TRUE(file) << file.error().message;
  const EnsembleSettings& ensemble = *file->settings.ensemble;
  EXPECT_THAT(ensemble.tensors, ElementsAre("image", "scores", "middle"));
  EXPECT_EQ(ensemble.inputs, 1u);
  EXPECT_THAT(ensemble.outputs, ElementsAre(1u));
  ASSERT_EQ(ensemble.steps.size(), 2u);
  EXPECT_EQ(ensemble.steps[0].name, "ensemble_scheduling.step[1] (model 'first')");
  EXPECT_EQ(ensemble.steps[0].version, "3");
  EXPECT_THAT(ensemble.steps[0].inputs, ElementsAre(Pair("x", 0u)));
  EXPECT_THAT(ensemble.steps[0].outputs, ElementsAre(Pair("y", 2u)));
  EXPECT_EQ(ensemble.steps[1].model, "last");
  EXPECT_EQ(ensemble.steps[1].version, "");
}

TEST(EnsembleSettings, OtherModelsHaveNone) {
  EXPECT_FALSE(Parse("backend: \"onnxruntime\"")->settings.ensemble);
}

struct Wrong {
  std::string text;
  std::string says;
};

class WrongEnsemble : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongEnsemble, IsRefusedByName) {
  const auto file = Parse(GetParam().text);
  ASSERT_FALSE(file) << GetParam().text;
  EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(file.error().message, HasSubstr(GetParam().says));
}

const std::string kGood = Step("m", "image", "scores");

std::string ManySteps() {
  std::string steps = Step("m", "image", "scores");
  for (int i = 0; i < kMaxEnsembleSteps; ++i) steps += Step("m", "image", "t" + std::to_string(i));
  return steps;
}

INSTANTIATE_TEST_SUITE_P(
    Ensemble, WrongEnsemble,
    ::testing::Values(
        Wrong{"platform: \"ensemble\"", "ensemble_scheduling, which has the steps, is missing"},
        Wrong{"platform: \"onnxruntime_onnx\" ensemble_scheduling { }",
              "platform is 'onnxruntime_onnx', and ensemble_scheduling"},
        Wrong{"backend: \"onnxruntime\" " + Steps(kGood), "backend is 'onnxruntime'"},
        Wrong{"instance_group { count: 2 } " + Steps(kGood), "instance_group"},
        Wrong{"default_model_filename: \"a.onnx\" " + Steps(kGood), "'a.onnx'"},
        Wrong{"parameters { key: \"lagoon.shapes\" value { string_value: \"x:[1]\" } } " +
                  Steps(kGood),
              "not 'lagoon.shapes'"},
        Wrong{"model_transaction_policy { decoupled: true } " + Steps(kGood), "decoupled"},
        Wrong{Steps(""), "ensemble_scheduling has 0 steps; it takes 1 to 64"},
        Wrong{Steps(ManySteps()), "ensemble_scheduling has 65 steps"},
        Wrong{Steps(Step("", "image", "scores")), "step[0] (model ''): it has no model_name"},
        Wrong{Steps(Step("e", "image", "scores")), "step[0] (model 'e'): an ensemble cannot be"},
        Wrong{Steps("step { model_name: \"m\" model_version: -2 }"), "model_version is -2"},
        Wrong{Steps("step { model_name: \"m\" " + Map("input", "x", "image") + "}"),
              "step[0] (model 'm'): it has no output_map"},
        Wrong{Steps(Step("m", "", "scores")), "input_map has the key 'x' with the value ''"},
        Wrong{Steps(Step("m", "image", "")), "output_map has the key 'y' with the value ''"},
        Wrong{Steps(Step("m", "picture", "scores")),
              "step[0] (model 'm'): its input 'x' reads tensor 'picture'"},
        Wrong{Steps(kGood + Step("n", "image", "scores")),
              "step[1] (model 'n'): its output 'y' would write tensor 'scores' a second time: "
              "ensemble_scheduling.step[0] (model 'm') writes it as its output 'y'"},
        Wrong{Steps(Step("m", "image", "image")), "a second time: it is an input of the ensemble"},
        Wrong{Steps(Step("m", "image", "other")), "output 'scores' of the ensemble"},
        Wrong{Steps(kGood + Step("n", "image", "other")),
              "tensor 'other' is read by no step and is no output of the ensemble, but "
              "ensemble_scheduling.step[1] (model 'n')"},
        Wrong{"input { name: \"mask\" data_type: TYPE_FP32 dims: [ 1 ] }" + Steps(kGood),
              "tensor 'mask' is read by no step"},
        Wrong{"output { name: \"image\" data_type: TYPE_FP32 dims: [ 4 ] }" + Steps(kGood),
              "'image' is an input and an output"},
        Wrong{"output { name: \"scores\" data_type: TYPE_FP32 dims: [ 2 ] }" + Steps(kGood),
              "output 'scores' is declared twice"},
        Wrong{"input { name: \"image\" data_type: TYPE_FP32 dims: [ 4 ] }" + Steps(kGood),
              "input 'image' is declared twice"},
        Wrong{"platform: \"ensemble\" ensemble_scheduling { " + Step("m", "a", "b") + "}",
              "neither an input of the ensemble"},
        Wrong{Steps(Step("m", "b", "a") + Step("n", "a", "b") + Step("o", "image", "scores")),
              "in a circle: ensemble_scheduling.step[0] (model 'm') needs 'b', "
              "ensemble_scheduling.step[1] (model 'n') needs 'a'"},
        Wrong{Steps(Step("m", "scores", "scores") + "step { model_name: \"n\" " +
                    Map("input", "x", "image") + Map("input", "s", "scores") +
                    Map("output", "y", "other") + "} " + "step { model_name: \"o\" " +
                    Map("input", "x", "other") + Map("input", "s", "third") +
                    Map("output", "y", "third") + "}"),
              "circle: ensemble_scheduling.step[0] (model 'm') needs 'scores'"}));

}  // namespace
}  // namespace lagoon
