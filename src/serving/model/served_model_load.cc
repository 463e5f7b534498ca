// What loading a model does: the shapes for which it is compiled, the outputs as clients see them,
// the profile, and the instances.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "plan/kept.h"
#include "program/compile.h"
#include "program/profile/versions.h"
#include "serving/batch/wanted_rows.h"
#include "serving/model/served_model.h"

namespace lagoon {
namespace {

constexpr std::uint32_t kLoweredInstances = 1;

Status ProfileMeasured(LoadedPlan& loaded, Device& device, const ProfileOptions& options) {
  const std::string key = ProfileKey(loaded.plan, device.info(), options.store.build);
  if (LoadProfile(options.store, key, loaded.plan) != ProfileFound::kNone) return {};
  LAGOON_RETURN_IF_ERROR(ProfilePlan(loaded, device, std::max(options.runs, 1)));
  const Status saved = SaveProfile(options.store, key, loaded.plan, /*tuned=*/false);
  if (!saved) spdlog::warn("model '{}': {}", loaded.plan.model, saved.error().message);
  return {};
}

}  // namespace

/// The shapes for which plans are made at load: those of lagoon.shapes, and those of the buckets.
/// Without either, one per batch size up to kReadyRows. A dim that is still open makes none, as its
/// size is unknown.
Result<std::vector<std::vector<Dims>>> ServedModel::ShapesAtLoad(const OnnxModel& model) const {
  std::vector<std::vector<Dims>> all;
  for (const std::map<std::string, Dims>& shapes : settings().shapes) {
    Result<GraphInputs> inputs = model.WithShapes(model.DefaultInputs(), shapes);
    if (!inputs) return Annotate("parameter 'lagoon.shapes'", std::move(inputs).error());
    all.push_back(std::move(inputs->dims));
  }
  if (!all.empty() && buckets_.empty()) return all;
  const int max_batch_size = config().max_batch_size();
  std::vector<Dims> declared;
  for (const DeclaredTensor& input : model.inputs()) declared.push_back(input.dims);
  for (const Dims& dims : buckets_.With(declared, [](const BucketDim&) { return 1; })) {
    const auto batch = max_batch_size > 0 && !dims.empty() ? 1 : 0;
    if (std::find(dims.begin() + batch, dims.end(), -1) != dims.end()) return all;
  }
  const auto add = [&](const std::vector<Dims>& dims) -> Status {
    LAGOON_ASSIGN_OR_RETURN(const auto more, buckets_.Combinations(dims, settings().max_plans));
    all.insert(all.end(), more.begin(), more.end());
    return {};
  };
  if (max_batch_size == 0) LAGOON_RETURN_IF_ERROR(add(model.DefaultInputs().dims));
  const std::int64_t ready = std::min<std::int64_t>(max_batch_size, kReadyRows);
  for (std::int64_t batch = 1; batch <= ready; ++batch) {
    Result<GraphInputs> inputs = model.BatchInputs(batch);
    if (!inputs) {
      return Annotate(fmt::format("max_batch_size is {}", max_batch_size),
                      std::move(inputs).error());
    }
    LAGOON_RETURN_IF_ERROR(add(inputs->dims));
  }
  return all;
}

/// The outputs as clients see them: a dim that depends on open dims of the inputs is -1.
Result<std::vector<TensorSpec>> ServedModel::OutputSpecs(const Drafts& drafts) const {
  const OnnxModel& model = plans_->model();
  std::vector<TensorSpec> specs;
  for (const DeclaredTensor& output : model.outputs()) {
    specs.push_back({output.name, output.type, output.dims});
  }
  if (drafts.plans.empty()) return specs;
  const PlanDraft& known = *drafts.plans.front();
  std::optional<ModelPart> other;
  if (model.open()) {
    // The plan for inputs of twice the size: a size of an output that differs there is open.
    GraphInputs larger;
    for (std::size_t i = 0; i < model.inputs().size(); ++i) {
      const DeclaredTensor& input = model.inputs()[i];
      Dims& dims = larger.dims.emplace_back(known.loaded->plan.inputs[i].spec.dims);
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        if (input.dims[axis] == -1) dims[axis] *= 2;
      }
    }
    if (Result<ModelPart> part = model.Import(larger)) other = *std::move(part);
  }
  // Outputs of later parts stay as the file declares them.
  for (std::size_t i = 0; i < known.links.results.size(); ++i) {
    TensorSpec& spec = specs[known.links.results[i]];
    const Dims declared = spec.dims;
    spec = known.loaded->plan.outputs[i].spec;
    if (known.loaded->plan.outputs[i].made) {
      // An engine makes it with a shape of its own; what the file says of it is all that is known.
      const bool ranked = model.outputs()[known.links.results[i]].shape_known;
      spec.dims = ranked ? declared : Dims{-1};
      continue;
    }
    const Dims* larger = nullptr;
    if (other && other->links.results == known.links.results) {
      larger = &other->graph.value(other->graph.outputs[i]).dims;
    }
    if (larger != nullptr && larger->size() != spec.dims.size()) {
      // Even the rank depends on open dims: indices of GatherND with an open last dim.
      std::ranges::fill(spec.dims, -1);
      continue;
    }
    for (std::size_t axis = 0; axis < spec.dims.size(); ++axis) {
      const bool computed = known.links.sizes[i].has_value();
      const bool open = declared.size() != spec.dims.size() || declared[axis] == -1;
      const bool varies =
          larger != nullptr ? (*larger)[axis] != spec.dims[axis] : model.open() && open;
      if (computed || varies) spec.dims[axis] = -1;
    }
  }
  return specs;
}

/// Measures the default plan; the others get the profile that `lagoon profile` has stored for them,
/// else costs in proportion: measuring each plan would take as long as loading.
Status ServedModel::Profile(Drafts& drafts, Device& device, const LoadOptions& load,
                            const ModelSource& source) {
  if (drafts.plans.empty()) return {};
  ProfileOptions options = load.profile;
  options.store.provisional = load.open_idle != nullptr;
  const Plan* measured = nullptr;  // the default plan
  for (const auto& draft : drafts.plans) {
    Plan& plan = draft->loaded->plan;
    const bool parts = draft->links.next.has_value();
    if (measured == nullptr) {
      LAGOON_RETURN_IF_ERROR(load.open_idle == nullptr
                                 ? ProfileMeasured(*draft->loaded, device, options)
                                 : ProfileBeside(plan, parts, device, source, load));
    } else {
      const std::string key = ProfileKey(plan, device.info(), options.store.build);
      if (LoadProfile(options.store, key, plan) == ProfileFound::kNone) {
        ScaleProfile(*measured, plan, device.info().units);
      }
    }
    LAGOON_RETURN_IF_ERROR(Cut(parts, plan));
    DropUnmeasuredVersions(plan);
    if (measured == nullptr) measured = &plan;
  }
  return {};
}

/// Measures the parts behind the default plan, if there are any.
void ServedModel::ProfileParts(Device& device) {
  if (default_ == nullptr || !default_->links.next) return;
  Result<PartsAlone> alone = MeasurePartsAlone(*plans_, default_, device);
  if (alone) {
    parts_alone_ = *alone;
  } else {
    warnings_.push_back(
        fmt::format("its time alone is that of its first part, as the parts behind it could not be "
                    "measured on made-up inputs: {}",
                    alone.error().message));
  }
}

/// Gets the profile of the default plan while the device serves: from the store, or measured on a
/// device of its own by loading the model there. Loading it there also checks that padding is
/// harmless. Its cores are busy with requests meanwhile, so that the profile is provisional: a
/// later start of the server measures again. `parts`: the model has parts behind the plan.
Status ServedModel::ProfileBeside(Plan& plan, bool parts, Device& device, const ModelSource& source,
                                  const LoadOptions& load) {
  ProfileStore store = load.profile.store;
  store.provisional = true;
  const std::string key = ProfileKey(plan, device.info(), store.build);
  const bool known = LoadProfile(store, key, plan) != ProfileFound::kNone;
  if (known && buckets_.empty() && !parts) return {};
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice opened, load.open_idle());
  LoadOptions alone = load;
  alone.open_idle = nullptr;
  alone.profile.store = store;
  alone.kernels = opened.kernels.get();
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<ServedModel> trial,
                          Load(source, *opened.device, alone));
  parts_alone_ = trial->parts_alone_;
  if (known || trial->plan() == nullptr) return {};
  if (LoadProfile(store, key, plan) != ProfileFound::kNone) return {};
  ScaleProfile(*trial->plan(), plan, device.info().units);
  return {};
}

/// Creates the instances with the plan that needs the largest arena of those that are there, so
/// that the arenas need not grow for the others.
Status ServedModel::CreateInstances(Device& device, bool idle) {
  std::shared_ptr<ServedPlan> largest = default_;
  for (const std::shared_ptr<ServedPlan>& plan : pinned_) {
    if (plan->loaded->plan.arena_bytes > largest->loaded->plan.arena_bytes) largest = plan;
  }
  first_ = largest;
  const auto create = [&](std::uint32_t count, auto& instances) -> Status {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (largest == nullptr) {
        instances.push_back(Instance::Create(device));
        continue;
      }
      LAGOON_ASSIGN_OR_RETURN(instances.emplace_back(), Instance::Create(largest->loaded, device));
    }
    return {};
  };
  LAGOON_RETURN_IF_ERROR(create(settings().instances, instances_));
  if (settings().job_class == JobClass::kRealTime) {
    LAGOON_RETURN_IF_ERROR(create(kLoweredInstances, lowered_instances_));
  }
  if (largest == nullptr) return {};
  if (idle) return WarmUp(device, largest->loaded->plan);
  for (const auto* instances : {&instances_, &lowered_instances_}) {
    for (const auto& instance : *instances) {
      instance->Touch();
      ReleaseKept(*instance, device);
    }
  }
  return {};
}

Status ServedModel::WarmUp(Device& device, const Plan& plan) {
  std::vector<std::vector<std::byte>> buffers;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const PlanTensor& input : plan.inputs) {
    inputs.push_back(buffers.emplace_back(input.spec.bytes()).data());
  }
  for (const PlanTensor& output : plan.outputs) {
    outputs.push_back(buffers.emplace_back(output.spec.bytes()).data());
  }
  for (const auto* instances : {&instances_, &lowered_instances_}) {
    for (const auto& instance : *instances) {
      instance->Touch();
      LAGOON_RETURN_IF_ERROR(RunOnce(*instance, device, inputs, outputs));
      instance->Reset();
      ReleaseKept(*instance, device);
    }
  }
  return {};
}

}  // namespace lagoon
