#pragma once

// Triton's model repository extension, as far as HTTP and gRPC share it.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serving/core/inference.h"
#include "serving/core/repository_control.h"

namespace lagoon {

/// A row of the index.
struct RepositoryRow {
  std::string name, version;
  std::string_view state;  // in static storage
  std::string reason;      // why the model is not ready, as clients may see it
};

/// Whether the server is ready. `strict`: only if no model failed to load.
bool IsReady(const Inference& core, bool strict);

/// The models that `core` has or has failed to load, and those that came into the repository since.
/// `ready_only`: without the models that are not ready.
std::vector<RepositoryRow> RepositoryIndex(Inference& core, bool ready_only);

/// What became of RepositoryControl::LoadModel() (`load`) or UnloadModel(), as clients may see it,
/// with the words that Triton's clients compare. An error that may name paths of the server is
/// logged as it is. To unload what is not loaded is no error.
Status ForClients(bool load, const std::string& model, const Status& changed);

/// The parameters of a load or an unload: a config, and files, each with its path behind the
/// prefix; and a flag.
inline constexpr std::string_view kConfigParameter = "config";
inline constexpr std::string_view kFileParameter = "file:";
inline constexpr std::string_view kStepsParameter = "unload_dependents";

struct ChangeWords : LoadOverride {
  bool with_steps = false;  // kStepsParameter
};

/// kUnimplemented: no parameter of the three has this name.
Error UnknownParameter(std::string_view name);

/// RepositoryControl::UnloadModel() of `core`, which has such a facet. `with_steps`: then also of
/// the models that the steps of this ensemble run, unless another ensemble that is served runs
/// them, or a job program; an error of such a model is only logged.
void UnloadModel(Inference& core, const std::string& model, bool with_steps,
                 std::function<void(Status)> done);

}  // namespace lagoon
