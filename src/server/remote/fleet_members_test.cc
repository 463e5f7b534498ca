// Who may be a member of a fleet of servers, and what the fleet remembers of members.

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "server/grpc/grpc_codec.h"
#include "server/remote/testing/fleet_of_servers.h"
#include "server/remote/testing/http_stub.h"
#include "serving/core/server_id.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;

class FleetMembersTest : public FleetOfServersTest {
 protected:
  /// A server over a fleet without members.
  struct Front {
    explicit Front(std::unique_ptr<FleetCore> made) : fleet(std::move(made)) {
      ServerOptions options;
      options.http_port = options.metrics_port = options.grpc_port = 0;
      auto started = Server::Start(*fleet, options);
      EXPECT_TRUE(started) << started.error().message;
      server = *std::move(started);
      address = fmt::format("127.0.0.1:{}", server->grpc_port());
    }
    std::string id() const { return fleet->Fronts().front(); }

    std::unique_ptr<FleetCore> fleet;
    std::unique_ptr<Server> server;
    std::string address;
  };
  static std::string ProblemOf(const Front& front, const std::string& name) {
    return DeviceOf(*front.fleet, name).problem;
  }
  /// The problem of a member that is there and is refused.
  static bool Refused(const Front& front, const std::string& name, const std::string& why) {
    return Eventually([&] { return ProblemOf(front, name).find(why) != std::string::npos; });
  }
  /// The member is there, and its models are known.
  static bool Serves(const FleetCore& fleet, const std::string& name) {
    return Eventually([&] {
      const FleetDeviceReport device = DeviceOf(fleet, name);
      return device.ready && device.told;
    });
  }
  static Result<InferResponse> Ask(const Front& front, InferRequest request) {
    std::promise<Result<InferResponse>> promise;
    front.fleet->Infer(std::move(request),
                       [&](Result<InferResponse> result) { promise.set_value(std::move(result)); });
    return promise.get_future().get();
  }
};

TEST_F(FleetMembersTest, AServerIsNotItsOwnMember) {
  const Front front(MakeFleet());
  ASSERT_TRUE(front.fleet->Join({"own", front.address}));
  ASSERT_TRUE(front.fleet->Join({"a", a_.address}));
  ASSERT_TRUE(Refused(front, "own", "is this server itself, " + front.id()));
  ASSERT_TRUE(Serves(*front.fleet, "a"));
  EXPECT_FALSE(DeviceOf(*front.fleet, "own").ready);
  for (int i = 0; i < 20; ++i) {
    const auto answer = Ask(front, AskFor("twice"));
    EXPECT_TRUE(answer) << answer.error().message;
  }
  EXPECT_EQ(Served(a_.core), 20U);
  EXPECT_EQ(front.fleet->Fronts().size(), 1U);
}

// The member that would close the circle is refused, and the fleets before serve on.
TEST_F(FleetMembersTest, AFleetThatLeadsBackIsNoMember) {
  const Front first(MakeFleet()), second(MakeFleet()), third(MakeFleet());
  ASSERT_TRUE(third.fleet->Join({"a", a_.address}));
  ASSERT_TRUE(second.fleet->Join({"third", third.address}));
  ASSERT_TRUE(first.fleet->Join({"second", second.address}));
  ASSERT_TRUE(Eventually([&] { return first.fleet->Fronts().size() == 3; }));
  ASSERT_TRUE(Serves(*first.fleet, "second"));
  ASSERT_TRUE(Eventually([&] { return Ask(first, AskFor("twice")).has_value(); }));
  EXPECT_EQ(a_.core.LastRequest().via,
            fmt::format("{},{},{}", first.id(), second.id(), third.id()));
  ASSERT_TRUE(third.fleet->Join({"first", first.address}));
  ASSERT_TRUE(Refused(third, "first", "requests would go round in circles"));
  EXPECT_THAT(ProblemOf(third, "first"), HasSubstr("this server, " + third.id()));
  EXPECT_THAT(ProblemOf(third, "first"), HasSubstr("the member, " + first.id()));
  const std::uint64_t served = Served(a_.core);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Ask(first, AskFor("twice")));
  EXPECT_EQ(Served(a_.core), served + 20);
  EXPECT_EQ(ProblemOf(first, "second"), "");
  EXPECT_EQ(ProblemOf(second, "third"), "");
}

// The polls tell of it: no answer goes through the fronts.
TEST_F(FleetMembersTest, AFrontOfFrontsLearnsOfAModelThatIsLoadedAnewBelow) {
  Placed member(std::set<std::string>{"m"});
  const Front first(MakeFleet()), second(MakeFleet()), third(MakeFleet());
  ASSERT_TRUE(third.fleet->Join({"member", member.address}));
  ASSERT_TRUE(second.fleet->Join({"third", third.address}));
  ASSERT_TRUE(first.fleet->Join({"second", second.address}));
  const auto shape_is = [&](const Dims& dims) {
    return Eventually([&] {
      const auto metadata = first.fleet->Metadata("m", "");
      return metadata && metadata->inputs[0].dims == dims;
    });
  };
  EXPECT_TRUE(shape_is({1, 4}));
  member.core.SetShape({1, 8});
  member.core.LoadModel("m", {}, [](const Status&) {});
  EXPECT_TRUE(shape_is({1, 8}));
}

TEST_F(FleetMembersTest, ARequestThatComesBackIsRefused) {
  const Front front(MakeFleet());
  ASSERT_TRUE(front.fleet->Join({"a", a_.address}));
  ASSERT_TRUE(Serves(*front.fleet, "a"));
  InferRequest request = AskFor("twice");
  const std::string other = NewServerId();
  request.via = front.id() + "," + other;
  const auto back = Ask(front, std::move(request));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(back.error().message,
              HasSubstr("server " + other + " has sent back to this server, " + front.id()));
  request = AskFor("twice");
  for (std::size_t i = 0; i < kMostFronts; ++i) request.via += (i > 0 ? "," : "") + NewServerId();
  const auto far = Ask(front, std::move(request));
  ASSERT_FALSE(far);
  EXPECT_THAT(far.error().message, HasSubstr("has come through 16 fronts, the limit"));
  EXPECT_EQ(Served(a_.core), 0U);
}

TEST_F(FleetMembersTest, AServerIsOneMemberWhateverItsAddress) {
  Open();
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  const std::string port = a_.address.substr(a_.address.find(':'));
  ASSERT_TRUE(fleet_->Join({"again", "localhost" + port}));
  AwaitReplicas(1);
  ASSERT_TRUE(Eventually([&] { return Device("again").problem.find("'a'") != std::string::npos; }))
      << Device("again").problem;
  EXPECT_THAT(Device("again").problem, HasSubstr("localhost" + port + " is the server of member"));
  EXPECT_EQ(Device("a").problem, "");
  ASSERT_TRUE(fleet_->Leave("a"));
  EXPECT_TRUE(Serves(*fleet_, "again")) << "the other one is gone";
}

TEST_F(FleetMembersTest, AMemberThatIsNotThereSaysSo) {
  Open();
  const std::string address = b_.address;
  b_.server.reset();
  ASSERT_TRUE(fleet_->Join({"b", address}));
  EXPECT_NE(Device("b").problem, "");
  EXPECT_TRUE(Eventually([&] {
    return Device("b").problem.find("it does not answer") != std::string::npos;
  })) << Device("b").problem;
  EXPECT_FALSE(Device("b").ready);
}

// The other member would be taken for right while the good one is away.
TEST_F(FleetMembersTest, ShapesOutliveTheAbsenceOfTheirMember) {
  Open();
  Placed good(std::set<std::string>{"m"}), other(std::set<std::string>{"m"});
  other.core.SetShape({1, 8});
  ASSERT_TRUE(fleet_->Join({"good", good.address}));
  AwaitReplicas(1);
  ASSERT_TRUE(fleet_->Join({"other", other.address}));
  const auto refused = [&] {
    return Device("other").problem.find("'m' as x FP32 [1,8]") != std::string::npos;
  };
  ASSERT_TRUE(Eventually(refused));
  const int port = good.server->grpc_port();
  good.server.reset();
  ASSERT_TRUE(Eventually([&] { return !Device("good").ready; }));
  const std::uint64_t decisions = fleet_->ReadFleet().decisions;
  ASSERT_TRUE(Eventually([&] { return fleet_->ReadFleet().decisions > decisions + 20; }));
  EXPECT_TRUE(refused()) << Device("other").problem;
  ASSERT_TRUE(Eventually([&] {
    return Device("other").problem.find("of member 'good', which is not there now") !=
           std::string::npos;
  }));
  good.Start(port);
  AwaitReplicas(1);
  EXPECT_TRUE(Infer(AskFor("m")).get());
  EXPECT_TRUE(refused());
  // When the last member of these shapes has left, the others are right.
  ASSERT_TRUE(fleet_->Leave("good"));
  EXPECT_TRUE(Serves(*fleet_, "other"));
}

TEST_F(FleetMembersTest, AMemberMayComeBackWithOtherShapes) {
  Open();
  Placed member(std::set<std::string>{"m"});
  ASSERT_TRUE(fleet_->Join({"a", member.address}));
  AwaitReplicas(1);
  const int port = member.server->grpc_port();
  member.server.reset();
  ASSERT_TRUE(Eventually([&] { return !Device("a").ready; }));
  member.core.SetShape({1, 8});
  member.Start(port);
  AwaitReplicas(1);
  EXPECT_EQ(fleet_->Metadata("m", "")->inputs[0].dims, (Dims{1, 8}));
}

TEST_F(FleetMembersTest, ModelsThatNoMemberHasAreForgotten) {
  Open();
  Placed member(std::set<std::string>{"m", "n"});
  ASSERT_TRUE(fleet_->Join({"a", member.address}));
  AwaitReplicas(2);
  EXPECT_TRUE(Infer(AskFor("m")).get());
  const auto knows = [&](const std::string& name) {
    const FleetReport report = fleet_->ReadFleet();
    return std::ranges::count(report.models, name, &FleetModelReport::model) > 0;
  };
  member.core.UnloadModel("n", [](const Status&) {});
  EXPECT_TRUE(Eventually([&] { return !knows("n"); }));
  EXPECT_TRUE(knows("m"));
  const int port = member.server->grpc_port();
  member.server.reset();
  ASSERT_TRUE(Eventually([&] { return !Device("a").ready; }));
  EXPECT_EQ(CodeOf(Infer(AskFor("m"))), ErrorCode::kUnavailable) << "it may come back";
  EXPECT_TRUE(knows("m"));
  member.Start(port);
  AwaitReplicas(1);
  ASSERT_TRUE(fleet_->Leave("a"));
  EXPECT_TRUE(Eventually([&] { return !knows("m"); }));
  EXPECT_EQ(CodeOf(Infer(AskFor("m"))), ErrorCode::kNotFound);
  EXPECT_TRUE(Eventually([&] { return fleet_->Statistics("", "")->empty(); }));
}

TEST_F(FleetMembersTest, NamesThatNoModelCanHaveAreIgnored) {
  Open();
  a_.core.List({"two\nlines", "", std::string(1000, 'x'), "right"});
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  AwaitReplicas(1);
  const FleetReport report = fleet_->ReadFleet();
  ASSERT_EQ(report.models.size(), 1U) << "the member does not say what 'right' is";
  EXPECT_EQ(report.models[0].model, "twice");
}

TEST_F(FleetMembersTest, AMemberThatHasLeftMayJoinAtOnce) {
  OpenTwo();
  HoldBoth();
  auto answer = Infer(AskFor("twice"));
  Fake& holder = Holder();
  const std::string name = &holder == &a_ ? "a" : "b";
  ASSERT_TRUE(fleet_->Leave(name));
  EXPECT_TRUE(fleet_->Leave(name)) << "it leaves already";
  ASSERT_TRUE(fleet_->Join({name, holder.address})) << "it answers a request still";
  AwaitReplicas(2);
  EXPECT_EQ(fleet_->ReadFleet().devices.size(), 2U) << "its name is there once";
  a_.core.Release();
  b_.core.Release();
  EXPECT_TRUE(answer.get());
}

TEST_F(FleetMembersTest, NamesWithControlCharactersAreRefused) {
  Open();
  for (const std::string& name :
       {std::string("a\nb"), std::string("a\0b", 3), std::string("\x7f")}) {
    const Status joined = fleet_->Join({name, a_.address});
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(joined.error().message, HasSubstr("control characters"));
  }
  EXPECT_TRUE(fleet_->Join({"größer", a_.address}));
}

TEST_F(FleetMembersTest, CountsHaveTheVersionOfTheMember) {
  Open();
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  AwaitReplicas(1);
  EXPECT_EQ(fleet_->Statistics("", "")->front().version, "1") << "before the first request";
  EXPECT_TRUE(Infer(AskFor("twice")).get());
  const auto rows = fleet_->Statistics("twice", "1");
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(rows->front().success.count, 1U);
}

/// A member that takes as long to say what a model is as the test says.
class SlowMember final : public inference::GRPCInferenceService::Service {
 public:
  SlowMember() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = fmt::format("127.0.0.1:{}", port);
  }
  ~SlowMember() override {
    go.set_value();
    server_->Shutdown();
  }
  grpc::Status ServerMetadata(grpc::ServerContext* context, const inference::ServerMetadataRequest*,
                              inference::ServerMetadataResponse* response) override {
    context->AddTrailingMetadata(kHttpPortKey, std::to_string(http_.port()));
    response->set_version(std::string(ServerVersion()));
    return grpc::Status::OK;
  }
  grpc::Status ServerReady(grpc::ServerContext*, const inference::ServerReadyRequest*,
                           inference::ServerReadyResponse* response) override {
    response->set_ready(true);
    return grpc::Status::OK;
  }
  grpc::Status ModelStatistics(grpc::ServerContext*, const inference::ModelStatisticsRequest*,
                               inference::ModelStatisticsResponse* response) override {
    response->add_model_stats()->set_name("twice");
    return grpc::Status::OK;
  }
  grpc::Status ModelMetadata(grpc::ServerContext*, const inference::ModelMetadataRequest*,
                             inference::ModelMetadataResponse*) override {
    asked = true;
    gone_.wait();
    return grpc::Status::OK;
  }

  std::atomic<bool> asked{false};
  std::promise<void> go;
  std::string address;

 private:
  const std::shared_future<void> gone_ = go.get_future().share();
  HttpStub http_{[] { return std::string("00000000000000aa"); },
                 [](const HttpRequest&, const std::shared_ptr<HttpReply>&) {}};
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(FleetMembersTest, ASlowMemberDelaysNoOther) {
  SlowMember slow;
  Open();
  ASSERT_TRUE(fleet_->Join({"slow", slow.address}));
  ASSERT_TRUE(Eventually([&] { return slow.asked.load(); }));
  const std::uint64_t decisions = fleet_->ReadFleet().decisions;
  EXPECT_TRUE(Eventually([&] { return fleet_->ReadFleet().decisions > decisions + 20; }));
  ASSERT_TRUE(fleet_->Join({"a", a_.address}));
  AwaitReplicas(1);
  const auto answer = Infer(AskFor("twice")).get();
  EXPECT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(Served(a_.core), 1U);
}

}  // namespace
}  // namespace lagoon
