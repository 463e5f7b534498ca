#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/compress/inflate.h"
#include "base/testing/deflate.h"
#include "server/memory_budget.h"
#include "server/testing/http_server_test_base.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

// Rules of HTTP for servers on which a proxy in front relies.
using HttpRules = HttpServer;

TEST_F(HttpRules, ABodyOfAnUnknownEncodingIsNotTheNextRequest) {
  for (const char* encoding : {"gzip", "xchunked", "identity", "chunked, gzip", "gzip, chunked"}) {
    HttpTestClient client(server_->http_port());
    ASSERT_TRUE(
        client.Send(fmt::format("POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\n"
                                "Transfer-Encoding: {}\r\n\r\n{}",
                                encoding, Get("/v2/health/live"))));
    const auto response = client.Receive();
    EXPECT_EQ(response.status, 501) << encoding;
    EXPECT_EQ(response.fields.at("connection"), "close") << encoding;
    EXPECT_THAT(ErrorOf(response), HasSubstr(encoding));
    EXPECT_TRUE(client.ReceivesEnd()) << encoding;
  }
}

TEST_F(HttpRules, ChunksAreNoPartOfHttp10) {
  EXPECT_EQ(
      Ask("POST /v2 HTTP/1.0\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").status,
      400);
}

TEST_F(HttpRules, OneHostAndOneLengthOfTheJson) {
  EXPECT_THAT(ErrorOf(Ask("GET /v2 HTTP/1.1\r\n\r\n")), HasSubstr("'Host' is missing"));
  EXPECT_EQ(Ask("GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status, 400);
  const std::string length = "Inference-Header-Content-Length: 9\r\n";
  EXPECT_EQ(Ask(Post("/v2/models/twice/infer", kTwice, length + length)).status, 400);
}

TEST_F(HttpRules, AFoldedLineOfTheHeaderIsRefused) {
  for (const std::string fold : {"\r\n b", "\r\n\tb", "\n b", "\r\n "}) {
    const auto response = Ask("GET /v2 HTTP/1.1\r\nHost: test\r\nA: a" + fold + "\r\n\r\n");
    EXPECT_EQ(response.status, 400) << fold;
  }
  // In two pieces, cut where the fold is.
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(client.Send("GET /v2 HTTP/1.1\r\nHost: test\r\nA: a\r\n"));
  ASSERT_TRUE(client.Send(" b\r\n\r\n"));
  EXPECT_EQ(client.Receive().status, 400);
  EXPECT_EQ(Ask("GET /v2 HTTP/1.1\r\nHost: test\r\nA: \t a \t\r\n\r\n").status, 200);
}

TEST_F(HttpRules, ACompressedBodyIsReadAsWhatItHolds) {
  const std::string binary =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}]})";
  for (const bool gzip : {true, false}) {
    const std::string field = fmt::format("Content-Encoding: {}\r\n", gzip ? "gzip" : "deflate");
    const auto response = Ask(Post("/v2/models/twice/infer", Deflated(kTwice, gzip), field));
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(Json::parse(response.body)["outputs"][0]["data"], Json({2.0, 4.0, 6.0, 8.0}));
    // The length of the JSON is that of the inflated body.
    EXPECT_EQ(
        Ask(Post("/v2/models/twice/infer", Deflated(binary + std::string(16, '\0'), gzip),
                 field + fmt::format("Inference-Header-Content-Length: {}\r\n", binary.size())))
            .status,
        200);
  }
  HttpTestClient client(server_->http_port());
  const std::string body = Deflated(kTwice);
  ASSERT_TRUE(client.Send(
      fmt::format("POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nContent-Encoding: gzip\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n{}",
                  body.size(), body, Get("/v2/health/live"))));
  EXPECT_EQ(client.Receive().status, 200);
  EXPECT_EQ(client.Receive().body, R"({"live":true})");
}

std::string Inflated(std::string_view text) {
  Inflater inflater;
  auto input = std::as_bytes(std::span(text));
  std::string out(1 << 20, '\0');
  const auto step = inflater.Next(input, true, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(step.state, Inflater::State::kDone);
  return out.substr(0, step.written);
}

TEST_F(HttpRules, AnAnswerIsCompressedForAClientThatAsksForOneCoding) {
  const std::string wide =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}])";
  const std::string binary =
      wide + R"(,"outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  for (const std::string coding : {"gzip", "deflate"}) {
    const std::string field = "Accept-Encoding: " + coding + "\r\n";
    // Small, on the connection's strand; large, on the lane.
    for (const auto& [path, body] : {std::pair("/v2/models/twice/infer", kTwice),
                                     std::pair("/v2/models/wide/infer", wide + "}"),
                                     std::pair("/v2/models/wide/infer", binary)}) {
      const auto plain = Ask(Post(path, body));
      const auto packed = Ask(Post(path, body, field));
      ASSERT_EQ(packed.status, 200);
      EXPECT_EQ(packed.fields.at("content-encoding"), coding);
      EXPECT_EQ(Inflated(packed.body), plain.body);
      EXPECT_EQ(packed.fields.contains("inference-header-content-length"),
                plain.fields.contains("inference-header-content-length"));
    }
    EXPECT_EQ(ErrorOf(Ask(Post("/v2/models/twice/infer", "{}", field))).empty(), false);
  }
  for (const char* several :
       {"gzip, deflate", "gzip, deflate, br", "identity", "*", "br", "", "gzip;q=0", "gzip;q=1"}) {
    const auto answer = Ask(
        Post("/v2/models/twice/infer", kTwice, fmt::format("Accept-Encoding: {}\r\n", several)));
    EXPECT_FALSE(answer.fields.contains("content-encoding")) << several;
    EXPECT_EQ(Json::parse(answer.body)["outputs"][0]["data"], Json({2.0, 4.0, 6.0, 8.0}));
  }
}

TEST_F(HttpRules, ACompressedBodyIsBoundedByWhatItHolds) {
  const std::string gzip = "Content-Encoding: gzip\r\n";
  // 4 KiB are the limit of all bodies but an inference's.
  const auto small = Ask(Post("/v2/repository/index", Deflated(std::string(5000, ' ')), gzip));
  EXPECT_EQ(small.status, 413);
  EXPECT_THAT(ErrorOf(small), HasSubstr("4096 bytes when it is inflated"));
  const std::string bomb = Deflated(std::string(kMostInflatedBytes + 1, ' '));
  ASSERT_LT(bomb.size(), 1u << 20);
  const int status = Ask(Post("/v2/models/twice/infer", bomb, gzip)).status;
  EXPECT_TRUE(status == 413 || status == 503) << status;  // 503: the budget is smaller
}

TEST_F(HttpRules, AnAbsoluteUriIsServed) {
  EXPECT_EQ(Ask(Get("http://test/v2/health/live")).body, R"({"live":true})");
  EXPECT_EQ(Ask(Get("http://test")).status, 404);
}

TEST_F(HttpRules, AHeaderOfManyShortFieldsHasTheSameLimit) {
  std::string request = "GET /v2 HTTP/1.1\r\nHost: test\r\n";
  while (request.size() < 16'000) request += "a: b\r\n";
  EXPECT_EQ(Ask(request + "\r\n").status, 200);
  while (request.size() < 16'400) request += "a: b\r\n";
  const auto response = Ask(request + "\r\n");
  EXPECT_EQ(response.status, 431);
  EXPECT_THAT(ErrorOf(response), HasSubstr("16384"));
}

TEST_F(HttpRules, PipelinedRequestsAreNoLongHeader) {
  std::string requests;
  for (int i = 0; i < 1000; ++i) requests += Get("/v2/health/live");
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(client.Send(requests));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(client.Receive().status, 200);
}

TEST_F(HttpRules, AfterTheEndIsAnnouncedEveryAnswerIsTheLast) {
  HttpTestClient early(server_->http_port());
  ASSERT_TRUE(early.Send(Get("/v2/health/live")));
  ASSERT_EQ(early.Receive().fields.at("connection"), "keep-alive");
  core_.SetReady(false);
  server_->AnnounceStop();
  HttpTestClient late(server_->http_port());
  for (HttpTestClient* client : {&early, &late}) {
    ASSERT_TRUE(client->Send(Get("/v2/health/ready")));
    const auto response = client->Receive();
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.fields.at("connection"), "close");
    EXPECT_TRUE(client->ReceivesEnd());
  }
}

TEST_F(HttpRules, WhatWasSentBeforeTheEndIsAnswered) {
  for (int i = 0; i < 50; ++i) {
    HttpTestClient waiting(server_->http_port());
    ASSERT_TRUE(waiting.Send(Get("/v2/health/live")));
    ASSERT_EQ(waiting.Receive().status, 200);
    HttpTestClient fresh(server_->http_port());  // perhaps not accepted yet
    ASSERT_TRUE(waiting.Send(Get("/v2/health/live")));
    ASSERT_TRUE(fresh.Send(Get("/v2/health/live")));
    server_->Stop(Now() + std::chrono::seconds(30));
    EXPECT_EQ(waiting.Receive().status, 200);
    EXPECT_EQ(fresh.Receive().status, 200);
    StartServer();
  }
}

}  // namespace
}  // namespace lagoon
