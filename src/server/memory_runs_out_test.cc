// Where memory runs out, for a moment and at any allocation, a client gets an answer or the end of
// its connection, and the next one is served.

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
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

#ifdef LAGOON_COUNTS_ALLOCATIONS
struct Sizes {
  std::size_t least = 0, most = 0;
};
// Allocations between these are those of strands, in which Boost 1.74 ends the program.
constexpr Sizes kSmall{17, 48};  // a closure in a std::function
constexpr Sizes kLarge{128, std::numeric_limits<std::size_t>::max()};

/// Lets each allocation of these sizes fail while `ends` asks the server, alone and with the three
/// after it. `ends`: the client was answered or cut off. `serves`: the next client is answered.
void LetEachFail(Sizes sizes, const std::function<bool()>& ends,
                 const std::function<bool()>& serves) {
  spdlog::default_logger_raw();  // is made now
  int untouched = 0;
  for (int nth = 1; untouched < 3; ++nth) {
    for (const int times : {1, 4}) {
      bool ended = false;
      bool failed = false;
      {
        const FailingAllocation failing(nth, times, sizes.least, sizes.most);
        ended = ends();
        failed = FailingAllocation::failed();
      }
      ASSERT_TRUE(ended) << "no answer: allocation " << nth << ", " << times << " fail";
      untouched = failed ? 0 : untouched + 1;
      ASSERT_TRUE(serves()) << "after allocation " << nth << ", " << times << " fail";
    }
  }
}
#endif

/// The status of the answer; 0: the client was cut off; less: nothing came. Allocates nothing.
[[maybe_unused]] int StatusOverHttp(int port, std::string_view request) {
  HttpTestClient client(port);
  return client.Send(request) ? client.StatusAtEnd() : 0;
}

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
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n", GetParam());
  LetEachFail(
      kLarge, [&] { return StatusOverHttp(listener_->port(), request) >= 0; },
      [&] { return StatusOverHttp(listener_->port(), request) == 200; });
  const FailingAllocation failing(1, 4, kLarge.least);
  listener_->Drain();
  EXPECT_TRUE(listener_->WaitIdle(Now() + std::chrono::seconds(10)));
#endif
}

/// What came to the call of `request` (stream 1) within ten seconds; kEnded: without a message.
/// Allocates nothing.
enum class Got : std::uint8_t { kNothing, kEnded, kAnswer };
[[maybe_unused]] Got OverGrpc(int port, std::string_view request) {
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
  bool ended = false, message = false;
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
      message = message || (of_call && head[3] == kData);
      ended = ended ||
              (of_call && (head[3] == kReset || (head[3] == kHeaders && head[4] & kEndStream)));
      at += 9 + (std::size_t{head[0]} << 16 | std::size_t{head[1]} << 8 | head[2]);
    }
  }
  ::close(socket);
  return !ended ? Got::kNothing : message ? Got::kAnswer : Got::kEnded;
}

/// A connection's first bytes, with the call of `method` as stream 1.
[[maybe_unused]] std::string FirstCall(const std::string& method, const std::string& message) {
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0, "") +
                      FrameOf(kSettings, /*acknowledges*/ 1, 0, "") +
                      FrameOf(kHeaders, kEndHeaders, 1, CallHeader(method));
  const std::string data = MessageOf(message, message.size());
  constexpr std::size_t kFrame = 16'384;
  for (std::size_t at = 0; at < data.size(); at += kFrame) {
    const bool last = at + kFrame >= data.size();
    bytes += FrameOf(kData, last ? kEndStream : 0, 1, data.substr(at, kFrame));
  }
  return bytes;
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
  const std::string request = FirstCall("ModelMetadata", model.SerializeAsString());
  const auto call = [&] { return OverGrpc((*edge)->port(), request); };
  LetEachFail(
      kLarge, [&] { return call() != Got::kNothing; }, [&] { return call() == Got::kAnswer; });
  edge->reset();
  pool.Join();
#endif
}

#ifdef LAGOON_COUNTS_ALLOCATIONS
class MemoryRunsOutInInference : public ServerTest {
 protected:
  /// A request of so many ones to "vector", which gives them back doubled.
  static std::string Json(std::size_t elements) {
    std::string data = "1";
    for (std::size_t i = 1; i < elements; ++i) data += ",1";
    return fmt::format(
        R"({{"inputs":[{{"name":"x","datatype":"FP32","shape":[{}],"data":[{}]}}]}})", elements,
        data);
  }
  void AskOverHttp(const std::string& body) {
    const std::string request = Post("/v2/models/vector/infer", body, "Connection: close\r\n");
    const auto status = [&] { return StatusOverHttp(server_->http_port(), request); };
    for (const Sizes sizes : {kSmall, kLarge}) {
      LetEachFail(
          sizes, [&] { return status() >= 0; }, [&] { return status() == 200; });
    }
  }
  void AskOverGrpc(inference::ModelInferRequest& message, std::int64_t priority) {
    (*message.mutable_parameters())["priority"].set_int64_param(priority);
    message.mutable_inputs(0)->set_datatype("FP32");
    const std::string request = FirstCall("ModelInfer", message.SerializeAsString());
    const auto call = [&] { return OverGrpc(server_->grpc_port(), request); };
    for (const Sizes sizes : {kSmall, kLarge}) {
      LetEachFail(
          sizes, [&] { return call() != Got::kNothing; }, [&] { return call() == Got::kAnswer; });
    }
  }
  static inference::ModelInferRequest OfVector() {
    inference::ModelInferRequest message;
    message.set_model_name("vector");
    message.add_inputs()->set_name("x");
    message.mutable_inputs(0)->add_shape(4);
    message.add_raw_input_contents(std::string(4 * sizeof(float), '\0'));
    return message;
  }
};

TEST_F(MemoryRunsOutInInference, SmallJsonIsAnsweredOrCutOff) { AskOverHttp(Json(4)); }
TEST_F(MemoryRunsOutInInference, LargeJsonIsAnsweredOrCutOff) { AskOverHttp(Json(9000)); }
TEST_F(MemoryRunsOutInInference, CallsAreAnsweredOrEnded) {
  auto message = OfVector();
  AskOverGrpc(message, 0);
}
TEST_F(MemoryRunsOutInInference, BestEffortCallsAreAnsweredOrEnded) {
  auto message = OfVector();
  AskOverGrpc(message, 2);
}
TEST_F(MemoryRunsOutInInference, LongMessagesAreAnsweredOrEnded) {
  inference::ModelInferRequest message;
  message.set_model_name("image");
  auto& input = *message.add_inputs();
  input.set_name("pixels");
  for (const int dim : {1, 3, 224, 224}) input.add_shape(dim);
  input.mutable_contents()->mutable_fp32_contents()->Resize(3 * 224 * 224, 1);
  AskOverGrpc(message, 0);
}
#endif

}  // namespace
}  // namespace lagoon
