#pragma once

#include <span>
#include <string>
#include <string_view>

#include "serving/core.h"

namespace lagoon {

inline constexpr std::string_view kServerName = "lagoon";
std::string_view ServerVersion();
/// The extensions of the protocol that are served, and no others: clients act on them.
std::span<const std::string_view> ServerExtensions();

// Bodies of HTTP answers, as the Open Inference Protocol and Triton's extensions define them.

std::string ServerMetadataJson();
std::string ModelMetadataJson(const ModelMetadata& model);
std::string StatisticsJson(std::span<const ModelStatistics> models);
/// The scheduler in use, and all that there are.
std::string SchedulerJson(std::string_view name);
/// The name in {"scheduler": NAME}. kInvalidArgument says what is wrong with `body`.
Result<std::string> ParseSchedulerJson(std::string_view body);
/// protobuf's own JSON, except that 64-bit integers are numbers, as clients of Triton expect.
Result<std::string> ModelConfigJson(const inference::ModelConfig& config);

}  // namespace lagoon
