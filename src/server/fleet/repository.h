#pragma once

// Triton's model repository extension, as far as HTTP and gRPC share it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serving/core/inference.h"

namespace lagoon {

/// A row of the index.
struct RepositoryRow {
  std::string name, version;
  std::string_view state;  // in static storage
  std::string reason;      // why the model is not ready, as clients may see it
};

/// Whether the server is ready. `strict`: only if no model failed to load.
bool IsReady(const Inference& core, bool strict);

/// `ready_only`: without the models that are not ready.
std::vector<RepositoryRow> RepositoryIndex(std::span<const ModelStatus> models, bool ready_only);

/// What became of RepositoryControl::LoadModel() (`load`) or UnloadModel(), as clients may see it,
/// with the words that Triton's clients compare. An error that may name paths of the server is
/// logged as it is. To unload what is not loaded is no error.
Status ForClients(bool load, const std::string& model, const Status& changed);

/// A parameter of a load or an unload that is not part of a LoadOverride: kUnimplemented for one
/// that Lagoon does not have.
Status CheckRepositoryParameter(std::string_view name);

/// The parameters of a LoadOverride: a config, and files, each with its path behind the prefix.
inline constexpr std::string_view kConfigParameter = "config";
inline constexpr std::string_view kFileParameter = "file:";

}  // namespace lagoon
