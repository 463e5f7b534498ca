// A member whose connection of requests becomes silent.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/remote/remote_core.h"
#include "server/remote/testing/tcp_proxy.h"
#include "server/testing/server_test_base.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

class SilentConnectionTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    core_.List({"image"});
  }
  static InferRequest AskForTwice() {
    static constexpr float kFour[] = {1, 2, 3, 4};
    InferRequest request;
    request.model = "twice";
    request.arrival = Now();
    request.inputs = {{"x", DataType::kFloat32, {1, 4}, std::as_bytes(std::span(kFour))}};
    return request;
  }
};

// A firewall that forgets a connection, or a cable: no end of the connection is told.
TEST_F(SilentConnectionTest, OfRequestsIsFoundWhileThePollsAreAnswered) {
  TcpProxy proxy(server_->http_port());
  RemoteOptions options;
  options.address = fmt::format("127.0.0.1:{}", server_->grpc_port());
  options.http_port = static_cast<std::uint16_t>(proxy.port());
  options.poll_period = std::chrono::milliseconds(10);
  RemoteCore remote(options);
  EXPECT_TRUE(Eventually([&] { return remote.Serves("twice", "") && remote.Serves("image", ""); }));
  const auto send = [&](InferRequest request) {
    auto promise = std::make_shared<std::promise<std::optional<std::pair<ErrorCode, bool>>>>();
    remote.Send(request, [promise](const Result<InferResponse>& result, bool lost) {
      std::optional<std::pair<ErrorCode, bool>> error;
      if (!result) error = {result.error().code, lost};
      promise->set_value(error);
    });
    return promise->get_future();
  };
  std::vector<float> pixels(3 * 224 * 224, 1.0F);
  InferRequest large = AskForTwice();
  large.model = "image";
  large.inputs = {
      {"pixels", DataType::kFloat32, {1, 3, 224, 224}, std::as_bytes(std::span(pixels))}};
  ASSERT_EQ(send(large).get(), std::nullopt) << "it makes its connection the busiest";
  core_.Hold();
  auto held = send(AskForTwice());
  // Longer than a silent connection is endured: the member's beats come.
  EXPECT_EQ(held.wait_for(std::chrono::seconds(5)), std::future_status::timeout);
  core_.Release();
  EXPECT_EQ(held.get(), std::nullopt);
  core_.Hold();
  auto hangs = send(AskForTwice());
  EXPECT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  proxy.Silence();
  const auto in_time = std::chrono::seconds(20);
  ASSERT_EQ(hangs.wait_for(in_time), std::future_status::ready);
  EXPECT_EQ(hangs.get(), std::pair(ErrorCode::kUnavailable, true));
  core_.Release();
  // Polls go on, and no new connection of requests comes about.
  EXPECT_TRUE(Eventually([&] { return !remote.Ready(); }));
  EXPECT_THAT(remote.Absence(), HasSubstr("no connection for requests"));
  auto refused = send(AskForTwice());
  ASSERT_EQ(refused.wait_for(in_time), std::future_status::ready);
  EXPECT_EQ(refused.get(), std::pair(ErrorCode::kUnavailable, false));
  proxy.Speak();
  EXPECT_TRUE(Eventually([&] { return remote.Serves("twice", "") && remote.Serves("image", ""); }));
  EXPECT_EQ(send(AskForTwice()).get(), std::nullopt);
}

}  // namespace
}  // namespace lagoon
