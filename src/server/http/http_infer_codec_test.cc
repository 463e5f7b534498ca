#include "server/http/http_infer_codec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

namespace lagoon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

template <typename T>
std::string Raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> Values(std::span<const std::byte> data) {
  std::vector<T> values(data.size() / sizeof(T));
  std::memcpy(values.data(), data.data(), values.size() * sizeof(T));
  return values;
}

Result<HttpInfer> ParseJson(std::string_view text) {
  return ParseHttpInfer(Bytes(text), std::nullopt, nullptr);
}

std::string Input(std::string_view datatype, std::string_view shape, std::string_view data) {
  return fmt::format(R"({{"inputs":[{{"name":"x","datatype":"{}","shape":{},"data":{}}}]}})",
                     datatype, shape, data);
}

TEST(HttpInferParse, ReadsJsonTensorsOfEveryType) {
  const auto data = [](const auto& parsed) { return parsed->request.inputs.front().data; };
  auto parsed = ParseJson(Input("FP32", "[2,2]", "[[1,2],[3,0.1]]"));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(Values<float>(data(parsed)), ElementsAre(1, 2, 3, 0.1f));
  EXPECT_EQ(parsed->request.inputs.front().dims, (Dims{2, 2}));

  parsed = ParseJson(Input("FP32", "[1,2,1]", "[1,2]"));  // flat
  ASSERT_TRUE(parsed);
  EXPECT_THAT(Values<float>(data(parsed)), ElementsAre(1, 2));
  parsed = ParseJson(Input("INT64", "[2]", "[-9007199254740992,7]"));
  ASSERT_TRUE(parsed);
  EXPECT_THAT(Values<std::int64_t>(data(parsed)), ElementsAre(-9007199254740992, 7));
  parsed = ParseJson(Input("UINT8", "[2]", "[0,255]"));
  ASSERT_TRUE(parsed);
  EXPECT_THAT(Values<std::uint8_t>(data(parsed)), ElementsAre(0, 255));
  parsed = ParseJson(Input("BOOL", "[2]", "[true,false]"));
  ASSERT_TRUE(parsed);
  EXPECT_THAT(Values<std::uint8_t>(data(parsed)), ElementsAre(1, 0));
  parsed = ParseJson(Input("FP64", "[1]", "[1e308]"));
  ASSERT_TRUE(parsed);
  EXPECT_THAT(Values<double>(data(parsed)), ElementsAre(1e308));
}

TEST(HttpInferParse, TakesWholeNumbersOf64BitsExactly) {
  const auto data = [](const auto& parsed) { return parsed->request.inputs.front().data; };
  auto parsed = ParseJson(Input("INT64", "[7]",
                                "[9007199254740993,-9007199254740993,1,9223372036854775807,3.0,"
                                "-9223372036854775808,1e3]"));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(Values<std::int64_t>(data(parsed)),
              ElementsAre(9007199254740993, -9007199254740993, 1, INT64_MAX, 3, INT64_MIN, 1000));
  parsed = ParseJson(Input("UINT64", "[2]", "[18446744073709551615,9007199254740993]"));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(Values<std::uint64_t>(data(parsed)), ElementsAre(UINT64_MAX, 9007199254740993u));
  parsed = ParseJson(Input("FP64", "[2]", "[9007199254740993,18446744073709551615]"));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(Values<double>(data(parsed)),
              ElementsAre(9007199254740992.0, 18446744073709551616.0));
}

TEST(HttpInferParse, TakesTheGreatestFloatAsToolsPrintIt) {
  const auto parsed =
      ParseJson(Input("FP32", "[4]", "[3.4028235e38,-3.4028235e38,3.4028234663852886e38,0.1]"));
  ASSERT_TRUE(parsed) << parsed.error().message;
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_THAT(Values<float>(parsed->request.inputs.front().data),
              ElementsAre(kMax, -kMax, kMax, 0.1f));
  const std::string error = ParseJson(Input("FP32", "[1]", "[1e39]")).error().message;
  EXPECT_THAT(error, HasSubstr("'data' holds 1e+39, which FP32 cannot hold"));
  EXPECT_THAT(error, testing::Not(HasSubstr("exactly")));
}

TEST(HttpInferParse, RefusesJsonThatDoesNotFitItsTypeOrShape) {
  for (const auto& text : {
           Input("FP32", "[1]", "[1e39]"),
           Input("INT8", "[1]", "[128]"),
           Input("INT8", "[1]", "[1.5]"),
           Input("UINT16", "[1]", "[-1]"),
           Input("UINT64", "[1]", "[18446744073709551616]"),
           Input("INT64", "[1]", "[9223372036854775808]"),
           Input("INT64", "[1]", "[-9223372036854775809]"),
           Input("INT64", "[1]", "[9007199254740993.0]"),
           Input("INT64", "[1]", "[9007199254740993e0]"),
           Input("UINT64", "[1]", "[-9007199254740993]"),
           Input("INT32", "[1]", "[9007199254740993]"),
           Input("FP32", "[1]", "[3.4028236e38]"),
           Input("BOOL", "[1]", "[1]"),
           Input("BYTES", "[1]", "[1]"),
           Input("BYTES", "[1]", "[true]"),
           Input("BYTES", "[2]", R"(["a"])"),
           Input("BYTES", "[2]", R"(["a",1])"),
           std::string(R"({"inputs":[{"name":"x","shape":[1],"data":["a"],"datatype":"FP32"}]})"),
           Input("FP32", "[1]", "[true]"),
           Input("FP33", "[1]", "[1]"),
           Input("FP32", "[2]", "[1]"),
           Input("FP32", "[1,2]", "[[1],[2]]"),
           Input("FP32", "[9223372036854775807,9223372036854775807]", "[1]"),
           Input("FP32", "[1000000000]", "[1]"),
       }) {
    const auto parsed = ParseJson(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("input 'x': ")) << text;
  }
  EXPECT_EQ(ParseJson(Input("FP16", "[1]", "[1]")).error().code, ErrorCode::kUnimplemented);
  EXPECT_FALSE(ParseJson(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1]}]})"));
  EXPECT_FALSE(ParseJson(R"({"inputs":[{"name":"x","datatype":"FP32","data":[1]}]})"));
  EXPECT_FALSE(ParseJson(R"({"parameters":{"timeout":18446744073709551615}})"));
}

TEST(HttpInferParse, TextsBecomeTensorsOfBytes) {
  const auto parsed = ParseJson(Input("BYTES", "[2,1]", R"([["one"],["\u00fc\u0000"]])"));
  ASSERT_TRUE(parsed) << parsed.error().message;
  const InputTensor& input = parsed->request.inputs[0];
  EXPECT_EQ(input.type, DataType::kString);
  const std::string text(reinterpret_cast<const char*>(input.data.data()), input.data.size());
  EXPECT_EQ(text, std::string("\3\0\0\0one\3\0\0\0\xc3\xbc\0", 14));
}

const std::string kTwoBinary =
    R"({"inputs":[)"
    R"({"name":"a","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}},)"
    R"({"name":"j","datatype":"FP32","shape":[1],"data":[9]},)"
    R"({"name":"b","datatype":"INT8","shape":[3],"parameters":{"binary_data_size":3}}]})";

TEST(HttpInferParse, TellsTheCoreWhichOutputsBecomeText) {
  static constexpr char kBody[] =
      R"({{"parameters":{{"binary_data_output":{}}},"inputs":[],"outputs":[
      {{"name":"a"}},{{"name":"b","parameters":{{"binary_data":true}}}},
      {{"name":"c","parameters":{{"binary_data":false}}}}]}})";
  using enum OutputForm;
  auto parsed = ParseJson(fmt::format(kBody, false));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->request.form, kText);
  EXPECT_THAT(parsed->request.forms, ElementsAre(kText, kBytes, kText));
  parsed = ParseJson(fmt::format(kBody, true));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->request.form, kBytes);
  EXPECT_THAT(parsed->request.forms, ElementsAre(kBytes, kBytes, kText));
}

TEST(HttpInferParse, LeavesBinaryTensorsInTheBody) {
  const std::string body = kTwoBinary + Raw<float>({1, 2}) + "xyz";
  const auto parsed = ParseHttpInfer(Bytes(body), kTwoBinary.size(), nullptr);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& inputs = parsed->request.inputs;
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_EQ(static_cast<const void*>(inputs[0].data.data()), body.data() + kTwoBinary.size());
  EXPECT_THAT(Values<float>(inputs[0].data), ElementsAre(1, 2));
  EXPECT_THAT(Values<float>(inputs[1].data), ElementsAre(9));
  EXPECT_THAT(Values<char>(inputs[2].data), ElementsAre('x', 'y', 'z'));
}

TEST(HttpInferParse, KeepsTheBodyAliveThroughThePayload) {
  auto owner = std::make_shared<std::string>(kTwoBinary + Raw<float>({1, 2}) + "xyz");
  const std::weak_ptr<std::string> watch = owner;
  auto parsed = ParseHttpInfer(Bytes(*owner), kTwoBinary.size(), owner);
  ASSERT_TRUE(parsed);
  owner.reset();
  EXPECT_FALSE(watch.expired());
  parsed->request.payload.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(HttpInferParse, RefusesBinaryPartsOfTheWrongSize) {
  const std::string whole = kTwoBinary + Raw<float>({1, 2}) + "xyz";
  const auto parse = [](std::string_view body, std::size_t json) {
    return ParseHttpInfer(Bytes(body), json, nullptr);
  };
  EXPECT_THAT(parse(whole + "!", kTwoBinary.size()).error().message,
              HasSubstr("1 bytes after the last"));
  EXPECT_THAT(
      parse(std::string_view(whole).substr(0, whole.size() - 1), kTwoBinary.size()).error().message,
      HasSubstr("needs 3 bytes of binary data, the body has 2 left"));
  EXPECT_THAT(parse(whole, whole.size() + 1).error().message,
              HasSubstr("Inference-Header-Content-Length"));
  EXPECT_FALSE(parse(whole, whole.size()));
  EXPECT_FALSE(parse(whole, kTwoBinary.size() - 1));
  const std::string wrong =
      R"({"inputs":[{"name":"a","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":7}}]})";
  EXPECT_THAT(parse(wrong + "1234567", wrong.size()).error().message,
              HasSubstr("got unexpected byte size 7, expected 8 for FP32 of shape [2]"));
  const std::string both =
      R"({"inputs":[{"name":"a","datatype":"INT8","shape":[1],"data":[1],"parameters":{"binary_data_size":1}}]})";
  EXPECT_FALSE(parse(both + "1", both.size()));
}

TEST(HttpInferParse, TakesARawBodyForAModelWithOneInput) {
  ModelMetadata model{"m", {"1"}, "p", {{"x", DataType::kFloat32, {2}}}, {}};
  const std::string body = Raw<float>({4, 5});
  const auto parsed = ParseRawInfer(Bytes(body), model, nullptr);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->request.inputs.front().name, "x");
  EXPECT_THAT(Values<float>(parsed->request.inputs.front().data), ElementsAre(4, 5));
  EXPECT_TRUE(parsed->format.binary);
  EXPECT_FALSE(ParseRawInfer(Bytes("1234567"), model, nullptr));
  model.inputs[0] = {"x", DataType::kString, {-1, 1}};  // the body is one string
  const std::string text = "a\xff";
  const auto string = ParseRawInfer(Bytes(text), model, nullptr);
  ASSERT_TRUE(string) << string.error().message;
  EXPECT_EQ(string->request.inputs[0].dims, (Dims{1, 1}));
  EXPECT_THAT(Values<char>(string->request.inputs[0].data), ElementsAre(2, 0, 0, 0, 'a', '\xff'));
  model.inputs[0].dims = {2};
  EXPECT_THAT(ParseRawInfer(Bytes(text), model, nullptr).error().message,
              HasSubstr("more than one string"));
  model.inputs.push_back(model.inputs.front());
  EXPECT_THAT(ParseRawInfer(Bytes(body), model, nullptr).error().message, HasSubstr("it has 2"));
}

TEST(HttpInferParse, ARawBodySaysTheOneSizeThatIsOpen) {
  const std::string body = Raw<float>({1, 2, 3, 4, 5, 6});
  const auto dims = [&](Dims takes, std::int64_t max_batch) -> Result<Dims> {
    const ModelMetadata model{"m", {"1"}, "p", {{"x", DataType::kFloat32, takes}}, {}, max_batch};
    LAGOON_ASSIGN_OR_RETURN(const HttpInfer parsed, ParseRawInfer(Bytes(body), model, nullptr));
    return parsed.request.inputs.front().dims;
  };
  EXPECT_EQ(dims({-1}, 0), (Dims{6}));
  EXPECT_EQ(dims({3, -1}, 0), (Dims{3, 2}));
  EXPECT_EQ(dims({-1, 6}, 0), (Dims{1, 6}));
  EXPECT_EQ(dims({-1, 6}, 8), (Dims{1, 6}));
  EXPECT_EQ(dims({-1, 2, -1}, 8), (Dims{1, 2, 3}));
  EXPECT_THAT(dims({-1, 2}, 8).error().message, HasSubstr("FP32 [1,2] needs 8"));
  EXPECT_THAT(dims({-1, 4}, 0).error().message, HasSubstr("FP32 [-1,4] needs a multiple of 16"));
  EXPECT_FALSE(dims({-1, 0}, 0));
  EXPECT_THAT(dims({-1, -1}, 0).error().message,
              AllOf(HasSubstr("model 'm'"), HasSubstr("more than one open dimension")));
  EXPECT_THAT(dims({-1, -1, -1}, 8).error().message, HasSubstr("more than one open dimension"));
}

TEST(HttpInferParse, AModelOfOpenShapeTakesAnyNumberOfElements) {
  const auto most = [](Dims first, Dims second, std::int64_t max_batch) {
    return BoundsOf({"m",
                     {"1"},
                     "p",
                     {{"a", DataType::kFloat32, first}, {"b", DataType::kFloat32, second}},
                     {},
                     max_batch})
        .max_elements;
  };
  constexpr std::size_t kAny = JsonBounds{}.max_elements;
  EXPECT_EQ(most({2, 3}, {}, 0), 7u);
  EXPECT_EQ(most({-1, 3}, {-1, 4}, 8), 56u);
  EXPECT_EQ(most({-1, 3}, {4}, 0), kAny);
  EXPECT_EQ(most({4}, {2, -1, -1}, 0), kAny);
  EXPECT_EQ(most({-1, 3, -1}, {-1, 4}, 8), kAny);
  EXPECT_EQ(most({std::int64_t{1} << 40, std::int64_t{1} << 40}, {1}, 0), kAny);
}

InferResponse TwoOutputs() {
  const auto tensor = [](std::string name, std::vector<float> values) {
    OutputTensor output{
        std::move(name), DataType::kFloat32, {1, static_cast<std::int64_t>(values.size())}, {}};
    const auto bytes = std::as_bytes(std::span(values));
    output.data.assign(bytes.begin(), bytes.end());
    return output;
  };
  return {"m", "3", "id\"1", {tensor("y", {0.1f, -2}), tensor("z", {3})}, {}};
}

TEST(HttpInferRender, WritesJsonThatReadsBackExactly) {
  const auto response = RenderHttpInfer(TwoOutputs(), {}, {});
  EXPECT_EQ(response.content_type, kJsonType);
  EXPECT_TRUE(response.fields.empty());
  const auto json = nlohmann::json::parse(response.text);
  EXPECT_EQ(json["model_name"], "m");
  EXPECT_EQ(json["model_version"], "3");
  EXPECT_EQ(json["id"], "id\"1");
  EXPECT_FALSE(json.contains("parameters"));
  EXPECT_EQ(json["outputs"][0]["name"], "y");
  EXPECT_EQ(json["outputs"][0]["datatype"], "FP32");
  EXPECT_EQ(json["outputs"][0]["shape"], nlohmann::json({1, 2}));
  EXPECT_EQ(json["outputs"][0]["data"][0].get<float>(), 0.1f);
  EXPECT_FALSE(json["outputs"][0].contains("parameters"));
}

TEST(HttpInferRender, SendsBinaryWhatIsAskedBinary) {
  HttpAnswerFormat format;
  format.binary = true;
  format.outputs = {{"y", false}, {"z", std::nullopt}};
  const auto response = RenderHttpInfer(TwoOutputs(), format, {});
  EXPECT_EQ(response.content_type, kBinaryType);
  EXPECT_EQ(response.fields,
            fmt::format("Inference-Header-Content-Length: {}\r\n", response.text.size()));
  const auto json = nlohmann::json::parse(response.text);
  EXPECT_TRUE(json["outputs"][0].contains("data"));
  EXPECT_FALSE(json["outputs"][1].contains("data"));
  EXPECT_EQ(json["outputs"][1]["parameters"]["binary_data_size"], 4);
  ASSERT_EQ(response.blobs.size(), 1u);
  EXPECT_THAT(Values<float>(response.blobs[0]), ElementsAre(3));
  EXPECT_EQ(response.BodyBytes(), response.text.size() + 4);
}

TEST(HttpInferRender, ReportsStagesWhenAsked) {
  HttpAnswerFormat format;
  format.stages = true;
  EdgeStamps stamps;
  stamps.first_byte = Now();
  stamps.received = stamps.first_byte + std::chrono::microseconds(12);
  const auto response = RenderHttpInfer(TwoOutputs(), format, stamps);
  const auto json = nlohmann::json::parse(response.text);
  EXPECT_EQ(json["parameters"].size(), 10u);
  EXPECT_DOUBLE_EQ(json["parameters"]["lagoon_read_us"].get<double>(), 12);
}

TEST(HttpInferRender, KeepsTheSignOfZero) {
  InferResponse response = TwoOutputs();
  const float values[] = {-0.0F, 0.0F};
  std::memcpy(response.outputs[0].data.data(), values, sizeof(values));
  const HttpResponse answer = RenderHttpInfer(response, {}, {});
  EXPECT_THAT(answer.text, HasSubstr(R"("data":[-0.0,0]})"));
}

TEST(HttpInferRender, WritesNumbersThatJsonHasNotAsWords) {
  InferResponse response = TwoOutputs();
  const float values[] = {std::nanf(""), -INFINITY};
  std::memcpy(response.outputs[0].data.data(), values, sizeof(values));
  const float infinity = INFINITY;
  std::memcpy(response.outputs[1].data.data(), &infinity, sizeof(infinity));
  const HttpResponse answer = RenderHttpInfer(response, {}, {});
  EXPECT_EQ(answer.status, 200u);
  EXPECT_THAT(answer.text, HasSubstr(R"("data":[NaN,-Infinity]})"));
  EXPECT_THAT(answer.text, HasSubstr(R"("data":[Infinity]})"));
}

}  // namespace
}  // namespace lagoon
