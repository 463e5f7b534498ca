#pragma once

#include <memory>
#include <optional>

#include "base/mutex.h"
#include "server/grpc_service.grpc.pb.h"
#include "server/io_pool.h"
#include "server/message_pool.h"
#include "server/stages.h"
#include "serving/core.h"

namespace lagoon {

using InferMessagePool = MessagePool<inference::ModelInferRequest>;

/// One ModelInfer in progress. Owned by the call: deletes itself when gRPC is done with it. Reads
/// and writes raw messages, so that parsing is timed, reports its own error, and uses pooled
/// memory.
class GrpcInferCall final : public grpc::ServerUnaryReactor {
 public:
  GrpcInferCall(InferenceCore& core, IoPool& pool, grpc::ByteBuffer& response)
      : core_(core), pool_(pool), response_(response) {}

  /// Consumes `raw`. Before the reactor is returned to gRPC: it cannot be deleted while this runs.
  void Start(grpc::ByteBuffer& raw, InferMessagePool& messages);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  void SetHandle(RequestHandle handle);
  void Respond(Result<InferResponse> result);

  InferenceCore& core_;
  IoPool& pool_;
  grpc::ByteBuffer& response_;
  EdgeStamps stamps_;
  bool stages_ = false;

  Mutex mutex_;
  std::optional<RequestHandle> handle_ GUARDED_BY(mutex_);  // once Infer has returned
  bool cancelled_ GUARDED_BY(mutex_) = false;
};

}  // namespace lagoon
