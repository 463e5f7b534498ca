#include "server/grpc/grpc_infer_call.h"

#include <utility>

#include "base/guard.h"
#include "server/grpc/grpc_caller.h"
#include "server/grpc/grpc_codec.h"
#include "server/tensors/classes.h"
#include "serving/core/scheduler_control.h"

namespace lagoon {

void GrpcInferCall::Start(grpc::ByteBuffer& raw, InferMessagePool& messages) {
  stamps_.first_byte = stamps_.received = Now();  // gRPC has read the whole message already
  std::shared_ptr<inference::ModelInferRequest> message = messages.Acquire();
  const lagoon::Status read = ReadInferMessage(raw, *message);
  if (!read) return Refuse(read.error());
  auto parsed = ParseGrpcInfer(std::move(message), shared_);
  if (!parsed) return Refuse(parsed.error());
  stages_ = parsed->stages;
  regions_ = std::move(parsed->regions);
  if (stages_) stamps_.off_core = SchedulerStatisticsOf(core_).off_core;
  parsed->request.arrival = stamps_.first_byte;
  parsed->request.trace = TraceOf(context_);
  parsed->request.tenant_of_header = TenantOf(context_);
  stamps_.submitted = Now();
  SetHandle(core_.Infer(std::move(parsed->request), [this, hold = pool_.Hold()](
                                                        Result<InferResponse> result) mutable {
    // Render and write on a thread of the edge: this thread may be one of the device's.
    const bool waits = result && (result->job.background ||
                                  regions_.BytesOf(result->outputs) > SharedRegions::kSmallCopy);
    auto respond = [this, result = std::move(result)]() mutable { Respond(std::move(result)); };
    if (LentThread::IsThis() && !waits) {
      respond();
    } else if (waits) {
      PostSurely(pool_.one_by_one(), std::move(respond));
    } else {
      PostSurely(pool_.context().get_executor(), std::move(respond));
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

void GrpcInferCall::Refuse(const Error& error) { Finish(GrpcStatus(error)); }

void GrpcInferCall::Respond(Result<InferResponse> result) {
  // An exception would leave the client to wait.
  const lagoon::Status rendered = WithoutExceptions([&] { return Render(std::move(result)); });
  if (!rendered) return Refuse(rendered.error());
  Finish(grpc::Status::OK);
}

lagoon::Status GrpcInferCall::Render(Result<InferResponse> result) {
  if (!result) return tl::unexpected<Error>(std::move(result).error());
  if (stages_) stamps_.off_core = SchedulerStatisticsOf(core_).off_core - stamps_.off_core;
  LAGOON_RETURN_IF_ERROR(RenderClasses(*result));
  LAGOON_RETURN_IF_ERROR(regions_.Write(result->outputs));
  LAGOON_ASSIGN_OR_RETURN(
      auto rendered, RenderGrpcInfer(*std::move(result), stages_ ? &stamps_ : nullptr, regions_));
  response_.Swap(&rendered);
  return {};
}

}  // namespace lagoon
