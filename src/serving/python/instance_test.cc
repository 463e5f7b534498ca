#include "serving/python/instance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <set>
#include <thread>

#include "serving/python/tensors.h"

namespace lagoon {
namespace {

constexpr Nanoseconds kPeerLimit = std::chrono::seconds(60);

/// The program's end of a channel.
class Peer {
 public:
  explicit Peer(ProgramChannel channel) : channel_(std::move(channel)) {}
  /// The next message; an empty object: the server's end is closed.
  nlohmann::json Next() {
    auto message = channel_.Receive(Now() + kPeerLimit, -1);
    return message && *message ? (*message)->object : nlohmann::json::object();
  }
  void Say(const nlohmann::json& object) { (void)channel_.Send(object, {}, Now() + kPeerLimit); }
  void Ready() {
    EXPECT_EQ(Next()["op"], "load");
    Say({{"op", "ready"}});
  }
  void Answer(std::uint64_t id) {
    Say({{"op", "answer"}, {"id", id}, {"final", true}, {"outputs", nlohmann::json::array()}});
  }

 private:
  ProgramChannel channel_;
};

/// A program that is a thread of this process.
class ProgramThread final : public ProgramProcess {
 public:
  ProgramThread(OwnedDescriptor socket, std::function<void(Peer&)> run)
      : thread_([socket = std::move(socket), run = std::move(run)]() mutable {
          Peer peer{ProgramChannel(std::move(socket))};
          run(peer);
        }) {}
  std::string End(bool /*gently*/) override {
    thread_.join();
    return "was ended by the server";
  }

 private:
  std::jthread thread_;
};

class FakeJob final : public PythonJob {
 public:
  FakeJob(std::uint64_t id, TimePoint deadline) : id_(id), deadline_(deadline) {}
  std::uint64_t id() const override { return id_; }
  TimePoint deadline() const override { return deadline_; }
  bool lowered() const override { return false; }
  bool answered() const override { return answered_; }
  nlohmann::json Describe(std::vector<std::span<const std::byte>>& /*parts*/) override {
    return {{"id", id_}};
  }
  void Begun(TimePoint /*taken*/, TimePoint /*sent*/) override {}
  Status Answer(const ProgramMessage& message) override {
    if (message.object.contains("outputs") && message.object["outputs"].size() > 0)
      return lagoon::Fail(ErrorCode::kInternal, "wrong output");
    End("answer");
    return {};
  }
  Status Give(const ProgramMessage& /*message*/, std::function<void()> taken) override {
    taken_.push_back(std::move(taken));
    return {};
  }
  void End() override { End("end"); }
  void Fail(Error error) override { End("failed: " + error.message); }
  void Refuse(Error error) override { End("refused: " + error.message); }
  void Expire() override { End("expired"); }
  void Forget() override { forgotten_ = true; }
  void End(const std::string& how) {
    if (!answered_.exchange(true)) how_.set_value(how);
  }
  std::string How() { return how_.get_future().get(); }

  std::vector<std::function<void()>> taken_;
  std::atomic<bool> forgotten_{false};

 private:
  const std::uint64_t id_;
  const TimePoint deadline_;
  std::atomic<bool> answered_{false};
  std::promise<std::string> how_;
};

class FakeJobs final : public PythonJobs {
 public:
  std::shared_ptr<FakeJob> Add(PythonInstance& instance, TimePoint deadline = kNoDeadline) {
    auto job = std::make_shared<FakeJob>(++last_, deadline);
    {
      const MutexLock lock(mutex_);
      waiting_.push_back(job);
    }
    instance.Wake();
    return job;
  }
  std::vector<std::shared_ptr<PythonJob>> Take(bool wants, TimePoint& next) override {
    next = kNoDeadline;
    const MutexLock lock(mutex_);
    std::vector<std::shared_ptr<PythonJob>> taken;
    if (wants && !waiting_.empty()) {
      taken.push_back(waiting_.front());
      waiting_.pop_front();
    }
    return taken;
  }
  std::size_t Waiting() const override {
    const MutexLock lock(mutex_);
    return waiting_.size();
  }

 private:
  std::uint64_t last_ = 0;
  mutable Mutex mutex_;
  std::deque<std::shared_ptr<FakeJob>> waiting_ GUARDED_BY(mutex_);
};

class FakeCalls final : public PythonCalls {
 public:
  RequestHandle Call(const std::string& caller, InferRequest request, TimePoint /*deadline*/,
                     InferCallback callback) override {
    EXPECT_EQ(caller, "m");
    const RequestHandle handle{++last_};
    if (request.model == "missing") {
      callback(Fail(ErrorCode::kNotFound, "no such model"));
      return handle;
    }
    if (request.model == "streams") {
      for (int i = 0; i < 3; ++i) request.stream->Give(InferResponse(), [this] { ++taken_; });
    }
    const MutexLock lock(mutex_);
    open_[handle] = std::move(callback);
    return handle;
  }
  int taken() const { return taken_; }
  void CancelCall(RequestHandle call) override {
    InferCallback callback;
    {
      const MutexLock lock(mutex_);
      const auto found = open_.find(call);
      if (found == open_.end()) return;
      callback = std::move(found->second);
      open_.erase(found);
    }
    callback(Fail(ErrorCode::kCancelled, "cancelled"));
  }

 private:
  std::uint64_t last_ = 0;
  Mutex mutex_;
  std::map<RequestHandle, InferCallback> open_ GUARDED_BY(mutex_);
  std::atomic<int> taken_{0};
};

class InstanceTest : public ::testing::Test {
 protected:
  /// `runs`: the program, at each start; the last one again and again.
  void Open(std::vector<std::function<void(Peer&)>> runs) {
    options_.model = "m";
    options_.load = {{"op", "load"}};
    options_.calls = &calls_;
    options_.first_pause = std::chrono::milliseconds(1);
    options_.start = [this, runs = std::move(runs)](
                         OwnedDescriptor socket) -> Result<std::unique_ptr<ProgramProcess>> {
      const std::size_t run = std::min<std::size_t>(starts_++, runs.size() - 1);
      return std::make_unique<ProgramThread>(std::move(socket), runs[run]);
    };
    instance_.emplace(std::move(options_));
    instance_->Start();
  }
  void OpenReady(std::vector<std::function<void(Peer&)>> runs) {
    Open(std::move(runs));
    const auto ready = instance_->AwaitReady();
    ASSERT_TRUE(ready) << ready.error().message;
    instance_->Serve(jobs_);
  }
  std::string LoadError() {
    const auto ready = instance_->AwaitReady();
    return ready ? "" : ready.error().message;
  }

  FakeJobs jobs_;
  FakeCalls calls_;
  PythonInstance::Options options_;
  std::atomic<std::size_t> starts_{0};
  std::optional<PythonInstance> instance_;
};

/// Answers all requests until the end.
void ServeAll(Peer& peer) {
  peer.Ready();
  for (nlohmann::json message = peer.Next(); message.value("op", "end") != "end";
       message = peer.Next()) {
    if (message["op"] != "execute") continue;
    for (const auto& request : message["requests"]) peer.Answer(request["id"]);
    peer.Say({{"op", "done"}});
  }
}

TEST_F(InstanceTest, RequestsAreAnsweredOneAfterTheOther) {
  OpenReady({ServeAll});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
  EXPECT_EQ(starts_, 1u);
}

TEST_F(InstanceTest, AProgramThatCannotBeLoadedSaysWhy) {
  Open({[](Peer& peer) {
    peer.Next();
    peer.Say({{"op", "log"}, {"level", "info"}, {"text", "loading"}});
    peer.Say({{"op", "failed"}, {"error", {{"message", "SyntaxError: line 3"}}}});
  }});
  EXPECT_EQ(LoadError(), "SyntaxError: line 3");
}

TEST_F(InstanceTest, AProgramThatEndsWhileItLoadsIsAnError) {
  Open({[](Peer& peer) { peer.Next(); }});
  EXPECT_NE(LoadError().find("before it was ready"), std::string::npos);
}

TEST_F(InstanceTest, AProgramThatIsNeverReadyIsAnError) {
  options_.start_limit = std::chrono::milliseconds(20);
  Open({[](Peer& peer) {
    peer.Next();
    peer.Next();
  }});
  EXPECT_NE(LoadError().find("is not ready after"), std::string::npos);
}

TEST_F(InstanceTest, AnErrorOfExecuteAnswersItsRequest) {
  OpenReady({[](Peer& peer) {
    peer.Ready();
    peer.Next();
    peer.Say({{"op", "done"}, {"error", {{"message", "ValueError: no (model.py:7)"}}}});
    peer.Next();
  }});
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "failed: ValueError: no (model.py:7)");
}

TEST_F(InstanceTest, ARequestWithoutAnAnswerFails) {
  OpenReady({[](Peer& peer) {
    peer.Ready();
    peer.Next();
    peer.Say({{"op", "done"}});
    peer.Next();
  }});
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "failed: the program has given no answer");
}

TEST_F(InstanceTest, AWrongOutputFailsTheRequestOnly) {
  OpenReady({[](Peer& peer) {
    peer.Ready();
    const std::uint64_t id = peer.Next()["requests"][0]["id"];
    peer.Say({{"op", "answer"}, {"id", id}, {"final", true}, {"outputs", {1}}});
    peer.Say({{"op", "done"}});
    const std::uint64_t next = peer.Next()["requests"][0]["id"];
    peer.Answer(next + 77);  // of no request
    peer.Answer(next);
    peer.Say({{"op", "done"}});
    peer.Next();
  }});
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "failed: wrong output");
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
  EXPECT_EQ(starts_, 1u);
}

TEST_F(InstanceTest, AProgramThatEndsIsStartedAgain) {
  OpenReady({[](Peer& peer) {
               peer.Ready();
               peer.Next();
             },
             ServeAll});
  EXPECT_NE(jobs_.Add(*instance_)->How().find("it is being started again"), std::string::npos);
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
  EXPECT_EQ(starts_, 2u);
}

TEST_F(InstanceTest, AProgramThatBreaksTheRulesIsStartedAgain) {
  OpenReady({[](Peer& peer) {
               peer.Ready();
               peer.Next();
               peer.Say({{"op", "what"}});
               peer.Next();
             },
             ServeAll});
  EXPECT_NE(jobs_.Add(*instance_)->How().find("unknown kind"), std::string::npos);
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
}

TEST_F(InstanceTest, AProgramThatHangsIsEndedAtTheLimit) {
  options_.limit = std::chrono::milliseconds(30);
  OpenReady({[](Peer& peer) {
               peer.Ready();
               peer.Next();
               peer.Next();
             },
             ServeAll});
  EXPECT_NE(jobs_.Add(*instance_)->How().find("lagoon.python_timeout_ms"), std::string::npos);
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
}

TEST_F(InstanceTest, ADeadlineThatPassesInTheProgramAnswersAtOnceAndTheProgramHearsOfIt) {
  std::promise<nlohmann::json> heard;
  OpenReady({[&](Peer& peer) {
    peer.Ready();
    const std::uint64_t id = peer.Next()["requests"][0]["id"];
    heard.set_value(peer.Next());
    peer.Answer(id);
    peer.Say({{"op", "done"}});
    peer.Answer(peer.Next()["requests"][0]["id"]);
    peer.Say({{"op", "done"}});
    peer.Next();
  }});
  const auto job = jobs_.Add(*instance_, Now() + std::chrono::milliseconds(20));
  EXPECT_EQ(job->How(), "expired");
  EXPECT_EQ(heard.get_future().get(), (nlohmann::json{{"op", "cancel"}, {"id", job->id()}}));
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
  EXPECT_EQ(starts_, 1u);
}

TEST_F(InstanceTest, ACancelledRequestIsForgottenAlthoughTheProgramWorksOn) {
  std::promise<void> begun, heard;
  OpenReady({[&](Peer& peer) {
    peer.Ready();
    peer.Next();
    begun.set_value();
    EXPECT_EQ(peer.Next()["op"], "cancel");
    heard.set_value();
    peer.Next();
  }});
  const auto job = jobs_.Add(*instance_);
  begun.get_future().wait();
  job->End("cancelled");  // as the client's thread does
  instance_->Wake();
  heard.get_future().wait();
  EXPECT_TRUE(job->forgotten_);
}

TEST_F(InstanceTest, CallsOfOtherModelsAreAnsweredAndErrorsToo) {
  std::promise<std::string> got;
  OpenReady({[&](Peer& peer) {
    peer.Ready();
    const std::uint64_t id = peer.Next()["requests"][0]["id"];
    peer.Say(
        {{"op", "call"}, {"call", 5}, {"model", "missing"}, {"inputs", nlohmann::json::array()}});
    const nlohmann::json result = peer.Next();
    got.set_value(result["error"]["code"].get<std::string>() + std::to_string(int(result["call"])));
    peer.Answer(id);
    peer.Say({{"op", "done"}});
    peer.Next();
  }});
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
  EXPECT_EQ(got.get_future().get(), "NOT_FOUND5");
}

/// A program that calls "streams", reads three answers, takes two, and says `last`.
std::function<void(Peer&)> ReadsThree(FakeCalls& calls, const nlohmann::json& last) {
  return [&calls, last](Peer& peer) {
    peer.Ready();
    const std::uint64_t id = peer.Next()["requests"][0]["id"];
    peer.Say({{"op", "call"},
              {"call", 5},
              {"model", "streams"},
              {"decoupled", true},
              {"inputs", nlohmann::json::array()}});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(peer.Next()["more"]);
    EXPECT_EQ(calls.taken(), 0);
    for (int i = 0; i < 2; ++i) peer.Say({{"op", "took"}, {"call", 5}});
    peer.Say({{"op", "took"}, {"call", 6}});  // of no call
    peer.Say(last);
    if (last["op"] != "leave") return;
    peer.Answer(id);
    peer.Say({{"op", "done"}});
    peer.Next();
  };
}

TEST_F(InstanceTest, ACallThatIsLeftTakesTheRestOfItsAnswers) {
  OpenReady({ReadsThree(calls_, {{"op", "leave"}, {"call", 5}})});
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
  EXPECT_EQ(calls_.taken(), 3);
}

TEST_F(InstanceTest, AProgramThatEndsTakesTheAnswersToItsCalls) {
  OpenReady({ReadsThree(calls_, {{"op", "nonsense"}}), ServeAll});
  EXPECT_NE(jobs_.Add(*instance_)->How().find("unknown kind"), std::string::npos);
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
  EXPECT_EQ(calls_.taken(), 3);
}

TEST_F(InstanceTest, ACallWithWrongParametersIsRefused) {
  std::promise<std::string> got;
  OpenReady({[&](Peer& peer) {
    peer.Ready();
    const std::uint64_t id = peer.Next()["requests"][0]["id"];
    peer.Say({{"op", "call"},
              {"call", 5},
              {"model", "any"},
              {"parameters", {{"a", nullptr}}},
              {"inputs", nlohmann::json::array()}});
    got.set_value(peer.Next()["error"]["code"].get<std::string>());
    peer.Answer(id);
    peer.Say({{"op", "done"}});
    peer.Next();
  }});
  EXPECT_EQ(jobs_.Add(*instance_)->How(), "answer");
  EXPECT_EQ(got.get_future().get(), "INVALID_ARG");
}

TEST_F(InstanceTest, CallsAreCancelledWhenNoRequestNeedsThem) {
  std::promise<std::set<std::string>> heard;
  OpenReady({[&](Peer& peer) {
    peer.Ready();
    peer.Next();
    peer.Say(
        {{"op", "call"}, {"call", 1}, {"model", "other"}, {"inputs", nlohmann::json::array()}});
    heard.set_value({peer.Next()["op"], peer.Next()["op"]});
    peer.Say({{"op", "done"}});
    peer.Next();
  }});
  EXPECT_EQ(jobs_.Add(*instance_, Now() + std::chrono::milliseconds(50))->How(), "expired");
  EXPECT_EQ(heard.get_future().get(), (std::set<std::string>{"cancel", "result"}));
}

TEST_F(InstanceTest, AnswersWithoutRoomFailTheRequest) {
  options_.decoupled = true;
  OpenReady({[](Peer& peer) {
    peer.Ready();
    const std::uint64_t id = peer.Next()["requests"][0]["id"];
    peer.Say({{"op", "done"}});
    for (std::uint32_t i = 0; i <= AnswerStream::kMostUntaken; ++i) {
      peer.Say(
          {{"op", "answer"}, {"id", id}, {"final", false}, {"outputs", nlohmann::json::array()}});
    }
    while (peer.Next().contains("op")) continue;
  }});
  EXPECT_NE(jobs_.Add(*instance_)->How().find("more answers than there is room for"),
            std::string::npos);
}

TEST_F(InstanceTest, TheProgramHearsOfAnswersThatWereTaken) {
  options_.decoupled = true;
  std::promise<std::string> heard;
  OpenReady({[&](Peer& peer) {
    peer.Ready();
    const std::uint64_t id = peer.Next()["requests"][0]["id"];
    peer.Say(
        {{"op", "answer"}, {"id", id}, {"final", false}, {"outputs", nlohmann::json::array()}});
    peer.Say({{"op", "done"}});
    peer.Say({{"op", "answer"}, {"id", id}, {"final", true}});
    heard.set_value(peer.Next().value("op", "nothing"));
  }});
  const auto job = jobs_.Add(*instance_);
  EXPECT_EQ(job->How(), "end");
  ASSERT_EQ(job->taken_.size(), 1u);
  job->taken_.front()();
  instance_->Stop();
  EXPECT_EQ(heard.get_future().get(), "end") << "the request had ended";
}

/// As many answers as a client may leave unread.
void SayMostAnswers(Peer& peer, std::uint64_t id) {
  for (std::uint32_t i = 0; i < AnswerStream::kMostUntaken; ++i) {
    peer.Say(
        {{"op", "answer"}, {"id", id}, {"final", false}, {"outputs", nlohmann::json::array()}});
  }
}

TEST_F(InstanceTest, AClientThatDoesNotReadEndsItsRequest) {
  options_.decoupled = true;
  options_.max_unread = std::chrono::milliseconds(20);
  OpenReady({[](Peer& peer) {
    peer.Ready();
    const std::uint64_t id = peer.Next()["requests"][0]["id"];
    SayMostAnswers(peer, id);
    while (peer.Next().contains("op")) continue;
  }});
  EXPECT_NE(jobs_.Add(*instance_)->How().find("lagoon.max_unread_ms"), std::string::npos);
}

TEST_F(InstanceTest, AClientThatDoesNotReadGivesWayToOthersSooner) {
  options_.decoupled = true;
  options_.max_unread = std::chrono::hours(1);
  options_.max_unread_before_others = std::chrono::milliseconds(20);
  OpenReady({[](Peer& peer) {
    peer.Ready();
    const std::uint64_t id = peer.Next()["requests"][0]["id"];
    SayMostAnswers(peer, id);
    while (peer.Next().value("op", "cancel") != "cancel") continue;
    peer.Say({{"op", "answer"}, {"id", id}, {"final", true}});
    peer.Say({{"op", "done"}});
    peer.Say({{"op", "answer"}, {"id", peer.Next()["requests"][0]["id"]}, {"final", true}});
    while (peer.Next().contains("op")) continue;
  }});
  const auto unread = jobs_.Add(*instance_);
  const auto other = jobs_.Add(*instance_);
  EXPECT_NE(unread->How().find("for 20 ms (others wait)"), std::string::npos);
  EXPECT_EQ(other->How(), "end");
}

TEST_F(InstanceTest, StoppingAnswersWhatTheProgramHas) {
  OpenReady({[](Peer& peer) {
    peer.Ready();
    while (peer.Next().value("op", "end") != "end") continue;
  }});
  const auto job = jobs_.Add(*instance_);
  instance_->Stop();
  // Taken or not: what the program has is answered, what waits stays with the queue.
  if (job->answered()) {
    EXPECT_NE(job->How().find("unloaded"), std::string::npos);
  }
}

}  // namespace
}  // namespace lagoon
