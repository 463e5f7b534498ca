#include "server/remote/remote_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/grpc/grpc_codec.h"
#include "server/http/http_infer_codec.h"

namespace lagoon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> Bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

/// A request as the member's edge reads it.
Result<HttpInfer> Read(const InferRequest& request, Nanoseconds left, std::string_view front = {}) {
  std::string text = RequestHead(request, left, front);
  for (const InputTensor& input : request.inputs) {
    text.append(reinterpret_cast<const char*>(input.data.data()), input.data.size());
  }
  boost::beast::http::request_parser<boost::beast::http::string_body> parser;
  parser.eager(true);
  boost::system::error_code error;
  parser.put(boost::asio::buffer(text), error);
  if (error || !parser.is_done()) return Fail(ErrorCode::kInternal, "no request of HTTP");
  const auto& message = parser.get();
  const auto body = std::make_shared<std::string>(message.body());
  const auto json_bytes = message["Inference-Header-Content-Length"];
  auto parsed = ParseHttpInfer(std::as_bytes(std::span(*body)),
                               std::stoul(std::string(json_bytes.data(), json_bytes.size())), body);
  if (parsed) parsed->request.model = std::string(message.target().data(), message.target().size());
  return parsed;
}

InferRequest WithInputs(const std::vector<std::byte>& small, const std::vector<std::byte>& large) {
  InferRequest request;
  request.model = "m";
  request.version = "2";
  request.id = "r";
  request.inputs = {{"a", DataType::kUInt8, {1, static_cast<std::int64_t>(small.size())}, small},
                    {"b", DataType::kInt8, {static_cast<std::int64_t>(large.size())}, large}};
  request.outputs = {"y", "z"};
  return request;
}

TEST(RemoteCodec, RequestsCarryAllThatTheServerReads) {
  const auto small = Bytes(3);
  const auto large = Bytes(100'000);
  InferRequest request = WithInputs(small, large);
  request.priority = 2;
  request.sequence = {.number = 0, .text = "of \"mine\"", .start = true, .end = false};
  request.classes = {0, 3};
  request.tenant_of_parameter = "\"mine\"";
  request.parameters = {{"a", true},
                        {"b", std::int64_t{-3}},
                        {"c", std::uint64_t{7}},
                        {"d", 0.5},
                        {"e", std::string("text")}};
  const auto parsed = Read(request, std::chrono::nanoseconds(1'500'001));
  ASSERT_TRUE(parsed) << parsed.error().message;
  const InferRequest& back = parsed->request;
  EXPECT_EQ(back.model, "/v2/models/m/versions/2/infer");
  EXPECT_EQ(back.sequence.text, "of \"mine\"");
  EXPECT_TRUE(back.sequence.start);
  EXPECT_FALSE(back.sequence.end);
  EXPECT_THAT(back.classes, ElementsAre(0, 3));
  EXPECT_THAT(back.forms, ElementsAre(OutputForm::kBytes, OutputForm::kBytes));
  EXPECT_EQ(back.id, "r");
  EXPECT_EQ(back.priority, 2U);
  EXPECT_EQ(back.tenant_of_parameter, "\"mine\"");
  EXPECT_EQ(back.parameters, request.parameters);
  EXPECT_EQ(back.timeout, std::chrono::microseconds(1501));  // rounded up
  EXPECT_THAT(back.outputs, ElementsAre("y", "z"));
  ASSERT_EQ(back.inputs.size(), 2U);
  EXPECT_EQ(back.inputs[0].name, "a");
  EXPECT_EQ(back.inputs[0].type, DataType::kUInt8);
  EXPECT_THAT(back.inputs[0].dims, ElementsAre(1, 3));
  EXPECT_TRUE(std::ranges::equal(back.inputs[0].data, small));
  EXPECT_TRUE(std::ranges::equal(back.inputs[1].data, large));
}

TEST(RemoteCodec, ARequestWithoutADeadlineHasNoTimeout) {
  const auto parsed = Read(WithInputs(Bytes(1), Bytes(1)), Nanoseconds{0});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->request.timeout, Nanoseconds{0});
  EXPECT_FALSE(parsed->request.sequence.has_id());
}

// A client's texts cannot end the header or the JSON.
TEST(RemoteCodec, TextsOfClientsStayTexts) {
  const auto small = Bytes(1);
  const auto large = Bytes(1);
  InferRequest request = WithInputs(small, large);
  request.id = "r\"},\r\n\r\n{\xff";
  request.inputs[0].name = "a\"\n";
  request.outputs[0] = "\\\"";
  request.via = "a\r\nHost: b";
  const auto parsed = Read(request, Nanoseconds{0}, "f");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->request.id, "r\"},\r\n\r\n{\xef\xbf\xbd");
  EXPECT_EQ(parsed->request.inputs[0].name, "a\"\n");
  EXPECT_EQ(parsed->request.outputs[0], "\\\"");
  EXPECT_EQ(parsed->request.via, "a\r\nHost: b,f");
}

UnfilledBytes OutputBytes(std::size_t size) {
  const std::vector<std::byte> bytes = Bytes(size);
  UnfilledBytes output;
  output.assign(bytes.begin(), bytes.end());
  return output;
}

/// The body of the HTTP answer that a member sends for `response`, and the length of its JSON.
std::pair<std::string, std::size_t> Message(InferResponse response) {
  HttpAnswerFormat format;
  format.binary = true;
  const HttpResponse written = RenderHttpInfer(std::move(response), format, EdgeStamps{});
  std::string text = written.text;
  for (const UnfilledBytes& blob : written.blobs) {
    text.append(reinterpret_cast<const char*>(blob.data()), blob.size());
  }
  return {std::move(text), written.text.size()};
}

Result<InferResponse> Parse(std::string_view body, std::optional<std::size_t> json_bytes) {
  return ParseAnswer(std::as_bytes(std::span(body)), json_bytes);
}

InferResponse Answer() {
  InferResponse response;
  response.model = "m";
  response.version = "3";
  response.id = "r";
  response.outputs = {{"y", DataType::kInt32, {2, 2}, OutputBytes(16)},
                      {"none", DataType::kFloat32, {0, 4}, {}},
                      {"z", DataType::kBool, {200'000}, OutputBytes(200'000)}};
  return response;
}

TEST(RemoteCodec, AnswersOfTheServerAreReadWhole) {
  const auto [body, json_bytes] = Message(Answer());
  const auto parsed = Parse(body, json_bytes);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const InferResponse expected = Answer();
  EXPECT_EQ(parsed->model, expected.model);
  EXPECT_EQ(parsed->version, expected.version);
  EXPECT_EQ(parsed->id, expected.id);
  ASSERT_EQ(parsed->outputs.size(), expected.outputs.size());
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
    EXPECT_EQ(parsed->outputs[i].name, expected.outputs[i].name);
    EXPECT_EQ(parsed->outputs[i].type, expected.outputs[i].type);
    EXPECT_EQ(parsed->outputs[i].dims, expected.outputs[i].dims);
    EXPECT_EQ(parsed->outputs[i].data, expected.outputs[i].data);
  }
}

TEST(RemoteCodec, EveryCutOfAnAnswerIsAnError) {
  InferResponse response = Answer();
  response.outputs.pop_back();
  const auto [body, json_bytes] = Message(std::move(response));
  for (std::size_t size = 0; size < body.size(); ++size) {
    for (const std::size_t json : {json_bytes, std::min(json_bytes, size)}) {
      const auto parsed = Parse(std::string_view(body).substr(0, size), json);
      ASSERT_FALSE(parsed) << size;
      EXPECT_EQ(parsed.error().code, ErrorCode::kInternal) << size;
    }
  }
  EXPECT_FALSE(Parse(body, std::nullopt)) << "without a length the whole body counts as JSON";
  EXPECT_FALSE(Parse(body + "x", json_bytes)) << "bytes too many";
}

TEST(RemoteCodec, AnswersThatAreNoneAreErrors) {
  const auto error = [](const std::string& outputs, std::size_t bytes = 0) {
    const std::string json = R"({"model_name":"m","model_version":"1","outputs":)" + outputs + "}";
    const auto parsed = Parse(json + std::string(bytes, 'x'), json.size());
    return parsed ? std::string("no error") : parsed.error().message;
  };
  const auto output = [](const std::string& type, const std::string& shape,
                         const std::string& bytes) {
    return R"([{"name":"z","datatype":")" + type + R"(","shape":)" + shape +
           R"(,"parameters":{"binary_data_size":)" + bytes + "}}]";
  };
  EXPECT_EQ(error(output("BOOL", "[3]", "3"), 3), "no error");
  EXPECT_THAT(error(output("BOOL", "[3]", "2"), 2), HasSubstr("2 bytes for output 'z'"));
  EXPECT_THAT(error(output("BOOL", "[-1]", "0")), HasSubstr("for output 'z'"));
  EXPECT_THAT(error(output("FP7", "[3]", "3"), 3), HasSubstr("has output 'z' of no type"));
  EXPECT_THAT(error(output("BOOL", "[3]", "18446744073709551615"), 3),
              HasSubstr("ends within output 'z': 3 of 18446744073709551615 bytes"));
  EXPECT_THAT(error(output("BYTES", "[1]", "3"), 3), HasSubstr("3 bytes for output 'z'"));
  for (const char* const other :
       {"7", "[7]", "[[]]", "{}", R"([{"name":"z"}])", R"([{"name":7}])",
        R"([{"name":"z","datatype":"BOOL","shape":"3","parameters":{"binary_data_size":3}}])",
        R"([{"name":"z","datatype":"BOOL","shape":[3],"data":[true,true,true]}])"}) {
    EXPECT_NE(error(other), "no error") << other;
  }
  EXPECT_FALSE(Parse("[]", 2));
  EXPECT_FALSE(Parse(std::string(100'000, '['), 100'000));
}

TEST(RemoteCodec, MetadataAndStatisticsComeBack) {
  const ModelMetadata model{"m",
                            {"1", "2"},
                            "lagoon_plan",
                            {{"x", DataType::kFloat16, {-1, 4}}},
                            {{"y", DataType::kInt64, {4}}}};
  inference::ModelMetadataResponse message;
  FillModelMetadata(model, message);
  const auto back = ParseMetadata(message);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->versions, model.versions);
  EXPECT_EQ(back->platform, model.platform);
  EXPECT_EQ(back->inputs.front().dims, model.inputs.front().dims);
  EXPECT_EQ(back->outputs.front().type, DataType::kInt64);
  message.mutable_inputs(0)->set_datatype("");
  EXPECT_FALSE(ParseMetadata(message));

  ModelStatistics row;
  row.name = "m";
  row.version = "2";
  row.inference_count = 5;
  row.pending = 3;
  row.success = {4, 400};
  row.batches = {{2, {1, 10}, {1, 20}, {1, 30}}};
  inference::ModelStatisticsResponse statistics;
  FillStatistics(std::span(&row, 1), statistics);
  const auto rows = ParseStatistics(statistics);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].name, "m");
  EXPECT_EQ(rows[0].pending, 3U);
  EXPECT_EQ(rows[0].success.ns, 400U);
  EXPECT_EQ(rows[0].batches.front().compute_infer.ns, 20U);
}

TEST(RemoteCodec, OutputsWithoutJsonNumbersAreRefusedAsText) {
  InferResponse response;
  response.model = "m";
  response.outputs = {{"a", DataType::kFloat32, {1}, {}}, {"b", DataType::kBFloat16, {1}, {}}};
  constexpr auto kText = OutputForm::kText;
  constexpr auto kBytes = OutputForm::kBytes;
  EXPECT_TRUE(CheckForms(response, {}, {}, kBytes));
  const Status all = CheckForms(response, {}, {}, kText);
  EXPECT_EQ(all.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(all.error().message, HasSubstr("output 'b' is BF16"));
  const std::vector<std::string> outputs = {"a", "b"};
  EXPECT_TRUE(CheckForms(response, outputs, std::vector{kText, kBytes}, kText));
  EXPECT_FALSE(CheckForms(response, outputs, std::vector{kBytes, kText}, kBytes));
  EXPECT_FALSE(CheckForms(response, outputs, std::vector{kBytes}, kText));
}

TEST(RemoteCodec, ErrorsNameTheMemberWhereTheMemberIsTheReason) {
  const Error lost = ErrorOf({grpc::StatusCode::UNAVAILABLE, "socket closed"}, "member h:1");
  EXPECT_EQ(lost.code, ErrorCode::kUnavailable);
  EXPECT_EQ(lost.message, "member h:1: socket closed");
  const Error bad = ErrorOf({grpc::StatusCode::INVALID_ARGUMENT, "model 'm': no"}, "member h:1");
  EXPECT_EQ(bad.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bad.message, "model 'm': no");
  const auto http = [](unsigned status, std::string_view body) {
    return ErrorOf(status, std::as_bytes(std::span(body)), "member h:1");
  };
  EXPECT_EQ(http(400, R"({"error":"model 'm': no"})").message, "model 'm': no");
  EXPECT_EQ(http(400, R"({"error":"model 'm': no"})").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(http(503, R"({"error":"full"})").message, "member h:1: full");
  EXPECT_EQ(http(418, "teapot").code, ErrorCode::kInternal);
  EXPECT_EQ(http(418, R"({"error":7})").message, "member h:1 has answered with status 418");
}

TEST(CheckAnswer, AnAnswerIsOfItsRequest) {
  InferResponse response;
  response.model = "m";
  response.id = "r1";
  response.outputs = {OutputTensor{"y", DataType::kFloat32, {1}, {}},
                      OutputTensor{"z", DataType::kFloat32, {1}, {}}};
  response.version = "3";
  const std::string m = "m", another = "another", r1 = "r1", any, third = "3", second = "2";
  const std::vector<std::string> both{"y", "z"}, one{"y"}, other{"y", "x"};
  EXPECT_TRUE(CheckAnswer(response, {m, any, r1, {}}));
  EXPECT_TRUE(CheckAnswer(response, {m, third, r1, both}));
  EXPECT_FALSE(CheckAnswer(response, {m, second, r1, both}));
  const auto why = [&](const std::string& id, std::span<const std::string> outputs) {
    const Status checked = CheckAnswer(response, {m, any, id, outputs});
    EXPECT_FALSE(checked);
    return checked ? "" : checked.error().message;
  };
  EXPECT_THAT(why("r2", both), testing::HasSubstr("has the id 'r1', the request has 'r2'"));
  EXPECT_THAT(why("r1", one),
              testing::HasSubstr("has the output 'z', which the request does not name"));
  EXPECT_THAT(why("r1", other), testing::HasSubstr("has the output 'z'"));
  EXPECT_FALSE(CheckAnswer(response, {another, any, r1, {}}));
  response.outputs[1].name = "y";
  EXPECT_THAT(why("r1", {}), testing::HasSubstr("has the output 'y' twice"));
}

TEST(CheckOutputs, AllOutputsAreThereUnlessSomeAreNamed) {
  ModelMetadata model;
  model.name = "m";
  model.outputs = {{"y", DataType::kFloat32, {-1, 2}}, {"z", DataType::kInt8, {}}};
  InferResponse response;
  response.outputs = {OutputTensor{"y", DataType::kFloat32, {5, 2}, {}}};
  const std::vector<std::string> named{"y"};
  EXPECT_TRUE(CheckOutputs(response, model, named));
  const Status lacks = CheckOutputs(response, model, {});
  ASSERT_FALSE(lacks);
  EXPECT_EQ(lacks.error().code, ErrorCode::kInternal);
  EXPECT_THAT(lacks.error().message, HasSubstr("lacks the output 'z' of model 'm'"));
  const std::vector<std::string> both{"y", "z"};
  EXPECT_THAT(CheckOutputs(response, model, both).error().message, HasSubstr("lacks the output"));
  model.platform = "python";  // leaves out what it wants
  EXPECT_TRUE(CheckOutputs(response, model, {}));
  EXPECT_TRUE(CheckOutputs(response, model, both));
  response.outputs.push_back(OutputTensor{"z", DataType::kInt8, {}, {}});
  EXPECT_TRUE(CheckOutputs(response, model, {}));
}

// What is known of a tensor whose rank the model does not know either.
TEST(CheckOutputs, ClassesHaveAShapeOfTheirOwn) {
  ModelMetadata model;
  model.outputs = {{"y", DataType::kFloat32, {-1, 10}}};
  InferResponse response;
  response.outputs = {{"y", DataType::kString, {1, 3}, {}}};
  const std::vector<std::string> names = {"y"};
  EXPECT_TRUE(CheckOutputs(response, model, names, names));
  EXPECT_FALSE(CheckOutputs(response, model, names));
  response.outputs[0] = {"y", DataType::kFloat32, {1, 10}, {}};
  EXPECT_FALSE(CheckOutputs(response, model, names, names));
}

TEST(CheckOutputs, ATensorOfOpenSizesMayHaveAnotherRank) {
  ModelMetadata model;
  model.outputs = {{"y", DataType::kFloat32, {-1}}};
  InferResponse response;
  response.outputs = {OutputTensor{"y", DataType::kFloat32, {5, 2}, {}}};
  EXPECT_TRUE(CheckOutputs(response, model, {}));
}

TEST(RemoteCodec, ARequestCarriesTheFrontsThatItHasComeThrough) {
  InferRequest request;
  request.model = "m";
  const auto via = [&](std::string_view front) {
    const auto parsed = Read(request, Nanoseconds{0}, front);
    return parsed ? parsed->request.via : parsed.error().message;
  };
  EXPECT_EQ(via(""), "");
  EXPECT_EQ(via("a"), "a");
  request.via = "a,b";
  EXPECT_EQ(via("c"), "a,b,c");
}

}  // namespace
}  // namespace lagoon
