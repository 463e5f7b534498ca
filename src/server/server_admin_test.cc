// What the HTTP port serves to clients, and what only the metrics port serves to operators.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policies/registry.h"
#include "server/testing/http_server_test_base.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

class AdminServer : public HttpServer {
 protected:
  static HttpTestResponse AskPort(int port, std::string_view request) {
    HttpTestClient client(port);
    EXPECT_TRUE(client.Send(request));
    return client.Receive();
  }
  HttpTestResponse AskMetricsPort(std::string_view request) {
    return AskPort(server_->metrics_port(), request);
  }
};

TEST_F(AdminServer, TellsTheSchedulerAndSwitchesItOnTheMetricsPortOnly) {
  EXPECT_THAT(Json::parse(Ask(Get("/v2/scheduler")).body)["schedulers"].dump(),
              HasSubstr("\"lagoon\""));
  const std::string reef = Post("/v2/scheduler", R"({"scheduler":"reef"})");
  const auto refused = Ask(reef);
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(ErrorOf(refused),
              HasSubstr(fmt::format("the metrics port, {},", server_->metrics_port())));
  EXPECT_THAT(ErrorOf(refused), HasSubstr("--allow-admin-on-http"));
  EXPECT_NE(Json::parse(Ask(Get("/v2/scheduler")).body)["scheduler"], "reef");

  const auto switched = AskMetricsPort(reef);
  EXPECT_EQ(switched.status, 200);
  EXPECT_EQ(Json::parse(switched.body)["scheduler"], "reef");
  EXPECT_EQ(Json::parse(Ask(Get("/v2/scheduler")).body)["scheduler"], "reef");
  EXPECT_EQ(Json::parse(AskMetricsPort(Get("/v2/scheduler")).body)["scheduler"], "reef");
}

TEST_F(AdminServer, SwitchesTheSchedulerOnTheHttpPortWhereThatIsAllowed) {
  server_.reset();
  admin_on_http_ = true;
  StartServer();
  EXPECT_EQ(Ask(Post("/v2/scheduler", R"({"scheduler":"reef"})")).status, 200);
  EXPECT_EQ(Json::parse(Ask(Get("/v2/scheduler")).body)["scheduler"], "reef");
}

TEST_F(AdminServer, SetsParametersAndTellsThoseInUse) {
  for (const std::string_view body :
       {R"({"scheduler": "paella", "parameters": {"fairness_threshold": 100.5, "depth": 2}})",
        R"({"parameters": {"depth": 2.0, "fairness_threshold": 1005e-1}, "scheduler": "paella"})",
        R"({"scheduler": "paella:depth=2,fairness_threshold=100.5"})"}) {
    ASSERT_EQ(AskMetricsPort(Post("/v2/scheduler", R"({"scheduler":"reset"})")).status, 200);
    const auto switched = AskMetricsPort(Post("/v2/scheduler", body));
    EXPECT_EQ(switched.status, 200) << body;
    for (const std::string& answer : {switched.body, Ask(Get("/v2/scheduler")).body}) {
      const Json json = Json::parse(answer);
      EXPECT_EQ(json["scheduler"], "paella");
      EXPECT_EQ(json["parameters"].dump(),
                R"({"block_events":16,"depth":2,"extra_blocks":8,"fairness_threshold":100.5})");
    }
  }
  // Without parameters those of the name, also after others.
  const auto plain =
      AskMetricsPort(Post("/v2/scheduler", R"({"scheduler":"paella","parameters":{}})"));
  EXPECT_EQ(Json::parse(plain.body)["parameters"]["depth"], 1);
  const auto none = AskMetricsPort(Post("/v2/scheduler", R"({"scheduler":"streams"})"));
  EXPECT_EQ(Json::parse(none.body)["parameters"], Json::object());
}

TEST_F(AdminServer, RefusesParametersThatASchedulerDoesNotTake) {
  const auto expect = [&](int status, std::string_view body, const std::string& words) {
    const auto response = AskMetricsPort(Post("/v2/scheduler", body));
    EXPECT_EQ(response.status, status) << body;
    EXPECT_THAT(ErrorOf(response), HasSubstr(words)) << body;
    EXPECT_NE(Json::parse(Ask(Get("/v2/scheduler")).body)["scheduler"], "paella") << body;
  };
  const auto with = [](const std::string& parameters) {
    return R"({"scheduler":"paella","parameters":{)" + parameters + "}}";
  };
  expect(400, with(R"("dept":2)"), "it has: block_events, depth, extra_blocks");
  expect(400, with(R"("depth=2,extra_blocks":2)"), "no parameter 'depth=2,extra_blocks'");
  expect(400, with(R"("depth":65)"), "from 1 to 64");
  expect(400, with(R"("depth":-1)"), "from 1 to 64");
  expect(400, with(R"("depth":1.5)"), "a whole number");
  expect(400, with(R"("depth":18446744073709551615)"), "from 1 to 64");
  expect(400, with(R"("depth":2,"extra_blocks":1,"depth":2)"), "has 'depth' twice");
  for (const std::string_view value : {"NaN", "1e999", "\"2\"", "true", "null", "{}", "[2]", ""}) {
    expect(400, with(fmt::format(R"("depth":{})", value)), "{PARAMETER: NUMBER}");
  }
  for (const std::string_view rest :
       {R"("parameters":[])", R"("parameters":2)", R"("parameters":{},"parameters":{})"}) {
    expect(400, fmt::format(R"({{"scheduler":"paella",{}}})", rest), "{PARAMETER: NUMBER}");
  }
  expect(400, R"({"scheduler":"paella","more":1})", "unknown field 'more'");
  expect(400, R"({"parameters":{"depth":2}})", "has no 'scheduler'");
  expect(400, R"({"scheduler":"paella:depth=2","parameters":{"depth":2}})", "not in both");
  expect(400, R"({"scheduler":"paella:depth=2","parameters":{}})", "not in both");
  expect(400, R"({"scheduler":"paella:depth"})", "PARAMETER=NUMBER");
  expect(400, R"({"scheduler":"paella:depth=nan"})", "from 1 to 64");
  expect(404, R"({"scheduler":"pella","parameters":{"depth":2}})", "paella");
}

TEST_F(AdminServer, TellsSharesOnBothPortsAndChangesThemOnTheMetricsPortOnly) {
  const std::string resize = Post("/v2/models/twice/resize", R"({"percent":40})");
  const std::string stop = Post("/v2/shares", R"({"tuning":false})");
  for (const std::string& change : {resize, stop}) {
    const auto refused = Ask(change);
    EXPECT_EQ(refused.status, 403);
    EXPECT_THAT(ErrorOf(refused), HasSubstr("shares are changed on the metrics port"));
  }
  const Json before = Json::parse(Ask(Get("/v2/shares")).body);
  EXPECT_TRUE(before["models"][0]["share_percent"].is_null());
  const auto resized = AskMetricsPort(resize);
  EXPECT_EQ(resized.status, 200);
  EXPECT_EQ(Json::parse(resized.body)["models"][0]["share_percent"], 40);
  EXPECT_EQ(AskMetricsPort(stop).status, 200);
  EXPECT_EQ(Json::parse(AskMetricsPort(Get("/v2/shares")).body)["tuning"], false);

  EXPECT_EQ(AskMetricsPort(Post("/v2/models/nobody/resize", R"({"percent":40})")).status, 404);
  EXPECT_EQ(AskMetricsPort(Post("/v2/models/twice/resize", R"({"percent":140})")).status, 400);
  EXPECT_EQ(AskMetricsPort(Post("/v2/shares", "{}")).status, 400);
  EXPECT_EQ(Ask(Get("/v2/models/twice/resize")).status, 405);
}

TEST_F(AdminServer, ListsTheSchedulersAndTheirParametersOnBothPorts) {
  for (const int port : {server_->http_port(), server_->metrics_port()}) {
    const auto response = AskPort(port, Get("/v2/schedulers"));
    EXPECT_EQ(response.status, 200);
    const Json schedulers = Json::parse(response.body)["schedulers"];
    ASSERT_EQ(schedulers.size(), SchedulerNames().size());
    for (std::size_t i = 0; i < schedulers.size(); ++i) {
      EXPECT_EQ(schedulers[i]["name"], SchedulerNames()[i]);
      EXPECT_FALSE(schedulers[i]["summary"].get<std::string>().empty()) << SchedulerNames()[i];
      for (const Json& parameter : schedulers[i]["parameters"]) {
        EXPECT_LE(parameter["least"], parameter["default"]) << parameter;
        EXPECT_LE(parameter["default"], parameter["most"]) << parameter;
        EXPECT_TRUE(parameter["whole"].is_boolean() && parameter["meaning"].is_string());
      }
    }
    EXPECT_EQ(AskPort(port, Post("/v2/schedulers", "{}")).status, 405);
  }
}

TEST_F(AdminServer, TellsWhyTheCoreDoesNotSwitch) {
  core_.FailWith({ErrorCode::kUnavailable, "another switch is under way"});
  const auto refused = AskMetricsPort(Post("/v2/scheduler", R"({"scheduler":"reef"})"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(ErrorOf(refused), HasSubstr("under way"));
}

TEST_F(AdminServer, RefusesToSwitchToWhatIsNoScheduler) {
  const auto unknown = AskMetricsPort(Post("/v2/scheduler", R"({"scheduler":"magic"})"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(ErrorOf(unknown), HasSubstr("no scheduler 'magic'; there are: sequential"));
  using std::string_literals::operator""s;
  for (const std::string& body :
       {""s, "reef"s, R"({"name":"reef"})"s, R"({"scheduler":3})"s, "[1]"s, "null"s, "{}"s,
        R"({"scheduler":"reef","more":1})"s, R"({"scheduler":"reef","scheduler":"reef"})"s,
        R"({"scheduler":{"scheduler":"reef"}})"s, R"({"scheduler":"reef"}x)"s,
        "{\"scheduler\":\"reef\"}\0"s, std::string(4096, '[')}) {
    const auto response = AskMetricsPort(Post("/v2/scheduler", body));
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_THAT(ErrorOf(response), HasSubstr("scheduler")) << body;
    EXPECT_LT(response.body.size(), 500u);
  }
  for (const int port : {server_->http_port(), server_->metrics_port()}) {
    EXPECT_EQ(AskPort(port, "DELETE /v2/scheduler HTTP/1.1\r\nHost: test\r\n\r\n").status, 405);
  }
}

TEST_F(AdminServer, OnlyInferencesHaveLargeBodies) {
  server_.reset();
  admin_on_http_ = true;
  StartServer();
  for (const int port : {server_->http_port(), server_->metrics_port()}) {
    // The answer comes before the body.
    HttpTestClient declared(port);
    ASSERT_TRUE(
        declared.Send("POST /v2/scheduler HTTP/1.1\r\nHost: test\r\nContent-Length: 4097\r\n\r\n"));
    const auto response = declared.Receive();
    EXPECT_EQ(response.status, 413);
    EXPECT_THAT(ErrorOf(response), HasSubstr("4097 bytes, the limit is 4096"));
    // And before a body without a declared length ends.
    HttpTestClient chunked(port);
    chunked.Send("POST /v2/scheduler HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" +
                 fmt::format("{:x}\r\n{}\r\n1\r\n[\r\n", 4096, std::string(4096, '[')));
    EXPECT_EQ(chunked.Receive().status, 413);
  }
  EXPECT_EQ(Ask(Post("/v2/models/twice/infer", std::string(5000, ' '))).status, 400);
}

// What a browser sends for a page of another site that is open beside the server.
TEST_F(AdminServer, PagesOfOtherSitesCannotChangeTheServer) {
  const auto change = [&](std::string_view fields) {
    return AskMetricsPort(Post("/v2/scheduler", R"({"scheduler":"reef"})", fields)).status;
  };
  EXPECT_EQ(change("Origin: http://evil.example\r\nContent-Type: text/plain\r\n"), 403);
  EXPECT_EQ(change("Origin: http://evil.example\r\n"), 403);
  EXPECT_EQ(change("Origin: null\r\n"), 403);
  EXPECT_EQ(change("Origin: http://test:81\r\n"), 403);  // another server of this machine
  EXPECT_EQ(change("Sec-Fetch-Site: cross-site\r\n"), 403);
  EXPECT_EQ(change("Content-Type: text/plain\r\n"), 415);
  EXPECT_EQ(change("Content-Type: multipart/form-data; boundary=x\r\n"), 415);
  EXPECT_NE(Json::parse(Ask(Get("/v2/scheduler")).body)["scheduler"], "reef");
  EXPECT_EQ(change("Origin: http://test\r\nContent-Type: application/json\r\n"), 200);
  EXPECT_EQ(change("Content-Type: application/x-www-form-urlencoded\r\n"), 200);  // curl -d
  // An inference changes nothing, and the page cannot read the answer.
  EXPECT_EQ(Ask(Post("/v2/models/twice/infer", kTwice, "Origin: http://page.example\r\n")).status,
            200);
}

TEST_F(AdminServer, PagesCannotGiveTheServerTheirOwnName) {
  const auto get = [&](std::string_view host) {
    return Ask(fmt::format("GET /v2 HTTP/1.1\r\nHost: {}\r\n\r\n", host)).status;
  };
  for (const char* host : {"evil.example", "evil.example:8000", "127.0.0.1.evil.example", "a.b."}) {
    EXPECT_EQ(get(host), 403) << host;
  }
  for (const char* host : {"127.0.0.1", "127.0.0.1:8000", "[::1]:8000", "localhost", "LOCALHOST:1",
                           "a.localhost", "lagoon:8000", "10.0.0.7"}) {
    EXPECT_EQ(get(host), 200) << host;
  }
  server_.reset();
  allowed_hosts_ = {"models.example.org"};
  StartServer();
  EXPECT_EQ(get("Models.example.org:80"), 200);
  EXPECT_EQ(get("evil.example"), 403);
  EXPECT_EQ(AskMetricsPort(Post("/v2/scheduler", R"({"scheduler":"reef"})",
                                "Origin: https://models.example.org\r\n"))
                .status,
            200);
}

TEST_F(AdminServer, NamesTheExtensionsOfTritonThatItLacks) {
  const auto response = Ask(Post("/v2/repository/models/twice/load", "{}"));
  EXPECT_EQ(response.status, 501);
  EXPECT_THAT(ErrorOf(response), HasSubstr("'model_repository'"));
}

}  // namespace
}  // namespace lagoon
