#include "server/grpc/grpc_infer_call.h"

#include <fmt/format.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <span>
#include <string>
#include <utility>

#include "base/inflate.h"
#include "server/grpc/grpc_codec.h"
#include "server/memory_budget.h"
#include "serving/core/scheduler_control.h"

namespace lagoon {
namespace {

using RequestTraits = grpc::SerializationTraits<inference::ModelInferRequest>;

/// Compressed data begins with one of these bytes, a ModelInferRequest with none of them: the first
/// is no tag, the second is the tag of a field that the message does not have.
constexpr std::byte kGzip{0x1f};
constexpr std::byte kZlib{0x78};

std::span<const std::byte> NextPart(grpc::ProtoBufferReader& reader) {
  const void* data = nullptr;
  int size = 0;
  while (size == 0 && reader.Next(&data, &size)) {
  }
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
}

Result<std::string> Inflate(grpc::ByteBuffer& raw) {
  constexpr std::size_t kGrowth = std::size_t{256} << 10;
  grpc::ProtoBufferReader reader(&raw);
  Inflater inflater;
  std::string inflated;
  std::size_t used = 0;
  std::span<const std::byte> input;
  for (bool last = false;;) {
    if (input.empty() && !last) {
      input = NextPart(reader);
      last = input.empty();
    }
    if (used == inflated.size()) inflated.resize(std::max(2 * used, kGrowth));
    const Inflater::Step step =
        inflater.Next(input, last, std::as_writable_bytes(std::span(inflated)).subspan(used));
    used += step.written;
    if (step.state == Inflater::State::kBad) {
      return Fail(ErrorCode::kInvalidArgument, "the compressed message cannot be inflated");
    }
    if (used > kMostInflatedBytes) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the compressed message becomes more than {} bytes, the limit; send "
                              "it as it is",
                              kMostInflatedBytes));
    }
    if (step.state == Inflater::State::kDone) break;
  }
  inflated.resize(used);
  return inflated;
}

/// Consumes `raw`.
lagoon::Status Parse(grpc::ByteBuffer& raw, inference::ModelInferRequest& message) {
  std::byte first{};
  if (raw.Valid()) {
    grpc::ProtoBufferReader reader(&raw);
    const std::span<const std::byte> part = NextPart(reader);
    if (!part.empty()) first = part.front();
  }
  bool parsed = false;
  if (first == kGzip || first == kZlib) {
    LAGOON_ASSIGN_OR_RETURN(const std::string inflated, Inflate(raw));
    raw.Clear();
    parsed = message.ParseFromString(inflated);
  } else {
    parsed = RequestTraits::Deserialize(&raw, &message).ok();
  }
  if (parsed) return {};
  return Fail(ErrorCode::kInvalidArgument, "the message is not a ModelInferRequest");
}

}  // namespace

void GrpcInferCall::Start(grpc::ByteBuffer& raw, InferMessagePool& messages) {
  stamps_.first_byte = stamps_.received = Now();  // gRPC has read the whole message already
  std::shared_ptr<inference::ModelInferRequest> message = messages.Acquire();
  const lagoon::Status read = Parse(raw, *message);
  if (!read) return Refuse(read.error());
  auto parsed = ParseGrpcInfer(std::move(message));
  if (!parsed) return Refuse(parsed.error());
  stages_ = parsed->stages;
  if (stages_) stamps_.off_core = SchedulerStatisticsOf(core_).off_core;
  parsed->request.arrival = stamps_.first_byte;
  stamps_.submitted = Now();
  SetHandle(core_.Infer(std::move(parsed->request), [this, hold = pool_.Hold()](
                                                        Result<InferResponse> result) mutable {
    // Render and write on a thread of the edge: this thread may be one of the device's.
    const bool waits = result && result->job.background;
    auto respond = [this, result = std::move(result)]() mutable { Respond(std::move(result)); };
    if (waits) {
      boost::asio::post(pool_.one_by_one(), std::move(respond));
    } else {
      boost::asio::post(pool_.context(), std::move(respond));
    }
    hold.reset();  // this thread has left the pool's code; the call may be deleted
  }));
}

void GrpcInferCall::SetHandle(RequestHandle handle) {
  bool cancelled = false;
  {
    MutexLock lock(mutex_);
    handle_ = handle;
    cancelled = cancelled_;
  }
  if (cancelled) core_.Cancel(handle);
}

void GrpcInferCall::OnCancel() {
  std::optional<RequestHandle> handle;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle) core_.Cancel(*handle);
}

void GrpcInferCall::Refuse(const Error& error) {
  context_.AddTrailingMetadata(kAnsweredKey, "1");
  Finish(GrpcStatus(error));
}

void GrpcInferCall::Respond(Result<InferResponse> result) {
  if (!result) return Refuse(result.error());
  if (stages_) stamps_.off_core = SchedulerStatisticsOf(core_).off_core - stamps_.off_core;
  auto rendered = RenderGrpcInfer(*std::move(result), stages_ ? &stamps_ : nullptr);
  if (!rendered) return Refuse(rendered.error());
  response_.Swap(&*rendered);
  Finish(grpc::Status::OK);
}

}  // namespace lagoon
