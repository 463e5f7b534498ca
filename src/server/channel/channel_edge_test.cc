// Clients of a channel over a FakeCore: honest ones, those that lie, and those that die.

#include "server/channel/channel_edge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "client/channel_client.h"
#include "server/testing/fake_core.h"

namespace lagoon {
namespace {

using channel::Answer;
using channel::Client;
using channel::kSlots;
using testing::HasSubstr;

constexpr std::chrono::seconds kLong{30};

/// A process that waits for Go() and then ends with what `run` returns. Forked while the test has
/// one thread.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<int()>& run) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[1]);
      char word = 0;
      const bool go = ::read(ends[0], &word, 1) == 1;
      ::_exit(go ? run() : 99);
    }
    ::close(ends[0]);
    go_ = ends[1];
  }
  ~ChildProcess() {
    if (go_ >= 0) ::close(go_);
    if (process_ > 0) Kill();
  }
  void Go() const { EXPECT_EQ(::write(go_, "g", 1), 1); }
  void Kill() {
    ::kill(process_, SIGKILL);
    Wait();
  }
  int Wait() {
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_ = -1;
  int go_ = -1;
};

class Channel : public testing::Test {
 protected:
  Channel() : path_("/tmp/lagoon-channel-test-" + std::to_string(::getpid())) {}
  ~Channel() override {
    edge_.reset();
    if (core_) core_->Release();
  }

  void Serve(std::size_t most_channels = 64, std::size_t of_process = 16,
             std::uint64_t most_bytes = std::uint64_t{4} << 30) {
    core_.emplace();
    pool_.emplace(1);
    auto edge = ChannelEdge::Start(*core_, *pool_, {path_, most_channels, of_process, most_bytes});
    ASSERT_TRUE(edge) << edge.error().message;
    edge_ = *std::move(edge);
  }

  static std::unique_ptr<Client> Connect(const std::string& path, std::uint64_t bytes = 1 << 16) {
    std::string error;
    auto client = Client::Open(path, bytes, error);
    if (client == nullptr) std::fprintf(stderr, "%s\n", error.c_str());
    return client;
  }
  /// "twice": x at 0, y at 64.
  static std::optional<std::uint32_t> Twice(Client& client, std::uint64_t y_bytes = 16) {
    const channel::Tensor x{"x", "FP32", {1, 4}, 0, 16}, y{"y", {}, {}, 64, y_bytes};
    std::string error;
    return client.Call("twice", "", std::span(&x, 1), std::span(&y, 1), error);
  }
  static void Put(Client& client, std::uint64_t at, std::array<float, 4> values) {
    std::memcpy(client.data().data() + at, values.data(), sizeof(values));
  }
  static std::array<float, 4> Get(Client& client, std::uint64_t at) {
    std::array<float, 4> values{};
    std::memcpy(values.data(), client.data().data() + at, sizeof(values));
    return values;
  }
  static Answer Read(Client& client) {
    Answer answer;
    EXPECT_EQ(client.Read(answer, kLong), Client::Got::kAnswer);
    return answer;
  }
  /// One request of another client is answered: the server is there.
  void ExpectServed() {
    const auto client = Connect(path_);
    ASSERT_NE(client, nullptr);
    Put(*client, 0, {1, 2, 3, 4});
    ASSERT_TRUE(client->Submit({.tag = 1, .call = *Twice(*client)}));
    EXPECT_EQ(Read(*client).code, 0u);
    EXPECT_EQ(Get(*client, 64), (std::array<float, 4>{2, 4, 6, 8}));
  }
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const TimePoint until = Now() + kLong;
    while (!condition()) {
      if (Now() >= until) return false;
      std::this_thread::yield();
    }
    return true;
  }
  static channel::Head& HeadOf(Client& client) {
    return *reinterpret_cast<channel::Head*>(client.data().data() - channel::kDataAt);
  }
  static bool Gone(Client& client) {
    Answer answer;
    return client.Read(answer, kLong) == Client::Got::kServerGone;
  }

  const std::string path_;
  std::optional<FakeCore> core_;
  std::optional<IoPool> pool_;
  std::unique_ptr<ChannelEdge> edge_;
};

TEST_F(Channel, AnswersLieWhereTheClientAskedForThem) {
  Serve();
  const auto client = Connect(path_);
  ASSERT_NE(client, nullptr);
  const auto call = Twice(*client);
  ASSERT_TRUE(call);
  for (std::uint64_t i = 0; i < 3 * kSlots; ++i) {
    const std::uint64_t base = 128 * (i % 8);
    Put(*client, base, {1, 2, 3, static_cast<float>(i)});
    ASSERT_TRUE(client->Submit({.tag = i, .call = *call, .base = base}));
    const Answer answer = Read(*client);
    EXPECT_EQ(answer.tag, i);
    ASSERT_EQ(answer.code, 0u) << answer.error;
    ASSERT_EQ(answer.outputs.size(), 1u);
    EXPECT_EQ(answer.outputs[0].bytes, 16u);
    EXPECT_EQ(answer.outputs[0].rank, 2u);
    EXPECT_EQ(answer.outputs[0].dims[1], 4);
    EXPECT_EQ(Get(*client, base + 64), (std::array<float, 4>{2, 4, 6, 2 * static_cast<float>(i)}));
  }
}

TEST_F(Channel, ManyRequestsAreInFlightAtATime) {
  Serve();
  const auto client = Connect(path_);
  const auto call = Twice(*client);
  core_->Hold();
  for (std::uint64_t i = 0; i < kSlots; ++i) {
    Put(*client, 128 * i, {static_cast<float>(i), 0, 0, 0});
    ASSERT_TRUE(client->Submit({.tag = i, .call = *call, .base = 128 * i}));
  }
  EXPECT_FALSE(client->Submit({.tag = 99, .call = *call}));
  EXPECT_TRUE(Eventually([&] { return core_->Pending() == kSlots; }));
  core_->Release();
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const Answer answer = Read(*client);
    EXPECT_EQ(Get(*client, 128 * answer.tag + 64)[0], 2.0F * static_cast<float>(answer.tag));
  }
  EXPECT_EQ(client->in_flight(), 0u);
}

TEST_F(Channel, ClassAndTimeLimitReachTheCore) {
  Serve();
  const auto client = Connect(path_);
  ASSERT_TRUE(
      client->Submit({.tag = 1, .call = *Twice(*client), .timeout_us = 5'000'000, .priority = 2}));
  EXPECT_EQ(Read(*client).code, 0u);
  const InferRequest request = core_->LastRequest();
  EXPECT_EQ(request.priority, 2u);
  EXPECT_EQ(request.timeout, std::chrono::seconds(5));
  EXPECT_NE(request.near_end, nullptr);
}

TEST_F(Channel, ErrorsAreAnswers) {
  Serve();
  const auto client = Connect(path_);
  core_->FailWith({ErrorCode::kUnavailable, "model 'twice': full"});
  ASSERT_TRUE(client->Submit({.tag = 7, .call = *Twice(*client)}));
  const Answer answer = Read(*client);
  EXPECT_EQ(answer.tag, 7u);
  EXPECT_EQ(answer.code, 14u);
  EXPECT_EQ(answer.error, "model 'twice': full");
}

TEST_F(Channel, AnOutputThatIsLargerThanItsPlaceIsAnError) {
  Serve();
  const auto client = Connect(path_);
  ASSERT_TRUE(client->Submit({.tag = 1, .call = *Twice(*client, 15)}));
  const Answer answer = Read(*client);
  EXPECT_EQ(answer.code, 3u);
  EXPECT_THAT(answer.error, HasSubstr("output 'y' (15 bytes) should be at least 16"));
  EXPECT_EQ(Get(*client, 64)[0], 0);
}

TEST_F(Channel, ARequestIsCancelled) {
  Serve();
  core_->Hold();
  const auto client = Connect(path_);
  const auto call = Twice(*client);
  ASSERT_TRUE(client->Submit({.tag = 1, .call = *call}));
  ASSERT_TRUE(client->Submit({.tag = 2, .call = *call}));
  ASSERT_TRUE(client->Cancel(2));
  const Answer answer = Read(*client);
  EXPECT_EQ(answer.tag, 2u);
  EXPECT_EQ(answer.code, 1u);
  EXPECT_EQ(core_->Cancelled(), 1u);
  EXPECT_EQ(client->in_flight(), 1u);
}

TEST_F(Channel, AClientThatGoesCancelsItsRequests) {
  Serve();
  core_->Hold();
  {
    const auto client = Connect(path_);
    const auto call = Twice(*client);
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(client->Submit({.tag = i, .call = *call}));
    ASSERT_TRUE(Eventually([&] { return core_->Pending() == 5; }));
  }
  EXPECT_TRUE(Eventually([&] { return core_->Cancelled() == 5; }));
  core_->Release();
  ExpectServed();
}

TEST_F(Channel, AClientThatIsKilledCancelsItsRequests) {
  ChildProcess child([path = path_] {
    const auto client = Connect(path);
    const auto call = Twice(*client);
    for (std::uint64_t i = 0; i < 5; ++i) client->Submit({.tag = i, .call = *call});
    Answer answer;
    client->Read(answer, kLong);
    return 1;
  });
  Serve();
  core_->Hold();
  child.Go();
  ASSERT_TRUE(Eventually([&] { return core_->Pending() == 5; }));
  child.Kill();
  EXPECT_TRUE(Eventually([&] { return core_->Cancelled() == 5; }));
  core_->Release();
  ExpectServed();
}

TEST_F(Channel, ServesAnotherProcess) {
  ChildProcess child([path = path_] {
    const auto client = Connect(path);
    const auto call = Twice(*client);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      Put(*client, 0, {static_cast<float>(i), 0, 0, 0});
      Answer answer;
      if (!client->Submit({.tag = i, .call = *call})) return 1;
      if (client->Read(answer, kLong) != Client::Got::kAnswer || answer.tag != i) return 2;
      if (Get(*client, 64)[0] != 2.0F * static_cast<float>(i)) return 3;
    }
    return 0;
  });
  Serve();
  child.Go();
  EXPECT_EQ(child.Wait(), 0);
}

TEST_F(Channel, AClientLearnsThatTheServerHasGone) {
  Serve();
  const auto client = Connect(path_);
  edge_.reset();
  EXPECT_TRUE(Gone(*client));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Channel, StoppingAnswersWhatIsInFlight) {
  Serve();
  core_->Hold();
  const auto client = Connect(path_);
  ASSERT_TRUE(client->Submit({.tag = 1, .call = *Twice(*client)}));
  ASSERT_TRUE(Eventually([&] { return core_->Pending() == 1; }));
  std::jthread stopper([&] { edge_->Stop(Now() + kLong); });
  core_->Release();
  EXPECT_EQ(Read(*client).code, 0u);
}

TEST_F(Channel, StoppingCancelsWhatIsNotAnsweredInTime) {
  Serve();
  core_->Hold();
  const auto client = Connect(path_);
  ASSERT_TRUE(client->Submit({.tag = 1, .call = *Twice(*client)}));
  ASSERT_TRUE(Eventually([&] { return core_->Pending() == 1; }));
  edge_->Stop(Now());
  EXPECT_EQ(Read(*client).code, 1u);
}

// ---- Who may connect, and how often

TEST_F(Channel, OnlyTheUserMayConnect) {
  Serve();
  struct stat status = {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(Channel, ASecondServerIsRefusedAndADeadOneReplaced) {
  Serve();
  EXPECT_EQ(ChannelEdge::Check(path_).error().code, ErrorCode::kAlreadyExists);
  edge_.reset();
  // What a server leaves that was killed.
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(socket);
  Serve();
  ExpectServed();
}

TEST_F(Channel, APathThatCannotBeASocketIsRefused) {
  EXPECT_THAT(ChannelEdge::Check("").error().message, HasSubstr("0 bytes"));
  EXPECT_THAT(ChannelEdge::Check(std::string(200, 'a')).error().message, HasSubstr("200 bytes"));
  EXPECT_THAT(ChannelEdge::Check("/nowhere/at/all").error().message, HasSubstr("/nowhere/at/all"));
  EXPECT_THAT(ChannelEdge::Check("/tmp").error().message, HasSubstr("no socket"));
}

TEST_F(Channel, ChannelsAndBytesAreBounded) {
  Serve(64, 2, 1 << 20);
  std::string error;
  const auto first = Client::Open(path_, 1 << 19, error);
  ASSERT_NE(first, nullptr) << error;
  auto second = Client::Open(path_, (1 << 19) + 1, error);
  EXPECT_EQ(second, nullptr);
  EXPECT_THAT(error, HasSubstr("error 8 a channel of 528384 bytes"));
  EXPECT_TRUE(Eventually([&] {
    second = Client::Open(path_, 1 << 19, error);
    return second != nullptr;
  }));
  EXPECT_EQ(Client::Open(path_, 1, error), nullptr);
  EXPECT_THAT(error, HasSubstr("2 of this process"));
  second.reset();
  EXPECT_TRUE(Eventually([&] { return Client::Open(path_, 1, error) != nullptr; }));
}

// ---- Calls that are wrong

TEST_F(Channel, WrongCallsAreRefusedByName) {
  Serve();
  const auto client = Connect(path_, 4096);
  const channel::Tensor x{"x", "FP32", {1, 4}, 0, 16}, y{"y", {}, {}, 64, 16};
  const auto refusal = [&](channel::Tensor in, channel::Tensor out) {
    std::string error;
    EXPECT_FALSE(client->Call("twice", "", std::span(&in, 1), std::span(&out, 1), error));
    return error;
  };
  auto wrong = x;
  wrong.bytes = 12;
  EXPECT_THAT(refusal(wrong, y), HasSubstr("input 'x'"));
  wrong = x;
  wrong.offset = 4096 - 8;
  EXPECT_THAT(refusal(wrong, y), HasSubstr("no multiple of 64"));
  wrong.offset = 4096;
  EXPECT_THAT(refusal(wrong, y), HasSubstr("16 bytes at 4096, the channel has 4096"));
  wrong = y;
  wrong.offset = ~std::uint64_t{63};
  EXPECT_THAT(refusal(x, wrong), HasSubstr("output 'y'"));
  wrong = y;
  wrong.bytes = ~std::uint64_t{0};
  EXPECT_THAT(refusal(x, wrong), HasSubstr("output 'y'"));
  wrong = x;
  wrong.datatype = "BYTES";
  EXPECT_THAT(refusal(wrong, y), HasSubstr("error 12"));
  std::string error;
  EXPECT_FALSE(client->Call("twice", "", std::span(&x, 1), {}, error));
  EXPECT_THAT(error, HasSubstr("names 0 outputs"));
  const std::vector<channel::Tensor> many(channel::kMostOutputs + 1, y);
  EXPECT_FALSE(client->Call("twice", "", std::span(&x, 1), many, error));
  ExpectServed();
}

TEST_F(Channel, TheCallsOfAChannelAreBounded) {
  Serve();
  const auto client = Connect(path_);
  for (std::size_t i = 0; i < ChannelSession::kMostCalls; ++i) ASSERT_EQ(Twice(*client), i);
  EXPECT_FALSE(Twice(*client));
}

// ---- Clients that lie

TEST_F(Channel, RequestsThatAreWrongAreAnsweredAsErrors) {
  Serve();
  const auto client = Connect(path_, 4096);
  const std::uint32_t call = *Twice(*client);
  const std::vector<Client::Request> requests = {
      {.tag = 1, .call = call + 1},
      {.tag = 2, .call = ~0u},
      {.tag = 3, .call = call, .base = 1},
      {.tag = 4, .call = call, .base = 4096},
      {.tag = 5, .call = call, .base = 4096 - 64},  // y ends 16 bytes beyond
      {.tag = 6, .call = call, .base = ~std::uint64_t{63}},
      {.tag = 7, .call = call, .timeout_us = ~std::uint64_t{0}},
  };
  for (const Client::Request& request : requests) {
    ASSERT_TRUE(client->Submit(request));
    const Answer answer = Read(*client);
    EXPECT_EQ(answer.tag, request.tag);
    EXPECT_EQ(answer.code, 3u) << request.tag;
    EXPECT_FALSE(answer.error.empty());
  }
  ASSERT_TRUE(client->Submit({.tag = 8, .call = call, .base = 4096 - 128}));
  EXPECT_EQ(Read(*client).code, 0u);
}

TEST_F(Channel, ImpossibleCountersEndTheChannelOfThatClientOnly) {
  Serve();
  for (const bool submitted : {true, false}) {
    const auto liar = Connect(path_);
    const auto call = Twice(*liar);
    core_->Hold();
    ASSERT_TRUE(liar->Submit({.tag = 1, .call = *call}));
    ASSERT_TRUE(Eventually([&] { return core_->Pending() == 1; }));
    (submitted ? HeadOf(*liar).submitted : HeadOf(*liar).read).store(12345);
    if (!submitted) HeadOf(*liar).submitted.fetch_add(1);
    // Something else wakes the server.
    core_->Release();
    ExpectServed();
    EXPECT_TRUE(Gone(*liar) || Gone(*liar));  // perhaps after the answer of request 1
    ExpectServed();
  }
}

TEST_F(Channel, AClientThatScribblesHurtsItselfOnly) {
  Serve();
  const auto liar = Connect(path_);
  const auto call = Twice(*liar);
  std::atomic<bool> stop{false};
  std::jthread scribbler([&] {
    std::uint64_t seed = 1;
    auto* const words = reinterpret_cast<std::uint64_t*>(liar->data().data() - channel::kDataAt);
    while (!stop.load()) {
      seed = seed * 6364136223846793005 + 1442695040888963407;
      // All of the rings but `submitted` and `read`: these end the channel (above).
      const std::size_t at = 16 + (seed >> 33) % (channel::kDataAt / 8 - 16);
      std::atomic_ref<std::uint64_t>(words[at]).store(seed, std::memory_order_relaxed);
      if (seed % 8 == 0) {
        const std::uint32_t next = HeadOf(*liar).submitted.load() + 1;
        HeadOf(*liar).submitted.store(next);
        HeadOf(*liar).read.store(HeadOf(*liar).completed.load());
      }
    }
  });
  for (int i = 0; i < 50; ++i) ExpectServed();
  stop.store(true);
  scribbler.join();
  ExpectServed();
  (void)call;
}

TEST_F(Channel, MessagesThatAreWrongEndTheChannel) {
  Serve();
  for (const std::string& text :
       {std::string("hello"), std::string("call {}"), std::string("close"), std::string(1, '\0'),
        std::string(channel::kMostMessageBytes + 1, 'x')}) {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    ASSERT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_GT(::send(socket, text.data(), text.size(), MSG_NOSIGNAL), 0);
    char reply = 0;
    EXPECT_EQ(::recv(socket, &reply, 1, 0), 0) << text.substr(0, 10);
    ::close(socket);
  }
  ExpectServed();
}

TEST_F(Channel, OpenWithoutANumberIsAnError) {
  Serve();
  std::string error;
  EXPECT_EQ(Client::Open(path_, 0, error), nullptr);
  EXPECT_THAT(error, HasSubstr("error 3"));
  EXPECT_EQ(Client::Open(path_, ~std::uint64_t{0}, error), nullptr);
  EXPECT_THAT(error, HasSubstr("error 3"));
}

}  // namespace
}  // namespace lagoon
