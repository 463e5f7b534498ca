#include <grpcpp/grpcpp.h>

#include "base/time.h"
#include "bench/infer_client.h"
#include "server/grpc_service.grpc.pb.h"

namespace lagoon::bench {
namespace {

constexpr std::string_view kStagePrefix = "lagoon_";
constexpr std::string_view kStageSuffix = "_us";

class GrpcClient final : public InferClient {
 public:
  explicit GrpcClient(const ClientTarget& target)
      : stub_(inference::GRPCInferenceService::NewStub(
            grpc::CreateChannel(target.address + ":" + std::to_string(target.port),
                                grpc::InsecureChannelCredentials()))) {
    request_.set_model_name(target.model);
    auto* input = request_.add_inputs();
    input->set_name(target.input.name);
    input->set_datatype("FP32");
    for (const std::int64_t dim : target.input.dims) input->add_shape(dim);
    request_.add_outputs()->set_name(target.output);
    (*request_.mutable_parameters())["lagoon_stages"].set_bool_param(true);
  }

  Result<Timing> Infer(std::span<const float> input) override {
    const TimePoint begin = Now();
    request_.clear_raw_input_contents();
    request_.add_raw_input_contents(input.data(), input.size_bytes());
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    const grpc::Status status = stub_->ModelInfer(&context, request_, &response);
    Timing timing;
    timing.total_us = ToMicroseconds(Now() - begin);
    if (!status.ok()) return Fail(ErrorCode::kInternal, "gRPC: " + status.error_message());
    for (const auto& [key, value] : response.parameters()) {
      if (!key.starts_with(kStagePrefix) || !key.ends_with(kStageSuffix)) continue;
      const std::size_t size = key.size() - kStagePrefix.size() - kStageSuffix.size();
      timing.stages_us[key.substr(kStagePrefix.size(), size)] = value.double_param();
    }
    return timing;
  }

 private:
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  inference::ModelInferRequest request_;
};

}  // namespace

Result<std::unique_ptr<InferClient>> ConnectGrpc(const ClientTarget& target) {
  return std::unique_ptr<InferClient>(std::make_unique<GrpcClient>(target));
}

}  // namespace lagoon::bench
