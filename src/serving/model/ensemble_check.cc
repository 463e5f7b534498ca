#include "serving/model/ensemble_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace lagoon {
namespace {

tl::unexpected<Error> Bad(const EnsembleStep& step, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", step.name, what));
}

std::string_view ClassName(JobClass job_class) {
  return job_class == JobClass::kRealTime ? "real-time (PRIORITY_MAX)" : "best-effort";
}

Status CheckKind(const EnsembleStep& step, const StepModel& ensemble, const StepModel& model) {
  const auto refuse = [&](std::string_view what) {
    return Fail(ErrorCode::kUnimplemented, fmt::format("{}: {}", step.name, what));
  };
  if (model.settings.ensemble) {
    return refuse("the model is an ensemble itself; write its steps into this ensemble");
  }
  if (model.settings.decoupled) {
    return refuse("the model is decoupled; a step has one answer to a request");
  }
  if (model.settings.sequences) {
    return refuse("the model has sequence_batching; requests of an ensemble are of no sequence");
  }
  if (model.settings.job_class == ensemble.settings.job_class) return {};
  return Bad(step, fmt::format("the model is {}, the ensemble {}: an ensemble and its steps are of "
                               "one class (optimization.priority)",
                               ClassName(model.settings.job_class),
                               ClassName(ensemble.settings.job_class)));
}

/// As clients see it; a batch may have any size.
TensorSpec Seen(TensorSpec spec, std::int64_t max_batch) {
  if (max_batch > 0) spec.dims.front() = -1;
  return spec;
}

bool Agree(const TensorSpec& one, const TensorSpec& other) {
  return one.type == other.type &&
         std::ranges::equal(one.dims, other.dims, [](std::int64_t a, std::int64_t b) {
           return a == b || a == -1 || b == -1;
         });
}

std::string Shape(const TensorSpec& spec) {
  return fmt::format("{} {}", OipName(spec.type), ToString(spec.dims));
}

/// One walk over the steps.
class Checker {
 public:
  Checker(const StepModel& ensemble, std::span<const StepModel> steps)
      : ensemble_(ensemble), settings_(*ensemble.settings.ensemble), models_(steps) {}

  Status Check() {
    tensors_.resize(settings_.tensors.size());
    for (std::size_t i = 0; i < settings_.inputs; ++i) {
      tensors_[i] = {ensemble_.signature.inputs[i], "the input of the ensemble"};
    }
    for (std::size_t i = 0; i < settings_.steps.size(); ++i) {
      const EnsembleStep& step = settings_.steps[i];
      LAGOON_RETURN_IF_ERROR(CheckKind(step, ensemble_, models_[i]));
      LAGOON_RETURN_IF_ERROR(CheckBatch(step, models_[i].signature));
      LAGOON_RETURN_IF_ERROR(CheckInputs(step, models_[i].signature));
      LAGOON_RETURN_IF_ERROR(TakeOutputs(step, models_[i].signature));
    }
    return CheckAnswer();
  }

 private:
  /// What is known of a tensor of the ensemble, and who says so.
  struct Tensor {
    TensorSpec spec;
    std::string writer;
  };

  Status CheckBatch(const EnsembleStep& step, const Signature& model) const {
    const std::int64_t rows = ensemble_.signature.max_batch;
    if (rows == 0 || model.max_batch == 0 || rows <= model.max_batch) return {};
    return Bad(step, fmt::format("max_batch_size of the model is {}, less than the ensemble's {}",
                                 model.max_batch, rows));
  }

  Status CheckInputs(const EnsembleStep& step, const Signature& model) const {
    for (const auto& [input, tensor] : step.inputs) {
      const auto found = std::ranges::find(model.inputs, input, &TensorSpec::name);
      if (found == model.inputs.end()) {
        return Bad(step, fmt::format("input_map names input {}; the model takes {}", Quoted(input),
                                     QuotedNames(model.inputs)));
      }
      const auto& [spec, writer] = tensors_[tensor];
      if (!Agree(Seen(*found, model.max_batch), spec)) {
        return Bad(step, fmt::format("its input {} is {}, and tensor {}, {}, is {}", Quoted(input),
                                     Shape(*found), Quoted(spec.name), writer, Shape(spec)));
      }
      if (model.max_batch > 0 && spec.dims.front() > model.max_batch) {
        return Bad(step, fmt::format("max_batch_size of the model is {}, and tensor {}, {}, is {}",
                                     model.max_batch, Quoted(spec.name), writer, Shape(spec)));
      }
    }
    for (const TensorSpec& input : model.inputs) {
      const auto given = [&](const EnsembleStep::Link& link) { return link.first == input.name; };
      if (std::ranges::any_of(step.inputs, given)) continue;
      return Bad(step,
                 fmt::format("input_map does not give the model's input {}", Quoted(input.name)));
    }
    return {};
  }

  Status TakeOutputs(const EnsembleStep& step, const Signature& model) {
    for (const auto& [output, tensor] : step.outputs) {
      const auto found = std::ranges::find(model.outputs, output, &TensorSpec::name);
      if (found == model.outputs.end()) {
        return Bad(step, fmt::format("output_map names output {}; the model gives {}",
                                     Quoted(output), QuotedNames(model.outputs)));
      }
      TensorSpec spec = Seen(*found, model.max_batch);
      spec.name = settings_.tensors[tensor];
      tensors_[tensor] = {std::move(spec),
                          fmt::format("output {} of {}", Quoted(output), step.name)};
    }
    return {};
  }

  Status CheckAnswer() const {
    for (std::size_t i = 0; i < settings_.outputs.size(); ++i) {
      const TensorSpec& declared = ensemble_.signature.outputs[i];
      const auto& [spec, writer] = tensors_[settings_.outputs[i]];
      if (Agree(declared, spec)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("output {} of the ensemble is declared as {}, and {}, which writes "
                              "it, is {}",
                              Quoted(declared.name), Shape(declared), writer, Shape(spec)));
    }
    return {};
  }

  const StepModel& ensemble_;
  const EnsembleSettings& settings_;
  std::span<const StepModel> models_;
  std::vector<Tensor> tensors_;
};

}  // namespace

Status CheckSteps(const StepModel& ensemble, std::span<const StepModel> steps) {
  return Checker(ensemble, steps).Check();
}

}  // namespace lagoon
