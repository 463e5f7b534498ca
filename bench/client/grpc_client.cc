#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/time.h"
#include "bench/client/infer_client.h"
#include "bench/client/shared_region.h"
#include "server/grpc/grpc_service.grpc.pb.h"

namespace lagoon::bench {
namespace {

constexpr std::string_view kStagePrefix = "lagoon_";
constexpr std::string_view kStageSuffix = "_us";

constexpr std::size_t kSharedOutputBytes = 64 << 10;
constexpr std::size_t kCacheLine = 64;
constexpr const char* kMethod = "/inference.GRPCInferenceService/ModelInfer";

class GrpcClient final : public InferClient {
 public:
  explicit GrpcClient(const ClientTarget& target)
      : channel_(Channel(target)), stub_(channel_), shared_memory_(target.shared_memory) {
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
    if (region_) Unregister();
  }

  Status Prepare(std::span<const InputTensor> inputs) override {
    message_.clear_inputs();
    message_.clear_raw_input_contents();
    for (const InputTensor& input : inputs) {
      auto& tensor = *message_.add_inputs();
      tensor.set_name(input.name);
      tensor.set_datatype(std::string(OipName(input.type)));
      tensor.mutable_shape()->Add(input.dims.begin(), input.dims.end());
      if (!shared_memory_) message_.add_raw_input_contents(input.data.data(), input.data.size());
    }
    if (shared_memory_) LAGOON_RETURN_IF_ERROR(Share(inputs));
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

  // Puts the inputs into a new region, and the outputs of the answer behind them.
  Status Share(std::span<const InputTensor> inputs) {
    std::size_t bytes = kSharedOutputBytes * static_cast<std::size_t>(message_.outputs_size());
    for (const InputTensor& input : inputs) bytes += Padded(input.data.size());
    if (region_) Unregister();
    LAGOON_ASSIGN_OR_RETURN(SharedRegion region, SharedRegion::Make(bytes));
    region_.emplace(std::move(region));
    std::size_t offset = 0;
    for (int i = 0; i < message_.inputs_size(); ++i) {
      const auto data = inputs[static_cast<std::size_t>(i)].data;
      std::ranges::copy(data, region_->memory().begin() + static_cast<std::ptrdiff_t>(offset));
      Refer(offset, data.size(), *message_.mutable_inputs(i)->mutable_parameters());
      offset += Padded(data.size());
    }
    for (auto& output : *message_.mutable_outputs()) {
      Refer(offset, kSharedOutputBytes, *output.mutable_parameters());
      offset += kSharedOutputBytes;
    }
    return Register();
  }

  static std::size_t Padded(std::size_t bytes) {
    return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

  void Refer(std::size_t offset, std::size_t bytes,
             google::protobuf::Map<std::string, inference::InferParameter>& parameters) const {
    parameters["shared_memory_region"].set_string_param(Name());
    parameters["shared_memory_byte_size"].set_int64_param(static_cast<std::int64_t>(bytes));
    parameters["shared_memory_offset"].set_int64_param(static_cast<std::int64_t>(offset));
  }

  // The region's name for the server: the key without its slash.
  std::string Name() const { return region_->key().substr(1); }

  Status Register() {
    inference::SystemSharedMemoryRegisterRequest request;
    inference::SystemSharedMemoryRegisterResponse response;
    request.set_name(Name());
    request.set_key(region_->key());
    request.set_byte_size(region_->memory().size());
    grpc::ClientContext context;
    const grpc::Status status =
        inference::GRPCInferenceService::NewStub(channel_)->SystemSharedMemoryRegister(
            &context, request, &response);
    if (status.ok()) return {};
    return Fail(ErrorCode::kInternal, "gRPC: " + status.error_message());
  }

  void Unregister() {
    inference::SystemSharedMemoryUnregisterRequest request;
    inference::SystemSharedMemoryUnregisterResponse response;
    request.set_name(Name());
    grpc::ClientContext context;
    (void)inference::GRPCInferenceService::NewStub(channel_)->SystemSharedMemoryUnregister(
        &context, request, &response);
    region_.reset();
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

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  const bool shared_memory_;
  std::optional<SharedRegion> region_;
  grpc::CompletionQueue queue_;
  inference::ModelInferRequest message_;
  grpc::ByteBuffer request_;
};

}  // namespace

Result<std::unique_ptr<InferClient>> ConnectGrpc(const ClientTarget& target) {
  return std::unique_ptr<InferClient>(std::make_unique<GrpcClient>(target));
}

}  // namespace lagoon::bench
