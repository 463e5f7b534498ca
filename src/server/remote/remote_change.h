#pragma once

#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <string>

#include "server/remote/remote_core.h"

namespace lagoon {

/// A call that loads or unloads a model at a member. Deletes itself when it has told how it ended.
class RemoteCore::Change final {
 public:
  Change(RemoteCore& owner, std::string model, bool load, std::function<void(Status)> done)
      : owner_(owner), model_(std::move(model)), load_(load), done_(std::move(done)) {}

  /// With the owner's lock.
  void Start();
  /// In place of Start().
  void Refuse(Error error) { done_(tl::unexpected<Error>(std::move(error))); }
  /// Ends the call early; Done() follows. With the owner's lock, so that the call is not deleted.
  void Cancel() { context_.TryCancel(); }

 private:
  void Done(const grpc::Status& status);

  RemoteCore& owner_;
  const std::string model_;
  const bool load_;
  const std::function<void(Status)> done_;
  bool learns_ = false;  // a lesson calls done_
  grpc::ClientContext context_;
  inference::RepositoryModelLoadRequest to_load_;
  inference::RepositoryModelUnloadRequest to_unload_;
  inference::RepositoryModelLoadResponse loaded_;
  inference::RepositoryModelUnloadResponse unloaded_;
};

}  // namespace lagoon
