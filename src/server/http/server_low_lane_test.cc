// Large answers to best-effort requests go through the LowLane, and nothing else waits for its
// thread, wherever that is stopped.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/testing/stopper.h"
#include "server/testing/http_server_test_base.h"

namespace lagoon {
namespace {

constexpr std::size_t kElements = 300'000;  // the answer has 1.2 MB

class ServerLowLane : public HttpServer {
 protected:
  void SetUp() override {
    StartServer();
    ASSERT_TRUE(Eventually([&] { return ThreadsNamed("lagoon-answers").size() == 1; }));
    lane_ = ThreadsNamed("lagoon-answers").front();
  }

  // Its answer repeats `value` doubled.
  static std::string Large(float value, int priority, const std::string& fields = "") {
    const std::string json = fmt::format(
        R"({{"inputs":[{{"name":"x","datatype":"FP32","shape":[{}],"parameters":{{"binary_data_size":{}}}}}],)"
        R"("parameters":{{"binary_data_output":true,"priority":{}}}}})",
        kElements, kElements * sizeof(float), priority);
    const std::vector<float> values(kElements, value);
    return Post("/v2/models/vector/infer",
                json + std::string(reinterpret_cast<const char*>(values.data()),
                                   values.size() * sizeof(float)),
                fmt::format("Inference-Header-Content-Length: {}\r\n{}", json.size(), fields));
  }
  static void ExpectAnswer(const HttpTestResponse& response, float value) {
    ASSERT_EQ(response.status, 200) << response.body;
    const std::size_t bytes = kElements * sizeof(float);
    ASSERT_GT(response.body.size(), bytes);
    std::vector<float> values(kElements);
    std::memcpy(values.data(), response.body.data() + response.body.size() - bytes, bytes);
    EXPECT_TRUE(std::ranges::all_of(values, [&](float v) { return v == 2 * value; }));
  }

  pid_t lane_ = 0;
};

TEST_F(ServerLowLane, AnswersComeWholeAlsoToSlowReaders) {
  for (const int buffer : {0, 4096}) {
    HttpTestClient client(server_->http_port(), buffer);
    for (const float value : {1.f, 2.f, 3.f}) {
      ASSERT_TRUE(client.Send(Large(value, 2)));
      ExpectAnswer(client.Receive(), value);
    }
  }
}

TEST_F(ServerLowLane, AnEdgeSendsAnAnswerThatTheLaneHasNotBegunForASecond) {
  Stopper stopper;
  stopper.Stop(lane_);
  HttpTestClient client(server_->http_port());
  ASSERT_TRUE(client.Send(Large(1, 2)));
  ExpectAnswer(client.Receive(), 1);
  ASSERT_TRUE(client.Send(Large(2, 2)));
  ExpectAnswer(client.Receive(), 2);
  stopper.Resume();
  ASSERT_TRUE(client.Send(Large(3, 2)));
  ExpectAnswer(client.Receive(), 3);
}

TEST_F(ServerLowLane, NothingElseWaitsForTheLaneThatIsStoppedAnywhere) {
  Stopper stopper;
  std::mt19937 random(7);
  std::vector<std::unique_ptr<HttpTestClient>> low(3);
  HttpTestClient high(server_->http_port());
  for (int round = 0; round < 15; ++round) {
    for (auto& client : low) {
      client = std::make_unique<HttpTestClient>(server_->http_port(), 16384);
      ASSERT_TRUE(client->Send(Large(1, 2, "Connection: close\r\n")));
    }
    ASSERT_TRUE(Eventually([&] { return low.front()->HasInput(); }));
    const TimePoint until = Now() + std::chrono::microseconds(random() % 300);
    while (Now() < until) {
    }
    stopper.Stop(lane_);
    if (round % 2 == 0) low.back()->Close();  // perhaps in the middle of its answer
    ASSERT_TRUE(high.Send(Large(2, 0)));
    ExpectAnswer(high.Receive(), 2);
    ExpectAnswer(Ask(Large(3, 0)), 3);
    stopper.Resume();
    ExpectAnswer(low.front()->Receive(), 1);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

TEST_F(ServerLowLane, TheServerStopsInTheMiddleOfAnswers) {
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<HttpTestClient>> clients;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<HttpTestClient>(server_->http_port(), 4096));
      ASSERT_TRUE(clients.back()->Send(Large(1, 2)));
    }
    ASSERT_TRUE(Eventually([&] { return clients.front()->HasInput(); }));
    server_.reset();
    StartServer();
  }
}

}  // namespace
}  // namespace lagoon
