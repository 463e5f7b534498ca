#include "server/channel/channel_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "server/error_map.h"
#include "server/http/http_infer_codec.h"

namespace lagoon {
namespace {

constexpr const char* kRegion = "channel";

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

/// A member of the call that is a text; empty if there is none.
Result<std::string> TextOf(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::string();
  if (!found->is_string()) return Invalid(fmt::format("the call's '{}' is not a text", key));
  return found->get<std::string>();
}

}  // namespace

Status ChannelCall::TakePart(const RegionPart& part, const std::string& what) {
  if (part.region != kRegion) {
    return Invalid(fmt::format("{} lies in region {}; the tensors of a channel lie in '{}'", what,
                               Quoted(part.region), kRegion));
  }
  if (part.offset % channel::kAlignment != 0) {
    return Invalid(fmt::format("{} lies at {}, which is no multiple of {}", what, part.offset,
                               channel::kAlignment));
  }
  if (part.offset > bytes_ || part.bytes > bytes_ - part.offset) {
    return Invalid(fmt::format("{}: {} bytes at {}, the channel has {}", what, part.bytes,
                               part.offset, bytes_));
  }
  extent_ = std::max(extent_, part.offset + part.bytes);
  return {};
}

Status ChannelCall::CheckTensors() const {
  for (std::size_t i = 0; i < request_.inputs.size(); ++i) {
    const InputTensor& input = request_.inputs[i];
    if (inputs_[i].region.empty()) {
      return Invalid(fmt::format("input {} has no 'shared_memory_region'", Quoted(input.name)));
    }
    if (input.type != DataType::kString) continue;
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("input {} is BYTES, which a channel does not take; ask over HTTP or "
                            "gRPC",
                            Quoted(input.name)));
  }
  if (outputs_.empty() || outputs_.size() > channel::kMostOutputs) {
    return Invalid(fmt::format("the call names {} outputs; 1 to {} may be named", outputs_.size(),
                               channel::kMostOutputs));
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].region.empty()) continue;
    return Invalid(
        fmt::format("output {} has no 'shared_memory_region'", Quoted(request_.outputs[i])));
  }
  return {};
}

Status ChannelCall::TakeParts(const SharedTensors& shared) {
  inputs_.resize(request_.inputs.size());
  outputs_.resize(request_.outputs.size());
  for (const SharedTensors::Input& input : shared.inputs) {
    LAGOON_RETURN_IF_ERROR(
        TakePart(input.part, "input " + Quoted(request_.inputs[input.index].name)));
    inputs_[input.index] = input.part;
  }
  for (const SharedTensors::Output& output : shared.outputs) {
    LAGOON_RETURN_IF_ERROR(TakePart(output.part, "output " + Quoted(output.name)));
    const auto at = std::ranges::find(request_.outputs, output.name) - request_.outputs.begin();
    outputs_[static_cast<std::size_t>(at)] = output.part;
  }
  return CheckTensors();
}

Result<std::shared_ptr<const ChannelCall>> ChannelCall::Parse(std::span<const std::byte> json,
                                                              std::uint64_t bytes) {
  LAGOON_ASSIGN_OR_RETURN(HttpInfer parsed, ParseHttpInfer(json, std::nullopt, nullptr));
  const auto* const begin = reinterpret_cast<const char*>(json.data());
  const nlohmann::json members = nlohmann::json::parse(begin, begin + json.size(), nullptr, false);
  if (!members.is_object()) return Invalid("the call is no JSON object");
  auto call = std::make_shared<ChannelCall>();
  call->bytes_ = bytes;
  call->request_ = std::move(parsed.request);
  call->request_.payload.reset();
  LAGOON_ASSIGN_OR_RETURN(call->request_.model, TextOf(members, "model"));
  LAGOON_ASSIGN_OR_RETURN(call->request_.version, TextOf(members, "version"));
  Status taken = call->TakeParts(parsed.shared);
  if (!taken) {
    return Annotate(fmt::format("model {}", Quoted(call->request_.model)),
                    std::move(taken).error());
  }
  return std::shared_ptr<const ChannelCall>(std::move(call));
}

Result<InferRequest> ChannelCall::RequestAt(std::uint64_t base, std::span<std::byte> data,
                                            std::shared_ptr<const void> owner) const {
  if (base % channel::kAlignment != 0 || extent_ > data.size() || base > data.size() - extent_) {
    return Invalid(
        fmt::format("model {}: tensors of {} bytes at {}; the channel has {} bytes, and a request "
                    "begins at a multiple of {}",
                    Quoted(request_.model), extent_, base, data.size(), channel::kAlignment));
  }
  InferRequest request = request_;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    request.inputs[i].data = data.subspan(base + inputs_[i].offset, inputs_[i].bytes);
  }
  for (const RegionPart& part : outputs_) {
    request.places.push_back(data.subspan(base + part.offset, part.bytes));
  }
  request.payload = std::move(owner);
  return request;
}

Result<std::size_t> ChannelCall::Write(const InferResponse& response, std::uint64_t base,
                                       std::span<std::byte> data,
                                       channel::Completion& entry) const {
  entry.code = 0;
  entry.outputs = static_cast<std::uint32_t>(outputs_.size());
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (i >= response.outputs.size() || response.outputs[i].name != request_.outputs[i]) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("the model gave no output {}", Quoted(request_.outputs[i])));
    }
    const OutputTensor& output = response.outputs[i];
    if (output.dims.size() > channel::kMostDims) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("output {} has {} dimensions; a channel has {} at most",
                              Quoted(output.name), output.dims.size(), channel::kMostDims));
    }
    channel::Output& out = entry.output[i];
    out = {};
    out.bytes =
        output.in_place ? TensorSpec{"", output.type, output.dims}.bytes() : output.data.size();
    out.rank = static_cast<std::uint32_t>(output.dims.size());
    std::ranges::copy(output.dims, out.dims);
    if (output.in_place) continue;
    if (out.bytes > outputs_[i].bytes) {
      return Invalid(
          fmt::format("shared memory size specified with the request for output {} ({} "
                      "bytes) should be at least {} bytes",
                      Quoted(output.name), outputs_[i].bytes, out.bytes));
    }
    std::memcpy(data.data() + base + outputs_[i].offset, output.data.data(), out.bytes);
  }
  return offsetof(channel::Completion, output) + outputs_.size() * sizeof(channel::Output);
}

std::size_t WriteError(const Error& error, channel::Completion& entry) {
  entry.code = static_cast<std::uint32_t>(GrpcCode(error.code));
  entry.outputs = 0;
  const std::string text = CutMessage(error.message).substr(0, sizeof(entry.text));
  entry.text_bytes = static_cast<std::uint32_t>(text.size());
  std::memcpy(entry.text, text.data(), text.size());
  return offsetof(channel::Completion, text) + text.size();
}

}  // namespace lagoon
