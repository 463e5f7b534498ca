#pragma once

#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <string>

#include "server/remote/remote_core.h"

namespace lagoon {

/// A call that loads or unloads a model at a member. Deletes itself when it has told how it ended.
class RemoteCore::Change final : public RemoteEvent {
 public:
  Change(RemoteCore& owner, std::string model, bool load, std::function<void(Status)> done)
      : owner_(owner), model_(std::move(model)), load_(load), done_(std::move(done)) {}

  /// With the owner's lock, as RemoteCore::Call::Start().
  void Start();
  /// In place of Start().
  void Refuse(Error error) { done_(tl::unexpected<Error>(std::move(error))); }
  /// Ends the call early; Done() follows. With the owner's lock, so that the call is not deleted.
  void Cancel() { context_.TryCancel(); }

 private:
  void Done(bool ok) override;

  RemoteCore& owner_;
  const std::string model_;
  const bool load_;
  const std::function<void(Status)> done_;
  bool learns_ = false;  // a lesson calls done_
  grpc::ClientContext context_;
  grpc::Status status_;
  inference::RepositoryModelLoadResponse loaded_;
  inference::RepositoryModelUnloadResponse unloaded_;
  // Each lies in memory of context_'s call.
  std::unique_ptr<grpc::ClientAsyncResponseReader<inference::RepositoryModelLoadResponse>>
      load_call_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<inference::RepositoryModelUnloadResponse>>
      unload_call_;
};

}  // namespace lagoon
