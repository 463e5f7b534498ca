// Where memory runs out, for a moment and at any allocation, a client gets an answer or the end of
// its connection, and the next one is served.

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/testing/allocations.h"
#include "server/grpc/grpc_edge.h"
#include "server/grpc/grpc_service.h"
#include "server/http/http_listener.h"
#include "server/memory_budget.h"
#include "server/testing/fake_core.h"
#include "server/testing/frame_client.h"
#include "server/testing/http_server_test_base.h"

namespace lagoon {
namespace {

// Answers on a thread of its own, as a device does: "/large" with 2 MiB that may give way, "/parts"
// in three parts, else with a few bytes.
class Answers final : public HttpHandler {
 public:
  Answers() : thread_([this](const std::stop_token& stop) { Run(stop); }) {}
  ~Answers() override {
    thread_.request_stop();
    changed_.notify_all();
  }
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override {
    const std::lock_guard lock(mutex_);
    asked_ = request.target.substr(0, 2);
    reply_ = reply;
    changed_.notify_all();
  }

 private:
  void Run(const std::stop_token& stop) {
    for (;;) {
      std::shared_ptr<HttpReply> reply;
      std::string asked;
      {
        std::unique_lock lock(mutex_);
        while (reply_ == nullptr && !stop.stop_requested()) {
          changed_.wait_for(lock, std::chrono::milliseconds(50));
        }
        if (reply_ == nullptr) return;
        reply = std::exchange(reply_, nullptr);
        asked = asked_;  // two characters: nothing is allocated
      }
      AnswerErrors(reply, [&] {
        if (asked == "/p") {
          for (int part = 0; part < 3; ++part) {
            reply->SendPart({std::string(100, 'a'), /*last=*/part == 2, {}});
          }
          return;
        }
        HttpResponse answer = HttpResponse::Json(std::string(asked == "/l" ? 2 << 20 : 100, 'a'));
        answer.gives_way = true;
        reply->Send(std::move(answer));
      });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string asked_;
  std::shared_ptr<HttpReply> reply_;
  std::jthread thread_;
};

class MemoryRunsOut : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::size_t room = std::size_t{64} << 20;
    const auto budget = std::make_shared<MemoryBudget>(MemoryBudget::Limits{room, 64});
    listener_ =
        *HttpListener::Listen(pool_, handler_, {BufferPool::Create(room), budget},
                              {.port = {"HTTP", "127.0.0.1", 0}, .limits = {}, .low = &low_});
    listener_->Start();
  }
  void TearDown() override {
    listener_->Drain();
    EXPECT_TRUE(listener_->WaitIdle(Now() + std::chrono::seconds(10)));
    listener_->Close();
    low_.Stop();
    pool_.Join();
  }

  Answers handler_;
  IoPool pool_{2};
  LowLane low_{pool_};
  std::shared_ptr<HttpListener> listener_;
};

INSTANTIATE_TEST_SUITE_P(Answers, MemoryRunsOut, testing::Values("/small", "/large", "/parts"),
                         [](const auto& path) { return std::string(path.param + 1); });

TEST_P(MemoryRunsOut, ClientsAreAnsweredOrCutOff) {
#ifndef LAGOON_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "the sanitizer has an operator new of its own";
#else
  // Smaller allocations are those of strands, in which Boost 1.74 ends the program.
  constexpr std::size_t kLeastBytes = 128;
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n", GetParam());
  int untouched = 0;
  for (int nth = 1; untouched < 3; ++nth) {
    for (const int times : {1, 4}) {
      int status = 0;
      bool failed = false;
      {
        const FailingAllocation failing(nth, times, kLeastBytes);
        HttpTestClient client(listener_->port());
        if (client.Send(request)) status = client.StatusAtEnd();
        failed = FailingAllocation::failed();
      }
      ASSERT_GE(status, 0) << "no answer: allocation " << nth << ", " << times << " fail";
      untouched = failed ? 0 : untouched + 1;
      HttpTestClient next(listener_->port());
      ASSERT_TRUE(next.Send(request));
      ASSERT_EQ(next.StatusAtEnd(), 200) << "after allocation " << nth << ", " << times << " fail";
    }
  }
  const FailingAllocation failing(1, 4, kLeastBytes);
  listener_->Drain();
  EXPECT_TRUE(listener_->WaitIdle(Now() + std::chrono::seconds(10)));
#endif
}

/// Whether the call of `request` (stream 1) was answered or ended within ten seconds. Allocates
/// nothing.
[[maybe_unused]] bool EndsOverGrpc(int port, std::string_view request) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const timeval timeout{10, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
  }
  std::array<unsigned char, 16'384> bytes{};
  std::size_t have = 0;
  bool ended = false;
  while (!ended && have < bytes.size()) {
    const ssize_t got = ::recv(socket, bytes.data() + have, bytes.size() - have, 0);
    if (got <= 0) {
      ended = got == 0 || errno == ECONNRESET;
      break;
    }
    have += static_cast<std::size_t>(got);
    for (std::size_t at = 0; at + 9 <= have;) {
      const unsigned char* const head = bytes.data() + at;
      const bool of_call = head[8] == 1;
      ended = ended ||
              (of_call && (head[3] == kReset || (head[3] == kHeaders && head[4] & kEndStream)));
      at += 9 + (std::size_t{head[0]} << 16 | std::size_t{head[1]} << 8 | head[2]);
    }
  }
  ::close(socket);
  return ended;
}

TEST(MemoryRunsOutOverGrpc, CallsAreAnsweredOrEnded) {
#ifndef LAGOON_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "the sanitizer has an operator new of its own";
#else
  FakeCore core;
  IoPool pool(2);
  SharedRegions regions(false);
  GrpcEdge::Options options;
  options.address = "127.0.0.1";
  auto edge = GrpcEdge::Start({core, pool, regions}, options);
  ASSERT_TRUE(edge) << edge.error().message;
  inference::ModelMetadataRequest model;
  model.set_name("twice");
  const std::string message = model.SerializeAsString();
  const std::string request = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0, "") +
                              FrameOf(kHeaders, kEndHeaders, 1, CallHeader("ModelMetadata")) +
                              FrameOf(kData, kEndStream, 1, MessageOf(message, message.size()));
  constexpr std::size_t kLeastBytes = 128;  // as above
  int untouched = 0;
  for (int nth = 1; untouched < 3; ++nth) {
    for (const int times : {1, 4}) {
      bool failed = false;
      bool ended = false;
      {
        const FailingAllocation failing(nth, times, kLeastBytes);
        ended = EndsOverGrpc((*edge)->port(), request);
        failed = FailingAllocation::failed();
      }
      ASSERT_TRUE(ended) << "no answer: allocation " << nth << ", " << times << " fail";
      untouched = failed ? 0 : untouched + 1;
      ASSERT_TRUE(EndsOverGrpc((*edge)->port(), request)) << "after " << nth << ", " << times;
    }
  }
  edge->reset();
  pool.Join();
#endif
}

}  // namespace
}  // namespace lagoon
