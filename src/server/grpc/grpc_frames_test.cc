// How the edge of gRPC bounds what clients do with the frames of HTTP/2. The answers to single
// frames: tests/hostile_frames_test.py.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "server/grpc/grpc_edge.h"
#include "server/grpc/grpc_service.h"
#include "server/grpc/grpc_stream_call.h"
#include "server/testing/fake_core.h"
#include "server/testing/frame_client.h"
#include "server/testing/server_test_base.h"

namespace lagoon {
namespace {

constexpr std::size_t kMib = std::size_t{1} << 20;

std::string TwiceMessage() {
  inference::ModelInferRequest request;
  request.set_model_name("twice");
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.add_shape(1);
  input.add_shape(4);
  request.add_raw_input_contents(std::string(16, '\0'));
  return request.SerializeAsString();
}

/// A request of "vector" with so many bytes, as a message in frames of data.
std::string VectorFrames(std::uint32_t stream, std::size_t bytes) {
  inference::ModelInferRequest request;
  request.set_model_name("vector");
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.add_shape(static_cast<std::int64_t>(bytes / sizeof(float)));
  request.add_raw_input_contents(std::string(bytes, '\0'));
  const std::string message = request.SerializeAsString();
  const std::string text = MessageOf(message, message.size());
  std::string frames;
  for (std::size_t at = 0; at < text.size(); at += 16'384) {
    frames += FrameOf(kData, 0, stream, text.substr(at, 16'384));
  }
  return frames;
}

/// The bytes that this process has allocated. 0 under a sanitizer.
std::size_t Allocated() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::string Begin(std::uint32_t stream, const std::string& method, const std::string& more = {}) {
  return FrameOf(kHeaders, kEndHeaders, stream, CallHeader(method) + more);
}

class GrpcFrames : public testing::Test {
 protected:
  void SetUp() override {
    options_.address = "127.0.0.1";
    options_.max_buffered_bytes = 8 * kMib;
    options_.limits.max_message_bytes = 4 * kMib;
  }
  void TearDown() override {
    edge_.reset();
    pool_.Join();
  }
  void Serve() {
    auto edge = GrpcEdge::Start({core_, pool_, regions_}, options_);
    ASSERT_TRUE(edge) << edge.error().message;
    edge_ = *std::move(edge);
  }
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const TimePoint until = Now() + std::chrono::seconds(10);
    while (Now() < until && !condition()) std::this_thread::yield();
    return condition();
  }

  GrpcEdge::Options options_;
  FakeCore core_;
  IoPool pool_{2};
  SharedRegions regions_{false};
  std::unique_ptr<GrpcEdge> edge_;
};

TEST_F(GrpcFrames, TheServerKeepsTheClientsDeadline) {
  Serve();
  core_.Hold();
  FrameClient client(edge_->port());
  const std::string message = TwiceMessage();
  client.Send(Begin(1, "ModelInfer", FieldOf("grpc-timeout", "50m")) +
              FrameOf(kData, kEndStream, 1, MessageOf(message, message.size())));
  const FrameClient::Frame answer = client.Until(kHeaders, 1);
  EXPECT_EQ(answer.flags & kEndStream, kEndStream);
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
}

TEST_F(GrpcFrames, AHeaderOverTheLimitIsAnsweredWithoutTheMethod) {
  Serve();
  core_.Hold();
  FrameClient client(edge_->port());
  const std::string message = TwiceMessage();
  std::string fields;
  for (int i = 0; i < 150; ++i) {
    fields += FieldOf("x-" + std::to_string(i), std::string(100, 'v'));
  }
  client.Send(Begin(1, "ModelInfer", fields) +
              FrameOf(kData, kEndStream, 1, MessageOf(message, message.size())));
  EXPECT_EQ(client.Until(kHeaders, 1).flags & kEndStream, kEndStream);
  EXPECT_EQ(core_.Pending(), 0u);
}

TEST_F(GrpcFrames, AResetCancelsTheRequest) {
  Serve();
  core_.Hold();
  FrameClient client(edge_->port());
  const std::string message = TwiceMessage();
  client.Send(Begin(1, "ModelInfer") +
              FrameOf(kData, kEndStream, 1, MessageOf(message, message.size())));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  client.Send(FrameOf(kReset, 0, 1, std::string("\0\0\0\x08", 4)));
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
}

TEST_F(GrpcFrames, AMessageThatStandsStillEndsItsCall) {
  options_.limits.stall_timeout = std::chrono::milliseconds(200);
  Serve();
  FrameClient client(edge_->port());
  client.Send(Begin(1, "ModelInfer") + FrameOf(kData, 0, 1, MessageOf(std::string(1000, 'x'), 10)));
  EXPECT_EQ(client.Until(kHeaders, 1).flags & kEndStream, kEndStream);
  // A call that waits for its next message is not at a standstill.
  client.Send(Begin(3, "ModelStreamInfer"));
  const FrameClient::Frame ping = client.Until(kPing, 0);  // the server asks whether it is there
  EXPECT_EQ(ping.flags, 0);
  client.Send(FrameOf(kPing, 1, 0, ping.payload));
  const std::string message = TwiceMessage();
  client.Send(FrameOf(kData, 0, 3, MessageOf(message, message.size())));
  EXPECT_EQ(client.Until(kData, 3).type, kData);
}

TEST_F(GrpcFrames, AnAnswerThatIsNotTakenEndsItsCall) {
  options_.limits.stall_timeout = std::chrono::milliseconds(200);
  Serve();
  FrameClient client(edge_->port());
  const std::string message = TwiceMessage();
  client.Send(FrameOf(kSettings, 0, 0, std::string("\0\x04\0\0\0\0", 6)));  // windows of no byte
  client.Send(Begin(1, "ModelInfer") +
              FrameOf(kData, kEndStream, 1, MessageOf(message, message.size())));
  EXPECT_EQ(client.Until(kReset, 1).type, kReset);
}

TEST_F(GrpcFrames, AClientThatDoesNotAnswerAPingIsClosedWithItsCalls) {
  options_.limits.stall_timeout = options_.limits.ping_timeout = std::chrono::milliseconds(200);
  Serve();
  core_.Hold();
  FrameClient client(edge_->port());
  const std::string message = TwiceMessage();
  client.Send(Begin(1, "ModelInfer") +
              FrameOf(kData, kEndStream, 1, MessageOf(message, message.size())));
  EXPECT_LT(client.Until([](const auto&) { return false; }).type, 0);
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
}

TEST_F(GrpcFrames, AConnectionWithoutACallIsToldToGo) {
  options_.limits.idle_timeout = std::chrono::milliseconds(200);
  Serve();
  FrameClient client(edge_->port());
  EXPECT_EQ(client.Until(kGoAway, 0).type, kGoAway);
}

// grpc++ cancels a call that a GOAWAY forbids also if it has not sent the call yet: a reset of an
// idle stream, which ends the connection.
TEST_F(GrpcFrames, ACallThatBeginsWhileTheServerStopsCostsNoOtherCall) {
  Serve();
  core_.Hold();
  FrameClient client(edge_->port());
  const std::string message = MessageOf(TwiceMessage(), TwiceMessage().size());
  client.Send(Begin(1, "ModelInfer") + FrameOf(kData, kEndStream, 1, message));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  std::jthread stopper([&] { edge_->Stop(Now() + std::chrono::seconds(30)); });
  const auto last = [](const FrameClient::Frame& goaway) { return goaway.payload.substr(0, 4); };
  EXPECT_EQ(last(client.Until(kGoAway, 0)), "\x7f\xff\xff\xff");
  const FrameClient::Frame ping = client.Until(kPing, 0);
  client.Send(Begin(3, "ModelInfer") + FrameOf(kData, kEndStream, 3, message));
  client.Send(FrameOf(kPing, 1, 0, ping.payload));
  EXPECT_EQ(last(client.Until(kGoAway, 0)), std::string("\0\0\0\x03", 4));
  core_.Release();
  EXPECT_EQ(client.Until(kData, 1).type, kData);
}

TEST_F(GrpcFrames, AClientThatIgnoresThatTheServerStopsIsToldWhichCallsAreServed) {
  Serve();
  core_.Hold();
  FrameClient client(edge_->port());
  const std::string message = MessageOf(TwiceMessage(), TwiceMessage().size());
  client.Send(Begin(1, "ModelInfer") + FrameOf(kData, kEndStream, 1, message));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  std::jthread stopper([&] { edge_->Stop(Now() + std::chrono::seconds(30)); });
  const auto is_last = [](const FrameClient::Frame& frame) {
    return frame.type == kGoAway && frame.payload.substr(0, 4) == std::string("\0\0\0\x01", 4);
  };
  EXPECT_EQ(client.Until(is_last).type, kGoAway);
  core_.Release();
  EXPECT_EQ(client.Until(kData, 1).type, kData);
}

TEST_F(GrpcFrames, AConnectionThatSaysNothingIsClosed) {
  options_.limits.handshake_timeout = std::chrono::milliseconds(200);
  Serve();
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(edge_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  char bytes[256];
  ssize_t got = 1;
  while (got > 0) got = ::recv(socket, bytes, sizeof(bytes), 0);
  EXPECT_EQ(got, 0);
  ::close(socket);
}

TEST_F(GrpcFrames, MessagesOnTheirWayShareALimitAndSlowOnesMakeRoom) {
  Serve();
  FrameClient slow(edge_->port());
  const std::string part(3 * kMib, 'x');
  const auto partial = [&](std::uint32_t stream) {
    std::string text = MessageOf(std::string(4 * kMib, 'x'), part.size());
    std::string frames = Begin(stream, "ModelInfer");
    for (std::size_t at = 0; at < text.size(); at += 16'384) {
      frames += FrameOf(kData, 0, stream, text.substr(at, 16'384));
    }
    return frames;
  };
  slow.Until(kSettings, 0);
  ASSERT_TRUE(slow.Send(partial(1)));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));  // it is slow after 440 ms
  FrameClient other(edge_->port());
  other.Until(kSettings, 0);
  ASSERT_TRUE(other.Send(partial(1) + partial(3)));
  // 6 MiB are for large ones: the slow one gives way.
  EXPECT_EQ(slow.Until(kHeaders, 1).flags & kEndStream, kEndStream);
}

TEST_F(GrpcFrames, AFullStreamHoldsItsClientBack) {
  Serve();
  core_.Hold();
  FrameClient client(edge_->port());
  client.Until(kSettings, 0);
  const std::string wide("\x0f\xff\xff\xff", 4);  // windows for all the answers
  client.Send(Begin(1, "ModelStreamInfer") + FrameOf(kWindow, 0, 0, wide) +
              FrameOf(kWindow, 0, 1, wide));
  const std::string message = TwiceMessage();
  const std::string one = MessageOf(message, message.size());
  std::string many;
  while (many.size() + one.size() <= 16'384) many += one;
  for (std::size_t sent = 0; sent + many.size() < 3 * kMib; sent += many.size()) {
    ASSERT_TRUE(client.Send(FrameOf(kData, 0, 1, many)));
  }
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == GrpcStreamCall::kMostInFlight; }));
  client.Send(FrameOf(kPing, 0, 0, "01234567"));
  // Windows: that of the connection may be opened again, that of the stream is not.
  const auto frame = client.Until([](const FrameClient::Frame& f) {
    return (f.type == kWindow && f.stream == 1) || f.type == kPing;
  });
  EXPECT_EQ(frame.type, kPing);
  EXPECT_EQ(core_.Pending(), GrpcStreamCall::kMostInFlight);
  core_.Release();
  EXPECT_EQ(client.Until(kWindow, 1).type, kWindow)
      << "the window is opened when the requests are answered";
}

// An attack of few bytes that costs much time: references of one byte to a long field.
TEST_F(GrpcFrames, AHeaderWithoutEndBehindTheMessagesEndsTheConnection) {
  Serve();
  FrameClient client(edge_->port());
  client.Until(kSettings, 0);
  client.Send(FrameOf(kSettings, 1, 0, ""));
  const std::string named = std::string(1, '\x40') + FieldOf("x-a", "v").substr(1);
  std::string fields = named;
  fields.append(100'000, '\xbe');  // the field that was named last
  client.Send(Begin(1, "ServerLive") + FrameOf(kData, 0, 1, MessageOf("", 0)) +
              FrameOf(kHeaders, kEndHeaders | kEndStream, 1, fields));
  EXPECT_LT(client.Until(kHeaders, 1).type, 0);
}

TEST_F(GrpcFrames, AnswersOfStreamsThatAreNotReadShareALimit) {
  Serve();
  FrameClient client(edge_->port());
  client.Until(kSettings, 0);
  client.Send(FrameOf(kSettings, 0, 0, std::string("\0\x04\0\0\0\0", 6)));  // windows of no byte
  constexpr std::uint32_t kStreams = 24;
  std::size_t received = 0;
  std::set<std::uint32_t> ended;
  const auto take = [&] {
    const FrameClient::Frame frame = client.Receive();
    if (frame.type == kData) received += frame.payload.size();
    const bool ends = frame.type == kHeaders && (frame.flags & kEndStream) != 0;
    if (ends || frame.type == kReset) ended.insert(frame.stream);
    return frame.type;
  };
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    client.Send(Begin(2 * i + 1, "ModelStreamInfer") + VectorFrames(2 * i + 1, kMib / 2));
    client.Send(FrameOf(kPing, 0, 0, "01234567"));
    for (int type = kData; type != kPing; type = take()) ASSERT_GE(type, 0);
  }
  std::string open = FrameOf(kSettings, 0, 0, std::string("\0\x04\0\x10\0\0", 6)) +
                     FrameOf(kWindow, 0, 0, std::string("\x0f\xff\xff\xff", 4));
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    if (!ended.contains(2 * i + 1)) open += FrameOf(kData, kEndStream, 2 * i + 1, "");
  }
  client.Send(open);
  while (ended.size() < kStreams) ASSERT_GE(take(), 0);
  EXPECT_GT(received, 4 * kMib);
  EXPECT_LE(received, 8 * kMib) << "of the 12 MiB that were asked for";
}

TEST_F(GrpcFrames, AStreamKeepsNoMemoryOfMessagesThatHadToWait) {
  Serve();
  core_.Hold();
  FrameClient client(edge_->port());
  client.Until(kSettings, 0);
  const std::string wide("\x0f\xff\xff\xff", 4);  // windows for all the answers
  client.Send(Begin(1, "ModelStreamInfer") + FrameOf(kWindow, 0, 0, wide) +
              FrameOf(kWindow, 0, 1, wide));
  std::string many;
  std::size_t requests = 0;
  for (; many.size() < 3 * kMib; ++requests) many += VectorFrames(1, 1500);
  const std::size_t before = Allocated();
  ASSERT_TRUE(client.Send(many));
  core_.Release();
  for (std::size_t answers = 0; answers < requests; ++answers) {
    ASSERT_EQ(client.Until(kData, 1).type, kData);
  }
  EXPECT_TRUE(Eventually([&] { return Allocated() < before + kMib; }))
      << Allocated() << " bytes, " << before << " before";
}

TEST_F(GrpcFrames, ClientsThatHaveWatchedTheHealthLeaveNothing) {
  Serve();
  FrameClient client(edge_->port());
  client.Until(kSettings, 0);
  // They end by their deadlines.
  const std::string head =
      FieldOf(":method", "POST") + FieldOf(":scheme", "http") +
      FieldOf(":path", "/grpc.health.v1.Health/Watch") + FieldOf(":authority", "a") +
      FieldOf("content-type", "application/grpc") + FieldOf("grpc-timeout", "1n");
  std::uint32_t stream = 1;
  const auto watch = [&] {
    std::size_t open = 0;
    for (std::string calls; open < 200; ++open, stream += 2) {
      calls = FrameOf(kHeaders, kEndHeaders, stream, head) +
              FrameOf(kData, kEndStream, stream, MessageOf("", 0));
      ASSERT_TRUE(client.Send(calls));
    }
    const auto ends = [](const FrameClient::Frame& frame) {
      return frame.type == kHeaders && (frame.flags & kEndStream) != 0;
    };
    for (; open > 0; --open) ASSERT_EQ(client.Until(ends).type, kHeaders);
  };
  watch();
  // Other threads of this process may allocate meanwhile: one attempt without growth is enough.
  std::size_t growth = kMib;
  for (int attempt = 0; attempt < 5 && growth > 100'000; ++attempt) {
    const std::size_t before = Allocated();
    for (int i = 0; i < 10; ++i) watch();
    growth = std::max(Allocated(), before) - before;
  }
  EXPECT_LE(growth, 100'000) << "50 bytes of each call";
}

}  // namespace
}  // namespace lagoon
