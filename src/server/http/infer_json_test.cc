#include "server/http/infer_json.h"

#include <fmt/format.h>
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

// A request with `data` as the data of its only input.
std::string WithData(const std::string& data) {
  return R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"data":)" + data + "}]}";
}

TEST(InferJson, ReadsEverythingThatItKnows) {
  const auto parsed = Parse(R"({
    "id": "a7", "future": {"x": [1, {"y": null}]},
    "parameters": {"priority": 2, "timeout": 5000, "binary_data_output": true, "lagoon_stages": true,
                   "sequence_id": "s"},
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

TEST(InferJson, ReadsWhoseTheRequestIs) {
  EXPECT_EQ(Parse(R"({"parameters":{"lagoon_tenant":"a"},"inputs":[]})")->tenant, "a");
  for (const char* value : {"1", "true", "-2", "0.5"}) {
    const auto parsed =
        Parse(std::string(R"({"parameters":{"lagoon_tenant":)") + value + R"(},"inputs":[]})");
    ASSERT_FALSE(parsed) << value;
    EXPECT_THAT(parsed.error().message, HasSubstr("'lagoon_tenant' is not a text"));
  }
}

TEST(InferJson, EmptyIdIsAccepted) { EXPECT_TRUE(Parse(R"({"id":"","inputs":[]})")); }

TEST(InferJson, AMemberThatIsNullIsAsIfAbsent) {
  const auto parsed = Parse(
      R"({"id":null,"parameters":null,"outputs":null,"future":null,
          "inputs":[{"name":"a","shape":null,"data":null,"parameters":null},
                    {"name":"b","shape":[1],"data":[1],"parameters":{"binary_data_size":null}}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->id, "");
  EXPECT_TRUE(parsed->outputs.empty());
  ASSERT_EQ(parsed->inputs.size(), 2u);
  EXPECT_FALSE(parsed->inputs[0].has_shape || parsed->inputs[0].has_data);
  EXPECT_EQ(parsed->inputs[1].binary_bytes, std::nullopt);
  EXPECT_TRUE(Parse(R"({"parameters":{"priority":null,"binary_data_output":null},"inputs":null})"));
}

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
                           R"({"inputs":[null]})",
                           R"({"inputs":[{"shape":[null]}]})",
                           R"({"inputs":[{"data":[null]}]})",
                           R"({"id":null,"id":"x"})",
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
                           R"({"parameters":{"sequence_id":[1]}})",
                           R"({"parameters":{"sequence_start":{}}})",
                           R"({"parameters":{"other":{"a":[1]}}})",
                           R"({"inputs":[{"parameters":{"binary_data_size":[4]}}]})",
                           R"({"outputs":[{"parameters":{"shared_memory_region":["r"]}}]})",
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
  for (const char* data :
       {"1", "{}", "[null]", "[{}]", "[1,[2]]", "[[1],2]", "[[1],[2,3]]", "[[],1]", "[[[1]],[2]]",
        "[[[]],[2]]", "[1e999]", "[NaN]", "[1,]", "[01]", "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]"}) {
    EXPECT_FALSE(Parse(WithData(data))) << data;
  }
}

TEST(InferJson, SaysWhichRuleIsBroken) {
  const std::string huge = "18446744073709551616";  // 2^64
  std::string many = R"({"inputs":[{})";
  for (int i = 0; i < 1024; ++i) many += ",{}";
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {R"({"inputs":[{"shape":[)" + huge + "]}]}",
       "'shape' holds 18446744073709551616, which is too large"},
      {R"({"inputs":[{"shape":[9223372036854775808]}]})",
       "'shape' holds 9223372036854775808, which is too large"},
      {R"({"inputs":[{"shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]})",
       "'shape' has more than 16 dimensions"},
      {R"({"parameters":{"priority":)" + huge + "}}",
       "'priority' is 18446744073709551616, which is too large"},
      {R"({"parameters":{"timeout":)" + huge + "}}",
       "'timeout' is 18446744073709551616, which is too large"},
      {R"({"parameters":{"timeout":1.5}})", "'timeout' is not a whole number from 0"},
      {many + "]}", "'inputs' has more than 1024 entries"},
      {R"({"inputs":{}})", "'inputs' cannot be an object"},
      {R"({"inputs":[{"name":"x"},[]]})", "'inputs' cannot hold an array"},
      {R"({"inputs":[{"name":"x"},5]})", "'inputs' cannot hold a number"},
      {R"({"inputs":[{"data":{}}]})", "'data' cannot be an object"},
      {R"({"inputs":[{"data":[{}]}]})", "'data' cannot hold an object"},
  };
  for (const auto& c : cases) {
    const auto parsed = Parse(c.text);
    ASSERT_FALSE(parsed) << c.says;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument) << c.says;
    EXPECT_THAT(parsed.error().message, HasSubstr(c.says));
  }
}

TEST(InferJson, RefusesAKnownMemberThatIsThereTwice) {
  const struct {
    const char* text;
    const char* key;
  } cases[] = {
      {R"({"id":"a","id":"b"})", "'id'"},
      {R"({"inputs":[],"inputs":[]})", "'inputs'"},
      {R"({"outputs":[],"outputs":[]})", "'outputs'"},
      {R"({"parameters":{},"parameters":{}})", "'parameters'"},
      {R"({"parameters":{"priority":1,"priority":2}})", "'priority'"},
      {R"({"parameters":{"timeout":1,"timeout":2}})", "'timeout'"},
      {R"({"inputs":[{"name":"a","name":"b"}]})", "'name'"},
      {R"({"inputs":[{"datatype":"FP32","datatype":"FP64"}]})", "'datatype'"},
      {R"({"inputs":[{"shape":[1],"shape":[1]}]})", "'shape'"},
      {R"({"inputs":[{"data":[1],"data":[1]}]})", "'data'"},
      {R"({"inputs":[{"parameters":{"binary_data_size":1,"binary_data_size":2}}]})",
       "'binary_data_size'"},
      {R"({"outputs":[{"name":"a","name":"b"}]})", "'name'"},
  };
  for (const auto& c : cases) {
    const auto parsed = Parse(c.text);
    ASSERT_FALSE(parsed) << c.text;
    EXPECT_THAT(parsed.error().message, HasSubstr(std::string(c.key) + " is given twice"))
        << c.text;
  }
  EXPECT_TRUE(Parse(R"({"inputs":[{"name":"a"},{"name":"b"}],"outputs":[{"name":"a"}]})"));
  EXPECT_TRUE(Parse(R"({"future":{"id":1,"id":2},"future":3})"));
}

TEST(InferJson, RefusesWhatFollowsTheRequest) {
  using std::string_literals::operator""s;
  EXPECT_TRUE(Parse("{} \t\r\n"));
  for (const std::string& text : {"{}\0"s, "{}\0{}"s, "{}\0garbage"s, "{} x"s, "{}{}"s, "{},"s}) {
    EXPECT_FALSE(Parse(text)) << text;
  }
  EXPECT_THAT(Parse("{}\0"s).error().message, HasSubstr("a NUL byte"));
}

TEST(InferJson, StopsAtTheFirstElementTooMany) {
  const auto error = [](const std::string& text, std::size_t max) {
    const auto parsed = ParseInferJson(std::as_bytes(std::span(text)), JsonBounds{max});
    return parsed ? "" : parsed.error().message;
  };
  // The text after the element too many is not JSON, and is not parsed.
  EXPECT_THAT(error(R"({"inputs":[{"data":[1,2,3,4,5,)", 4), HasSubstr("more elements than the 4"));
  EXPECT_THAT(error(R"({"inputs":[{"data":[1,2]},{"data":[3,4,5,)", 4), HasSubstr("the 4 that"));
  EXPECT_THAT(error(R"({"inputs":[{"shape":[1,2],"data":[[1,2,3,)", 9),
              HasSubstr("more elements than the 2 of shape [1,2]"));
  EXPECT_THAT(error(R"({"inputs":[{"data":[1]},{"shape":[2],"data":[1,2,3,)", 9),
              HasSubstr("the 2 of shape [2]"));
  EXPECT_THAT(error(R"({"inputs":[{"shape":[0],"data":[1,)", 9), HasSubstr("the 0 of shape [0]"));
  EXPECT_EQ(error(R"({"inputs":[{"shape":[2,2],"data":[[1,2],[3,4]]}]})", 4), "");
  EXPECT_EQ(error(R"({"inputs":[{"shape":[1,1,1,1],"data":[[[[1]]]]},{"data":[[[[1]]]]}]})", 2),
            "");
  // Arrays without elements are bounded too.
  std::string empty = R"({"inputs":[{"data":[)";
  for (int i = 0; i < 100; ++i) empty += "[],";
  EXPECT_THAT(error(empty, 4), HasSubstr("more elements than the 4"));
}

TEST(InferJson, IgnoresNoMoreThanItsBound) {
  std::string values = R"({"future":[0)";
  std::string members = "{";
  std::string arrays = R"({"future":[)";
  for (int i = 0; i < 70'000; ++i) {
    values += ",0";
    members += R"("a":0,)";
    arrays += "[],";
  }
  for (const std::string& text : {values, members, arrays}) {
    EXPECT_THAT(Parse(text).error().message, HasSubstr("more than 65536 members"));
  }
}

TEST(InferJson, MessagesStayShort) {
  const std::string big(100'000, 'n');
  for (const std::string& text :
       {R"({"inputs":[{"name":")" + big + R"(","shape":[-1]}]})", "{\"" + big + "\" 1}",
        "{\"a\":" + big + "}", R"({"parameters":{"priority":1)" + std::string(100'000, '0') + "}}",
        R"({"inputs":[{"shape":[1)" + std::string(100'000, '0') + "]}]}"}) {
    const auto parsed = Parse(text);
    ASSERT_FALSE(parsed);
    EXPECT_LT(parsed.error().message.size(), 1000u);
  }
}

TEST(InferJson, NamesTheFeatureThatIsMissing) {
  const auto code = [](const std::string& text) { return Parse(text).error().code; };
  EXPECT_EQ(code(R"({"inputs":[{"datatype":"FP32","data":["a"]}]})"), ErrorCode::kInvalidArgument);
}

TEST(InferJson, ReadsHowManyClassesAreAskedFor) {
  const auto classes = [](const std::string& value) {
    return Parse(R"({"outputs":[{"name":"y","parameters":{"classification":)" + value + "}}]}");
  };
  EXPECT_EQ(classes("3")->outputs[0].classes, 3u);
  EXPECT_EQ(classes("0")->outputs[0].classes, 0u);
  for (const char* value : {"-1", "true", "\"3\"", "1.5", "4294967296"}) {
    const auto parsed = classes(value);
    ASSERT_FALSE(parsed) << value;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("outputs[0] 'y': 'classification'"));
  }
}

TEST(InferJson, KeepsTheParametersThatAreNotTheServers) {
  const auto parsed = Parse(
      R"({"parameters":{"priority":1,"triton_x":1,"lagoon_x":"y","text":"a","yes":true,"whole":7,"less":-7,
          "part":0.5,"huge":99999999999999999999,"none":null,"whole":8},
          "inputs":[{"name":"x","parameters":{"text":"c"}}],"text":"d"})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->priority, 1u);
  const std::vector<RequestParameter> expected = {
      {"text", std::string("a")}, {"yes", true}, {"whole", std::uint64_t{8}},
      {"less", std::int64_t{-7}}, {"part", 0.5}, {"huge", 1e20}};
  EXPECT_EQ(parsed->parameters, expected);
}

TEST(InferJson, RefusesMoreParametersThanItsBound) {
  const auto with = [](std::size_t count) {
    std::string text = R"({"parameters":{"p":1)";
    for (std::size_t i = 1; i < count; ++i) text += fmt::format(R"(,"p{}":"v","p{}":1)", i, i);
    return Parse(text + "}}");
  };
  const auto most = with(kMostRequestParameters);
  ASSERT_TRUE(most) << most.error().message;
  EXPECT_EQ(most->parameters.size(), kMostRequestParameters);
  EXPECT_THAT(with(kMostRequestParameters + 1).error().message,
              HasSubstr("more than 64 parameters"));
}

TEST(InferJson, ReadsWhichTensorsLieInSharedMemory) {
  const auto parsed = Parse(
      R"({"inputs":[{"name":"x","parameters":{"shared_memory_offset":8,"shared_memory_region":"r",
          "shared_memory_byte_size":16}}],
          "outputs":[{"name":"y","parameters":{"shared_memory_region":"s"}},{"name":"z"}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->inputs[0].shared.region, "r");
  EXPECT_EQ(parsed->inputs[0].shared.offset, 8u);
  EXPECT_EQ(parsed->inputs[0].shared.bytes, 16u);
  EXPECT_EQ(parsed->outputs[0].shared.region, "s");
  EXPECT_FALSE(parsed->outputs[0].shared.bytes);
  EXPECT_TRUE(parsed->outputs[1].shared.region.empty());
  for (const char* wrong : {R"("shared_memory_region":1)", R"("shared_memory_region":"")",
                            R"("shared_memory_region":true)", R"("shared_memory_byte_size":-1)",
                            R"("shared_memory_byte_size":"1")", R"("shared_memory_offset":1.5)",
                            R"("shared_memory_offset":99999999999999999999)",
                            R"("shared_memory_region":"r","shared_memory_region":"r")"}) {
    for (const char* list : {"inputs", "outputs"}) {
      const auto refused = Parse(fmt::format(R"({{"{}":[{{"parameters":{{{}}}}}]}})", list, wrong));
      ASSERT_FALSE(refused) << wrong;
      EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << wrong;
      EXPECT_THAT(refused.error().message, HasSubstr("shared_memory_")) << wrong;
    }
  }
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
