#include "server/grpc_service.h"

#include <boost/asio/post.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "server/grpc_codec.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, grpc::Status status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(std::move(status));
  return reactor;
}

// One ModelInfer in progress. Owned by the call: deletes itself when gRPC is done with it. The
// request message, where the tensors are, lives until then, and so until the core has answered.
class InferCall final : public grpc::ServerUnaryReactor {
 public:
  InferCall(InferenceCore& core, IoPool& pool, const inference::ModelInferRequest& request,
            inference::ModelInferResponse& response)
      : core_(core), pool_(pool), request_(request), response_(response) {}

  // Before the reactor is returned to gRPC: it cannot be deleted while this runs.
  void Start() {
    stamps_.first_byte = stamps_.received = Now();
    auto parsed = ParseGrpcInfer(request_);
    if (!parsed) return Finish(GrpcStatus(parsed.error()));
    stages_ = parsed->stages;
    parsed->request.arrival = stamps_.first_byte;
    stamps_.submitted = Now();
    SetHandle(core_.Infer(std::move(parsed->request), [this](Result<InferResponse> result) {
      // Rendering and writing are the edge's work: this thread may be one of the device's.
      net::post(pool_.context(),
                [this, result = std::move(result)]() mutable { Respond(std::move(result)); });
    }));
  }

  void OnCancel() override {
    std::optional<RequestHandle> handle;
    {
      MutexLock lock(mutex_);
      cancelled_ = true;
      handle = handle_;
    }
    if (handle) core_.Cancel(*handle);
  }

  void OnDone() override { delete this; }

 private:
  void SetHandle(RequestHandle handle) {
    bool cancelled;
    {
      MutexLock lock(mutex_);
      handle_ = handle;
      cancelled = cancelled_;
    }
    if (cancelled) core_.Cancel(handle);
  }

  void Respond(Result<InferResponse> result) {
    if (!result) return Finish(GrpcStatus(result.error()));
    FillGrpcInfer(*std::move(result), stages_ ? &stamps_ : nullptr, response_);
    Finish(grpc::Status::OK);
  }

  InferenceCore& core_;
  IoPool& pool_;
  const inference::ModelInferRequest& request_;
  inference::ModelInferResponse& response_;
  EdgeStamps stamps_;
  bool stages_ = false;

  Mutex mutex_;
  std::optional<RequestHandle> handle_ GUARDED_BY(mutex_);  // once Infer has returned
  bool cancelled_ GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerUnaryReactor* GrpcService::ServerLive(Context* context,
                                                  const inference::ServerLiveRequest*,
                                                  inference::ServerLiveResponse* response) {
  response->set_live(true);
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ServerReady(Context* context,
                                                   const inference::ServerReadyRequest*,
                                                   inference::ServerReadyResponse* response) {
  response->set_ready(core_.Ready());
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ModelReady(Context* context,
                                                  const inference::ModelReadyRequest* request,
                                                  inference::ModelReadyResponse* response) {
  const lagoon::Status ready = core_.ModelReady(request->name(), request->version());
  if (!ready && ready.error().code != ErrorCode::kUnavailable) {
    return Answer(context, GrpcStatus(ready.error()));
  }
  response->set_ready(
      ready.has_value());  // a model that is there but failed is an answer, no error
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ServerMetadata(Context* context,
                                                      const inference::ServerMetadataRequest*,
                                                      inference::ServerMetadataResponse* response) {
  FillServerMetadata(*response);
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ModelMetadata(Context* context,
                                                     const inference::ModelMetadataRequest* request,
                                                     inference::ModelMetadataResponse* response) {
  const auto model = core_.Metadata(request->name(), request->version());
  if (!model) return Answer(context, GrpcStatus(model.error()));
  FillModelMetadata(*model, *response);
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ModelInfer(Context*,
                                                  const inference::ModelInferRequest* request,
                                                  inference::ModelInferResponse* response) {
  auto* call = new InferCall(core_, pool_, *request, *response);
  call->Start();
  return call;
}

grpc::ServerUnaryReactor* GrpcService::ModelConfig(Context* context,
                                                   const inference::ModelConfigRequest* request,
                                                   inference::ModelConfigResponse* response) {
  const auto config = core_.Config(request->name(), request->version());
  if (!config) return Answer(context, GrpcStatus(config.error()));
  *response->mutable_config() = **config;
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* GrpcService::ModelStatistics(
    Context* context, const inference::ModelStatisticsRequest* request,
    inference::ModelStatisticsResponse* response) {
  const auto models = core_.Statistics(request->name(), request->version());
  if (!models) return Answer(context, GrpcStatus(models.error()));
  FillStatistics(*models, *response);
  return Answer(context, grpc::Status::OK);
}

}  // namespace lagoon
