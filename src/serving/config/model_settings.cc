#include "serving/config/model_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "plan/parts.h"
#include "serving/config/parameter_value.h"

namespace lagoon {
namespace {

constexpr std::string_view kPrefix = "lagoon.";
constexpr std::string_view kDimensionPrefix = "lagoon.dimension.";
constexpr std::string_view kBucketsPrefix = "lagoon.buckets.";
constexpr std::string_view kKnownParameters =
    "lagoon.deadline_ms, lagoon.overflow, lagoon.max_queue_size, lagoon.places, lagoon.slo_ms, "
    "lagoon.slo_of, lagoon.batching, lagoon.share, lagoon.weight, "
    "lagoon.dimension.NAME, lagoon.shapes, lagoon.buckets.NAME, lagoon.other_shapes, "
    "lagoon.max_plans, lagoon.parts, lagoon.model.ROLE, job.NAME, precision";
constexpr std::string_view kModelPrefix = "lagoon.model.";
constexpr std::string_view kProgramPrefix = "job.";
constexpr std::string_view kPrecision = "precision";
constexpr double kMaxDeadlineMs = 86'400'000;  // a day

/// Reads "x=1x3x320x320 mask=1x320; x=1x3x640x640 mask=1x640": sets of shapes by input.
std::optional<std::vector<std::map<std::string, Dims>>> ParseShapes(std::string_view text) {
  std::vector<std::map<std::string, Dims>> sets;
  while (!text.empty()) {
    std::string_view set = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(set.size() + 1, text.size()));
    std::map<std::string, Dims> shapes;
    while (!set.empty()) {
      const std::string_view word = set.substr(0, set.find(' '));
      set.remove_prefix(std::min(word.size() + 1, set.size()));
      if (word.empty()) continue;
      const std::size_t equals = word.rfind('=');
      if (equals == std::string_view::npos || equals == 0) return std::nullopt;
      const std::optional<Dims> dims = ParseDims(word.substr(equals + 1));
      if (!dims || !shapes.emplace(word.substr(0, equals), *dims).second) return std::nullopt;
    }
    if (!shapes.empty()) sets.push_back(std::move(shapes));
  }
  return sets;
}

/// Reads "16,32,64": sizes in any order.
std::optional<std::vector<std::int64_t>> ParseBuckets(std::string_view text) {
  std::vector<std::int64_t> sizes;
  while (true) {
    const std::string_view word = text.substr(0, text.find(','));
    const auto size = ParseNumber<std::int64_t>(word);
    if (!size || *size < 1 || *size > kMaxBucket || sizes.size() == kMaxBuckets) return {};
    sizes.push_back(*size);
    if (word.size() == text.size()) break;
    text.remove_prefix(word.size() + 1);
  }
  std::ranges::sort(sizes);
  if (sizes.back() == 1 || std::ranges::adjacent_find(sizes) != sizes.end()) return {};
  return sizes;
}

/// The parameters about plans for input shapes. True if `key` is one of them.
Result<bool> ReadShapeParameter(std::string_view key, std::string_view value,
                                ModelSettings& settings) {
  if (key == "lagoon.shapes") {
    auto shapes = ParseShapes(value);
    if (!shapes || shapes->empty() || shapes->size() > kMaxPlans) {
      return BadParameter(key, value,
                          "shapes by input, like 'x=1x3x320x320; x=1x3x640x640': inputs of one "
                          "set with blanks between them, sets with semicolons");
    }
    settings.shapes = *std::move(shapes);
    return true;
  }
  if (key.starts_with(kBucketsPrefix) && key.size() > kBucketsPrefix.size()) {
    auto sizes = ParseBuckets(value);
    if (!sizes) {
      return BadParameter(key, value,
                          fmt::format("up to {} different sizes with commas between them, like "
                                      "'16,32,64', the largest from 2 to {}",
                                      kMaxBuckets, kMaxBucket));
    }
    settings.buckets[std::string(key.substr(kBucketsPrefix.size()))] = *std::move(sizes);
    return true;
  }
  if (key == "lagoon.other_shapes") {
    if (value != "compile" && value != "refuse") {
      return BadParameter(key, value, "'compile' or 'refuse'");
    }
    settings.refuse_other_shapes = value == "refuse";
    return true;
  }
  if (key == "lagoon.max_plans") {
    const auto count = ParseNumber<std::size_t>(value);
    if (!count || *count < 1 || *count > kMaxPlans) {
      return BadParameter(key, value, fmt::format("a number from 1 to {}", kMaxPlans));
    }
    settings.max_plans = *count;
    return true;
  }
  return false;
}

Status ReadParameter(std::string_view key, std::string_view value, ModelSettings& settings) {
  if (key == "lagoon.deadline_ms") {
    const auto ms = ParseNumber<double>(value);
    if (!ms || !(*ms > 0 && *ms <= kMaxDeadlineMs)) {
      return BadParameter(key, value, "milliseconds above 0, at most a day");
    }
    settings.deadline = Nanoseconds(std::max(std::llround(*ms * 1e6), 1ll));
    return {};
  }
  if (key == "lagoon.overflow") {
    if (value != "reject" && value != "newest_wins") {
      return BadParameter(key, value, "'reject' or 'newest_wins'");
    }
    settings.overflow = value == "reject" ? Overflow::kReject : Overflow::kNewestWins;
    return {};
  }
  if (key == "lagoon.max_queue_size") {
    const auto size = ParseNumber<std::size_t>(value);
    if (!size || *size < 1 || *size > kMaxQueueSize) {
      return BadParameter(key, value, fmt::format("a number from 1 to {}", kMaxQueueSize));
    }
    settings.max_queue_size = *size;
    return {};
  }
  LAGOON_ASSIGN_OR_RETURN(const bool of_batching,
                          ReadBatchingParameter(key, value, settings.batching));
  if (of_batching) return {};
  LAGOON_ASSIGN_OR_RETURN(const bool of_share, ReadShareParameter(key, value, settings.share));
  if (of_share) return {};
  if (key == "lagoon.parts") {
    const auto count = value == "auto" ? kAutoParts : ParseNumber<std::uint32_t>(value);
    if (!count || (*count == 0 && value != "auto") || *count > kMaxPlanParts) {
      return BadParameter(key, value,
                          fmt::format("'auto' or a number from 1 to {}", kMaxPlanParts));
    }
    settings.parts = count;
    return {};
  }
  LAGOON_ASSIGN_OR_RETURN(const bool of_shapes, ReadShapeParameter(key, value, settings));
  if (of_shapes) return {};
  if (key == kPrecision) {
    const Result<Precision> precision = ParsePrecision(value);
    if (!precision) return BadParameter(key, value, "'fp32' or 'bf16'");
    settings.precision = *precision;
    return {};
  }
  if (key.starts_with(kDimensionPrefix) && key.size() > kDimensionPrefix.size()) {
    const auto size = ParseNumber<std::int64_t>(value);
    if (!size || *size < 1) return BadParameter(key, value, "a size of at least 1");
    settings.dimensions[std::string(key.substr(kDimensionPrefix.size()))] = *size;
    return {};
  }
  if (key.starts_with(kModelPrefix) && key.size() > kModelPrefix.size()) {
    settings.models[std::string(key.substr(kModelPrefix.size()))] = value;
    return {};
  }
  if (key.starts_with(kProgramPrefix)) {
    settings.parameters[std::string(key.substr(kProgramPrefix.size()))] = value;
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("parameter '{}' is unknown; Lagoon has {}", key, kKnownParameters));
}

// Refuses settings that only programs may have in other models, and settings that programs must not
// have.
Status CheckProgram(const inference::ModelConfig& config, const ModelSettings& settings) {
  if (!settings.program) {
    if (settings.models.empty() && settings.parameters.empty()) return {};
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("parameters '{}ROLE' and '{}NAME' are of models whose backend is '{}'",
                            kModelPrefix, kProgramPrefix, kProgramBackend));
  }
  if (config.max_batch_size() > 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("max_batch_size is {}; a job program takes one request at a time: 0",
                            config.max_batch_size()));
  }
  if (settings.parts) {
    return Fail(ErrorCode::kInvalidArgument,
                "a job program does not take lagoon.parts: the models that it runs do");
  }
  if (settings.share.any() || settings.share.weight) {
    return Fail(ErrorCode::kInvalidArgument,
                "a job program takes neither lagoon.share nor lagoon.weight: the models that it "
                "runs do");
  }
  if (settings.overflow != Overflow::kReject || settings.precision != Precision::kFp32 ||
      !settings.dimensions.empty() || !settings.shapes.empty() || !settings.buckets.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "a job program takes neither lagoon.overflow, lagoon.dimension.NAME, "
                "lagoon.shapes, lagoon.buckets.NAME nor precision");
  }
  return {};
}

Status ReadParameters(const inference::ModelConfig& config, ModelSettings& settings,
                      std::vector<std::string>& warnings) {
  // Sorted by key, as a map of protobuf has no order and messages should not change from run to
  // run.
  std::map<std::string_view, std::string_view> ordered;
  for (const auto& [key, parameter] : config.parameters()) {
    ordered[key] = parameter.string_value();
  }
  for (const auto& [key, value] : ordered) {
    if (key.starts_with(kPrefix) || key.starts_with(kProgramPrefix) || key == kPrecision) {
      LAGOON_RETURN_IF_ERROR(ReadParameter(key, value, settings));
    } else {
      warnings.push_back(fmt::format("parameter '{}' is not Lagoon's and has no effect", key));
    }
  }
  return {};
}

Status CheckBackend(const inference::ModelConfig& config) {
  // Accepts Triton's names for ONNX files and the names that Lagoon reports, so that a
  // configuration that a client has read back can be used again.
  const std::string& backend = config.backend();
  if (!backend.empty() && backend != "onnxruntime" && backend != "lagoon" &&
      backend != kProgramBackend) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("backend is '{}'; Lagoon serves 'onnxruntime', 'lagoon' and '{}'",
                            backend, kProgramBackend));
  }
  const std::string& platform = config.platform();
  const bool of_program = platform == kProgramBackend && backend == kProgramBackend;
  if (!platform.empty() && platform != "onnxruntime_onnx" && platform != "lagoon_plan" &&
      !of_program) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("platform is '{}'; Lagoon serves 'onnxruntime_onnx' and 'lagoon_plan', "
                            "and with backend '{}' also '{}'",
                            platform, kProgramBackend, kProgramBackend));
  }
  return {};
}

Status ReadInstances(const inference::ModelConfig& config, ModelSettings& settings) {
  if (config.instance_group().empty()) return {};
  std::int64_t instances = 0;
  for (const auto& group : config.instance_group()) {
    if (group.count() < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("instance_group.count is {}; it takes 0 (meaning 1) to {}",
                              group.count(), kMaxInstances));
    }
    instances += std::max(group.count(), 1);
  }
  if (instances > kMaxInstances) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("instance_group asks for {} instances, the limit is {}", instances,
                            kMaxInstances));
  }
  settings.instances = static_cast<std::uint32_t>(instances);
  return {};
}

Status ReadFilename(const inference::ModelConfig& config, ModelSettings& settings) {
  const std::string& name = config.default_model_filename();
  if (name.empty()) return {};
  // Only a name is accepted: a path could leave the repository.
  if (name == "." || name == ".." || name.find_first_of(std::string_view("/\0", 2)) != name.npos) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("default_model_filename is '{}'; it takes the name of a file in the "
                            "version's folder",
                            name));
  }
  settings.filename = name;
  return {};
}

Status ReadQueueSize(const inference::ModelConfig& config, ModelSettings& settings) {
  const auto& batching = config.dynamic_batching();
  // The largest batch must be able to form from requests of one row.
  const auto usual = config.has_dynamic_batching()
                         ? std::max<std::size_t>(kDefaultQueueSize,
                                                 static_cast<std::size_t>(config.max_batch_size()))
                         : kDefaultQueueSize;
  const std::uint32_t size = batching.default_queue_policy().max_queue_size();
  if (size > kMaxQueueSize) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("max_queue_size is {}; it takes 1 to {}, or 0 for {}", size,
                            kMaxQueueSize, usual));
  }
  settings.max_queue_size = size > 0 ? size : usual;
  return {};
}

}  // namespace

Result<ModelSettings> ReadSettings(const inference::ModelConfig& config,
                                   std::vector<std::string>& warnings) {
  ModelSettings settings;
  LAGOON_RETURN_IF_ERROR(CheckBackend(config));
  settings.program = config.backend() == kProgramBackend;
  if (settings.program) {
    settings.filename = "job.so";
    settings.instances = kDefaultCoroutines;
  }
  if (config.max_batch_size() < 0 || config.max_batch_size() > kMaxBatchSize) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("max_batch_size is {}; it takes 0 to {}, as each batch size has a plan "
                            "of its own and no more plans are kept",
                            config.max_batch_size(), kMaxBatchSize));
  }
  const auto priority = config.optimization().priority();
  settings.job_class = priority == inference::ModelOptimizationPolicy::PRIORITY_MAX
                           ? JobClass::kRealTime
                           : JobClass::kBestEffort;
  LAGOON_RETURN_IF_ERROR(ReadInstances(config, settings));
  LAGOON_RETURN_IF_ERROR(ReadFilename(config, settings));

  LAGOON_RETURN_IF_ERROR(ReadQueueSize(config, settings));
  LAGOON_ASSIGN_OR_RETURN(settings.batching, ReadBatching(config, warnings));
  LAGOON_RETURN_IF_ERROR(ReadParameters(config, settings, warnings));
  LAGOON_RETURN_IF_ERROR(
      CheckBatching(settings.batching, /*tuned_share=*/settings.share.automatic, warnings));
  LAGOON_RETURN_IF_ERROR(CheckShare(settings.share));
  LAGOON_RETURN_IF_ERROR(CheckProgram(config, settings));
  return settings;
}

}  // namespace lagoon
