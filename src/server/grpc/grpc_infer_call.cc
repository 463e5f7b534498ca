#include "server/grpc/grpc_infer_call.h"

#include <boost/asio/post.hpp>
#include <utility>

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

void GrpcInferCall::Refuse(const Error& error) { Finish(GrpcStatus(error)); }

void GrpcInferCall::Respond(Result<InferResponse> result) {
  if (!result) return Refuse(result.error());
  if (stages_) stamps_.off_core = SchedulerStatisticsOf(core_).off_core - stamps_.off_core;
  if (const lagoon::Status rendered = RenderClasses(*result); !rendered) {
    return Refuse(rendered.error());
  }
  if (const lagoon::Status written = regions_.Write(result->outputs); !written) {
    return Refuse(written.error());
  }
  auto rendered = RenderGrpcInfer(*std::move(result), stages_ ? &stamps_ : nullptr, regions_);
  if (!rendered) return Refuse(rendered.error());
  response_.Swap(&*rendered);
  Finish(grpc::Status::OK);
}

}  // namespace lagoon
