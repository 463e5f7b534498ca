#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "base/time.h"
#include "bench/client/infer_client.h"
#include "server/grpc/grpc_service.grpc.pb.h"

namespace lagoon::bench {
namespace {

constexpr std::string_view kStagePrefix = "lagoon_";
constexpr std::string_view kStageSuffix = "_us";

constexpr const char* kMethod = "/inference.GRPCInferenceService/ModelInfer";

class GrpcClient final : public InferClient {
 public:
  explicit GrpcClient(const ClientTarget& target) : stub_(Channel(target)) {
    message_.set_model_name(target.model);
    for (const std::string& output : target.outputs) message_.add_outputs()->set_name(output);
    (*message_.mutable_parameters())["lagoon_stages"].set_bool_param(true);
  }
  ~GrpcClient() override {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  Status Prepare(std::span<const InputTensor> inputs) override {
    message_.clear_inputs();
    message_.clear_raw_input_contents();
    for (const InputTensor& input : inputs) {
      auto& tensor = *message_.add_inputs();
      tensor.set_name(input.name);
      tensor.set_datatype(std::string(OipName(input.type)));
      tensor.mutable_shape()->Add(input.dims.begin(), input.dims.end());
      message_.add_raw_input_contents(input.data.data(), input.data.size());
    }
    const grpc::Slice slice(message_.SerializeAsString());
    request_ = grpc::ByteBuffer(&slice, 1);
    return {};
  }

  Result<Timing> Infer() override {
    grpc::ByteBuffer answer;
    Timing timing;
    LAGOON_ASSIGN_OR_RETURN(timing.total_us, Call(&answer));
    inference::ModelInferResponse response;
    if (!grpc::SerializationTraits<inference::ModelInferResponse>::Deserialize(&answer, &response)
             .ok()) {
      return Fail(ErrorCode::kInternal, "gRPC: the answer is not a ModelInferResponse");
    }
    for (const auto& [key, value] : response.parameters()) {
      if (!key.starts_with(kStagePrefix) || !key.ends_with(kStageSuffix)) continue;
      const std::size_t size = key.size() - kStagePrefix.size() - kStageSuffix.size();
      timing.stages_us[key.substr(kStagePrefix.size(), size)] = value.double_param();
    }
    return timing;
  }

 private:
  // With a connection of its own: clients of one process would share one.
  static std::shared_ptr<grpc::Channel> Channel(const ClientTarget& target) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(target.address + ":" + std::to_string(target.port),
                                     grpc::InsecureChannelCredentials(), arguments);
  }

  // Makes the call. Returns its time in microseconds.
  Result<double> Call(grpc::ByteBuffer* answer) {
    grpc::ClientContext context;
    grpc::Status status;
    const TimePoint begin = Now();
    const auto call = stub_.PrepareUnaryCall(&context, kMethod, request_, &queue_);
    call->StartCall();
    call->Finish(answer, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    const double us = ToMicroseconds(Now() - begin);
    if (!status.ok()) return Fail(ErrorCode::kInternal, "gRPC: " + status.error_message());
    return us;
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  inference::ModelInferRequest message_;
  grpc::ByteBuffer request_;
};

}  // namespace

Result<std::unique_ptr<InferClient>> ConnectGrpc(const ClientTarget& target) {
  return std::unique_ptr<InferClient>(std::make_unique<GrpcClient>(target));
}

}  // namespace lagoon::bench
