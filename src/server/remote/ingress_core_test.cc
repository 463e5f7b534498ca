#include "server/remote/ingress_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>

#include "server/remote/routes_handler.h"
#include "server/testing/http_server_test_base.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

constexpr float kInput[] = {1, 2, 3, 4};

InferRequest Twice() {
  InferRequest request;
  request.model = "twice";
  request.arrival = Now();
  request.inputs = {{"x", DataType::kFloat32, {1, 4}, std::as_bytes(std::span(kInput))}};
  return request;
}

/// A server over a fake core of its own.
struct Member {
  explicit Member(int port = 0) { Start(port); }
  void Start(int port) {
    ServerOptions options;
    options.http_port = options.metrics_port = 0;
    options.grpc_port = port;
    auto started = Server::Start(core, options);
    EXPECT_TRUE(started) << started.error().message;
    server = *std::move(started);
    address = fmt::format("127.0.0.1:{}", server->grpc_port());
  }

  FakeCore core;
  std::unique_ptr<Server> server;
  std::string address;
};

class IngressCoreTest : public testing::Test {
 protected:
  static IngressOptions Options() {
    IngressOptions options;
    options.remote.poll_period = std::chrono::milliseconds(10);
    options.remote.longest_reconnect = std::chrono::milliseconds(200);
    return options;
  }
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const TimePoint until = Now() + std::chrono::seconds(10);
    while (Now() < until && !condition()) std::this_thread::yield();
    return condition();
  }
  /// Routes to members "a" and "b", with these fractions of "twice".
  Routes RoutesTo(double a, double b) const {
    Routes routes;
    routes.members = {{"a", a_.address}, {"b", b_.address}};
    routes.models.emplace();
    (*routes.models)["twice"] = {{"a", a}, {"b", b}};
    return routes;
  }
  void SetRoutes(const Routes& routes) {
    const Status set = ingress_.SetRoutes(routes);
    ASSERT_TRUE(set) << set.error().message;
    EXPECT_TRUE(Eventually([&] {
      const auto members = ingress_.Members();
      return std::ranges::all_of(members, &MemberState::ready);
    }));
  }
  std::future<Result<InferResponse>> Infer(InferRequest request, RequestHandle* handle = nullptr) {
    auto promise = std::make_shared<std::promise<Result<InferResponse>>>();
    const RequestHandle own =
        ingress_.Infer(std::move(request), [promise](Result<InferResponse> result) {
          promise->set_value(std::move(result));  // throws if it is called twice
        });
    if (handle != nullptr) *handle = own;
    return promise->get_future();
  }
  static ErrorCode CodeOf(std::future<Result<InferResponse>> answer) {
    const auto result = answer.get();
    EXPECT_FALSE(result);
    return result ? ErrorCode::kInternal : result.error().code;
  }
  static std::uint64_t Served(const FakeCore& core) {
    return core.Statistics("", "")->front().success.count;
  }

  Member a_, b_;
  IngressCore ingress_{Options()};
};

TEST_F(IngressCoreTest, WithoutRoutesNothingIsServed) {
  EXPECT_FALSE(ingress_.Ready());
  EXPECT_EQ(CodeOf(Infer(Twice())), ErrorCode::kUnavailable);
}

TEST_F(IngressCoreTest, RequestsAreSharedByFractions) {
  SetRoutes(RoutesTo(0.75, 0.25));
  EXPECT_TRUE(ingress_.Ready());
  constexpr int kRequests = 400;
  for (int i = 0; i < kRequests; ++i) {
    const auto result = Infer(Twice()).get();
    ASSERT_TRUE(result) << result.error().message;
  }
  EXPECT_EQ(Served(a_.core) + Served(b_.core), static_cast<std::uint64_t>(kRequests));
  EXPECT_NEAR(static_cast<double>(Served(b_.core)), kRequests / 4.0, kRequests / 8.0);
}

TEST_F(IngressCoreTest, AMemberThatFallsBehindGetsLess) {
  SetRoutes(RoutesTo(0.5, 0.5));
  a_.core.Hold();
  std::vector<std::future<Result<InferResponse>>> answers;
  // Member a keeps what it gets, so that b is the shorter queue wherever both are drawn.
  for (std::size_t i = 1; i <= 200; ++i) {
    answers.push_back(Infer(Twice()));
    ASSERT_TRUE(Eventually([&] { return Served(b_.core) + a_.core.Pending() == i; }));
  }
  EXPECT_GT(2 * Served(b_.core), 3 * a_.core.Pending());
  a_.core.Release();
  for (auto& answer : answers) EXPECT_TRUE(answer.get());
  EXPECT_EQ(Served(a_.core) + Served(b_.core), 200U);
}

TEST_F(IngressCoreTest, WithoutModelsInTheRoutesMembersTellWhatTheyHave) {
  Routes routes;
  routes.members = {{"a", a_.address}};
  SetRoutes(routes);
  EXPECT_TRUE(Infer(Twice()).get());
  InferRequest unknown = Twice();
  unknown.model = "nothing";
  EXPECT_EQ(CodeOf(Infer(std::move(unknown))), ErrorCode::kNotFound);
  ASSERT_EQ(ingress_.Models().size(), 1U);
  EXPECT_EQ(ingress_.Models()[0].name, "twice");
}

TEST_F(IngressCoreTest, AModelWithoutARouteIsNotFound) {
  SetRoutes(RoutesTo(1, 0));
  InferRequest request = Twice();
  request.model = "image";
  EXPECT_EQ(CodeOf(Infer(std::move(request))), ErrorCode::kNotFound);
  EXPECT_EQ(ingress_.ModelReady("image", "").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(ingress_.ModelReady("twice", ""));
  EXPECT_EQ(ingress_.Metadata("twice", "")->inputs[0].name, "x");
}

TEST_F(IngressCoreTest, ARequestOfALostMemberIsAnsweredOnceByAnother) {
  SetRoutes(RoutesTo(1, 0));
  a_.core.Hold();
  auto answer = Infer(Twice());
  EXPECT_TRUE(Eventually([&] { return a_.core.Pending() == 1; }));
  a_.server.reset();
  const auto result = answer.get();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(Served(b_.core), 1U);
  EXPECT_EQ(ingress_.retries(), 1U);
  // The next requests go to b at once, although its fraction is 0.
  EXPECT_TRUE(Eventually([&] { return !ingress_.Members()[0].ready; }));
  EXPECT_TRUE(Infer(Twice()).get());
  EXPECT_EQ(ingress_.retries(), 1U);
}

TEST_F(IngressCoreTest, TheSecondLossIsTheAnswer) {
  SetRoutes(RoutesTo(0.5, 0.5));
  a_.core.Hold();
  b_.core.Hold();
  auto answer = Infer(Twice());
  const auto pending = [&] { return a_.core.Pending() + b_.core.Pending(); };
  EXPECT_TRUE(Eventually([&] { return pending() == 1; }));
  Member& first = a_.core.Pending() == 1 ? a_ : b_;
  Member& second = &first == &a_ ? b_ : a_;
  first.server.reset();
  EXPECT_TRUE(Eventually([&] { return second.core.Pending() == 1; }));
  second.server.reset();
  EXPECT_EQ(CodeOf(std::move(answer)), ErrorCode::kUnavailable);
  EXPECT_EQ(ingress_.retries(), 1U);
}

// A request that ends each member that runs it, and a client that sends it again and again.
TEST_F(IngressCoreTest, ARequestThatEndsMembersDoesNotWalkTheFleet) {
  Member c, d;
  Routes routes;
  routes.members = {{"a", a_.address}, {"b", b_.address}, {"c", c.address}, {"d", d.address}};
  SetRoutes(routes);
  std::vector<Member*> alive{&a_, &b_, &c, &d};
  for (Member* member : alive) member->core.Hold();
  auto answer = Infer(Twice());
  for (int loss = 0; loss < 2; ++loss) {
    const auto has_it = [](const Member* member) { return member->core.Pending() == 1; };
    ASSERT_TRUE(Eventually([&] { return std::ranges::any_of(alive, has_it); }));
    const auto victim = std::ranges::find_if(alive, has_it);
    (*victim)->server.reset();
    alive.erase(victim);
  }
  EXPECT_EQ(CodeOf(std::move(answer)), ErrorCode::kUnavailable);
  EXPECT_EQ(ingress_.retries(), 1U);
  for (int i = 0; i < 20; ++i) {
    auto asked = Infer(Twice());
    ASSERT_EQ(asked.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    const auto again = asked.get();
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(again.error().message, HasSubstr("members were lost"));
  }
  for (const Member* member : alive) EXPECT_EQ(member->core.Pending(), 0U);
  // Others are served. They could go to both lost members while the polls have not found them lost.
  ASSERT_TRUE(Eventually(
      [&] { return std::ranges::count(ingress_.Members(), false, &MemberState::ready) == 2; }));
  for (Member* member : alive) member->core.Release();
  constexpr float kOther[] = {4, 3, 2, 1};
  InferRequest other = Twice();
  other.inputs[0].data = std::as_bytes(std::span(kOther));
  const auto served = Infer(std::move(other)).get();
  EXPECT_TRUE(served) << served.error().message;
}

// All requests are alike, and each time that a member is lost the other one answers them.
TEST_F(IngressCoreTest, MembersThatAreKilledInTurnsCostNoAnswer) {
  SetRoutes(RoutesTo(0.5, 0.5));
  for (int kill = 0; kill < 6; ++kill) {
    Member& victim = kill % 2 == 0 ? a_ : b_;
    Member& other = kill % 2 == 0 ? b_ : a_;
    victim.core.Hold();
    std::vector<std::future<Result<InferResponse>>> answers;
    while (victim.core.Pending() < 3) {
      answers.push_back(Infer(Twice()));
      const std::size_t sent = answers.size();
      ASSERT_LE(sent, 1000U);
      ASSERT_TRUE(Eventually([&] {
        return ingress_.Members()[0].in_flight + ingress_.Members()[1].in_flight ==
               victim.core.Pending();
      }));
    }
    const int port = victim.server->grpc_port();
    victim.server.reset();
    for (auto& answer : answers) {
      const auto result = answer.get();
      EXPECT_TRUE(result) << result.error().message;
    }
    EXPECT_EQ(other.core.Pending(), 0U);
    victim.core.Release();
    // Else the member could come back before the ingress has seen that it was away, count as ready,
    // and then be found lost while the other one is killed.
    const std::size_t index = kill % 2 == 0 ? 0 : 1;
    ASSERT_TRUE(Eventually([&] { return !ingress_.Members()[index].ready; }));
    victim.Start(port);
    ASSERT_TRUE(Eventually([&] {
      const auto members = ingress_.Members();
      return std::ranges::all_of(members, &MemberState::ready);
    }));
  }
  EXPECT_GE(ingress_.retries(), 18U);
}

TEST_F(IngressCoreTest, AMemberThatIsFullIsNotTakenForLost) {
  SetRoutes(RoutesTo(0.5, 0.5));
  for (Member* member : {&a_, &b_}) {
    member->core.FailWith({ErrorCode::kUnavailable, "model 'twice': the queue is full"});
  }
  for (int i = 0; i < 20; ++i) {
    const auto full = Infer(Twice()).get();
    ASSERT_FALSE(full);
    EXPECT_THAT(full.error().message, HasSubstr("the queue is full"));
  }
  EXPECT_EQ(ingress_.retries(), 20U);
}

TEST_F(IngressCoreTest, AModelThatHasLeftItsMemberIsAskedForElsewhere) {
  SetRoutes(RoutesTo(1, 0));
  a_.core.FailWith({ErrorCode::kNotFound, "model 'twice': not in the repository"});
  const auto result = Infer(Twice()).get();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(Served(b_.core), 1U);
  EXPECT_EQ(ingress_.retries(), 1U);
  b_.core.FailWith({ErrorCode::kNotFound, "model 'twice': not in the repository"});
  EXPECT_EQ(CodeOf(Infer(Twice())), ErrorCode::kUnavailable);
}

TEST_F(IngressCoreTest, OtherErrorsAreNotTriedAgain) {
  SetRoutes(RoutesTo(1, 0));
  a_.core.FailWith({ErrorCode::kInternal, "the device failed"});
  EXPECT_EQ(CodeOf(Infer(Twice())), ErrorCode::kInternal);
  EXPECT_EQ(Served(b_.core), 0U);
  EXPECT_EQ(ingress_.retries(), 0U);
}

TEST_F(IngressCoreTest, CancellationReachesTheMemberAndIsNotTriedAgain) {
  SetRoutes(RoutesTo(1, 0));
  a_.core.Hold();
  RequestHandle handle{};
  auto answer = Infer(Twice(), &handle);
  EXPECT_TRUE(Eventually([&] { return a_.core.Pending() == 1; }));
  ingress_.Cancel(handle);
  EXPECT_EQ(CodeOf(std::move(answer)), ErrorCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return a_.core.Cancelled() == 1; }));
  EXPECT_EQ(Served(b_.core), 0U);
}

TEST_F(IngressCoreTest, RequestsGoOnWhereTheyAreWhenRoutesChange) {
  SetRoutes(RoutesTo(1, 0));
  a_.core.Hold();
  auto answer = Infer(Twice());
  EXPECT_TRUE(Eventually([&] { return a_.core.Pending() == 1; }));
  Routes routes = RoutesTo(0, 1);
  routes.members.erase(routes.members.begin());
  (*routes.models)["twice"] = {{"b", 1}};
  SetRoutes(routes);
  EXPECT_TRUE(Infer(Twice()).get());
  EXPECT_EQ(Served(b_.core), 1U);
  a_.core.Release();
  EXPECT_TRUE(answer.get());
  EXPECT_EQ(Served(a_.core), 1U);
  EXPECT_EQ(ingress_.Members().size(), 1U);
}

TEST_F(IngressCoreTest, RoutesOfAnEarlierLeaderAreRefused) {
  Routes routes = RoutesTo(1, 0);
  routes.epoch = 5;
  SetRoutes(routes);
  Routes old = RoutesTo(0, 1);
  old.epoch = 4;
  const Status set = ingress_.SetRoutes(old);
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(set.error().message, HasSubstr("epoch 5"));
  EXPECT_EQ(ingress_.routes(), routes);
  EXPECT_TRUE(ingress_.SetRoutes(routes));
}

TEST_F(IngressCoreTest, StatisticsCountWhatClientsGot) {
  SetRoutes(RoutesTo(1, 0));
  EXPECT_TRUE(Infer(Twice()).get());
  a_.core.FailWith({ErrorCode::kInternal, "the device failed"});
  EXPECT_FALSE(Infer(Twice()).get());
  const auto rows = ingress_.Statistics("", "");
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(rows->front().name, "twice");
  EXPECT_EQ(rows->front().success.count, 1U);
  EXPECT_EQ(rows->front().fail.count, 1U);
  EXPECT_EQ(rows->front().pending, 0U);
}

TEST_F(IngressCoreTest, DrainWaitsThenCancels) {
  SetRoutes(RoutesTo(1, 0));
  a_.core.Hold();
  auto answer = Infer(Twice());
  EXPECT_TRUE(Eventually([&] { return a_.core.Pending() == 1; }));
  ingress_.Drain(Now());
  EXPECT_EQ(CodeOf(std::move(answer)), ErrorCode::kCancelled);
  EXPECT_FALSE(ingress_.Ready());
  EXPECT_EQ(CodeOf(Infer(Twice())), ErrorCode::kUnavailable);
}

// Members come and go while clients send: each request has one answer, and the answer is right or
// says that the fleet was not available.
TEST_F(IngressCoreTest, NoAnswerIsLostOrDoubledWhileMembersComeAndGo) {
  SetRoutes(RoutesTo(0.5, 0.5));
  const int port = a_.server->grpc_port();
  constexpr int kClients = 4;
  std::atomic<bool> stop{false};
  std::atomic<int> sent{0}, answered{0}, wrong{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      while (!stop) {
        ++sent;
        const auto result = Infer(Twice()).get();
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
    EXPECT_TRUE(Eventually([&] { return ingress_.Members()[0].ready; }));
  }
  stop = true;
  clients.clear();
  EXPECT_EQ(sent, answered);
  EXPECT_EQ(wrong, 0);
}

// A thread of the queue may hold the member of its last answer while the ingress ends.
TEST(IngressMembers, NoMemberOutlivesThem) {
  RemoteQueue queue(1);
  auto members = std::make_unique<IngressMembers>(queue, RemoteOptions{});
  Routes routes;
  routes.members = {{"a", "127.0.0.1:1"}};
  ASSERT_TRUE(members->Set(routes));
  std::shared_ptr<IngressMember> held = members->Table()->members[0].member;
  std::thread ends([&] { members.reset(); });
  const TimePoint until = Now() + std::chrono::milliseconds(100);
  while (Now() < until && held.use_count() > 1) std::this_thread::yield();
  EXPECT_EQ(held.use_count(), 2) << "the destructor waits";
  held.reset();
  ends.join();
}

class IngressServer : public HttpServer {
 protected:
  void SetUp() override {
    ServerOptions options = Options();
    options.fleet = &handler_;
    auto server = Server::Start(ingress_, options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  HttpTestResponse AskAdmin(std::string_view request) {
    HttpTestClient client(server_->metrics_port());
    EXPECT_TRUE(client.Send(request));
    return client.Receive();
  }

  Member member_;
  IngressCore ingress_{IngressOptions{}};
  RoutesHandler handler_{ingress_};
};

TEST_F(IngressServer, RoutesAreSetAndReadOnTheMetricsPort) {
  const std::string body = fmt::format(
      R"({{"epoch":2,"members":[{{"name":"a","address":"{}"}}],"models":{{"twice":[{{"member":"a","fraction":1}}]}}}})",
      member_.address);
  const auto set = AskAdmin(Post("/v2/fleet/routes", body));
  ASSERT_EQ(set.status, 200) << set.body;
  EXPECT_TRUE(Eventually([&] {
    return Json::parse(AskAdmin(Get("/v2/fleet/routes")).body)["members"][0]["ready"] == true;
  }));
  const Json routes = Json::parse(AskAdmin(Get("/v2/fleet/routes")).body);
  EXPECT_EQ(routes["epoch"], 2);
  EXPECT_EQ(routes["retries"], 0);
  EXPECT_EQ(routes["members"][0]["models"], Json::array({"twice"}));
  EXPECT_EQ(routes["models"]["twice"][0]["member"], "a");
  EXPECT_EQ(Ask(Post("/v2/models/twice/infer", kTwice)).status, 200);
  const std::string metrics = AskAdmin(Get("/metrics")).body;
  EXPECT_THAT(metrics, HasSubstr("nv_inference_request_success{model=\"twice\""));
}

TEST_F(IngressServer, BadRoutesChangeNothing) {
  const auto bad = AskAdmin(Post("/v2/fleet/routes", R"({"members":[{"name":"a"}]})"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_THAT(ErrorOf(bad), HasSubstr("'address'"));
  EXPECT_EQ(AskAdmin(Get("/v2/fleet/other")).status, 404);
  EXPECT_EQ(AskAdmin("DELETE /v2/fleet/routes HTTP/1.1\r\nHost: t\r\n\r\n").status, 405);
  EXPECT_EQ(Ask(Get("/v2/fleet/routes")).status, 404);  // not on the port of clients
  EXPECT_EQ(Json::parse(AskAdmin(Get("/v2/fleet/routes")).body)["members"].size(), 0U);
}

}  // namespace
}  // namespace lagoon
