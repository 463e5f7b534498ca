#pragma once

// ensemble_scheduling: models that run as the steps of one request.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

/// The platform of ensembles, as Triton names it.
inline constexpr std::string_view kEnsemblePlatform = "ensemble";
inline constexpr int kMaxEnsembleSteps = 64;

/// One run of a model for each request of the ensemble.
struct EnsembleStep {
  /// A tensor of the model, and its index in EnsembleSettings::tensors.
  using Link = std::pair<std::string, std::size_t>;

  std::string name;  // for messages: "step[1] (model 'resnet')", by the order of config.pbtxt
  std::string model;
  std::string version;        // empty: the latest
  std::vector<Link> inputs;   // what the step reads, by name of the model's inputs
  std::vector<Link> outputs;  // what it writes
};

struct EnsembleSettings {
  /// The inputs of the ensemble in the order of `config`, then what the steps write. Each is
  /// written once: by the client or by a step.
  std::vector<std::string> tensors;
  std::size_t inputs = 0;            // how many of `tensors` are inputs of the ensemble
  std::vector<std::size_t> outputs;  // the tensor of each output of `config`
  /// A step comes behind those that write what it reads, else as in `config`.
  std::vector<EnsembleStep> steps;
};

/// Nothing: `config` has no ensemble_scheduling. Checks what `config` alone tells. kInvalidArgument
/// and kUnimplemented name the step, the tensor and the values: fields that an ensemble must not
/// have, a step without a model, a tensor that is never written, written twice or never read, and
/// steps that wait for each other.
Result<std::optional<EnsembleSettings>> ReadEnsemble(const inference::ModelConfig& config);

}  // namespace lagoon
