#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "base/log.h"
#include "server/grpc/grpc_service.grpc.pb.h"
#include "server/memory_budget.h"
#include "server/testing/http_test_client.h"
#include "server/testing/server_test_base.h"
#include "server/testing/shared_object.h"

namespace lagoon {
namespace {

using testing::HasSubstr;
using Stub = inference::GRPCInferenceService::Stub;

class GrpcServer : public ServerTest {
 protected:
  void SetUp() override {
    limits_.max_body_bytes = 1 << 20;
    ServerTest::SetUp();
    channel_ = grpc::CreateChannel(fmt::format("127.0.0.1:{}", server_->grpc_port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
  }

  static inference::ModelInferRequest Twice() {
    inference::ModelInferRequest request;
    request.set_model_name("twice");
    request.set_id("g1");
    auto& input = *request.add_inputs();
    input.set_name("x");
    input.set_datatype("FP32");
    input.add_shape(1);
    input.add_shape(4);
    for (const float value : {1.0f, 2.0f, 3.0f, 4.0f}) {
      input.mutable_contents()->add_fp32_contents(value);
    }
    return request;
  }

  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return ((*stub_).*method)(&context, request, &response);
  }

  // The answer of grpc.health.v1.Health/Check, as the bytes of its message.
  grpc::Status CheckHealth(std::string& answer) {
    grpc::GenericStub health(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const grpc::Slice empty;
    auto call = health.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                        grpc::ByteBuffer(&empty, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    grpc::Slice slice;
    if (status.ok() && response.TrySingleSlice(&slice).ok()) {
      answer.assign(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return status;
  }

  // The status of a call of `method` with these bytes as its message.
  grpc::Status CallGeneric(const std::string& method, const std::string& message) {
    grpc::GenericStub generic(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const grpc::Slice slice(message);
    auto call = generic.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, this);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status;
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
};

TEST_F(GrpcServer, TheClientsTraceReachesTheCore) {
  for (const bool valid : {true, false}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context.AddMetadata(
        "traceparent",
        valid ? "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" : "00-nonsense");
    inference::ModelInferResponse response;
    ASSERT_TRUE(stub_->ModelInfer(&context, Twice(), &response).ok());
    const TraceContext trace = core_.LastRequest().trace;
    EXPECT_EQ(trace.any(), valid);
    EXPECT_EQ(trace.sampled, valid);
  }
}

TEST_F(GrpcServer, AnswersHealthAndReadiness) {
  inference::ServerLiveResponse live;
  ASSERT_TRUE(Call(&Stub::ServerLive, {}, live).ok());
  EXPECT_TRUE(live.live());
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(Call(&Stub::ServerReady, {}, ready).ok());
  EXPECT_TRUE(ready.ready());
  core_.SetReady(false);
  ASSERT_TRUE(Call(&Stub::ServerReady, {}, ready).ok());
  EXPECT_FALSE(ready.ready());

  inference::ModelReadyRequest request;
  inference::ModelReadyResponse model;
  request.set_name("twice");
  ASSERT_TRUE(Call(&Stub::ModelReady, request, model).ok());
  EXPECT_TRUE(model.ready());
  request.set_name("broken");
  ASSERT_TRUE(Call(&Stub::ModelReady, request, model).ok());
  EXPECT_FALSE(model.ready());
  request.set_name("nobody");  // clients wait for a model that is yet to come
  ASSERT_TRUE(Call(&Stub::ModelReady, request, model).ok());
  EXPECT_FALSE(model.ready());
  request.set_name("twice");
  request.set_version("9");
  ASSERT_TRUE(Call(&Stub::ModelReady, request, model).ok());
  EXPECT_FALSE(model.ready());
}

TEST_F(GrpcServer, HealthServiceFollowsTheCore) {
  const std::string serving = {8, 1};
  const std::string not_serving = {8, 2};
  std::string answer;
  ASSERT_TRUE(CheckHealth(answer).ok());
  EXPECT_EQ(answer, serving);
  core_.SetReady(false);
  EXPECT_TRUE(Eventually([&] { return CheckHealth(answer).ok() && answer == not_serving; }));
  core_.SetReady(true);
  EXPECT_TRUE(Eventually([&] { return CheckHealth(answer).ok() && answer == serving; }));
}

TEST_F(GrpcServer, AnswersMetadataConfigAndStatistics) {
  inference::ServerMetadataResponse server;
  ASSERT_TRUE(Call(&Stub::ServerMetadata, {}, server).ok());
  EXPECT_EQ(server.name(), "lagoon");
  EXPECT_EQ(server.extensions_size(), 9);

  inference::ModelMetadataRequest model;
  inference::ModelMetadataResponse metadata;
  model.set_name("image");
  ASSERT_TRUE(Call(&Stub::ModelMetadata, model, metadata).ok());
  EXPECT_THAT(metadata.inputs(0).shape(), testing::ElementsAre(1, 3, 224, 224));
  EXPECT_EQ(metadata.outputs(0).datatype(), "FP32");
  model.set_version("9");
  EXPECT_EQ(Call(&Stub::ModelMetadata, model, metadata).error_code(), grpc::StatusCode::NOT_FOUND);

  inference::ModelConfigRequest which;
  inference::ModelConfigResponse config;
  which.set_name("twice");
  ASSERT_TRUE(Call(&Stub::ModelConfig, which, config).ok());
  EXPECT_EQ(config.config().input(0).name(), "x");

  inference::ModelInferResponse inferred;
  ASSERT_TRUE(Call(&Stub::ModelInfer, Twice(), inferred).ok());
  inference::ModelStatisticsRequest of;
  inference::ModelStatisticsResponse statistics;
  ASSERT_TRUE(Call(&Stub::ModelStatistics, of, statistics).ok());
  EXPECT_EQ(statistics.model_stats(0).version(), "1");
  EXPECT_EQ(statistics.model_stats(0).inference_stats().success().count(), 1u);
  EXPECT_TRUE(statistics.model_stats(0).inference_stats().has_cache_miss());
  of.set_name("nobody");
  EXPECT_EQ(Call(&Stub::ModelStatistics, of, statistics).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServer, InfersFromTypedAndFromRawContents) {
  inference::ModelInferRequest request = Twice();
  (*request.mutable_parameters())["priority"].set_int64_param(2);
  inference::ModelInferResponse response;
  const auto check = [&] {
    const grpc::Status status = Call(&Stub::ModelInfer, request, response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.id(), "g1");
    ASSERT_EQ(response.raw_output_contents(0).size(), 16u);
    float doubled[4];
    std::memcpy(doubled, response.raw_output_contents(0).data(), 16);
    EXPECT_THAT(doubled, testing::ElementsAre(2, 4, 6, 8));
  };
  check();
  EXPECT_EQ(core_.LastRequest().priority, 2u);
  const float values[] = {1, 2, 3, 4};
  request.mutable_inputs(0)->clear_contents();
  request.add_raw_input_contents(values, sizeof(values));
  check();
}

TEST_F(GrpcServer, ReportsStagesWhenAsked) {
  inference::ModelInferRequest request = Twice();
  (*request.mutable_parameters())["lagoon_stages"].set_bool_param(true);
  inference::ModelInferResponse response;
  ASSERT_TRUE(Call(&Stub::ModelInfer, request, response).ok());
  EXPECT_GT(response.parameters().at("lagoon_parse_us").double_param(), 0);
}

TEST_F(GrpcServer, ErrorsKeepTheirCode) {
  inference::ModelInferResponse response;
  inference::ModelInferRequest request = Twice();
  request.set_model_name("nobody");
  EXPECT_EQ(Call(&Stub::ModelInfer, request, response).error_code(), grpc::StatusCode::NOT_FOUND);
  request = Twice();
  request.mutable_inputs(0)->set_datatype("FP31");
  const grpc::Status wrong = Call(&Stub::ModelInfer, request, response);
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(wrong.error_message(), HasSubstr("model 'twice': input 'x': datatype is 'FP31'"));
  for (const auto& [code, expected] :
       {std::pair(ErrorCode::kUnavailable, grpc::StatusCode::UNAVAILABLE),
        std::pair(ErrorCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED)}) {
    core_.FailWith({code, "because"});
    const grpc::Status status = Call(&Stub::ModelInfer, Twice(), response);
    EXPECT_EQ(status.error_code(), expected);
    EXPECT_EQ(status.error_message(), "because");
  }
}

TEST_F(GrpcServer, BytesThatAreNoRequestAreAnErrorAndNothingElse) {
  const grpc::Status status =
      CallGeneric("/inference.GRPCInferenceService/ModelInfer", "\xff\xff\xff\xff garbage");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  inference::ModelInferResponse response;
  EXPECT_TRUE(Call(&Stub::ModelInfer, Twice(), response).ok());
}

TEST_F(GrpcServer, InfersFromSharedMemoryIntoSharedMemory) {
  SharedObject object(4096);
  object.Write(0, {1, 2, 3, 4});
  inference::SystemSharedMemoryRegisterRequest region;
  inference::SystemSharedMemoryRegisterResponse registered;
  region.set_name("r");
  region.set_key(object.key());
  region.set_byte_size(4096);
  ASSERT_TRUE(Call(&Stub::SystemSharedMemoryRegister, region, registered).ok());
  EXPECT_EQ(Call(&Stub::SystemSharedMemoryRegister, region, registered).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  inference::SystemSharedMemoryStatusResponse status;
  ASSERT_TRUE(Call(&Stub::SystemSharedMemoryStatus, {}, status).ok());
  EXPECT_EQ(status.regions().at("r").key(), object.key());

  inference::ModelInferRequest request = Twice();
  auto& input = *request.mutable_inputs(0);
  input.clear_contents();
  (*input.mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*input.mutable_parameters())["shared_memory_byte_size"].set_int64_param(16);
  auto& output = *request.add_outputs();
  output.set_name("y");
  (*output.mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*output.mutable_parameters())["shared_memory_byte_size"].set_int64_param(16);
  (*output.mutable_parameters())["shared_memory_offset"].set_int64_param(64);
  inference::ModelInferResponse response;
  const grpc::Status inferred = Call(&Stub::ModelInfer, request, response);
  ASSERT_TRUE(inferred.ok()) << inferred.error_message();
  EXPECT_EQ(object.Read(64, 4), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(response.outputs(0).parameters().at("shared_memory_offset").int64_param(), 64);
  ASSERT_EQ(response.raw_output_contents_size(), 1);  // so that others keep their place
  EXPECT_TRUE(response.raw_output_contents(0).empty());

  request.add_raw_input_contents("0123456789abcdef");  // none of the inputs needs it
  EXPECT_THAT(Call(&Stub::ModelInfer, request, response).error_message(),
              HasSubstr("1 entries for 0 inputs"));
  request.clear_raw_input_contents();
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_offset"].set_int64_param(-1);
  EXPECT_EQ(Call(&Stub::ModelInfer, request, response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_offset"].set_int64_param(0);
  object.Resize(1);
  EXPECT_THAT(Call(&Stub::ModelInfer, request, response).error_message(), HasSubstr("smaller"));
  inference::SystemSharedMemoryUnregisterResponse unregistered;
  ASSERT_TRUE(Call(&Stub::SystemSharedMemoryUnregister, {}, unregistered).ok());
  EXPECT_EQ(Call(&Stub::ModelInfer, request, response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServer, HasNoRegionsOfGpus) {
  inference::CudaSharedMemoryStatusResponse status;
  ASSERT_TRUE(Call(&Stub::CudaSharedMemoryStatus, {}, status).ok());
  EXPECT_TRUE(status.regions().empty());
  inference::CudaSharedMemoryUnregisterResponse unregistered;
  EXPECT_TRUE(Call(&Stub::CudaSharedMemoryUnregister, {}, unregistered).ok());
  inference::CudaSharedMemoryRegisterResponse registered;
  EXPECT_EQ(Call(&Stub::CudaSharedMemoryRegister, {}, registered).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcServer, LogAndTraceSettingsCanBeReadAndOperatorsSetTheLog) {
  inference::LogSettingsRequest log;
  inference::LogSettingsResponse settings;
  ASSERT_TRUE(Call(&Stub::LogSettings, log, settings).ok());
  EXPECT_TRUE(settings.settings().contains("log_info"));
  (*log.mutable_settings())["log_info"].set_bool_param(true);
  const grpc::Status refused = Call(&Stub::LogSettings, log, settings);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("--allow-admin-on-http"));
  admin_on_http_ = true;
  server_.reset();
  SetUp();
  const spdlog::level::level_enum before = spdlog::get_level();
  (*log.mutable_settings())["log_verbose_level"].set_uint32_param(1);
  EXPECT_TRUE(Call(&Stub::LogSettings, log, settings).ok());
  EXPECT_EQ(spdlog::get_level(), spdlog::level::debug);
  EXPECT_EQ(settings.settings().at("log_verbose_level").uint32_param(), 1u);
  spdlog::set_level(before);
  (*log.mutable_settings())["log_file"].set_string_param("/etc/passwd");
  EXPECT_EQ(Call(&Stub::LogSettings, log, settings).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);

  inference::TraceSettingRequest trace;
  inference::TraceSettingResponse traced;
  trace.set_model_name("twice");
  ASSERT_TRUE(Call(&Stub::TraceSetting, trace, traced).ok());
  EXPECT_EQ(traced.settings().at("trace_level").value(0), "OFF");
  for (const auto& [name, value] : traced.settings()) {
    *(*trace.mutable_settings())[name].mutable_value() = value.value();
  }
  (*trace.mutable_settings())["trace_rate"].clear_value();
  EXPECT_TRUE(Call(&Stub::TraceSetting, trace, traced).ok());  // as a tool that restores them
  (*trace.mutable_settings())["trace_rate"].add_value("7");
  EXPECT_EQ(Call(&Stub::TraceSetting, trace, traced).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  trace.set_model_name("nobody");
  EXPECT_EQ(Call(&Stub::TraceSetting, trace, traced).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServer, NamesTheExtensionsOfTritonThatItLacks) {
  const struct {
    const char* method;
    const char* says;
  } cases[] = {
      {"RepositoryModelLoad", "'model_repository'"},
      {"Frobnicate", "method '/inference.GRPCInferenceService/Frobnicate' is not served"},
  };
  for (const auto& c : cases) {
    const grpc::Status status =
        CallGeneric(std::string("/inference.GRPCInferenceService/") + c.method, "");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << c.method;
    EXPECT_THAT(status.error_message(), HasSubstr(c.says)) << c.method;
  }
}

TEST_F(GrpcServer, ModelsAreLoadedAndUnloadedIfTheServerAllowsIt) {
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("twice");
  inference::RepositoryModelLoadResponse loaded;
  EXPECT_EQ(Call(&Stub::RepositoryModelLoad, load, loaded).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  model_control_ = true;
  server_.reset();
  SetUp();
  const grpc::Status refused = Call(&Stub::RepositoryModelLoad, load, loaded);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("--allow-admin-on-http"));
  EXPECT_TRUE(core_.Changes().empty());
  admin_on_http_ = true;
  server_.reset();
  SetUp();
  EXPECT_TRUE(Call(&Stub::RepositoryModelLoad, load, loaded).ok());
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("twice");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(false);
  inference::RepositoryModelUnloadResponse unloaded;
  EXPECT_TRUE(Call(&Stub::RepositoryModelUnload, unload, unloaded).ok());
  EXPECT_EQ(core_.Changes(), (std::vector<std::string>{"load twice", "unload twice"}));
  unload.set_model_name("absent");
  EXPECT_TRUE(Call(&Stub::RepositoryModelUnload, unload, unloaded).ok());
  load.set_model_name("absent");
  EXPECT_THAT(Call(&Stub::RepositoryModelLoad, load, loaded).error_message(),
              HasSubstr("failed to load 'absent', failed to poll from model repository"));
  load.set_model_name("broken");
  const grpc::Status broken = Call(&Stub::RepositoryModelLoad, load, loaded);
  EXPECT_EQ(broken.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(broken.error_message(), testing::StartsWith("load failed for model 'broken': "));
  EXPECT_EQ(broken.error_message().find("secret"), std::string::npos);
  load.set_model_name("twice");
  (*load.mutable_parameters())["config"].set_string_param("{}");
  (*load.mutable_parameters())["file:1/m"].set_bytes_param("Man");
  EXPECT_TRUE(Call(&Stub::RepositoryModelLoad, load, loaded).ok());
  EXPECT_EQ(core_.Changes().back(), "load {} 1/m=Man twice");
  (*load.mutable_parameters())["config"].set_int64_param(1);
  EXPECT_EQ(Call(&Stub::RepositoryModelLoad, load, loaded).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  load.clear_parameters();
  (*load.mutable_parameters())["reload"].set_bool_param(true);
  EXPECT_EQ(Call(&Stub::RepositoryModelLoad, load, loaded).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  inference::RepositoryIndexRequest request;
  request.set_ready(true);
  inference::RepositoryIndexResponse index;
  EXPECT_TRUE(Call(&Stub::RepositoryIndex, request, index).ok());
  ASSERT_EQ(index.models_size(), 1);
  EXPECT_EQ(index.models(0).state(), "READY");
}

TEST_F(GrpcServer, ErrorsThatQuoteALargeRequestKeepTheirCode) {
  inference::ModelInferResponse response;
  inference::ModelInferRequest request = Twice();
  request.mutable_inputs(0)->set_name(std::string(100'000, 'n'));
  request.mutable_inputs(0)->set_datatype(std::string(20'000, 't'));
  request.set_model_name(std::string(100'000, 'm'));
  EXPECT_EQ(Call(&Stub::ModelInfer, request, response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  core_.FailWith({ErrorCode::kUnavailable, std::string(100'000, 'x')});
  EXPECT_EQ(Call(&Stub::ModelInfer, Twice(), response).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServer, OversizedMessageIsRefused) {
  inference::ModelInferRequest request = Twice();
  request.add_raw_input_contents(std::string(2 << 20, 'x'));
  inference::ModelInferResponse response;
  EXPECT_EQ(Call(&Stub::ModelInfer, request, response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcServer, CompressedRequestsAreServedWithinABound) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const auto call = [&](const inference::ModelInferRequest& request) {
      grpc::ClientContext context;
      context.set_compression_algorithm(algorithm);
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
      inference::ModelInferResponse response;
      return stub_->ModelInfer(&context, request, &response).error_code();
    };
    inference::ModelInferRequest request = Twice();
    request.set_id(std::string(10'000, 'x'));  // so that it becomes smaller
    EXPECT_EQ(call(request), grpc::StatusCode::OK);
    request.set_id(std::string(kMostInflatedBytes, 'x'));
    EXPECT_EQ(call(request), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  EXPECT_EQ(
      CallGeneric("/inference.GRPCInferenceService/ModelInfer", "\x1f\x8b damaged").error_code(),
      grpc::StatusCode::INVALID_ARGUMENT);
}

// One frame of HTTP/2. `type`: 0 DATA, 1 HEADERS, 4 SETTINGS.
std::string Frame(int type, int flags, std::uint32_t stream, const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame + payload;
}

// A field without Huffman codes and without the table of HPACK.
std::string Field(const std::string& name, const std::string& value) {
  return '\0' + std::string(1, static_cast<char>(name.size())) + name +
         static_cast<char>(value.size()) + value;
}

TEST_F(GrpcServer, AConnectionThatOpensCallsWithoutEndIsCutAndOthersAreServed) {
  inference::ServerLiveResponse live;
  ASSERT_TRUE(Call(&Stub::ServerLive, {}, live).ok());
  HttpTestClient attacker(server_->grpc_port());
  ASSERT_TRUE(attacker.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "")));
  const std::string header = Field(":method", "POST") + Field(":scheme", "http") +
                             Field(":path", "/inference.GRPCInferenceService/ServerLive") +
                             Field(":authority", "a") + Field("te", "trailers") +
                             Field("content-type", "application/grpc");
  // The settings of the server are not acknowledged, so that the limit does not apply yet.
  std::uint32_t stream = 1;
  bool open = true;
  const TimePoint until = Now() + std::chrono::minutes(1);
  for (; open && Now() < until; stream += 2) open = attacker.Send(Frame(1, 4, stream, header));
  EXPECT_FALSE(open) << stream / 2 << " calls";
  EXPECT_TRUE(Call(&Stub::ServerLive, {}, live).ok()) << "on a connection that was there";
}

TEST_F(GrpcServer, ACancelledCallCancelsItsRequestAndNoOther) {
  core_.Hold();
  auto other = std::async(std::launch::async, [&] {
    inference::ModelInferResponse response;
    return Call(&Stub::ModelInfer, Twice(), response).ok();
  });
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  grpc::ClientContext context;
  auto cancelled = std::async(std::launch::async, [&] {
    inference::ModelInferResponse response;
    return stub_->ModelInfer(&context, Twice(), &response).error_code();
  });
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 2; }));
  context.TryCancel();
  EXPECT_EQ(cancelled.get(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
  EXPECT_EQ(core_.Pending(), 1u);
  core_.Release();
  EXPECT_TRUE(other.get());
}

TEST_F(GrpcServer, StopAnswersWhatIsInFlight) {
  core_.Hold();
  auto call = std::async(std::launch::async, [&] {
    inference::ModelInferResponse response;
    return Call(&Stub::ModelInfer, Twice(), response).ok();
  });
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  std::jthread stopper([&] { server_->Stop(Now() + std::chrono::seconds(30)); });
  inference::ServerLiveResponse live;
  EXPECT_TRUE(Eventually([&] { return !Call(&Stub::ServerLive, {}, live).ok(); }));
  core_.Release();
  EXPECT_TRUE(call.get());
}

TEST_F(GrpcServer, StopCancelsWhatIsNotAnsweredInTime) {
  core_.Hold();
  auto call = std::async(std::launch::async, [&] {
    inference::ModelInferResponse response;
    return Call(&Stub::ModelInfer, Twice(), response).ok();
  });
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  server_->Stop(Now() + std::chrono::milliseconds(50));
  EXPECT_EQ(core_.Cancelled(), 1u);
  EXPECT_FALSE(call.get());
}

TEST_F(GrpcServer, SecondServerOnThePortIsAnErrorThatNamesIt) {
  ServerOptions options = Options();
  options.grpc_port = server_->grpc_port();
  const auto second = Server::Start(core_, options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(second.error().message,
              HasSubstr(fmt::format("gRPC 127.0.0.1:{}", server_->grpc_port())));
}

}  // namespace
}  // namespace lagoon
