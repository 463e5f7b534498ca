#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <set>
#include <thread>

#include "server/grpc/grpc_service.grpc.pb.h"
#include "server/grpc/grpc_stream_call.h"
#include "server/testing/server_test_base.h"
#include "server/testing/shared_object.h"

namespace lagoon {
namespace {

using inference::ModelInferRequest;
using inference::ModelStreamInferResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GrpcStream : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    stub_ = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
        fmt::format("127.0.0.1:{}", server_->grpc_port()), grpc::InsecureChannelCredentials()));
  }

  static ModelInferRequest Request(const std::string& model, const std::string& id, float value) {
    ModelInferRequest request;
    request.set_model_name(model);
    request.set_id(id);
    auto& input = *request.add_inputs();
    input.set_name("x");
    input.set_datatype("FP32");
    input.add_shape(1);
    input.add_shape(4);
    for (int i = 0; i < 4; ++i) input.mutable_contents()->add_fp32_contents(value);
    return request;
  }
  static float First(const ModelStreamInferResponse& response) {
    float value = 0;
    std::memcpy(&value, response.infer_response().raw_output_contents(0).data(), sizeof(value));
    return value;
  }
  static bool Final(const ModelStreamInferResponse& response) {
    return response.infer_response().parameters().at("triton_final_response").bool_param();
  }

  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  grpc::ClientContext context_;
};

TEST_F(GrpcStream, AnswersEachRequestUnderItsId) {
  const auto stream = stub_->ModelStreamInfer(&context_);
  constexpr int kRequests = 200;  // more than may be in flight at a time
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      stream->Write(Request("twice", std::to_string(i), static_cast<float>(i)));
    }
    stream->WritesDone();
  });
  std::set<std::string> ids;
  ModelStreamInferResponse response;
  while (stream->Read(&response)) {
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(First(response), 2 * std::stof(response.infer_response().id()));
    EXPECT_TRUE(Final(response));
    ids.insert(response.infer_response().id());
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(ids.size(), kRequests);
}

TEST_F(GrpcStream, AnErrorIsAnAnswerAndTheStreamGoesOn) {
  const auto stream = stub_->ModelStreamInfer(&context_);
  ModelInferRequest bad = Request("twice", "bad", 1);
  bad.mutable_inputs(0)->set_datatype("FP99");
  ModelStreamInferResponse response;
  for (const auto& [request, says] :
       {std::pair(Request("nothing", "n", 1), "not in the repository"), std::pair(bad, "FP99")}) {
    stream->Write(request);
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_THAT(response.error_message(), HasSubstr(says));
    EXPECT_THAT(response.error_message(), StartsWith("request '" + request.id() + "': "));
    EXPECT_EQ(response.infer_response().id(), request.id());
    const auto& parameters = response.infer_response().parameters();
    EXPECT_EQ(parameters.at("lagoon_code").int64_param(), request.id() == "n"
                                                              ? grpc::StatusCode::NOT_FOUND
                                                              : grpc::StatusCode::INVALID_ARGUMENT);
  }
  stream->Write(Request("twice", "good", 3));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_EQ(First(response), 6);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcStream, ADecoupledModelAnswersSeveralTimes) {
  const auto stream = stub_->ModelStreamInfer(&context_);
  stream->Write(Request("count", "c", 20));
  ModelInferRequest with_end = Request("count", "e", 1);
  (*with_end.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  stream->Write(with_end);
  stream->WritesDone();
  std::vector<float> counted;
  std::vector<std::size_t> outputs;  // of the request that asks for the end
  ModelStreamInferResponse response;
  while (stream->Read(&response)) {
    if (response.infer_response().id() == "c") {
      counted.push_back(First(response));
      EXPECT_FALSE(Final(response));
    } else {
      outputs.push_back(static_cast<std::size_t>(response.infer_response().outputs_size()));
      EXPECT_EQ(Final(response), outputs.size() == 2);
    }
  }
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_EQ(counted.size(), 20);
  for (std::size_t i = 0; i < counted.size(); ++i) EXPECT_EQ(counted[i], i + 1);
  EXPECT_THAT(outputs, ElementsAre(1, 0));
}

// Clients of Triton pair answers with requests by their order.
TEST_F(GrpcStream, AnswersKeepTheOrderOfTheRequestsButForDecoupledModels) {
  core_.Hold();  // what is refused is answered all the same
  const auto stream = stub_->ModelStreamInfer(&context_);
  stream->Write(Request("twice", "first", 1));
  stream->Write(Request("nothing", "second", 1));
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  core_.Release();
  stream->Write(Request("twice", "third", 1));
  stream->WritesDone();
  std::vector<std::string> ids;
  ModelStreamInferResponse response;
  while (stream->Read(&response)) ids.push_back(response.infer_response().id());
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(ids, ElementsAre("first", "second", "third"));
}

TEST_F(GrpcStream, NoAnswerWaitsForADecoupledModel) {
  const auto stream = stub_->ModelStreamInfer(&context_);
  stream->Write(Request("count", "long", 100));
  stream->Write(Request("twice", "short", 1));
  ModelStreamInferResponse response;
  int counted = 0;
  bool answered = false;
  // The model pauses when its answers are not read, so that its request is in flight all the time.
  while (!answered && stream->Read(&response)) {
    answered = response.infer_response().id() == "short";
    counted += answered ? 0 : 1;
  }
  EXPECT_TRUE(answered);
  EXPECT_LT(counted, 100);
  stream->WritesDone();
  while (stream->Read(&response)) ++counted;
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(counted, 100);
}

TEST_F(GrpcStream, ADecoupledModelIsRefusedWhereThereIsOneAnswer) {
  inference::ModelInferResponse response;
  EXPECT_EQ(stub_->ModelInfer(&context_, Request("count", "", 1), &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(GrpcStream, AClientThatLeavesCancelsItsRequests) {
  core_.Hold();
  {
    const auto stream = stub_->ModelStreamInfer(&context_);
    for (int i = 0; i < 3; ++i) stream->Write(Request("twice", "", 1));
    EXPECT_TRUE(Eventually([&] { return core_.Pending() == 3; }));
    context_.TryCancel();
    EXPECT_FALSE(stream->Finish().ok());
  }
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 3; }));
}

TEST_F(GrpcStream, NoMoreRequestsAreReadThanMayBeInFlight) {
  core_.Hold();
  const auto stream = stub_->ModelStreamInfer(&context_);
  for (std::size_t i = 0; i < GrpcStreamCall::kMostInFlight + 20; ++i) {
    stream->Write(Request("twice", "", 1));
  }
  stream->WritesDone();
  EXPECT_TRUE(Eventually([&] { return core_.Pending() == GrpcStreamCall::kMostInFlight; }));
  inference::ServerLiveResponse live;
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->ServerLive(&context, {}, &live).ok());
    ASSERT_EQ(core_.Pending(), GrpcStreamCall::kMostInFlight);
  }
  core_.Release();
  ModelStreamInferResponse response;
  std::size_t answers = 0;
  while (stream->Read(&response)) ++answers;
  EXPECT_EQ(answers, GrpcStreamCall::kMostInFlight + 20);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcStream, AModelPausesForAClientThatDoesNotRead) {
  grpc::ChannelArguments small;  // buffers of this client
  small.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  small.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 16);
  const auto slow = inference::GRPCInferenceService::NewStub(
      grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", server_->grpc_port()),
                                grpc::InsecureChannelCredentials(), small));
  const auto stream = slow->ModelStreamInfer(&context_);
  stream->Write(Request("count", "", 1e9));
  // The buffers of both sides fill up. Then nothing more is given while others are answered.
  EXPECT_TRUE(Eventually([&] {
    const std::uint32_t before = core_.Counted();
    for (int i = 0; i < 100; ++i) {
      inference::ModelInferResponse other;
      grpc::ClientContext context;
      if (!stub_->ModelInfer(&context, Request("twice", "", 1), &other).ok()) return false;
    }
    return before > 0 && core_.Counted() == before;
  }));
  inference::ModelInferResponse other;
  grpc::ClientContext context;
  EXPECT_TRUE(stub_->ModelInfer(&context, Request("twice", "", 1), &other).ok());
  context_.TryCancel();
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return core_.Cancelled() == 1; }));
}

TEST_F(GrpcStream, AnOpenStreamEndsWithTheServer) {
  const auto stream = stub_->ModelStreamInfer(&context_);
  ModelStreamInferResponse response;
  stream->Write(Request("twice", "", 1));
  ASSERT_TRUE(stream->Read(&response));
  server_->Stop(kNoDeadline);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

/// A call without a connection. Its strand is one of a pool of its own.
class LoneCall final : public GrpcCall {
 public:
  explicit LoneCall(IoPool& pool) : strand_(pool.NextStrand()) {}

  const GrpcHead& head() const override { return head_; }
  const Strand& strand() const override { return strand_; }
  std::shared_ptr<MemoryCharge> NewCharge() override {
    return std::make_shared<MemoryCharge>(budget_, std::weak_ptr<MemoryHolder>(), Now());
  }
  void Pause() override {}
  void Go() override {}
  void Write(GrpcBytes message, std::function<void()> taken) override {
    std::string text;
    for (const GrpcBytes::Part& part : message.parts) text += part.text;
    ModelStreamInferResponse response;
    ASSERT_TRUE(response.ParseFromString(text));
    EXPECT_EQ(response.error_message(), "");
    const MutexLock lock(mutex_);
    ids_.push_back(response.infer_response().id());
    PostSurely(strand_, std::move(taken));
  }
  void Finish(const grpc::Status&, const GrpcTrailers&) override {}
  void Abandon() override { ADD_FAILURE(); }

  std::vector<std::string> ids() {
    const MutexLock lock(mutex_);
    return ids_;
  }

 protected:
  void Do(const std::function<void()>& work) override { work(); }

 private:
  const Strand strand_;
  const GrpcHead head_;
  const std::shared_ptr<MemoryBudget> budget_ =
      std::make_shared<MemoryBudget>(MemoryBudget::Limits{});
  Mutex mutex_;
  std::vector<std::string> ids_ GUARDED_BY(mutex_);
};

TEST_F(GrpcStream, LargeOutputsAreWrittenToSharedMemoryBesideTheConnection) {
  const std::size_t large = 300'000, small = 4;  // elements
  SharedObject object(large * sizeof(float));
  SharedRegions regions(true);
  ASSERT_TRUE(regions.Register({"r", object.key(), 0, large * sizeof(float)}));
  GrpcStreamCalls calls;
  IoPool pool(2);  // its end waits for what it still runs
  const auto call = std::make_shared<LoneCall>(pool);
  const auto stream = GrpcStreamCall::Begin({core_, pool, regions}, calls, call);
  const auto ask = [&](const std::string& id, std::size_t count) {
    ModelInferRequest request = Request("vector", id, 0);
    request.mutable_inputs(0)->clear_contents();
    request.mutable_inputs(0)->clear_shape();
    request.mutable_inputs(0)->add_shape(static_cast<std::int64_t>(count));
    const std::vector<float> values(count, 3);
    request.add_raw_input_contents(values.data(), count * sizeof(float));
    auto& output = *request.add_outputs();
    output.set_name("y");
    (*output.mutable_parameters())["shared_memory_region"].set_string_param("r");
    (*output.mutable_parameters())["shared_memory_byte_size"].set_uint64_param(large *
                                                                               sizeof(float));
    const auto bytes = std::make_shared<const std::string>(request.SerializeAsString());
    PostSurely(call->strand(), stream->Read({std::as_bytes(std::span(*bytes)), bytes, {}}).then);
  };
  ask("small", small);
  EXPECT_TRUE(Eventually([&] { return call->ids().size() == 1; }));
  std::promise<void> go;
  PostSurely(pool.one_by_one(), [&] { go.get_future().wait(); });
  ask("large", large);
  ask("after", small);
  ask("last", small);
  // The core answers one after the other, and the strand of the connection is free.
  EXPECT_TRUE(
      Eventually([&] { return core_.Statistics("twice", "")->front().success.count == 4; }));
  std::promise<void> turn;
  PostSurely(call->strand(), [&] { turn.set_value(); });
  turn.get_future().wait();
  EXPECT_EQ(call->ids().size(), 1u);
  EXPECT_EQ(object.Read(0, 5), (std::vector<float>{6, 6, 6, 6, 0}));
  go.set_value();
  EXPECT_TRUE(Eventually([&] { return call->ids().size() == 4; }));
  EXPECT_THAT(call->ids(), ElementsAre("small", "large", "after", "last"));
  EXPECT_EQ(object.Read((large - 1) * sizeof(float), 1), std::vector<float>{6});
  PostSurely(call->strand(), [stream] { stream->OnEnd(); });
}

}  // namespace
}  // namespace lagoon
