#pragma once

#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "server/remote/remote_core.h"

namespace lagoon {

/// Asks a member what one of its models is: ModelMetadata, then ModelConfig. Deletes itself when
/// the owner has got the answer.
class RemoteCore::Lesson final {
 public:
  /// `done` is called at the end, whatever the member has answered; null: the lesson is that of
  /// LearnNext().
  Lesson(RemoteCore& owner, Key key, std::function<void()> done)
      : owner_(owner), key_(std::move(key)), done_(std::move(done)) {}

  /// With the owner's lock.
  void Start();
  /// Ends the lesson early; Done() follows. With the owner's lock, so that it is not deleted.
  void Cancel() { context_->TryCancel(); }

 private:
  void Done();
  /// What gRPC calls at the end of a call.
  std::function<void(grpc::Status)> Ends();
  void AskConfig();
  Result<Learned> Outcome();
  /// A context for the next call.
  grpc::ClientContext& Renew();

  RemoteCore& owner_;
  const Key key_;
  const std::function<void()> done_;
  bool for_config_ = false;  // else for the metadata
  std::optional<grpc::ClientContext> context_;
  grpc::Status status_;
  inference::ModelMetadataRequest asks_metadata_;
  inference::ModelConfigRequest asks_config_;
  inference::ModelMetadataResponse metadata_;
  inference::ModelConfigResponse config_;
};

}  // namespace lagoon
