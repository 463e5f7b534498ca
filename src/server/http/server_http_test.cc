#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_listener.h"
#include "server/metrics_handler.h"
#include "server/telemetry/traceparent.h"
#include "server/testing/http_server_test_base.h"
#include "serving/core/server_id.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

TEST_F(HttpServer, AnswersHealth) {
  EXPECT_EQ(Ask(Get("/v2/health/live")).status, 200);
  EXPECT_EQ(Ask(Get("/v2/health/ready")).body, R"({"ready":true})");
  core_.SetReady(false);
  const auto response = Ask(Get("/v2/health/ready"));
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(ErrorOf(response), HasSubstr("not ready"));
  EXPECT_EQ(Ask(Get("/v2/health/live")).status, 200);
}

TEST_F(HttpServer, AnswersModelQueries) {
  EXPECT_EQ(Ask(Get("/v2/models/twice/ready")).status, 200);
  EXPECT_EQ(Ask(Get("/v2/models/twice/versions/1/ready")).status, 200);
  EXPECT_EQ(Ask(Get("/v2/models/twice/versions/9/ready")).status, 404);
  const auto broken = Ask(Get("/v2/models/broken/ready"));
  EXPECT_EQ(broken.status, 503);
  EXPECT_THAT(ErrorOf(broken), HasSubstr("op 'Foo' is not supported"));
  EXPECT_EQ(Json::parse(Ask(Get("/v2")).body)["name"], "lagoon");
  EXPECT_EQ(Json::parse(Ask(Get("/v2/models/twice")).body)["inputs"][0]["name"], "x");
  EXPECT_EQ(Json::parse(Ask(Get("/v2/models/twice/config")).body)["name"], "twice");
  EXPECT_EQ(Json::parse(Ask(Get("/v2/models/image/stats")).body)["model_stats"][0]["name"],
            "image");
  EXPECT_EQ(Json::parse(Ask(Get("/v2/models/stats")).body)["model_stats"].size(), 1u);
}

TEST_F(HttpServer, InfersFromJson) {
  const auto response = Ask(Post("/v2/models/twice/versions/1/infer", kTwice));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.fields.at("content-type"), "application/json");
  const Json json = Json::parse(response.body);
  EXPECT_EQ(json["id"], "r1");
  EXPECT_EQ(json["outputs"][0]["data"], Json({2.0, 4.0, 6.0, 8.0}));
}

TEST_F(HttpServer, InfersFromBinaryAndAnswersBinary) {
  const std::string json =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}],)"
      R"("parameters":{"binary_data_output":true,"priority":2,"timeout":70000}})";
  const float values[] = {1, 2, 3, 4};
  const std::string body = json + std::string(reinterpret_cast<const char*>(values), 16);
  const auto response =
      Ask(Post("/v2/models/twice/infer", body,
               fmt::format("Inference-Header-Content-Length: {}\r\n", json.size())));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.fields.at("content-type"), "application/octet-stream");
  const std::size_t json_bytes = std::stoul(response.fields.at("inference-header-content-length"));
  ASSERT_EQ(response.body.size(), json_bytes + 16);
  float doubled[4];
  std::memcpy(doubled, response.body.data() + json_bytes, 16);
  EXPECT_THAT(doubled, testing::ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(core_.LastRequest().priority, 2u);
  EXPECT_EQ(core_.LastRequest().timeout, std::chrono::milliseconds(70));
}

TEST_F(HttpServer, InfersFromARawBody) {
  const float values[] = {1, 2, 3, 4};
  const auto response =
      Ask(Post("/v2/models/twice/infer", {reinterpret_cast<const char*>(values), 16},
               "Inference-Header-Content-Length: 0\r\n"));
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(
      Ask(Post("/v2/models/twice/infer", "12345", "Inference-Header-Content-Length: 0\r\n")).status,
      400);
}

TEST_F(HttpServer, ReadsALargeBodyThatComesInPieces) {
  const std::string json =
      R"({"inputs":[{"name":"pixels","datatype":"FP32","shape":[1,3,224,224],"parameters":{"binary_data_size":602112}}],)"
      R"("parameters":{"binary_data_output":true}})";
  std::vector<float> pixels(3 * 224 * 224, 1.0f);
  const std::string request =
      Post("/v2/models/image/infer",
           json + std::string(reinterpret_cast<const char*>(pixels.data()), 602112),
           fmt::format("Inference-Header-Content-Length: {}\r\n", json.size()));
  HttpTestClient client(server_->http_port());
  // Pieces that cut the header, the JSON and the tensor at arbitrary places.
  std::string_view rest = request;
  for (std::size_t piece : {10u, 60u, 150u, 20000u, 100001u}) {
    ASSERT_TRUE(client.Send(rest.substr(0, piece)));
    rest.remove_prefix(piece);
    std::this_thread::yield();
  }
  ASSERT_TRUE(client.Send(rest));
  const auto response = client.Receive();
  ASSERT_EQ(response.status, 200) << response.body;
  float sum = 0;
  std::memcpy(&sum, response.body.data() + response.body.size() - 4000, 4);
  EXPECT_EQ(sum, 150528.0f);
}

TEST_F(HttpServer, ReadsAChunkedBody) {
  std::string request =
      "POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::size_t at = 0; at < kTwice.size(); at += 7) {
    const std::string_view chunk = std::string_view(kTwice).substr(at, 7);
    request += fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk);
  }
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(client.Send(request + "0\r\n\r\n" + Get("/v2/health/live")));
  EXPECT_EQ(client.Receive().status, 200);
  EXPECT_EQ(client.Receive().body, R"({"live":true})");
  EXPECT_EQ(Ask("POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: "
                "chunked\r\n\r\nzz\r\n")
                .status,
            400);
}

TEST_F(HttpServer, KeepsAConnectionForManyRequests) {
  HttpTestClient client(server_->http_port());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(client.Send(Post("/v2/models/twice/infer", kTwice)));
    ASSERT_EQ(client.Receive().status, 200) << i;
    ASSERT_TRUE(client.Send(Get("/v2/models/nobody")));
    ASSERT_EQ(client.Receive().status, 404) << i;
  }
}

TEST_F(HttpServer, AnswersPipelinedRequestsInOrder) {
  HttpTestClient client(server_->http_port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    std::string body = kTwice;
    body.replace(body.find("r1"), 2, fmt::format("p{}", i));
    requests += Post("/v2/models/twice/infer", body) + Get("/v2/health/live");
  }
  ASSERT_TRUE(client.Send(requests));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Json::parse(client.Receive().body)["id"], fmt::format("p{}", i));
    EXPECT_EQ(client.Receive().body, R"({"live":true})");
  }
}

TEST_F(HttpServer, ClosesWhenTheClientAsksForIt) {
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(
      client.Send("GET /v2/health/live HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(client.Receive().fields.at("connection"), "close");
  EXPECT_TRUE(client.ReceivesEnd());
  HttpTestClient old(server_->http_port());
  ASSERT_TRUE(old.Send("GET /v2/health/live HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(old.Receive().status, 200);
  EXPECT_TRUE(old.ReceivesEnd());
}

TEST_F(HttpServer, ContinuesAClientThatExpectsIt) {
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(client.Send(
      fmt::format("POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n"
                  "Expect: 100-continue\r\n\r\n",
                  kTwice.size())));
  EXPECT_EQ(client.Receive().status, 100);
  ASSERT_TRUE(client.Send(kTwice));
  EXPECT_EQ(client.Receive().status, 200);
  EXPECT_EQ(Ask(Post("/v2", "", "Expect: miracles\r\n")).status, 417);
}

TEST_F(HttpServer, EveryErrorIsJson) {
  const struct {
    std::string request;
    int status;
    const char* says;
  } cases[] = {
      {Get("/nothing"), 404, "/nothing"},
      {Get("/v2/models/nobody"), 404, "nobody"},
      {Get("/v2/models/twice/infer"), 405, "POST"},
      {Post("/v2/health/live", ""), 405, "GET"},
      {"DELETE /v2/models/twice HTTP/1.1\r\nHost: test\r\n\r\n", 405, "GET"},
      {"BREW /v2 HTTP/1.1\r\nHost: test\r\n\r\n", 405, "GET"},
      {Post("/v2/models/nobody/infer", kTwice), 404, "nobody"},
      {Post("/v2/models/broken/infer", kTwice), 503, "op 'Foo'"},
      {Post("/v2/models/twice/infer", "{"), 400, "model 'twice': request's JSON"},
      {Post("/v2/models/twice/infer", ""), 400, "JSON"},
      {Post("/v2/models/twice/infer", kTwice, "Inference-Header-Content-Length: 9999\r\n"), 400,
       "9999"},
      {Post("/v2/models/twice/infer", kTwice, "Inference-Header-Content-Length: -1\r\n"), 400,
       "'-1'"},
      {Post("/v2/models/twice/infer", kTwice, "Content-Encoding: br\r\n"), 415, "'br'"},
      {Post("/v2/models/twice/infer", kTwice, "Content-Encoding: gzip\r\n"), 400, "inflated"},
      {"this is no HTTP\r\n\r\n", 400, "malformed"},
      {"GET /v2 HTTP/9.9\r\n\r\n", 400, "malformed"},
      {"POST /v2/models/twice/infer HTTP/1.1\r\nContent-Length: soon\r\n\r\n", 400, "malformed"},
      {"POST /v2 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, "malformed"},
  };
  for (const auto& c : cases) {
    const auto response = Ask(c.request);
    EXPECT_EQ(response.status, c.status) << c.request;
    EXPECT_THAT(ErrorOf(response), HasSubstr(c.says)) << c.request;
  }
}

TEST_F(HttpServer, ErrorsOfTheCoreKeepTheirStatus) {
  const struct {
    ErrorCode code;
    int status;
  } cases[] = {{ErrorCode::kDeadlineExceeded, 504},
               {ErrorCode::kUnavailable, 503},
               {ErrorCode::kInternal, 500},
               {ErrorCode::kCancelled, 499}};
  for (const auto& c : cases) {
    core_.FailWith({c.code, "because"});
    const auto response = Ask(Post("/v2/models/twice/infer", kTwice));
    EXPECT_EQ(response.status, c.status);
    EXPECT_EQ(ErrorOf(response), "because");
  }
}

TEST_F(HttpServer, HeadHasNoBodyAndKeepsTheConnection) {
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(client.Send("HEAD /v2 HTTP/1.1\r\nHost: test\r\n\r\n" + Get("/v2/health/live")));
  const auto head = client.Receive(/*with_body=*/false);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.fields.at("content-length"), std::to_string(Ask(Get("/v2")).body.size()));
  EXPECT_EQ(client.Receive().body, R"({"live":true})");
}

TEST_F(HttpServer, ADisconnectCancelsItsRequestAndNoOther) {
  core_.Hold();
  HttpTestClient other(server_->http_port());
  ASSERT_TRUE(other.Send(Post("/v2/models/twice/infer", kTwice)));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  {
    HttpTestClient leaving(server_->http_port());
    ASSERT_TRUE(leaving.Send(Post("/v2/models/twice/infer", kTwice)));
    ASSERT_TRUE(Eventually([&] { return core_.Pending() == 2; }));
  }
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
  EXPECT_EQ(core_.Pending(), 1u);
  core_.Release();
  EXPECT_EQ(other.Receive().status, 200);
}

TEST_F(HttpServer, ADisconnectCancelsEvenWithPipelinedRequestsBehind) {
  core_.Hold();
  {
    HttpTestClient leaving(server_->http_port());
    ASSERT_TRUE(leaving.Send(Post("/v2/models/twice/infer", kTwice) + Get("/v2") + Get("/v2")));
    ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  }
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
}

TEST_F(HttpServer, StopAnswersWhatIsInFlightAndThenRefuses) {
  core_.Hold();
  HttpTestClient idle(server_->http_port());
  HttpTestClient busy(server_->http_port());
  ASSERT_TRUE(idle.Send(Get("/v2/health/live")));
  ASSERT_EQ(idle.Receive().status, 200);
  ASSERT_TRUE(busy.Send(Post("/v2/models/twice/infer", kTwice)));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  const int port = server_->http_port();
  std::jthread stopper([&] { server_->Stop(Now() + std::chrono::seconds(30)); });
  EXPECT_TRUE(idle.ReceivesEnd());
  EXPECT_TRUE(Eventually([&] { return !HttpTestClient(port).connected(); }));
  core_.Release();
  const auto response = busy.Receive();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.fields.at("connection"), "close");
  stopper.join();
}

TEST_F(HttpServer, StopCancelsWhatIsNotAnsweredInTime) {
  core_.Hold();
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(client.Send(Post("/v2/models/twice/infer", kTwice)));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  server_->Stop(Now() + std::chrono::milliseconds(50));
  EXPECT_EQ(core_.Cancelled(), 1u);
  EXPECT_EQ(core_.Pending(), 0u);
}

TEST_F(HttpServer, MayGoAwayRightAfterItsLastAnswer) {
  // The core's thread may still be handing over that answer (found with UBSan).
  for (int i = 0; i < 50; ++i) {
    HttpTestClient client(server_->http_port());
    ASSERT_TRUE(client.Send(Post("/v2/models/twice/infer", kTwice)));
    ASSERT_EQ(client.Receive().status, 200);
    server_.reset();
    StartServer();
  }
}

TEST_F(HttpServer, OnePortForTwoProtocolsIsAnErrorThatNamesBoth) {
  ServerOptions options = Options();
  options.http_port = options.grpc_port = 1;  // nothing is bound: the numbers are compared before
  const auto shared = Server::Start(core_, options);
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(shared.error().message, HasSubstr("HTTP and gRPC cannot share port 1 of 127.0.0.1"));
}

TEST_F(HttpServer, SecondServerOnThePortIsAnErrorThatNamesIt) {
  ServerOptions options = Options();
  options.http_port = server_->http_port();
  auto second = Server::Start(core_, options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(second.error().message,
              HasSubstr(fmt::format("HTTP 127.0.0.1:{}", server_->http_port())));
  const Status check = Server::Check(options);
  ASSERT_FALSE(check) << "without a core, before models are loaded";
  EXPECT_EQ(check.error().message, second.error().message);
  options = Options();
  options.metrics_port = server_->metrics_port();
  second = Server::Start(core_, options);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("metrics 127.0.0.1:"));
  EXPECT_EQ(Ask(Get("/v2/health/live")).status, 200);  // the first server still serves
}

TEST_F(HttpServer, BadAddressIsAnError) {
  ServerOptions options = Options();
  options.address = "nowhere";
  auto server = Server::Start(core_, options);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(server.error().message, HasSubstr("'nowhere'"));
  options.address = "192.0.2.1";  // no address of this machine
  EXPECT_FALSE(Server::Start(core_, options));
  EXPECT_FALSE(Server::Check(options));
  EXPECT_TRUE(Server::Check(Options()));
}

TEST_F(HttpServer, TheClientsTraceReachesTheCore) {
  constexpr std::string_view kTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const auto trace_of = [&](const std::string& fields) {
    EXPECT_EQ(Ask(Post("/v2/models/twice/infer", kTwice, fields)).status, 200);
    const TraceContext trace = core_.LastRequest().trace;
    return trace.any() ? FormatTraceparent(trace) : "none";
  };
  EXPECT_EQ(trace_of(fmt::format("traceparent: {}\r\n", kTrace)), kTrace);
  EXPECT_EQ(trace_of(fmt::format("TraceParent: {}\r\n", kTrace)), kTrace);
  EXPECT_EQ(trace_of(""), "none");
  EXPECT_EQ(trace_of("traceparent: 00-nonsense\r\n"), "none");
  EXPECT_EQ(trace_of(fmt::format("traceparent: {0}\r\ntraceparent: {0}\r\n", kTrace)), "none")
      << "it is not clear which one holds";
}

TEST_F(HttpServer, TheReferenceKnowsAllMetrics) {
  core_.BecomeFleet();
  const auto families = CoreMetrics(core_).Collect();
  const std::vector<MetricInfo> infos = MetricInfos();
  ASSERT_EQ(families.size(), infos.size());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    EXPECT_EQ(families[i].name, infos[i].name);
    EXPECT_EQ(families[i].help, infos[i].help);
    EXPECT_EQ(families[i].type, infos[i].type) << infos[i].name;
    ASSERT_FALSE(families[i].metric.empty()) << infos[i].name;
    std::vector<std::string> labels;
    for (const auto& label : families[i].metric[0].label) labels.push_back(label.name);
    EXPECT_EQ(fmt::format("{}", fmt::join(labels, ", ")), infos[i].labels) << infos[i].name;
  }
}

TEST_F(HttpServer, MetricsHaveLabelsAndTypes) {
  EXPECT_EQ(Ask(Post("/v2/models/twice/infer", kTwice)).status, 200);
  HttpTestClient client(server_->metrics_port());
  ASSERT_TRUE(client.Send(Get("/metrics")));
  const auto response = client.Receive();
  ASSERT_EQ(response.status, 200);
  EXPECT_THAT(response.fields.at("content-type"), HasSubstr("text/plain"));
  for (const char* line : {
           "nv_inference_request_success{model=\"twice\",version=\"1\"} 1\n",
           "nv_inference_request_failure{model=\"twice\",version=\"1\",reason=\"CANCELED\"} 0\n",
           "nv_inference_request_duration_us{model=\"twice\",version=\"1\"} 5000\n",
           "# TYPE nv_inference_count counter\n",
           "# TYPE nv_inference_pending_request_count gauge\n",
           "lagoon_launches_total 42\n",
           "# TYPE nv_inference_request_duration_histogram_us histogram\n",
           "nv_inference_request_duration_histogram_us_sum{model=\"twice\",version=\"1\",class="
           "\"best-effort\"} 5000\n",
           "nv_inference_request_duration_histogram_us_bucket{model=\"twice\",version=\"1\",class="
           "\"best-effort\",le=\"2000\"} 0\n",
           "nv_inference_request_duration_histogram_us_bucket{model=\"twice\",version=\"1\",class="
           "\"best-effort\",le=\"5000\"} 1\n",
           "nv_inference_request_duration_histogram_us_bucket{model=\"twice\",version=\"1\",class="
           "\"best-effort\",le=\"+Inf\"} 1\n",
           "lagoon_best_effort_slices_total 7\n",
           "lagoon_part_holds_total 9\n",
           "lagoon_part_holds_in_vain_total 3\n",
           "lagoon_off_core_us_total 9\n",
           "lagoon_tenant_kernels_total{tenant=\"a \\\"b\\\"\"} 5\n",
       }) {
    EXPECT_THAT(response.body, HasSubstr(line));
  }
  ASSERT_TRUE(client.Send(Get("/v2")));
  EXPECT_EQ(client.Receive().status, 404);
}

// Throws, which no handler should do.
class ThrowingHandler final : public HttpHandler {
 public:
  void Handle(const HttpRequest&, const std::shared_ptr<HttpReply>&) override {
    throw std::runtime_error("out of something");
  }
};

TEST(HttpListener, AHandlerThatThrowsCostsOnlyItsOwnConnection) {
  ThrowingHandler handler;
  IoPool pool(2);
  auto listener = HttpListener::Listen(
      pool, handler,
      {BufferPool::Create(0), std::make_shared<MemoryBudget>(MemoryBudget::Limits())},
      {{"HTTP", "127.0.0.1", 0}, {}});
  ASSERT_TRUE(listener) << listener.error().message;
  (*listener)->Start();
  for (int i = 0; i < 3; ++i) {
    HttpTestClient client((*listener)->port());
    ASSERT_TRUE(client.Send(Get("/")));
    EXPECT_EQ(client.Receive().status, 500);
    EXPECT_TRUE(client.ReceivesEnd());
  }
  (*listener)->Drain();
  EXPECT_TRUE((*listener)->WaitIdle(Now() + std::chrono::seconds(10)));
  (*listener)->Close();
}

// A server in front would take a connection that becomes silent for a request that takes long.
TEST_F(HttpServer, TellsOnceASecondThatItWorksOnARequestIfAsked) {
  core_.Hold();
  HttpTestClient asks(server_->http_port()), does_not(server_->http_port());
  ASSERT_TRUE(does_not.Send(Post("/v2/models/twice/infer", kTwice)));
  ASSERT_TRUE(asks.Send(Post("/v2/models/twice/infer", kTwice, "Lagoon-Beat: 1\r\n")));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(asks.ReceiveUntil("\r\n\r\n"), "HTTP/1.1 102 Processing\r\n\r\n");
  }
  EXPECT_FALSE(does_not.HasInput());
  core_.Release();
  EXPECT_EQ(asks.Receive().status, 200);
  EXPECT_EQ(does_not.Receive().status, 200);
  ASSERT_TRUE(asks.Send(Post("/v2/models/twice/infer", kTwice))) << "the connection is kept";
  EXPECT_EQ(asks.Receive().status, 200);
}

TEST_F(HttpServer, TellsItsIdAndTakesTheFrontsOfARequest) {
  const HttpTestResponse server = Ask(Get("/v2"));
  EXPECT_TRUE(IsServerId(server.fields.at("lagoon-server")));
  std::string body = kTwice;
  body.insert(1, R"("parameters":{"lagoon_via":"a,b"},)");
  EXPECT_EQ(Ask(Post("/v2/models/twice/infer", body)).status, 200);
  EXPECT_EQ(core_.LastRequest().via, "a,b");
}

}  // namespace
}  // namespace lagoon
