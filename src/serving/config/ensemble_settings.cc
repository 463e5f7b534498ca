#include "serving/config/ensemble_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/text.h"
#include "serving/config/parameters.h"

namespace lagoon {
namespace {

using Step = inference::ModelEnsembling::Step;

constexpr std::string_view kDeadlineParameter = "lagoon.deadline_ms";

tl::unexpected<Error> Bad(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

/// The fields beside ensemble_scheduling.
Status CheckRest(const inference::ModelConfig& config) {
  if (!config.backend().empty()) {
    return Bad(
        fmt::format("backend is {}; beside ensemble_scheduling there is none, and the "
                    "platform is '{}'",
                    Quoted(config.backend()), kEnsemblePlatform));
  }
  if (!config.instance_group().empty()) {
    return Bad("an ensemble takes no instance_group: the models of its steps do");
  }
  if (!config.default_model_filename().empty()) {
    return Bad(fmt::format("default_model_filename is {}; an ensemble has no file",
                           Quoted(config.default_model_filename())));
  }
  std::set<std::string> refused;  // in order, so that the message is the same in each run
  for (const auto& [key, parameter] : config.parameters()) {
    if (IsForLagoon(key) && key != kDeadlineParameter) refused.insert(key);
  }
  if (refused.empty()) return {};
  return Bad(fmt::format("an ensemble takes {} only, not {}: the models of its steps may",
                         kDeadlineParameter, Quoted(*refused.begin())));
}

/// Makes the settings of one ensemble.
class Reader {
 public:
  explicit Reader(const inference::ModelConfig& config) : config_(config) {}

  Result<EnsembleSettings> Read() {
    LAGOON_RETURN_IF_ERROR(CheckRest(config_));
    const auto& steps = config_.ensemble_scheduling().step();
    if (steps.empty() || steps.size() > kMaxEnsembleSteps) {
      return Bad(fmt::format("ensemble_scheduling has {} steps; it takes 1 to {}", steps.size(),
                             kMaxEnsembleSteps));
    }
    LAGOON_RETURN_IF_ERROR(AddInputs());
    for (int i = 0; i < steps.size(); ++i) LAGOON_RETURN_IF_ERROR(AddStep(steps[i], i));
    for (int i = 0; i < steps.size(); ++i) LAGOON_RETURN_IF_ERROR(AddReads(steps[i], i));
    LAGOON_RETURN_IF_ERROR(AddOutputs());
    LAGOON_RETURN_IF_ERROR(CheckUse());
    LAGOON_RETURN_IF_ERROR(Sort());
    return std::move(settings_);
  }

 private:
  static constexpr std::size_t kClient = SIZE_MAX;  // in place of the number of a step

  Status AddInputs() {
    for (const auto& input : config_.input()) {
      if (!Write(input.name(), kClient, "")) {
        return Bad(fmt::format("input {} is declared twice", Quoted(input.name())));
      }
    }
    settings_.inputs = settings_.tensors.size();
    return {};
  }

  /// Returns false if the tensor is there already. `output`: of the step's model.
  bool Write(const std::string& tensor, std::size_t step, const std::string& output) {
    if (!index_.try_emplace(tensor, settings_.tensors.size()).second) return false;
    settings_.tensors.push_back(tensor);
    writers_.push_back({step, output});
    return true;
  }

  std::string Writer(std::size_t tensor) const {
    const auto& [step, output] = writers_[tensor];
    if (step == kClient) return "it is an input of the ensemble";
    return fmt::format("{} writes it as its output {}", settings_.steps[step].name, Quoted(output));
  }

  /// The step with what it writes.
  Status AddStep(const Step& config, int number) {
    EnsembleStep& step = settings_.steps.emplace_back();
    step.name =
        fmt::format("ensemble_scheduling.step[{}] (model {})", number, Quoted(config.model_name()));
    LAGOON_RETURN_IF_ERROR(CheckStep(config, step.name));
    step.model = config.model_name();
    if (config.model_version() > 0) step.version = std::to_string(config.model_version());
    // Sorted, as a map of protobuf has no order.
    const std::map<std::string, std::string> outputs(config.output_map().begin(),
                                                     config.output_map().end());
    for (const auto& [output, tensor] : outputs) {
      LAGOON_RETURN_IF_ERROR(CheckLink(step.name, "output_map", output, tensor));
      if (!Write(tensor, settings_.steps.size() - 1, output)) {
        return Bad(fmt::format("{}: its output {} would write tensor {} a second time: {}",
                               step.name, Quoted(output), Quoted(tensor),
                               Writer(index_.at(tensor))));
      }
      step.outputs.emplace_back(output, index_.at(tensor));
    }
    return {};
  }

  Status CheckStep(const Step& step, const std::string& name) const {
    if (step.model_name().empty()) return Bad(fmt::format("{}: it has no model_name", name));
    if (step.model_name() == config_.name()) {
      return Bad(fmt::format("{}: an ensemble cannot be a step of itself", name));
    }
    if (step.model_version() < -1) {
      return Bad(
          fmt::format("{}: model_version is {}; it takes -1 for the latest, or a version "
                      "from 1",
                      name, step.model_version()));
    }
    if (!step.output_map().empty()) return {};
    return Bad(fmt::format("{}: it has no output_map, so that nothing needs it", name));
  }

  static Status CheckLink(const std::string& step, const char* map, const std::string& key,
                          const std::string& value) {
    if (!key.empty() && !value.empty()) return {};
    return Bad(fmt::format("{}: {} has the key {} with the value {}; both are names of tensors",
                           step, map, Quoted(key), Quoted(value)));
  }

  Status AddReads(const Step& config, int number) {
    EnsembleStep& step = settings_.steps[static_cast<std::size_t>(number)];
    const std::map<std::string, std::string> inputs(config.input_map().begin(),
                                                    config.input_map().end());
    for (const auto& [input, tensor] : inputs) {
      LAGOON_RETURN_IF_ERROR(CheckLink(step.name, "input_map", input, tensor));
      const auto found = index_.find(tensor);
      if (found == index_.end()) {
        return Bad(
            fmt::format("{}: its input {} reads tensor {}, which is neither an input of the "
                        "ensemble nor in the output_map of a step",
                        step.name, Quoted(input), Quoted(tensor)));
      }
      step.inputs.emplace_back(input, found->second);
    }
    return {};
  }

  Status AddOutputs() {
    if (config_.output().empty()) return Bad("the ensemble declares no output");
    for (const auto& output : config_.output()) {
      const auto found = index_.find(output.name());
      if (found == index_.end()) {
        return Bad(fmt::format("output {} of the ensemble is in the output_map of no step",
                               Quoted(output.name())));
      }
      if (found->second < settings_.inputs) {
        return Bad(
            fmt::format("{} is an input and an output of the ensemble: no step would write "
                        "the output",
                        Quoted(output.name())));
      }
      if (std::ranges::find(settings_.outputs, found->second) != settings_.outputs.end()) {
        return Bad(fmt::format("output {} is declared twice", Quoted(output.name())));
      }
      settings_.outputs.push_back(found->second);
    }
    return {};
  }

  /// Whatever is written is read.
  Status CheckUse() const {
    std::vector<bool> used(settings_.tensors.size(), false);
    for (const std::size_t output : settings_.outputs) used[output] = true;
    for (const EnsembleStep& step : settings_.steps) {
      for (const auto& [input, tensor] : step.inputs) used[tensor] = true;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) continue;
      return Bad(
          fmt::format("tensor {} is read by no step and is no output of the ensemble, but "
                      "{}",
                      Quoted(settings_.tensors[i]), Writer(i)));
    }
    return {};
  }

  /// Puts the steps into the order of their data.
  Status Sort() {
    std::vector<EnsembleStep> waiting = std::move(settings_.steps);
    settings_.steps.clear();
    std::vector<bool> written(settings_.tensors.size(), false);
    std::fill_n(written.begin(), settings_.inputs, true);
    const auto is_ready = [&](const EnsembleStep& step) {
      return std::ranges::all_of(step.inputs,
                                 [&](const auto& link) { return written[link.second]; });
    };
    while (!waiting.empty()) {
      const auto next = std::ranges::find_if(waiting, is_ready);
      if (next == waiting.end()) return Circle(waiting, written);
      for (const auto& [output, tensor] : next->outputs) written[tensor] = true;
      settings_.steps.push_back(std::move(*next));
      waiting.erase(next);
    }
    return {};
  }

  Status Circle(const std::vector<EnsembleStep>& waiting, const std::vector<bool>& written) const {
    std::string text;
    for (const EnsembleStep& step : waiting) {
      const auto missing = std::ranges::find_if(
          step.inputs, [&](const auto& link) { return !written[link.second]; });
      text += fmt::format("{}{} needs {}", text.empty() ? "" : ", ", step.name,
                          Quoted(settings_.tensors[missing->second]));
    }
    return Bad(fmt::format("the steps wait for each other in a circle: {}", text));
  }

  const inference::ModelConfig& config_;
  EnsembleSettings settings_;
  std::map<std::string, std::size_t> index_;  // of tensors
  /// By tensor: the step that writes it, and by which of its outputs.
  std::vector<std::pair<std::size_t, std::string>> writers_;
};

}  // namespace

Result<std::optional<EnsembleSettings>> ReadEnsemble(const inference::ModelConfig& config) {
  if (!config.has_ensemble_scheduling()) {
    if (config.platform() != kEnsemblePlatform) return std::nullopt;
    return Bad(
        fmt::format("platform is '{}', and ensemble_scheduling, which has the steps, is "
                    "missing",
                    kEnsemblePlatform));
  }
  if (!config.platform().empty() && config.platform() != kEnsemblePlatform) {
    return Bad(fmt::format("platform is {}, and ensemble_scheduling is of the platform '{}'",
                           Quoted(config.platform()), kEnsemblePlatform));
  }
  LAGOON_ASSIGN_OR_RETURN(EnsembleSettings settings, Reader(config).Read());
  return settings;
}

}  // namespace lagoon
