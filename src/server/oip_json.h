#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "serving/core/models.h"

namespace inference {
class ModelConfig;
}

namespace lagoon {

inline constexpr std::string_view kServerName = "lagoon";
std::string_view ServerVersion();
/// Exactly the extensions of the protocol that are served: clients rely on this list.
/// `model_control`: clients may load and unload models.
std::span<const std::string_view> ServerExtensions(bool model_control);

// Bodies of HTTP answers, as the Open Inference Protocol and Triton's extensions define them.

std::string ServerMetadataJson(bool model_control);
std::string ModelMetadataJson(const ModelMetadata& model);
std::string StatisticsJson(std::span<const ModelStatistics> models);
/// protobuf's own JSON, except that 64-bit integers are numbers, as Triton's clients expect.
Result<std::string> ModelConfigJson(const inference::ModelConfig& config);

}  // namespace lagoon
