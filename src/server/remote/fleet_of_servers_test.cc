// A fleet whose members are servers: losses, second members, those that join and leave.

#include "server/remote/testing/fleet_of_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

namespace lagoon {
namespace {

using ::testing::HasSubstr;

TEST_F(FleetOfServersTest, MembersTellWhatTheyHave) {
  Open();
  EXPECT_FALSE(fleet_->Ready());
  EXPECT_EQ(CodeOf(Infer(AskFor("twice"))), ErrorCode::kNotFound);
  EXPECT_EQ(fleet_->schedulers(), nullptr);
  EXPECT_EQ(fleet_->shares(), nullptr);
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  AwaitReplicas(1);
  EXPECT_TRUE(fleet_->Ready());
  EXPECT_TRUE(Infer(AskFor("twice")).get());
  EXPECT_EQ(CodeOf(Infer(AskFor("nothing"))), ErrorCode::kNotFound);
  EXPECT_EQ(fleet_->Models().front().name, "twice");
  EXPECT_EQ(fleet_->Metadata("twice", "")->inputs[0].name, "x");
}

// One member accepts connections and never answers.
TEST_F(FleetOfServersTest, AModelIsUnknownWhenAllMembersHaveToldWhatTheyHave) {
  Open();
  const int silent = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(silent, generic, size), 0);
  ASSERT_EQ(::listen(silent, 8), 0);
  ASSERT_EQ(::getsockname(silent, generic, &size), 0);
  ASSERT_TRUE(fleet_->Join({"silent", fmt::format("127.0.0.1:{}", ntohs(address.sin_port))}));
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  const auto early = Infer(AskFor("nothing")).get();
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(early.error().message, HasSubstr("member 'silent' has not told yet"));
  EXPECT_FALSE(Device("silent").told);
  AwaitReplicas(1);
  EXPECT_TRUE(Eventually([&] { return Device("silent").told && Device("a").told; }))
      << "a member that does not answer holds nothing up for long";
  EXPECT_EQ(CodeOf(Infer(AskFor("nothing"))), ErrorCode::kUnavailable) << "the member may have it";
  ASSERT_TRUE(fleet_->Leave("silent"));
  EXPECT_TRUE(Eventually([&] { return CodeOf(Infer(AskFor("nothing"))) == ErrorCode::kNotFound; }));
  ::close(silent);
}

TEST_F(FleetOfServersTest, ARequestOfALostMemberIsAnsweredOnceByAnother) {
  OpenTwo();
  HoldBoth();
  auto answer = Infer(AskFor("twice"));
  Fake& lost = Holder();
  Fake& other = Other(lost);
  other.core.Release();
  lost.server.reset();
  const auto result = answer.get();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(Served(other.core), 1U);
  EXPECT_EQ(Retries(), 1U);
  AwaitReplicas(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Infer(AskFor("twice")).get());
}

TEST_F(FleetOfServersTest, TheSecondLossIsTheAnswer) {
  OpenTwo();
  HoldBoth();
  auto answer = Infer(AskFor("twice"));
  Fake& first = Holder();
  Fake& second = Other(first);
  first.server.reset();
  EXPECT_TRUE(Eventually([&] { return second.core.Pending() == 1; }));
  second.server.reset();
  EXPECT_EQ(CodeOf(std::move(answer)), ErrorCode::kUnavailable);
  EXPECT_EQ(Retries(), 1U);
}

// A request that ends each member that runs it, and a client that sends it again and again.
TEST_F(FleetOfServersTest, ARequestThatEndsMembersDoesNotWalkTheFleet) {
  OpenTwo();
  Fake c, d;
  ASSERT_TRUE(fleet_->Join({"c", c.address}));
  ASSERT_TRUE(fleet_->Join({"d", d.address}));
  AwaitReplicas(4);
  std::vector<Fake*> alive{&a_, &b_, &c, &d};
  for (Fake* member : alive) member->core.Hold();
  auto answer = Infer(AskFor("twice"));
  for (int loss = 0; loss < 2; ++loss) {
    const auto has_it = [](const Fake* member) { return member->core.Pending() == 1; };
    ASSERT_TRUE(Eventually([&] { return std::ranges::any_of(alive, has_it); }));
    const auto victim = std::ranges::find_if(alive, has_it);
    (*victim)->server.reset();
    alive.erase(victim);
  }
  EXPECT_EQ(CodeOf(std::move(answer)), ErrorCode::kUnavailable);
  EXPECT_EQ(Retries(), 1U);
  for (int i = 0; i < 20; ++i) {
    const auto again = Infer(AskFor("twice")).get();
    ASSERT_FALSE(again);
    EXPECT_THAT(again.error().message, HasSubstr("members were lost"));
  }
  for (const Fake* member : alive) EXPECT_EQ(member->core.Pending(), 0U);
  AwaitReplicas(2);  // others could go to both lost members while the polls have not found that
  for (Fake* member : alive) member->core.Release();
  constexpr float kOther[] = {4, 3, 2, 1};
  InferRequest other = AskFor("twice");
  other.inputs[0].data = std::as_bytes(std::span(kOther));
  const auto served = Infer(std::move(other)).get();
  EXPECT_TRUE(served) << served.error().message;
}

// All requests are alike, and each time that a member is lost the other one answers them.
TEST_F(FleetOfServersTest, MembersThatAreKilledInTurnsCostNoAnswer) {
  OpenTwo();
  for (int kill = 0; kill < 6; ++kill) {
    Fake& victim = kill % 2 == 0 ? a_ : b_;
    Fake& other = Other(victim);
    // Both: else the other one, which has answered already, would get nearly all requests.
    victim.core.Hold();
    other.core.Hold();
    std::vector<std::future<Result<InferResponse>>> answers;
    while (victim.core.Pending() < 3) {
      const std::size_t had = victim.core.Pending() + other.core.Pending();
      answers.push_back(Infer(AskFor("twice")));
      ASSERT_LE(answers.size(), 1000U);
      ASSERT_TRUE(
          Eventually([&] { return victim.core.Pending() + other.core.Pending() == had + 1; }));
    }
    other.core.Release();
    const int port = victim.server->grpc_port();
    victim.server.reset();
    for (auto& answer : answers) {
      const auto result = answer.get();
      EXPECT_TRUE(result) << result.error().message;
    }
    victim.core.Release();
    // Else the member could come back before the fleet has seen that it was away, count as ready,
    // and then be found lost while the other one is killed.
    AwaitReplicas(1);
    victim.Start(port);
    AwaitReplicas(2);
  }
  EXPECT_GE(Retries(), 18U);
}

TEST_F(FleetOfServersTest, AMemberThatIsFullIsNotTakenForLost) {
  OpenTwo();
  for (Fake* member : {&a_, &b_}) {
    member->core.FailWith({ErrorCode::kUnavailable, "model 'twice': the queue is full"});
  }
  for (int i = 0; i < 20; ++i) {
    const auto full = Infer(AskFor("twice")).get();
    ASSERT_FALSE(full);
    EXPECT_THAT(full.error().message, HasSubstr("the queue is full"));
  }
  EXPECT_EQ(Retries(), 20U);
}

TEST_F(FleetOfServersTest, AMemberThatLiesAboutItsModelsIsAskedOnce) {
  OpenTwo();
  a_.core.FailWith({ErrorCode::kNotFound, "model 'twice': not in the repository"});
  for (int i = 0; i < 20; ++i) {
    const auto result = Infer(AskFor("twice")).get();
    EXPECT_TRUE(result) << result.error().message;
  }
  EXPECT_GT(Retries(), 0U);
  b_.core.FailWith({ErrorCode::kNotFound, "model 'twice': not in the repository"});
  EXPECT_EQ(CodeOf(Infer(AskFor("twice"))), ErrorCode::kUnavailable);
}

TEST_F(FleetOfServersTest, OtherErrorsAreNotTriedAgain) {
  OpenTwo();
  for (Fake* member : {&a_, &b_}) {
    member->core.FailWith({ErrorCode::kInternal, "the device failed"});
  }
  EXPECT_EQ(CodeOf(Infer(AskFor("twice"))), ErrorCode::kInternal);
  EXPECT_EQ(Retries(), 0U);
}

TEST_F(FleetOfServersTest, CancellationReachesTheMemberAndIsNotTriedAgain) {
  OpenTwo();
  HoldBoth();
  RequestHandle handle{};
  auto answer = Infer(AskFor("twice"), &handle);
  Fake& holder = Holder();
  fleet_->Cancel(handle);
  EXPECT_EQ(CodeOf(std::move(answer)), ErrorCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return holder.core.Cancelled() == 1; }));
  EXPECT_EQ(Retries(), 0U);
}

TEST_F(FleetOfServersTest, AMemberThatLeavesAnswersWhatItHas) {
  OpenTwo();
  HoldBoth();
  auto answer = Infer(AskFor("twice"));
  Fake& leaves = Holder();
  Fake& other = Other(leaves);
  other.core.Release();
  const std::string name = &leaves == &a_ ? "a" : "b";
  ASSERT_TRUE(fleet_->Leave(name));
  AwaitReplicas(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Infer(AskFor("twice")).get());
  EXPECT_EQ(Served(other.core), 10U);
  leaves.core.Release();
  EXPECT_TRUE(answer.get());
  EXPECT_TRUE(Eventually([&] { return fleet_->ReadFleet().devices.size() == 1; }));
  EXPECT_EQ(fleet_->Statistics("twice", "")->front().success.count, 11U);
  ASSERT_TRUE(fleet_->Join({name, leaves.address})) << "and it may come back";
  AwaitReplicas(2);
  EXPECT_EQ(fleet_->Leave("c").error().code, ErrorCode::kNotFound);
}

TEST_F(FleetOfServersTest, AMemberThatJoinsTwiceIsRefusedByName) {
  OpenTwo();
  const Status name = fleet_->Join({"a", "127.0.0.1:1"});
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(name.error().message, HasSubstr("'a'"));
  const Status address = fleet_->Join({"c", a_.address});
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(address.error().message, HasSubstr("of member 'a'"));
  EXPECT_EQ(fleet_->ReadFleet().devices.size(), 2U);
}

TEST_F(FleetOfServersTest, AMemberOfAnotherVersionIsRefusedByName) {
  version_ = "99.0";
  Open();
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  EXPECT_TRUE(Eventually([&] {
    return Device("a").problem.find("this server '99.0'") != std::string::npos;
  })) << Device("a").problem;
  EXPECT_FALSE(Device("a").ready);
  EXPECT_FALSE(fleet_->Ready());
  EXPECT_FALSE(Infer(AskFor("twice")).get());
}

TEST_F(FleetOfServersTest, AMemberWithOtherShapesIsRefusedByName) {
  Open();
  Placed narrow(std::set<std::string>{"m"}), wide(std::set<std::string>{"m"});
  wide.core.SetShape({1, 8});
  ASSERT_TRUE(fleet_->Join({"narrow", narrow.address}));
  AwaitReplicas(1);
  ASSERT_TRUE(fleet_->Join({"wide", wide.address}));
  EXPECT_TRUE(Eventually([&] {
    return Device("wide").problem.find("'m' as x FP32 [1,8]") != std::string::npos;
  })) << Device("wide").problem;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Infer(AskFor("m")).get());
  EXPECT_EQ(Device("narrow").problem, "");
  EXPECT_EQ(Replicas(), 1U);
}

TEST_F(FleetOfServersTest, WithoutAVersionTheHighestOfTheFleetAnswers) {
  Open();
  Placed old(std::set<std::string>{"m"}), fresh(std::set<std::string>{"m"});
  old.core.SetVersion("9");
  fresh.core.SetVersion("10");
  ASSERT_TRUE(fleet_->Join({"old", old.address}));
  ASSERT_TRUE(fleet_->Join({"fresh", fresh.address}));
  AwaitReplicas(2);
  InferRequest ninth = AskFor("m");
  ninth.version = "9";
  for (int i = 0; i < 20; ++i) {
    const auto answer = Infer(AskFor("m")).get();
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->version, "10");
    const auto asked = Infer(ninth).get();
    ASSERT_TRUE(asked) << asked.error().message;
    EXPECT_EQ(asked->version, "9");
  }
  EXPECT_EQ(fleet_->Metadata("m", "9")->versions, (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(fleet_->Metadata("m", "")->versions, (std::vector<std::string>{"9", "10"}));
  for (const char* version : {"", "9", "10"}) {
    EXPECT_TRUE(fleet_->ModelReady("m", version)) << version;
    EXPECT_TRUE(fleet_->Config("m", version)) << version;
    EXPECT_TRUE(fleet_->Statistics("m", version)) << version;
  }
  EXPECT_EQ(fleet_->ModelReady("m", "3").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(fleet_->Metadata("m", "3").error().code, ErrorCode::kNotFound);
  fresh.server.reset();
  EXPECT_TRUE(Eventually([&] {
    const auto answer = Infer(AskFor("m")).get();
    return answer && answer->version == "9";
  })) << "the highest one that is served now";
}

TEST_F(FleetOfServersTest, AModelThatAServerLoadsAnewHasItsNewShapes) {
  Open();
  Placed one(std::set<std::string>{"m"});
  ASSERT_TRUE(fleet_->Join({"one", one.address}));
  AwaitReplicas(1);
  EXPECT_EQ(fleet_->Metadata("m", "")->inputs[0].dims, (Dims{1, 4}));
  one.core.SetShape({1, 8});
  one.core.LoadModel("m", {}, [](const Status&) {});
  EXPECT_TRUE(Eventually([&] {
    const auto metadata = fleet_->Metadata("m", "");
    return metadata && metadata->inputs[0].dims == Dims{1, 8};
  }));
}

TEST_F(FleetOfServersTest, DecoupledModelsAreRefusedByName) {
  Open();
  a_.core.List({"count"});
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  AwaitReplicas(1);
  std::string message;
  EXPECT_TRUE(Eventually([&] {
    const auto answer = Infer(AskFor("count")).get();
    if (answer) return false;
    message = answer.error().message;
    return answer.error().code == ErrorCode::kUnimplemented;
  }));
  EXPECT_THAT(message, HasSubstr("'count', version '1' is decoupled"));
  EXPECT_THAT(message, HasSubstr("send to member 'a' at " + a_.address + " itself"));
  EXPECT_EQ(fleet_->ModelReady("count", "").error().code, ErrorCode::kUnimplemented);
  for (const ModelStatus& model : fleet_->Models()) {
    EXPECT_EQ(model.state == ModelState::kReady, model.name == "twice") << model.name;
  }
}

TEST_F(FleetOfServersTest, AModelThatAServerHasUnloadedOrMayNotServeIsUnavailable) {
  Open();
  Placed narrow(std::set<std::string>{"m", "n"}), wide(std::set<std::string>{"m", "only"});
  wide.core.SetShape({1, 8});
  ASSERT_TRUE(fleet_->Join({"narrow", narrow.address}));
  AwaitReplicas(2);
  narrow.core.UnloadModel("n", [](const Status&) {});
  const auto says = [&](const std::string& model, const std::string& what) {
    const auto answer = Infer(AskFor(model)).get();
    return !answer && answer.error().code == ErrorCode::kUnavailable &&
           answer.error().message.find(what) != std::string::npos;
  };
  EXPECT_TRUE(Eventually([&] { return says("n", "of member 'narrow': it has unloaded"); }));
  ASSERT_TRUE(fleet_->Join({"wide", wide.address}));
  EXPECT_TRUE(Eventually([&] { return says("only", "of member 'wide': it has model 'm' as"); }));
  EXPECT_EQ(CodeOf(Infer(AskFor("never"))), ErrorCode::kNotFound);
}

TEST_F(FleetOfServersTest, ATextThatIsNoVersionIsInvalid) {
  Open();
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  AwaitReplicas(1);
  for (const char* version : {"x", "0", "-1", "1.0"}) {
    const Status ready = fleet_->ModelReady("twice", version);
    ASSERT_FALSE(ready) << version;
    EXPECT_EQ(ready.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(ready.error().message, HasSubstr("is no whole number from 1"));
    EXPECT_EQ(fleet_->Metadata("twice", version).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(fleet_->Config("twice", version).error().code, ErrorCode::kInvalidArgument);
    InferRequest request = AskFor("twice");
    request.version = version;
    EXPECT_EQ(CodeOf(Infer(std::move(request))), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(fleet_->ModelReady("nothing", "x").error().code, ErrorCode::kNotFound);
}

TEST_F(FleetOfServersTest, ASupersededRequestIsNotSentAgain) {
  OpenTwo();
  for (Fake* member : {&a_, &b_}) {
    member->core.FailWith({ErrorCode::kUnavailable, fmt::format("model 'twice': {}", kSuperseded)});
  }
  EXPECT_EQ(CodeOf(Infer(AskFor("twice"))), ErrorCode::kUnavailable);
  EXPECT_EQ(Retries(), 0U);
}

TEST_F(FleetOfServersTest, ThePlacerLoadsModelsAtServers) {
  Placed first(std::set<std::string>{}), second(std::set<std::string>{});
  Open({{"m", 10}, {"n", 10}});
  EXPECT_EQ(CodeOf(Infer(AskFor("m"))), ErrorCode::kUnavailable);
  ASSERT_TRUE(fleet_->Join({"first", first.address, 100}));
  AwaitReplicas(2);
  EXPECT_EQ(first.core.Loaded(), (std::set<std::string>{"m", "n"}));
  const auto answer = Infer(AskFor("m")).get();
  EXPECT_TRUE(answer) << answer.error().message;
  // The models of a lost server appear on the other one.
  ASSERT_TRUE(fleet_->Join({"second", second.address, 100}));
  EXPECT_TRUE(Eventually([&] { return Device("second").ready; }));
  first.server.reset();
  EXPECT_TRUE(Eventually([&] { return second.core.Loaded().size() == 2; }));
  EXPECT_TRUE(Eventually([&] { return Infer(AskFor("m")).get() && Infer(AskFor("n")).get(); }));
}

TEST_F(FleetOfServersTest, StatisticsCountWhatMembersWereAsked) {
  Open();
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  AwaitReplicas(1);
  EXPECT_TRUE(Infer(AskFor("twice")).get());
  a_.core.FailWith({ErrorCode::kInternal, "the device failed"});
  EXPECT_FALSE(Infer(AskFor("twice")).get());
  const auto rows = fleet_->Statistics("", "");
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(rows->front().name, "twice");
  EXPECT_EQ(rows->front().success.count, 1U);
  EXPECT_EQ(rows->front().fail.count, 1U);
  EXPECT_EQ(rows->front().pending, 0U);
}

TEST_F(FleetOfServersTest, DrainWaitsThenCutsOff) {
  OpenTwo();
  HoldBoth();
  auto answer = Infer(AskFor("twice"));
  Holder();
  fleet_->Drain(Now());
  EXPECT_EQ(CodeOf(std::move(answer)), ErrorCode::kUnavailable);
  EXPECT_FALSE(fleet_->Ready());
  EXPECT_EQ(CodeOf(Infer(AskFor("twice"))), ErrorCode::kUnavailable);
}

// A member comes and goes while clients send: each request has one answer, and the answer is right
// or says that the fleet was not available.
TEST_F(FleetOfServersTest, NoAnswerIsLostOrDoubledWhileMembersComeAndGo) {
  OpenTwo();
  const int port = a_.server->grpc_port();
  constexpr int kClients = 4;
  std::atomic<bool> stop{false};
  std::atomic<int> sent{0}, answered{0}, wrong{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      while (!stop) {
        ++sent;
        const auto result = Infer(AskFor("twice")).get();
        ++answered;
        if (!result && result.error().code != ErrorCode::kUnavailable) ++wrong;
      }
    });
  }
  for (int round = 0; round < 3; ++round) {
    const int before = answered;
    EXPECT_TRUE(Eventually([&] { return answered > before + 20; }));
    a_.server.reset();
    const int without = answered;
    EXPECT_TRUE(Eventually([&] { return answered > without + 20; }));
    a_.Start(port);
    EXPECT_TRUE(Eventually([&] { return Device("a").ready; }));
    const int with = answered;
    EXPECT_TRUE(Eventually([&] { return answered > with + 20; }));
    ASSERT_TRUE(fleet_->Leave("b"));
    EXPECT_TRUE(Eventually([&] { return Device("b").name.empty(); }));
    ASSERT_TRUE(fleet_->Join({"b", b_.address}));
    AwaitReplicas(2);
  }
  stop = true;
  clients.clear();
  EXPECT_EQ(sent, answered);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lagoon
