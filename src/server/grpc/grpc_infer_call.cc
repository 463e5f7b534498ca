#include "server/grpc/grpc_infer_call.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "server/grpc/grpc_codec.h"

namespace lagoon {
namespace {

using RequestTraits = grpc::SerializationTraits<inference::ModelInferRequest>;
using ResponseTraits = grpc::SerializationTraits<inference::ModelInferResponse>;

}  // namespace

void GrpcInferCall::Start(grpc::ByteBuffer& raw, InferMessagePool& messages) {
  stamps_.first_byte = stamps_.received = Now();  // gRPC has read the whole message already
  std::shared_ptr<inference::ModelInferRequest> message = messages.Acquire();
  if (!RequestTraits::Deserialize(&raw, message.get()).ok()) {
    return Finish({grpc::StatusCode::INVALID_ARGUMENT, "the message is not a ModelInferRequest"});
  }
  auto parsed = ParseGrpcInfer(std::move(message));
  if (!parsed) return Finish(GrpcStatus(parsed.error()));
  stages_ = parsed->stages;
  parsed->request.arrival = stamps_.first_byte;
  stamps_.submitted = Now();
  SetHandle(core_.Infer(std::move(parsed->request), [this, hold = pool_.Hold()](
                                                        Result<InferResponse> result) mutable {
    // Render and write on a thread of the edge: this thread may be one of the device's.
    boost::asio::post(pool_.context(),
                      [this, result = std::move(result)]() mutable { Respond(std::move(result)); });
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

void GrpcInferCall::Respond(Result<InferResponse> result) {
  if (!result) return Finish(GrpcStatus(result.error()));
  inference::ModelInferResponse message;
  FillGrpcInfer(*std::move(result), stages_ ? &stamps_ : nullptr, message);
  bool owned = false;
  Finish(ResponseTraits::Serialize(message, &response_, &owned));
}

}  // namespace lagoon
