#include "client/channel_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/time.h"
#include "bench/client/core_requests.h"
#include "bench/client/infer_client.h"

namespace lagoon::bench {
namespace {

constexpr std::uint64_t kOutputBytes = 64 << 10;
constexpr std::chrono::seconds kLongest{60};

tl::unexpected<Error> Failed(const std::string& why) {
  return Fail(ErrorCode::kInternal, "channel: " + why);
}

class ChannelClient final : public InferClient {
 public:
  explicit ChannelClient(ClientTarget target) : target_(std::move(target)) {}

  Status Prepare(std::span<const InputTensor> inputs) override {
    std::uint64_t end = 0;
    std::vector<channel::Tensor> ins, outs;
    for (const InputTensor& input : inputs) {
      ins.push_back({input.name, std::string(OipName(input.type)), input.dims, end,
                     static_cast<std::uint64_t>(input.data.size())});
      end += Padded(input.data.size());
    }
    for (const std::string& output : target_.outputs) {
      outs.push_back({output, {}, {}, end, kOutputBytes});
      end += kOutputBytes;
    }
    std::string error;
    client_ = channel::Client::Open(target_.address, end, error);
    if (client_ == nullptr) return Failed(error);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::memcpy(client_->data().data() + ins[i].offset, inputs[i].data.data(),
                  inputs[i].data.size());
    }
    const auto call = client_->Call(target_.model, "", ins, outs, error);
    if (!call) return Failed(error);
    call_ = *call;
    return {};
  }

  Result<Timing> Infer() override {
    const TimePoint begin = Now();
    client_->Submit({.tag = ++tag_, .call = call_});
    if (client_->Read(answer_, kLongest) != channel::Client::Got::kAnswer) {
      return Failed("no answer");
    }
    Timing timing;
    timing.total_us = ToMicroseconds(Now() - begin);
    if (answer_.code != 0) return Failed(answer_.error);
    timing.stages_us["compute_infer"] = static_cast<double>(answer_.compute_ns) / 1e3;
    return timing;
  }

 private:
  static std::uint64_t Padded(std::uint64_t bytes) {
    return (bytes + channel::kAlignment - 1) / channel::kAlignment * channel::kAlignment;
  }

  const ClientTarget target_;
  std::unique_ptr<channel::Client> client_;
  std::uint32_t call_ = 0;
  std::uint64_t tag_ = 0;
  channel::Answer answer_;
};

class CoreClient final : public InferClient {
 public:
  CoreClient(Inference& core, ClientTarget target) : core_(core) {
    request_.model = std::move(target.model);
    request_.outputs = std::move(target.outputs);
  }

  Status Prepare(std::span<const InputTensor> inputs) override {
    const auto bytes = std::make_shared<std::vector<std::vector<std::byte>>>();
    request_.inputs.assign(inputs.begin(), inputs.end());
    for (InputTensor& input : request_.inputs) {
      input.data = bytes->emplace_back(input.data.begin(), input.data.end());
    }
    request_.payload = bytes;
    return {};
  }

  Result<Timing> Infer() override {
    const TimePoint begin = Now();
    LAGOON_ASSIGN_OR_RETURN(const InferResponse answer, Ask(core_, request_));
    Timing timing;
    timing.total_us = ToMicroseconds(Now() - begin);
    timing.stages_us["compute_infer"] =
        ToMicroseconds(answer.job.computed - answer.job.inputs_copied);
    return timing;
  }

 private:
  Inference& core_;
  InferRequest request_;
};

}  // namespace

std::unique_ptr<InferClient> ConnectChannel(const ClientTarget& target) {
  return std::make_unique<ChannelClient>(target);
}

std::unique_ptr<InferClient> ConnectCore(Inference& core, const ClientTarget& target) {
  return std::make_unique<CoreClient>(core, target);
}

}  // namespace lagoon::bench
