#include "server/remote/remote_core.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "server/grpc/grpc_codec.h"
#include "server/http/http_infer_codec.h"
#include "server/io_pool.h"
#include "server/remote/testing/http_stub.h"
#include "server/testing/server_test_base.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

constexpr float kInput[] = {1, 2, 3, 4};

InferRequest Twice() {
  InferRequest request;
  request.model = "twice";
  request.id = "r1";
  request.arrival = Now();
  request.inputs = {{"x", DataType::kFloat32, {1, 4}, std::as_bytes(std::span(kInput))}};
  return request;
}

class RemoteCoreTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    core_.List({"image", "pictures"});
    Connect();
  }
  void Connect() {
    RemoteOptions options;
    options.address = fmt::format("127.0.0.1:{}", server_->grpc_port());
    options.poll_period = std::chrono::milliseconds(10);
    options.longest_reconnect = std::chrono::milliseconds(200);
    options.most_in_flight = 4;
    options.loads = loads_;
    remote_ = std::make_unique<RemoteCore>(options);
    EXPECT_TRUE(Eventually([&] { return Has(*remote_, 3); }));
  }
  /// Whether the member is there, and what so many models are is known.
  static bool Has(const RemoteCore& remote, std::ptrdiff_t models) {
    return remote.Ready() &&
           std::ranges::count(remote.Models(), ModelState::kReady, &ModelStatus::state) == models;
  }
  std::future<Result<InferResponse>> Infer(InferRequest request, RequestHandle* handle = nullptr) {
    auto promise = std::make_shared<std::promise<Result<InferResponse>>>();
    const RequestHandle own = remote_->Infer(
        std::move(request),
        [promise](Result<InferResponse> result) { promise->set_value(std::move(result)); });
    if (handle != nullptr) *handle = own;
    return promise->get_future();
  }
  /// The error of a request, with its message.
  static Error ErrorOf(std::future<Result<InferResponse>> answer) {
    const auto result = answer.get();
    return result ? Error{ErrorCode::kInternal, "no error"} : result.error();
  }

  bool loads_ = false;
  std::unique_ptr<RemoteCore> remote_;
};

TEST_F(RemoteCoreTest, AnswersAreThoseOfTheMember) {
  auto result = Infer(Twice()).get();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->model, "twice");
  EXPECT_EQ(result->version, "1");
  EXPECT_EQ(result->id, "r1");
  ASSERT_EQ(result->outputs.size(), 1U);
  float values[4] = {};
  ASSERT_EQ(result->outputs[0].data.size(), sizeof(values));
  std::memcpy(values, result->outputs[0].data.data(), sizeof(values));
  EXPECT_THAT(values, testing::ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(result->job.outcome, Outcome::kDone);
  EXPECT_GE(result->job.finished, result->job.posted);
}

TEST_F(RemoteCoreTest, TellsWhatTheMemberTold) {
  EXPECT_TRUE(remote_->ModelReady("twice", ""));
  EXPECT_TRUE(remote_->Serves("twice", "1"));
  EXPECT_FALSE(remote_->Serves("twice", "2"));
  EXPECT_EQ(remote_->ModelReady("nothing", "").error().code, ErrorCode::kNotFound);
  ASSERT_EQ(remote_->Models().size(), 3U);
  EXPECT_EQ(remote_->Models()[0].name, "twice");
  const auto metadata = remote_->Metadata("image", "");
  ASSERT_TRUE(metadata) << metadata.error().message;
  EXPECT_EQ(metadata->inputs[0].name, "pixels");
  EXPECT_EQ(remote_->Metadata("pictures", "")->max_batch, 8);
  EXPECT_EQ(remote_->Metadata("nothing", "").error().code, ErrorCode::kNotFound);
  const auto config = remote_->Config("twice", "1");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->name(), "twice");
  const auto rows = remote_->Statistics("twice", "1");
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(rows->front().success.count, 0U) << "nothing was asked through this core";
  ASSERT_TRUE(Infer(Twice()).get());
  EXPECT_EQ(remote_->Statistics("twice", "1")->front().success.count, 1U);
  EXPECT_TRUE(remote_->Statistics("twice", "2")->empty());
  EXPECT_EQ(remote_->Problem(), "");
}

TEST_F(RemoteCoreTest, RowsAreCountedWhereTheModelHasBatches) {
  const std::vector<float> pixels(3 * 3 * 2 * 2, 1.0F);
  InferRequest batch = Twice();
  batch.model = "pictures";
  batch.inputs = {{"x", DataType::kFloat32, {3, 3, 2, 2}, std::as_bytes(std::span(pixels))}};
  for (int i = 0; i < 2; ++i) {
    const auto answer = Infer(batch).get();
    ASSERT_TRUE(answer) << answer.error().message;
  }
  ModelStatistics row = remote_->Statistics("pictures", "1")->front();
  EXPECT_EQ(row.inference_count, 6U);
  EXPECT_EQ(row.execution_count, 2U);
  ASSERT_TRUE(Infer(Twice()).get());
  EXPECT_EQ(remote_->Statistics("twice", "1")->front().inference_count, 1U) << "it has no batches";
}

TEST_F(RemoteCoreTest, ModelsAreLoadedAndUnloadedAtTheMember) {
  server_.reset();
  model_control_ = admin_on_http_ = true;
  StartServer();
  loads_ = true;
  Connect();
  ASSERT_NE(remote_->repository(), nullptr);
  const auto change = [&](bool load, const std::string& model) {
    auto promise = std::make_shared<std::promise<Status>>();
    const auto done = [promise](Status status) { promise->set_value(std::move(status)); };
    if (load) {
      remote_->repository()->LoadModel(model, done);
    } else {
      remote_->repository()->UnloadModel(model, done);
    }
    return promise->get_future().get();
  };
  EXPECT_TRUE(change(true, "spare"));
  EXPECT_TRUE(change(false, "spare"));
  EXPECT_THAT(core_.Changes(), testing::ElementsAre("load spare", "unload spare"));
  const Status absent = change(true, "absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  server_.reset();
  EXPECT_TRUE(Eventually([&] { return !remote_->Ready(); }));
  const Status lost = change(true, "spare");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::kUnavailable);
}

TEST_F(RemoteCoreTest, AMemberOfAnotherVersionGetsNoRequests) {
  RemoteOptions options;
  options.address = remote_->address();
  options.poll_period = std::chrono::milliseconds(10);
  options.version = "99.0";
  RemoteCore other(options);
  EXPECT_TRUE(Eventually([&] { return !other.Problem().empty(); }));
  EXPECT_THAT(other.Problem(), HasSubstr("this server '99.0'"));
  EXPECT_FALSE(other.Ready());
  EXPECT_FALSE(other.Serves("twice", ""));
}

TEST_F(RemoteCoreTest, SettingsOfTheDeviceAreTheMembersOwn) {
  EXPECT_EQ(remote_->schedulers(), nullptr);
  EXPECT_EQ(remote_->shares(), nullptr);
  EXPECT_EQ(remote_->repository(), nullptr);
  EXPECT_EQ(remote_->fleet(), nullptr);
}

TEST_F(RemoteCoreTest, ErrorsOfTheMemberKeepTheirCodeAndMessage) {
  InferRequest request = Twice();
  request.model = "nothing";
  const Error unknown = ErrorOf(Infer(std::move(request)));
  EXPECT_EQ(unknown.code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.message, HasSubstr("'nothing'"));
  core_.FailWith({ErrorCode::kDeadlineExceeded, "model 'twice': too late"});
  EXPECT_EQ(ErrorOf(Infer(Twice())).message, "model 'twice': too late");
}

TEST_F(RemoteCoreTest, TheClientsTraceReachesTheMember) {
  InferRequest request = Twice();
  request.trace.trace.fill(0xab);
  request.trace.parent.fill(0xcd);
  request.trace.sampled = true;
  ASSERT_TRUE(Infer(std::move(request)).get());
  const TraceContext there = core_.LastRequest().trace;
  EXPECT_EQ(there.trace[7], 0xab);
  EXPECT_EQ(there.parent[7], 0xcd);
  EXPECT_TRUE(there.sampled);
  ASSERT_TRUE(Infer(Twice()).get());
  EXPECT_FALSE(core_.LastRequest().trace.any());
}

TEST_F(RemoteCoreTest, PriorityAndTheTimeLeftReachTheMember) {
  InferRequest request = Twice();
  request.priority = 2;
  request.timeout = std::chrono::hours(1);
  request.arrival = Now() - std::chrono::minutes(30);
  ASSERT_TRUE(Infer(std::move(request)).get());
  const InferRequest last = core_.LastRequest();
  EXPECT_EQ(last.priority, 2U);
  EXPECT_LE(last.timeout, std::chrono::minutes(30));
  EXPECT_GT(last.timeout, std::chrono::minutes(20));
}

TEST_F(RemoteCoreTest, ARequestWhoseDeadlineHasPassedIsNotSent) {
  InferRequest request = Twice();
  request.timeout = std::chrono::milliseconds(1);
  request.arrival = Now() - std::chrono::seconds(1);
  EXPECT_EQ(ErrorOf(Infer(std::move(request))).code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(core_.LastRequest().model, "");
}

TEST_F(RemoteCoreTest, ADeadlineEndsACallThatTheMemberHolds) {
  core_.Hold();
  InferRequest request = Twice();
  request.timeout = std::chrono::milliseconds(20);
  EXPECT_EQ(ErrorOf(Infer(std::move(request))).code, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
}

TEST_F(RemoteCoreTest, CancellationReachesTheMember) {
  core_.Hold();
  RequestHandle handle{};
  auto answer = Infer(Twice(), &handle);
  EXPECT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  remote_->Cancel(handle);
  EXPECT_EQ(ErrorOf(std::move(answer)).code, ErrorCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
  remote_->Cancel(handle);  // a handle that is no longer in flight
}

TEST_F(RemoteCoreTest, RequestsBeyondTheLimitAreRefusedAtOnce) {
  core_.Hold();
  std::vector<std::future<Result<InferResponse>>> held;
  for (int i = 0; i < 3; ++i) held.push_back(Infer(Twice()));  // the fourth is for real-time ones
  const Error refused = ErrorOf(Infer(Twice()));
  EXPECT_EQ(refused.code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.message, HasSubstr("3 requests are in flight, the limit of best-effort"));
  core_.Release();
  for (auto& answer : held) EXPECT_TRUE(answer.get());
}

TEST_F(RemoteCoreTest, QueuesAreOwnRequestsAndThoseOfOthers) {
  core_.Hold();
  auto answer = Infer(Twice());
  EXPECT_EQ(remote_->QueueOf("twice"), 1U);
  EXPECT_EQ(remote_->QueueOf("image"), 0U);
  EXPECT_EQ(remote_->InFlight(), 1U);
  // Another client's requests, which the polls tell of.
  RemoteOptions options;
  options.address = remote_->address();
  options.poll_period = std::chrono::milliseconds(10);
  RemoteCore other(options);
  EXPECT_TRUE(Eventually([&] { return other.QueueOf("twice") == 1; }));
  core_.Release();
  EXPECT_TRUE(answer.get());
  EXPECT_EQ(remote_->QueueOf("twice"), 0U);
  EXPECT_TRUE(Eventually([&] { return other.QueueOf("twice") == 0; }));
}

TEST_F(RemoteCoreTest, AMemberThatIsNotReadyGetsNoRequests) {
  core_.SetReady(false);
  EXPECT_TRUE(Eventually([&] { return !remote_->Ready(); }));
  EXPECT_EQ(ErrorOf(Infer(Twice())).code, ErrorCode::kUnavailable);
  core_.SetReady(true);
  EXPECT_TRUE(Eventually([&] { return remote_->Ready(); }));
  EXPECT_TRUE(Infer(Twice()).get());
}

TEST_F(RemoteCoreTest, ALostMemberAnswersUnavailableAndIsConnectedAgain) {
  core_.Hold();
  auto answer = Infer(Twice());
  EXPECT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  const int port = server_->grpc_port();
  server_.reset();
  const Error lost = ErrorOf(std::move(answer));
  EXPECT_EQ(lost.code, ErrorCode::kUnavailable);
  EXPECT_THAT(lost.message, HasSubstr(fmt::format("member 127.0.0.1:{}", port)));
  EXPECT_TRUE(Eventually([&] { return !remote_->Ready(); }));
  EXPECT_EQ(ErrorOf(Infer(Twice())).code, ErrorCode::kUnavailable);
  EXPECT_EQ(remote_->Models().size(), 0U);
  EXPECT_EQ(remote_->Metadata("twice", "").error().code, ErrorCode::kUnavailable);
  core_.Release();
  ServerOptions options = Options();
  options.grpc_port = port;
  auto server = Server::Start(core_, options);
  ASSERT_TRUE(server) << server.error().message;
  server_ = *std::move(server);
  EXPECT_TRUE(Eventually([&] { return Has(*remote_, 3); }));
  EXPECT_TRUE(Infer(Twice()).get());
}

TEST_F(RemoteCoreTest, DrainAnswersWhatIsInFlightAndRefusesTheRest) {
  core_.Hold();
  auto answer = Infer(Twice());
  EXPECT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  remote_->Drain(Now());
  EXPECT_EQ(ErrorOf(std::move(answer)).code, ErrorCode::kUnavailable) << "no client has cancelled";
  EXPECT_EQ(ErrorOf(Infer(Twice())).code, ErrorCode::kUnavailable);
  EXPECT_FALSE(remote_->Ready());
}

TEST_F(RemoteCoreTest, ThePayloadIsFreeWhenTheAnswerComes) {
  std::vector<float> pixels(3 * 224 * 224, 1.0F);
  InferRequest request;
  request.model = "image";
  request.arrival = Now();
  request.inputs = {
      {"pixels", DataType::kFloat32, {1, 3, 224, 224}, std::as_bytes(std::span(pixels))}};
  auto payload = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = payload;
  request.payload = std::move(payload);
  auto result = Infer(std::move(request)).get();
  ASSERT_TRUE(result) << result.error().message;
  float sum = 0;
  std::memcpy(&sum, result->outputs[0].data.data(), sizeof(sum));
  EXPECT_EQ(sum, 3 * 224 * 224);
  EXPECT_TRUE(Eventually([&] { return alive.expired(); }));
}

/// Starts a server of `service`, and writes to `options` where it is and that it is polled often.
std::unique_ptr<grpc::Server> Serve(grpc::Service& service, RemoteOptions& options) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  options.poll_period = std::chrono::milliseconds(10);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  options.address = fmt::format("127.0.0.1:{}", port);
  return server;
}

/// A member that says that it fails when it has got a request, and keeps the request.
class StuckMember final : public inference::GRPCInferenceService::Service {
 public:
  grpc::Status ServerMetadata(grpc::ServerContext* context, const inference::ServerMetadataRequest*,
                              inference::ServerMetadataResponse*) override {
    if (tells_port) context->AddTrailingMetadata(kHttpPortKey, std::to_string(http.port()));
    return grpc::Status::OK;
  }
  grpc::Status ServerReady(grpc::ServerContext*, const inference::ServerReadyRequest*,
                           inference::ServerReadyResponse* response) override {
    response->set_ready(true);
    return stuck ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "stuck") : grpc::Status::OK;
  }
  grpc::Status ModelStatistics(grpc::ServerContext*, const inference::ModelStatisticsRequest*,
                               inference::ModelStatisticsResponse* response) override {
    response->add_model_stats()->set_name("twice");
    return grpc::Status::OK;
  }

  std::atomic<bool> stuck = false, tells_port = true;
  HttpStub http{[] { return std::string("00000000000000aa"); },
                [this](const HttpRequest&, const std::shared_ptr<HttpReply>&) { stuck = true; }};
};

// The polls find a killed member lost while the connection of the requests is still there.
TEST(RemoteCoreOfAStuckMember, ARequestThatTheMemberRunsWhenThePollsLoseItIsLost) {
  StuckMember member;
  RemoteOptions options;
  const std::unique_ptr<grpc::Server> server = Serve(member, options);
  RemoteCore remote(options);
  const TimePoint until = Now() + std::chrono::seconds(10);
  while (!remote.Ready() && Now() < until) std::this_thread::yield();
  std::promise<std::pair<ErrorCode, bool>> answer;
  remote.Send(Twice(), [&](const Result<InferResponse>& result, bool lost) {
    answer.set_value({result ? ErrorCode::kInternal : result.error().code, lost});
  });
  EXPECT_EQ(answer.get_future().get(), std::pair(ErrorCode::kUnavailable, true));
  server->Shutdown(std::chrono::system_clock::now());
}

TEST(RemoteCoreOfAStuckMember, WithoutAnHttpPortItIsRefusedUntilItTellsOne) {
  StuckMember member;
  member.tells_port = false;
  RemoteOptions options;
  const std::unique_ptr<grpc::Server> server = Serve(member, options);
  RemoteCore remote(options);
  const TimePoint until = Now() + std::chrono::seconds(10);
  while (remote.Problem().empty() && Now() < until) std::this_thread::yield();
  EXPECT_THAT(remote.Problem(), HasSubstr("does not tell its HTTP port"));
  EXPECT_FALSE(remote.Ready());
  member.tells_port = true;
  while (!remote.Ready() && Now() < until) std::this_thread::yield();
  EXPECT_TRUE(remote.Ready());
  EXPECT_EQ(remote.Problem(), "");
  server->Shutdown(std::chrono::system_clock::now());
}

/// A member that answers what the test says.
class LyingMember final : public inference::GRPCInferenceService::Service {
 public:
  grpc::Status ModelMetadata(grpc::ServerContext*, const inference::ModelMetadataRequest*,
                             inference::ModelMetadataResponse* response) override {
    response->set_name("twice");
    response->add_versions("1");
    auto& output = *response->add_outputs();
    output.set_name(loaded_anew ? "z" : "y");
    output.set_datatype("FP32");
    output.add_shape(-1);
    output.add_shape(1);
    return grpc::Status::OK;
  }
  grpc::Status ModelConfig(grpc::ServerContext*, const inference::ModelConfigRequest*,
                           inference::ModelConfigResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status ServerMetadata(grpc::ServerContext* context, const inference::ServerMetadataRequest*,
                              inference::ServerMetadataResponse*) override {
    context->AddTrailingMetadata(kServerKey, Id());
    context->AddTrailingMetadata(kHttpPortKey, std::to_string(http.port()));
    context->AddTrailingMetadata(kModelsKey, fmt::format("{:016x}", sign.load()));
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
  std::string Id() const { return fmt::format("{:016x}", server.load()); }

  std::atomic<int> server = 1, sign = 1;
  std::atomic<bool> loaded_anew = false;  // its output is "z" now

  InferResponse lie;
  HttpStub http{[this] { return Id(); },
                [this](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
                  HttpAnswerFormat format;
                  format.binary = true;
                  reply->Send(RenderHttpInfer(lie, format, EdgeStamps{}));
                }};
};

class RemoteCoreOfALiar : public ::testing::Test {
 protected:
  RemoteCoreOfALiar() {
    RemoteOptions options;
    server_ = Serve(member_, options);
    options.name = "liar";
    remote_ = std::make_unique<RemoteCore>(options);
    const TimePoint until = Now() + std::chrono::seconds(10);
    while (!remote_->Serves("twice", "") && Now() < until) std::this_thread::yield();
    member_.lie.model = "twice";
    member_.lie.version = "1";
    member_.lie.id = "r1";
    AddOutput("y", {1, 1});
  }
  ~RemoteCoreOfALiar() override { server_->Shutdown(std::chrono::system_clock::now()); }

  void AddOutput(const std::string& name, const Dims& dims, DataType type = DataType::kFloat32) {
    member_.lie.outputs.push_back({name, type, dims, {}});
    member_.lie.outputs.back().data.assign(4 * ElementCount(dims), std::byte{'x'});
  }
  /// The answer has this output only.
  void Answer(const std::string& name, const Dims& dims, DataType type = DataType::kFloat32) {
    member_.lie.outputs.clear();
    AddOutput(name, dims, type);
  }
  Result<InferResponse> Ask(const std::string& version = "") {
    InferRequest request = Twice();
    request.version = version;
    std::promise<Result<InferResponse>> promise;
    remote_->Infer(std::move(request),
                   [&](Result<InferResponse> result) { promise.set_value(std::move(result)); });
    return promise.get_future().get();
  }
  void ExpectWrong(const std::string& what, ErrorCode code = ErrorCode::kInternal,
                   const std::string& version = "") {
    auto answer = Ask(version);
    // While the member is asked whether it has loaded the model anew.
    const TimePoint until = Now() + std::chrono::seconds(10);
    while (!answer && answer.error().code != code && Now() < until) answer = Ask(version);
    ASSERT_FALSE(answer) << what;
    EXPECT_EQ(answer.error().code, code) << answer.error().message;
    EXPECT_THAT(answer.error().message, HasSubstr("member 'liar' at 127.0.0.1:"));
    EXPECT_THAT(answer.error().message, HasSubstr(what));
  }

  LyingMember member_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<RemoteCore> remote_;
};

TEST_F(RemoteCoreOfALiar, AnAnswerToAnotherRequestIsAnErrorThatNamesTheMember) {
  EXPECT_TRUE(Ask());
  member_.lie.id = "of another client";
  ExpectWrong("'of another client'");
  member_.lie.id = "r1";
  AddOutput("y", {1, 1});
  ExpectWrong("has the output 'y' twice");
}

TEST_F(RemoteCoreOfALiar, AnAnswerThatIsNotOfTheModelIsAnError) {
  Answer("y", {7, 1});
  EXPECT_TRUE(Ask()) << "a size that the model leaves open";
  Answer("z", {1, 1});
  ExpectWrong("has the output 'z', which the model 'twice' lacks");
  Answer("y", {1, 1}, DataType::kInt32);
  ExpectWrong("has the output 'y' as INT32 [1,1], and the model 'twice' has it as FP32 [-1,1]");
  Answer("y", {1, 2});
  ExpectWrong("as FP32 [1,2]");
  Answer("y", {1});
  ExpectWrong("as FP32 [1], and");
}

TEST_F(RemoteCoreOfALiar, WhatAModelIsIsAskedAgainWhenItsAnswersChange) {
  EXPECT_TRUE(Ask());
  member_.loaded_anew = true;
  Answer("z", {1, 1});
  const auto first = Ask();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::kUnavailable) << first.error().message;
  EXPECT_THAT(first.error().message, HasSubstr("asked whether it has loaded the model anew"));
  const TimePoint until = Now() + std::chrono::seconds(10);
  while (!Ask() && Now() < until) std::this_thread::yield();
  EXPECT_TRUE(Ask());
}

TEST_F(RemoteCoreOfALiar, WhatAModelIsIsAskedAgainWhenItIsLoadedAnewOrTheServerIsAnotherOne) {
  const auto outputs_become = [&](const std::string& name) {
    const TimePoint until = Now() + std::chrono::seconds(10);
    for (;;) {
      const auto metadata = remote_->Metadata("twice", "");
      if (metadata && metadata->outputs[0].name == name) return true;
      if (Now() > until) return false;
      std::this_thread::yield();
    }
  };
  EXPECT_TRUE(outputs_become("y"));
  member_.loaded_anew = true;
  member_.sign = 2;
  EXPECT_TRUE(outputs_become("z"));
  member_.loaded_anew = false;
  member_.server = 2;
  EXPECT_TRUE(outputs_become("y"));
}

// A member that has just loaded a version may answer with it before a poll tells of it.
TEST_F(RemoteCoreOfALiar, AnAnswerOfAnotherVersionDoesNotReachTheClient) {
  member_.lie.version = "2";
  ExpectWrong("version '2' of model 'twice', which the member has not told of",
              ErrorCode::kUnavailable);
  ExpectWrong("has the version '2', the request has '1'", ErrorCode::kInternal, "1");
  member_.lie.version = "1";
  EXPECT_TRUE(Ask());
}

}  // namespace
}  // namespace lagoon
