#include "bench/live/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "bench/client/bound_model.h"
#include "plan/element.h"
#include "program/run.h"

namespace lagoon::bench {
namespace {

using Values = ComparatorProcess::Values;
using Example = ComparatorProcess::Example;
using Bytes = std::vector<std::byte>;

Result<Example> RunOnCpu(const std::string& file, const std::string& name) {
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice cpu, OpenDevice({}));
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<BoundModel> model,
                          BoundModel::Load(file, name, cpu));
  LAGOON_RETURN_IF_ERROR(model->Run(*cpu.device));
  Example example;
  const auto copy = [](const PlanTensor& tensor, const void* data, std::vector<Values>& to) {
    const auto* const bytes = static_cast<const std::byte*>(data);
    to.push_back({tensor.spec.name, Bytes(bytes, bytes + tensor.spec.bytes())});
  };
  const Plan& plan = model->instance().plan();
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    copy(plan.inputs[i], model->inputs()[i], example.inputs);
  }
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    copy(plan.outputs[i], model->outputs()[i], example.outputs);
  }
  return example;
}

Result<Example> RunReference(const std::string& file, const std::string& name,
                             const OutputsOptions& options) {
  if (!options.against_onnxruntime) return RunOnCpu(file, name);
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<ComparatorProcess> process,
                          ComparatorProcess::Start(file, options.onnxruntime));
  return process->RunExample();
}

Result<const Values*> Find(const std::vector<Values>& values, const TensorSpec& spec) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const Values& value) { return value.name == spec.name; });
  if (found == values.end() || found->bytes.size() != spec.bytes()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the reference has no '{}' of {} bytes", spec.name, spec.bytes()));
  }
  return &*found;
}

/// Fails if no element of an output is finite: then there is nothing to compare.
Status CheckHasNumbers(const std::string& model, const TensorSpec& spec, const Bytes& reference) {
  const auto elements = static_cast<std::size_t>(ElementCount(spec.dims));
  for (std::size_t i = 0; i < elements; ++i) {
    if (std::isfinite(ElementAsDouble(spec.type, reference.data(), i))) return {};
  }
  if (elements == 0) return {};
  return Fail(ErrorCode::kInternal,
              fmt::format("model '{}': the reference's output '{}' has no finite number in its {} "
                          "elements, so it can show nothing",
                          model, spec.name, elements));
}

/// Infinite if an element is a number on only one side.
double RelativeError(const TensorSpec& spec, const Bytes& ours, const Bytes& theirs) {
  double difference = 0, largest = 1e-9;
  const auto elements = static_cast<std::size_t>(ElementCount(spec.dims));
  for (std::size_t i = 0; i < elements; ++i) {
    const double a = ElementAsDouble(spec.type, ours.data(), i);
    const double b = ElementAsDouble(spec.type, theirs.data(), i);
    largest = std::max(largest, std::abs(b));
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double apart = std::abs(a - b);
    difference =
        std::max(difference, std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart);
  }
  return difference / largest;
}

/// One model with the reference's inputs and outputs.
class Comparison {
 public:
  static Result<Comparison> Make(const std::string& name, const ComputeDevice& on,
                                 const OutputsOptions& options) {
    const std::string file = ModelFile(options.zoo, name);
    LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<BoundModel> model, BoundModel::Load(file, name, on));
    LAGOON_ASSIGN_OR_RETURN(Example example, RunReference(file, name, options));
    Comparison comparison(std::move(model), std::move(example), *on.device);
    LAGOON_RETURN_IF_ERROR(comparison.Match(name));
    return comparison;
  }

  /// The error of one run; its outputs are in outputs().
  Result<double> Run(const RunOptions& options) {
    std::vector<void*> to;
    for (Bytes& output : outputs_) {
      std::fill(output.begin(), output.end(), std::byte{0xFF});
      to.push_back(output.data());
    }
    LAGOON_RETURN_IF_ERROR(RunPlan(model_->instance(), device_, inputs_, to, options));
    double error = 0;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      error =
          std::max(error, RelativeError(plan().outputs[i].spec, outputs_[i], theirs_[i]->bytes));
    }
    return error;
  }

  const std::vector<Bytes>& outputs() const { return outputs_; }

 private:
  Comparison(std::unique_ptr<BoundModel> model, Example example, Device& device)
      : model_(std::move(model)), example_(std::move(example)), device_(device) {}

  const Plan& plan() const { return model_->instance().plan(); }

  Status Match(const std::string& name) {
    for (const PlanTensor& input : plan().inputs) {
      LAGOON_ASSIGN_OR_RETURN(const Values* values, Find(example_.inputs, input.spec));
      inputs_.push_back(values->bytes.data());
    }
    for (const PlanTensor& output : plan().outputs) {
      LAGOON_ASSIGN_OR_RETURN(const Values* values, Find(example_.outputs, output.spec));
      LAGOON_RETURN_IF_ERROR(CheckHasNumbers(name, output.spec, values->bytes));
      theirs_.push_back(values);
      outputs_.emplace_back(output.spec.bytes());
    }
    return {};
  }

  std::unique_ptr<BoundModel> model_;
  Example example_;
  Device& device_;
  std::vector<const void*> inputs_;
  std::vector<const Values*> theirs_;
  std::vector<Bytes> outputs_;
};

/// Random times from 0 to a quarter of a run's time, until the next revocation. So short that every
/// run is revoked, and so long that every run makes progress.
class RandomMoments {
 public:
  RandomMoments(unsigned seed, Nanoseconds run)
      : random_(seed), upto_(std::max<std::int64_t>(1, run.count() / 4)) {}

  std::optional<Nanoseconds> Next() {
    ++given_;
    return Nanoseconds(std::uniform_int_distribution<std::int64_t>(0, upto_)(random_));
  }
  /// The number of revocations so far. The last moment of each run does not count, as the run ends
  /// before it.
  int given() const { return given_; }
  void EndRun() { --given_; }

 private:
  std::mt19937 random_;
  std::int64_t upto_;
  int given_ = 0;
};

Status CompareModel(const std::string& name, const OutputsOptions& options, double& worst,
                    Report& report) {
  constexpr std::size_t kInFlight = 8;  // so that a revocation also meets queued launches
  constexpr int kMaxRuns = 10'000;
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice on, OpenDevice(options.device));
  Device* const device = on.device.get();
  LAGOON_ASSIGN_OR_RETURN(Comparison comparison, Comparison::Make(name, on, options));
  LAGOON_RETURN_IF_ERROR(comparison.Run({}));  // first touch
  const TimePoint begin = Now();
  LAGOON_ASSIGN_OR_RETURN(const double alone, comparison.Run({}));
  RandomMoments moments(options.seed, Now() - begin);
  const std::vector<Bytes> expected = comparison.outputs();

  LAGOON_ASSIGN_OR_RETURN(const GuardId guard, device->CreateGuard());
  std::size_t revoked = 0;
  double error = 0;
  int runs = 0, identical = 0;
  while (moments.given() < options.revocations && runs < kMaxRuns) {
    RunOptions run;
    run.max_in_flight = kInFlight;
    run.revoke_after = [&] { return moments.Next(); };
    run.guard = guard;
    run.revoked = &revoked;
    LAGOON_ASSIGN_OR_RETURN(const double own, comparison.Run(run));
    moments.EndRun();
    error = std::max(error, own);
    identical += comparison.outputs() == expected ? 1 : 0;
    ++runs;
  }
  report.Metric("output_error." + name, alone);
  report.Metric("output_error_revoked." + name, error);
  report.Metric("revocations." + name, moments.given());
  report.Metric("revoked_launches." + name, static_cast<double>(revoked));
  report.Metric("revoked_runs_identical." + name, static_cast<double>(identical) / runs);
  worst = std::max({worst, alone, error});
  if (worst > options.most_error) {
    return Fail(ErrorCode::kInternal,
                fmt::format("outputs differ from the reference's by {:.2e} of the largest element, "
                            "the most is {:.2e}",
                            worst, options.most_error));
  }
  if (identical < runs) {
    return Fail(ErrorCode::kInternal,
                fmt::format("{} of {} revoked runs have other bits", runs - identical, runs));
  }
  return {};
}

}  // namespace

Status RunOutputs(const OutputsOptions& options, Report& report) {
  ProgressBar progress("bench outputs", static_cast<int>(options.models.size()));
  double worst = 0;
  for (const std::string& name : options.models) {
    if (Status status = CompareModel(name, options, worst, report); !status) {
      return Annotate(name, std::move(status).error());
    }
    progress.Step(name);
  }
  report.Metric("output_error_max", worst);
  return {};
}

}  // namespace lagoon::bench
