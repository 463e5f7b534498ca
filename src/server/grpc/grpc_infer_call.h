#pragma once

#include <memory>
#include <optional>

#include "base/mutex.h"
#include "server/grpc/grpc_message.h"
#include "server/grpc/grpc_service.grpc.pb.h"
#include "server/io_pool.h"
#include "server/regions/shared_regions.h"
#include "server/stages.h"
#include "serving/core/inference.h"

namespace lagoon {

/// One ModelInfer call in progress. Deletes itself in OnDone(), when gRPC is done with the call.
/// Reads and writes raw messages, so that parsing can be timed, can report its own errors, and uses
/// pooled memory.
class GrpcInferCall final : public grpc::ServerUnaryReactor {
 public:
  struct Server {
    Inference& core;
    IoPool& pool;
    const SharedRegions& regions;
  };
  /// All are borrowed.
  GrpcInferCall(const Server& server, grpc::CallbackServerContext& context,
                grpc::ByteBuffer& response)
      : core_(server.core),
        pool_(server.pool),
        shared_(server.regions),
        context_(context),
        response_(response) {}

  /// Consumes `raw`. Must be called before the reactor is returned to gRPC, so that gRPC cannot
  /// delete it meanwhile.
  void Start(grpc::ByteBuffer& raw, InferMessagePool& messages);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  void SetHandle(RequestHandle handle);
  void Respond(Result<InferResponse> result);
  lagoon::Status Render(Result<InferResponse> result);  // into response_
  void Refuse(const Error& error);

  Inference& core_;
  IoPool& pool_;
  const SharedRegions& shared_;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& response_;
  EdgeStamps stamps_;
  bool stages_ = false;
  OutputRegions regions_;  // outputs that go to shared memory

  Mutex mutex_;
  std::optional<RequestHandle> handle_ GUARDED_BY(mutex_);  // set once Infer has returned
  bool cancelled_ GUARDED_BY(mutex_) = false;
};

}  // namespace lagoon
