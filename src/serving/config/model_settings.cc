#include "serving/config/model_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "serving/config/model_class.h"
#include "serving/config/parameters.h"

namespace lagoon {
namespace {

// Refuses settings that mean nothing to a program in Python.
Status CheckPython(const ModelSettings& settings) {
  const auto refuse = [](std::string_view what) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a model whose backend is '{}' does not take {}", kPythonBackend, what));
  };
  if (settings.sequences) return refuse("sequence_batching");
  if (settings.parts || settings.precision != Precision::kFp32 ||
      settings.restart != Restart::kByClaims || !settings.dimensions.empty() ||
      !settings.shapes.empty() || !settings.buckets.empty()) {
    return refuse(
        "lagoon.parts, lagoon.dimension.NAME, lagoon.shapes, lagoon.buckets.NAME, lagoon.restart "
        "or precision: nothing is compiled");
  }
  if (settings.share.any() || settings.share.weight || settings.batching.limit.slo.count() > 0) {
    return refuse("lagoon.share, lagoon.weight or lagoon.slo_ms: it runs beside the device");
  }
  if (settings.batching.keep_order && settings.instances > 1) {
    return refuse("preserve_ordering with an instance_group.count above 1");
  }
  if (!settings.models.empty() || !settings.parameters.empty()) {
    return refuse("lagoon.model.ROLE or job.NAME: it calls models by their names");
  }
  return {};
}

// Refuses settings that only programs may have in other models, and settings that programs must not
// have.
Status CheckProgram(const inference::ModelConfig& config, const ModelSettings& settings) {
  if (settings.python) return CheckPython(settings);
  if (!settings.program) {
    if (settings.decoupled) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("model_transaction_policy.decoupled: only a job program, whose "
                              "backend is '{}' or '{}', has any number of answers",
                              kProgramBackend, kPythonBackend));
    }
    if (settings.models.empty() && settings.parameters.empty()) return {};
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("parameters 'lagoon.model.ROLE' and 'job.NAME' are of models whose "
                            "backend is '{}'",
                            kProgramBackend));
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
      settings.restart != Restart::kByClaims || !settings.dimensions.empty() ||
      !settings.shapes.empty() || !settings.buckets.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "a job program takes neither lagoon.overflow, lagoon.dimension.NAME, "
                "lagoon.shapes, lagoon.buckets.NAME, lagoon.restart nor precision");
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
    if (IsForLagoon(key)) {
      LAGOON_RETURN_IF_ERROR(ReadParameter(key, value, settings));
    } else if (settings.python && key == "EXECUTION_ENV_PATH") {
      return Fail(ErrorCode::kUnimplemented,
                  "parameter 'EXECUTION_ENV_PATH' is not implemented: --python names the "
                  "interpreter of all models, and with it their packages");
    } else if (!settings.python) {  // else it is the program's
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
      backend != kProgramBackend && backend != kPythonBackend) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("backend is '{}'; Lagoon serves 'onnxruntime', 'lagoon', '{}' and '{}'",
                            backend, kPythonBackend, kProgramBackend));
  }
  const std::string& platform = config.platform();
  const bool of_program =
      platform == backend && (backend == kProgramBackend || backend == kPythonBackend);
  if (!platform.empty() && platform != "onnxruntime_onnx" && platform != "lagoon_plan" &&
      !of_program) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("platform is '{}'; Lagoon serves 'onnxruntime_onnx', 'lagoon_plan' and "
                            "'{}', and with backend '{}' or '{}' also that name",
                            platform, kEnsemblePlatform, kPythonBackend, kProgramBackend));
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
  LAGOON_ASSIGN_OR_RETURN(settings.ensemble, ReadEnsemble(config));
  if (!settings.ensemble) LAGOON_RETURN_IF_ERROR(CheckBackend(config));
  settings.program = config.backend() == kProgramBackend;
  settings.python = !settings.ensemble && config.backend() == kPythonBackend;
  if (settings.python) settings.filename = "model.py";
  settings.decoupled = config.model_transaction_policy().decoupled();
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
  settings.job_class = ClassOf(config);
  LAGOON_RETURN_IF_ERROR(ReadInstances(config, settings));
  LAGOON_RETURN_IF_ERROR(ReadFilename(config, settings));

  LAGOON_RETURN_IF_ERROR(ReadQueueSize(config, settings));
  LAGOON_ASSIGN_OR_RETURN(settings.batching, ReadBatching(config, warnings));
  LAGOON_ASSIGN_OR_RETURN(settings.sequences, ReadSequences(config));
  if (settings.sequences && config.max_batch_size() > 1) {
    settings.batching.enabled = true;
    settings.batching.max_delay = settings.sequences->max_delay;
    settings.batching.preferred = settings.sequences->preferred;
  }
  LAGOON_RETURN_IF_ERROR(ReadParameters(config, settings, warnings));
  LAGOON_RETURN_IF_ERROR(
      CheckBatching(settings.batching, /*tuned_share=*/settings.share.automatic, warnings));
  LAGOON_RETURN_IF_ERROR(CheckShare(settings.share));
  LAGOON_RETURN_IF_ERROR(CheckProgram(config, settings));
  if (settings.program) {
    LAGOON_ASSIGN_OR_RETURN(settings.warmup, ReadWarmup(config));
  } else if (config.model_warmup_size() > 0) {
    warnings.emplace_back(
        "model_warmup has no effect: only a job program needs requests of its own before it is "
        "ready");
  }
  if (settings.sequences && (!settings.buckets.empty() || settings.program)) {
    return Fail(ErrorCode::kInvalidArgument,
                "sequence_batching goes neither with lagoon.buckets.NAME nor with a job program");
  }
  return settings;
}

}  // namespace lagoon
