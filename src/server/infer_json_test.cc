#include "server/infer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lagoon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<JsonInfer> Parse(std::string_view text) {
  return ParseInferJson(std::as_bytes(std::span(text)));
}

// The request with `data` as the data of its only input.
std::string WithData(const std::string& data) {
  return R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"data":)" + data + "}]}";
}

TEST(InferJson, ReadsEverythingThatItKnows) {
  const auto parsed = Parse(R"({
    "id": "a7", "future": {"x": [1, {"y": null}]},
    "parameters": {"priority": 2, "timeout": 5000, "binary_data_output": true, "lagoon_stages": true,
                   "sequence_id": "s", "nested": {"a": [1]}},
    "inputs": [{"data": [[1, -2.5], [3e2, 4]], "shape": [2, 2], "name": "x", "datatype": "FP32"},
               {"name": "b", "datatype": "FP32", "shape": [], "parameters": {"binary_data_size": 4}}],
    "outputs": [{"name": "y", "parameters": {"binary_data": false, "classification": 0}}, {"name": "z"}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->id, "a7");
  EXPECT_EQ(parsed->priority, 2u);
  EXPECT_EQ(parsed->timeout_us, 5000u);
  EXPECT_TRUE(parsed->binary_outputs);
  EXPECT_TRUE(parsed->stages);
  ASSERT_EQ(parsed->inputs.size(), 2u);
  EXPECT_EQ(parsed->inputs[0].name, "x");
  EXPECT_THAT(parsed->inputs[0].shape, ElementsAre(2, 2));
  EXPECT_THAT(parsed->inputs[0].data, ElementsAre(1, -2.5, 300, 4));
  EXPECT_THAT(parsed->inputs[0].nesting, ElementsAre(2, 2));
  EXPECT_TRUE(parsed->inputs[1].has_shape);
  EXPECT_EQ(parsed->inputs[1].binary_bytes, 4u);
  ASSERT_EQ(parsed->outputs.size(), 2u);
  EXPECT_EQ(parsed->outputs[0].binary, false);
  EXPECT_EQ(parsed->outputs[1].binary, std::nullopt);
}

TEST(InferJson, EmptyIdIsAccepted) { EXPECT_TRUE(Parse(R"({"id":"","inputs":[]})")); }

TEST(InferJson, RefusesWhatIsNoRequest) {
  for (const char* text : {"",
                           " ",
                           "null",
                           "1",
                           "\"x\"",
                           "[]",
                           "[{}]",
                           "{",
                           R"({"inputs":)",
                           R"({"inputs":{}})",
                           R"({"inputs":[1]})",
                           R"({"inputs":[[]]})",
                           R"({"inputs":null})",
                           R"({"id":7})",
                           R"({"id":{}})",
                           R"({"parameters":1})",
                           R"({"inputs":[{"name":1}]})",
                           R"({"inputs":[{"name":{}}]})",
                           R"({"inputs":[{"shape":"1"}]})",
                           R"({"inputs":[{"shape":[-1]}]})",
                           R"({"inputs":[{"shape":[1.5]}]})",
                           R"({"inputs":[{"shape":[18446744073709551615]}]})",
                           R"({"inputs":[{"shape":[[1]]}]})",
                           R"({"inputs":[{"shape":[1],"shape":[1]}]})",
                           R"({"inputs":[{"data":[1],"data":[1]}]})",
                           R"({"parameters":{"priority":-1}})",
                           R"({"parameters":{"timeout":1.5}})",
                           R"({"parameters":{"timeout":"5"}})",
                           R"({"parameters":{"binary_data_output":1}})",
                           R"({"inputs":[{"parameters":{"binary_data_size":-4}}]})",
                           R"({"inputs":[{"parameters":{"binary_data_size":true}}]})",
                           R"({"outputs":[{"parameters":{"binary_data":"yes"}}]})",
                           R"({"inputs":[]} x)",
                           R"({"inputs":[]}{})"}) {
    const auto parsed = Parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("request's JSON: ")) << text;
  }
}

TEST(InferJson, RefusesDataThatIsNoTensor) {
  for (const char* data : {"1", "null", "{}", "[null]", "[{}]", "[1,[2]]", "[[1],2]", "[[1],[2,3]]",
                           "[[],1]", "[[[1]],[2]]", "[[[]],[2]]", "[1e999]", "[NaN]", "[1,]",
                           "[01]", "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]"}) {
    EXPECT_FALSE(Parse(WithData(data))) << data;
  }
}

TEST(InferJson, NamesTheFeatureThatIsMissing) {
  const auto code = [](const std::string& text) { return Parse(text).error().code; };
  EXPECT_EQ(code(R"({"inputs":[{"data":["a"]}]})"), ErrorCode::kUnimplemented);
  EXPECT_EQ(code(R"({"inputs":[{"datatype":"BYTES","data":["a"]}]})"), ErrorCode::kUnimplemented);
  EXPECT_EQ(code(R"({"inputs":[{"datatype":"FP32","data":["a"]}]})"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(R"({"inputs":[{"parameters":{"shared_memory_region":"r"}}]})"),
            ErrorCode::kUnimplemented);
  EXPECT_EQ(code(R"({"outputs":[{"parameters":{"shared_memory_region":"r"}}]})"),
            ErrorCode::kUnimplemented);
  const auto classes = Parse(R"({"outputs":[{"name":"y","parameters":{"classification":3}}]})");
  EXPECT_EQ(classes.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(classes.error().message, HasSubstr("outputs[0] 'y': 'classification'"));
}

TEST(InferJson, RefusesTextThatIsNotUtf8) {
  EXPECT_FALSE(Parse("{\"id\":\"\xff\xfe\"}"));
  EXPECT_FALSE(Parse("{\"\xc0\x80\":1}"));
}

TEST(InferJson, DeepNestingIsAnErrorAndNoStackOverflow) {
  const std::string open(200'000, '[');
  EXPECT_FALSE(Parse(open));
  EXPECT_FALSE(Parse(WithData(open)));
  EXPECT_FALSE(Parse(R"({"x":)" + open));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_THAT(Parse(objects).error().message, HasSubstr("levels deep"));
}

TEST(InferJson, RefusesMoreTensorsThanItsBound) {
  std::string many = R"({"inputs":[{})";
  for (int i = 0; i < 2000; ++i) many += ",{}";
  EXPECT_FALSE(Parse(many + "]}"));
}

TEST(InferJson, EveryTruncationIsAnError) {
  const std::string whole = WithData("[[1,2],[3,4.5e-3]]");
  ASSERT_TRUE(Parse(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(Parse(std::string_view(whole).substr(0, length))) << length;
  }
}

TEST(InferJson, SurvivesDamagedText) {
  const std::string whole = R"({"id":"a","parameters":{"priority":1},"outputs":[{"name":"y"}],)" +
                            WithData("[[1,2],[3,4]]").substr(1);
  ASSERT_TRUE(Parse(whole));
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    refused += Parse(damaged) ? 0 : 1;
  }
  EXPECT_GT(refused, 4000);
}

}  // namespace
}  // namespace lagoon
