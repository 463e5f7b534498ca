#pragma once

// Triton's model repository extension, as far as HTTP and gRPC share it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serving/core.h"

namespace lagoon {

/// A row of the index: why a model is not ready is told without paths of the server.
struct RepositoryRow {
  std::string name, version;
  std::string_view state, reason;  // in static storage
};

/// `ready_only`: without the models that are not ready.
std::vector<RepositoryRow> RepositoryIndex(std::span<const ModelStatus> models, bool ready_only);

/// The error of InferenceCore::LoadModel() or UnloadModel() as clients may see it. One that may
/// name paths of the server is logged instead.
Error ForClients(const std::string& model, const Error& error);

/// Parameters of a load or an unload, by name: kUnimplemented for one that Lagoon does not have.
Status CheckRepositoryParameter(std::string_view name);

}  // namespace lagoon
