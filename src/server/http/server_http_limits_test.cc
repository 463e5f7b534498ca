#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <vector>

#include "server/http/http_listener.h"
#include "server/testing/http_server_test_base.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

// Servers with small limits.
class HttpLimitsTest : public HttpServer {
 protected:
  void SetUp() override {
    limits_.max_body_bytes = 1000;
    limits_.max_header_bytes = 512;
    limits_.max_connections = 3;
    limits_.header_timeout = limits_.transfer_timeout = std::chrono::milliseconds(150);
    limits_.idle_timeout = std::chrono::milliseconds(300);
    StartServer();
  }
};

TEST_F(HttpLimitsTest, OversizedBodyIsRefusedBeforeItIsSent) {
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(client.Send(
      "POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nContent-Length: 1001\r\n\r\n"));
  const auto response = client.Receive();
  EXPECT_EQ(response.status, 413);
  EXPECT_THAT(ErrorOf(response), HasSubstr("1001 bytes, the limit is 1000"));
}

TEST_F(HttpLimitsTest, AClientThatSendsItsOversizedBodyAnywayStillReadsTheAnswer) {
  HttpTestClient client(server_->http_port());
  client.Send(Post("/v2/models/twice/infer", std::string(4 << 20, 'x')));
  EXPECT_EQ(client.Receive().status, 413);
  EXPECT_TRUE(client.ReceivesEnd());
}

TEST_F(HttpLimitsTest, OversizedChunksAreRefused) {
  std::string request =
      "POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 30; ++i) request += "32\r\n" + std::string(50, 'x') + "\r\n";
  EXPECT_EQ(Ask(request).status, 413);
}

TEST_F(HttpLimitsTest, OversizedHeaderIsRefused) {
  const auto response = Ask("GET /v2 HTTP/1.1\r\nX: " + std::string(1000, 'x') + "\r\n\r\n");
  EXPECT_EQ(response.status, 431);
  EXPECT_THAT(ErrorOf(response), HasSubstr("512"));
}

TEST_F(HttpLimitsTest, SlowHeadersAndBodiesTimeOut) {
  EXPECT_EQ(Ask("GET /v2 HT").status, 408);
  const auto response =
      Ask("POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\nabc");
  EXPECT_EQ(response.status, 408);
  EXPECT_THAT(ErrorOf(response), HasSubstr("body took too long"));
}

TEST_F(HttpLimitsTest, DeclaringALargeBodyGivesNoMoreTime) {
  limits_.min_bytes_per_second = 1;  // 900 bytes have 15 minutes
  server_.reset();
  StartServer();
  EXPECT_EQ(Ask("POST /v2 HTTP/1.1\r\nHost: test\r\nContent-Length: 900\r\n\r\na").status, 408);
}

TEST_F(HttpLimitsTest, IdleConnectionsClose) {
  HttpTestClient client(server_->http_port());
  EXPECT_TRUE(client.ReceivesEnd());
}

TEST_F(HttpLimitsTest, ASlowModelIsNoTimeout) {
  core_.Hold();
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(client.Send(Post("/v2/models/twice/infer", kTwice)));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  // Longer than every timeout: another connection goes idle and closes meanwhile.
  EXPECT_TRUE(HttpTestClient(server_->http_port()).ReceivesEnd());
  core_.Release();
  EXPECT_EQ(client.Receive().status, 200);
}

TEST_F(HttpLimitsTest, OneConnectionTooManyIsTold) {
  std::vector<std::unique_ptr<HttpTestClient>> clients;
  for (std::size_t i = 1; i <= 3; ++i) {
    clients.push_back(std::make_unique<HttpTestClient>(server_->http_port()));
    ASSERT_TRUE(clients.back()->Send(Get("/v2/health/live")));
    ASSERT_EQ(clients.back()->Receive().status, 200);
  }
  HttpTestClient extra(server_->http_port());
  const auto response = extra.Receive();
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(ErrorOf(response), HasSubstr("3 connections"));
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return Ask(Get("/v2/health/live")).status == 200; }));
}

// 8 MiB: 32 KiB for each of 128 connections, and 4 MiB that all share.
class HttpMemoryTest : public HttpServer {
 protected:
  // Images in memory at once: each takes 576 KiB beyond the 32 KiB of its connection.
  static constexpr std::size_t kPending = 7;

  void SetUp() override {
    limits_.max_body_bytes = std::size_t{4} << 20;
    limits_.max_connections = 64;
    max_buffered_bytes_ = std::size_t{8} << 20;
    StartServer();
  }

  static std::string ImageBody() {
    const std::string json =
        R"({"inputs":[{"name":"pixels","datatype":"FP32","shape":[1,3,224,224],)"
        R"("parameters":{"binary_data_size":602112}}]})";
    return json + std::string(602112, '\0');
  }
  static std::string ImageHead(std::string_view framing) {
    return fmt::format(
        "POST /v2/models/image/infer HTTP/1.1\r\nHost: test\r\n"
        "Inference-Header-Content-Length: {}\r\n{}\r\n\r\n",
        ImageBody().size() - 602112, framing);
  }
  static std::string Image() {
    return ImageHead(fmt::format("Content-Length: {}", ImageBody().size())) + ImageBody();
  }
  static std::string ChunkedImage() {
    const std::string body = ImageBody();
    std::string request = ImageHead("Transfer-Encoding: chunked");
    for (std::size_t at = 0; at < body.size(); at += 100'000) {
      const std::string_view chunk = std::string_view(body).substr(at, 100'000);
      request += fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk);
    }
    return request + "0\r\n\r\n";
  }

  std::unique_ptr<HttpTestClient> Sends(std::string_view bytes) {
    auto client = std::make_unique<HttpTestClient>(server_->http_port());
    EXPECT_TRUE(client->Send(bytes));
    return client;
  }
};

TEST_F(HttpMemoryTest, DeclaredBodiesReserveNothing) {
  std::vector<std::unique_ptr<HttpTestClient>> idle;
  for (int i = 0; i < 16; ++i) {
    idle.push_back(Sends(
        "POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nContent-Length: 4194304\r\n\r\n"));
    idle.push_back(
        Sends("POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: "
              "chunked\r\n\r\n"));
  }
  EXPECT_EQ(Ask(Post("/v2/models/twice/infer", kTwice)).status, 200);
  EXPECT_EQ(Ask(Image()).status, 200);
  EXPECT_EQ(Ask(ChunkedImage()).status, 200);
}

TEST_F(HttpMemoryTest, ChunkedBodiesCostWhatTheyHold) {
  core_.Hold();
  std::vector<std::unique_ptr<HttpTestClient>> clients;
  // One less than kPending: chunks are charged 64 KiB before they arrive.
  for (std::size_t i = 1; i < kPending; ++i) clients.push_back(Sends(ChunkedImage()));
  EXPECT_TRUE(Eventually([&] { return core_.Pending() == kPending - 1; }));
  core_.Release();
  for (auto& client : clients) EXPECT_EQ(client->Receive().status, 200);
}

TEST_F(HttpMemoryTest, OutputsCountFromBeforeTheyAreComputed) {
  core_.Hold();
  core_.TakeRoom(std::size_t{1280} << 10);  // two fit beside each other
  std::vector<std::unique_ptr<HttpTestClient>> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(Sends(Post("/v2/models/twice/infer", kTwice)));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 2; }));
  // Refused while the two are still held.
  const auto refused = Ask(Post("/v2/models/twice/infer", kTwice));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(ErrorOf(refused), HasSubstr("no room for an answer of 1310720 bytes"));
  core_.Release();
  for (auto& client : clients) EXPECT_EQ(client->Receive().status, 200);
  // The answers themselves are small.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ask(Post("/v2/models/twice/infer", kTwice)).status, 200);
  }
}

TEST_F(HttpMemoryTest, FullMemoryIsSaidAndSmallRequestsAreServedAllTheSame) {
  core_.Hold();
  std::vector<std::unique_ptr<HttpTestClient>> clients;
  for (std::size_t i = 0; i < kPending; ++i) clients.push_back(Sends(Image()));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == kPending; }));
  for (const std::string& request : {Image(), ChunkedImage()}) {
    const auto refused = Ask(request);
    EXPECT_EQ(refused.status, 503);
    EXPECT_THAT(ErrorOf(refused), HasSubstr("no room for the request's body"));
    EXPECT_THAT(ErrorOf(refused), HasSubstr("of 4194304 bytes"));
  }
  const auto small = Sends(Post("/v2/models/twice/infer", kTwice));
  EXPECT_TRUE(Eventually([&] { return core_.Pending() == kPending + 1; }));
  core_.Release();
  EXPECT_EQ(small->Receive().status, 200);
  for (auto& client : clients) EXPECT_EQ(client->Receive().status, 200);
  EXPECT_EQ(Ask(Image()).status, 200);  // the memory is free again
}

TEST_F(HttpMemoryTest, BodiesThatComeSlowlyMakeRoomForOthers) {
  // Together 3.9 of the 4 MiB.
  std::vector<std::unique_ptr<HttpTestClient>> slow;
  for (const std::size_t bytes : {std::size_t{3} << 20, std::size_t{1} << 20}) {
    slow.push_back(Sends(
        "POST /v2/models/twice/infer HTTP/1.1\r\nHost: test\r\nContent-Length: 4194304\r\n\r\n" +
        std::string(bytes, ' ')));
  }
  core_.Hold();
  std::vector<std::unique_ptr<HttpTestClient>> clients;
  // Refused until the others count as slow.
  EXPECT_TRUE(Eventually([&] {
    auto client = std::make_unique<HttpTestClient>(server_->http_port());
    client->Send(Image());
    const std::size_t before = clients.size();
    while (core_.Pending() == before && !client->HasInput()) std::this_thread::yield();
    if (core_.Pending() > before) clients.push_back(std::move(client));
    return clients.size() == kPending;
  }));
  EXPECT_EQ(slow.front()->Receive().status, 503);
  core_.Release();
  for (auto& client : clients) EXPECT_EQ(client->Receive().status, 200);
}

// Answers "/large" with 20 MiB, else with a few bytes.
class LargeAnswers final : public HttpHandler {
 public:
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override {
    const std::size_t bytes = request.target == "/large" ? std::size_t{20} << 20 : 3;
    reply->Send(HttpResponse::Json(std::string(bytes, 'a')));
  }
};

TEST(HttpAnswers, ClientsThatDoNotReadHoldABoundedPart) {
  LargeAnswers handler;
  IoPool pool(2);
  // 60 MiB are shared, of which answers as large as these may take 45.
  const auto budget =
      std::make_shared<MemoryBudget>(MemoryBudget::Limits{std::size_t{64} << 20, 64});
  auto listener = *HttpListener::Listen(pool, handler, {BufferPool::Create(0), budget},
                                        {{"HTTP", "127.0.0.1", 0}, {}});
  listener->Start();
  std::vector<std::unique_ptr<HttpTestClient>> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(std::make_unique<HttpTestClient>(listener->port(), /*receive_buffer=*/4096));
    ASSERT_TRUE(silent.back()->Send(Get("/large")));
    EXPECT_LE(budget->SharedBytesUsed(), std::size_t{45} << 20);
  }
  const auto ask = [&](const char* path) {
    HttpTestClient client(listener->port());
    EXPECT_TRUE(client.Send(Get(path)));
    return client.Receive();
  };
  EXPECT_EQ(ask("/small").status, 200);
  // 503 until one of the others counts as slow, after more than a second.
  int status = 0;
  const TimePoint until = Now() + std::chrono::minutes(1);
  while (status != 200 && Now() < until) status = ask("/large").status;
  EXPECT_EQ(status, 200);
  EXPECT_LE(budget->SharedBytesUsed(), std::size_t{45} << 20);
  silent.clear();
  listener->Drain();
  EXPECT_TRUE(listener->WaitIdle(Now() + std::chrono::seconds(10)));
  EXPECT_EQ(budget->SharedBytesUsed(), 0u);
  listener->Close();
}

TEST(HttpAnswers, AnIdleConnectionKeepsNoAnswer) {
  LargeAnswers handler;
  IoPool pool(2);
  const auto budget = std::make_shared<MemoryBudget>(MemoryBudget::Limits{});
  auto listener = *HttpListener::Listen(pool, handler, {BufferPool::Create(0), budget},
                                        {{"HTTP", "127.0.0.1", 0}, {}});
  listener->Start();
  const auto allocated = [] {
    const struct mallinfo2 info = ::mallinfo2();  // 0 under a sanitizer
    return info.uordblks + info.hblkhd;
  };
  const std::size_t before = allocated();
  HttpTestClient client(listener->port());
  ASSERT_TRUE(client.Send(Get("/large")));
  ASSERT_TRUE(client.Drop(std::size_t{20} << 20));
  const TimePoint until = Now() + std::chrono::seconds(10);
  while (Now() < until && allocated() > before + (std::size_t{4} << 20)) {
    std::this_thread::yield();
  }
  EXPECT_LE(allocated(), before + (std::size_t{4} << 20));
  ASSERT_TRUE(client.Send(Get("/small")));  // the connection was kept
  EXPECT_EQ(client.Receive().status, 200);
  listener->Drain();
  EXPECT_TRUE(listener->WaitIdle(Now() + std::chrono::seconds(10)));
  listener->Close();
}

}  // namespace
}  // namespace lagoon
