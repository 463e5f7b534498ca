#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "server/generate/generate_json.h"
#include "server/testing/http_server_test_base.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;

const std::string kEnd = "0\r\n\r\n";

class Generate : public HttpServer {
 protected:
  static std::string PostTo(const std::string& target, const std::string& body) {
    return Post("/v2/models/" + target, body);
  }
};

TEST_F(Generate, MembersOfTheBodyAreInputsAndMembersOfTheAnswerOutputs) {
  for (const char* body :
       {R"({"x":[1,2,3,4],"id":"me"})", R"({"x":[[1,2,3,4]],"id":"me","stream":false})",
        R"({"parameters":{"x":[1,2,3,4],"timeout":9000000},"id":"me"})"}) {
    const auto answer = Ask(PostTo("twice/versions/1/generate", body));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(Json::parse(answer.body),
              Json::parse(R"({"model_name":"twice","model_version":"1","id":"me","y":[2,4,6,8]})"));
  }
}

TEST_F(Generate, WhatIsNoRequestIsRefused) {
  const std::string deep(2000, '[');
  for (const auto& [body, says] : {std::pair<std::string, std::string>{"{", "the body"},
                                   {"[]", "no JSON object"},
                                   {"{}", "has no 'x'"},
                                   {R"({"x":[1,2,3]})", "takes"},
                                   {R"({"x":[1,[2],3,4]})", "x"},
                                   {R"({"x":[]})", "x"},
                                   {R"({"x":null})", "null"},
                                   {R"({"x":)" + deep, "the body"},
                                   {R"({"x":[1,2,3,4],"priority":-1})", "priority"}}) {
    const auto answer = Ask(PostTo("twice/generate_stream", body));
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_THAT(ErrorOf(answer), HasSubstr(says)) << body;
  }
  EXPECT_EQ(Ask(PostTo("twice/generate", R"({"x":"text"})")).status, 400);
  EXPECT_EQ(Ask(PostTo("nothing/generate", R"({"x":1})")).status, 404);
  EXPECT_EQ(Ask(Get("/v2/models/twice/generate")).status, 405);
  const std::string large(70'000, ' ');
  EXPECT_EQ(Ask(PostTo("twice/generate", R"({"x":[1,2,3,4]})" + large)).status, 413);
}

TEST(ParseGenerate, WhatIsNoInputIsAParameter) {
  ModelMetadata model;
  model.inputs = {{.name = "x", .type = DataType::kFloat32, .dims = {-1, -1}}};
  const auto parsed = ParseGenerate(
      R"({"x":[1,2,3],"max_tokens":5,"stream":true,"timeout":7000,"sequence_id":9,"triton_x":1,
          "binary_data_output":true,"parameters":{"temperature":0.5,"priority":2,"max_tokens":6}})",
      model);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const InferRequest& request = parsed->request;
  EXPECT_EQ(request.inputs[0].dims, (Dims{1, 3})) << "open dims before the last are 1";
  EXPECT_EQ(request.priority, 2u);
  EXPECT_EQ(request.timeout, std::chrono::milliseconds(7));
  EXPECT_EQ(request.sequence.number, 9u);
  const std::vector<RequestParameter> expected = {
      {"max_tokens", std::uint64_t{5}}, {"stream", true}, {"temperature", 0.5}};
  EXPECT_EQ(request.parameters, expected);
  for (const char* body : {R"({"x":[1],"stop":["a"]})", R"({"x":[1],"parameters":[1]})",
                           R"({"x":[1],"parameters":{"stop":{}}})"}) {
    const auto refused = ParseGenerate(body, model);
    ASSERT_FALSE(refused) << body;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_F(Generate, AnswersAreEventsAndTheConnectionGoesOn) {
  HttpTestClient client(server_->http_port());
  for (int round = 0; round < 3; ++round) {
    client.Send(PostTo("count/generate_stream", R"({"x":[20,0,0,0]})"));
    const std::string text = client.ReceiveUntil(kEnd);
    EXPECT_THAT(text, HasSubstr("Content-Type: text/event-stream"));
    std::size_t at = 0;
    for (int i = 1; i <= 20; ++i) {
      const std::string event = fmt::format(
          "data: {{\"model_name\":\"count\",\"model_version\":\"1\",\"y\":{}}}\n\n\r\n", i);
      at = text.find(event, at);
      ASSERT_NE(at, std::string::npos) << i << text;
    }
    client.Send(PostTo("twice/generate_stream", R"({"x":[1,1,1,1]})"));
    EXPECT_THAT(client.ReceiveUntil(kEnd), HasSubstr("\"y\":[2,2,2,2]}\n\n"));
  }
}

TEST_F(Generate, AnOlderClientGetsNoChunks) {
  HttpTestClient client(server_->http_port());
  std::string request = PostTo("count/generate_stream", R"({"x":[2,0,0,0]})");
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  client.Send(request);
  const std::string text = client.ReceiveUntil("\"y\":2}\n\n");
  EXPECT_THAT(text, HasSubstr("\"y\":1}\n\ndata:"));
  EXPECT_TRUE(client.ReceivesEnd());
}

TEST_F(Generate, OneAnswerIsNoStream) {
  const auto one = Ask(PostTo("count/generate", R"({"x":[1,0,0,0]})"));
  EXPECT_EQ(one.status, 200);
  EXPECT_EQ(Json::parse(one.body)["y"], 1);
  const auto several = Ask(PostTo("count/generate", R"({"x":[3,0,0,0]})"));
  EXPECT_EQ(several.status, 400);
  EXPECT_THAT(ErrorOf(several), HasSubstr("use generate_stream"));
  EXPECT_EQ(Ask(PostTo("count/infer", kTwice)).status, 501);
}

TEST_F(Generate, AClientThatLeavesCancelsItsRequest) {
  {
    HttpTestClient client(server_->http_port());
    client.Send(PostTo("count/generate_stream", R"({"x":[1e9,0,0,0]})"));
    EXPECT_NE(client.ReceiveUntil("\"y\":5}"), "");
  }
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
}

TEST_F(Generate, AClientThatDoesNotReadStopsItsOwnRequestAndIsCutOff) {
  limits_.transfer_timeout = std::chrono::milliseconds(500);
  server_.reset();
  StartServer();
  HttpTestClient client(server_->http_port(), 4096);
  client.Send(PostTo("count/generate_stream", R"({"x":[1e9,0,0,0]})"));
  EXPECT_TRUE(Eventually([&] { return core_.Counted() > 0; }));
  EXPECT_EQ(Ask(PostTo("twice/generate", R"({"x":[1,2,3,4]})")).status, 200);
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
}

TEST_F(Generate, AStreamEndsWithTheServer) {
  HttpTestClient client(server_->http_port());
  client.Send(PostTo("count/generate_stream", R"({"x":[1e9,0,0,0]})"));
  EXPECT_NE(client.ReceiveUntil("\"y\":1}"), "");
  server_->Stop(Now());
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
}

}  // namespace
}  // namespace lagoon
