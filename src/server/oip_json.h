#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serving/core/models.h"

namespace inference {
class ModelConfig;
}

namespace lagoon {

inline constexpr std::string_view kServerName = "lagoon";
std::string_view ServerVersion();
/// Extensions that are served where the operator wants them.
struct ServedExtensions {
  bool model_control = false;  // clients may load and unload models
  bool shared_memory = false;  // clients may register shared memory
};

/// Exactly the extensions of the protocol that are served: clients rely on this list.
std::vector<std::string_view> ServerExtensions(const ServedExtensions& served);

// Bodies of HTTP answers, as the Open Inference Protocol and Triton's extensions define them.

std::string ServerMetadataJson(const ServedExtensions& served);
std::string ModelMetadataJson(const ModelMetadata& model);
std::string StatisticsJson(std::span<const ModelStatistics> models);
/// protobuf's own JSON, except that 64-bit integers are numbers, as Triton's clients expect.
Result<std::string> ModelConfigJson(const inference::ModelConfig& config);

}  // namespace lagoon
