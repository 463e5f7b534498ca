#include "serving/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "program/compile.h"

namespace lagoon {
namespace {

constexpr std::uint64_t kLowestRealTimePriority = 1;
constexpr std::uint32_t kLoweredInstances = 1;

std::vector<TensorSpec> Specs(const std::vector<PlanTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const PlanTensor& tensor : tensors) specs.push_back(tensor.spec);
  return specs;
}

std::vector<TensorSpec> ClientSpecs(std::vector<TensorSpec> specs, bool batch_dimension) {
  if (batch_dimension) {
    for (TensorSpec& spec : specs) spec.dims.front() = -1;
  }
  return specs;
}

std::vector<std::int64_t> BatchesUpTo(std::int64_t max) {
  std::vector<std::int64_t> batches(static_cast<std::size_t>(std::max<std::int64_t>(max, 1)));
  std::iota(batches.begin(), batches.end(), 1);
  return batches;
}

/// Larger batches get what `lagoon profile` has measured of them, else what one row costs, times
/// the rows: to measure each would take as long as loading.
void ProfileLarger(LoadedPlan& loaded, Device& device, const ProfileOptions& options) {
  for (Plan& plan : loaded.larger) {
    const std::string key = ProfileKey(plan, device.info(), options.store.build);
    if (LoadProfile(options.store, key, plan) == ProfileFound::kNone) {
      ScaleProfile(loaded.plan, plan, device.info().units);
    }
  }
}

Status ProfileOneRow(LoadedPlan& loaded, Device& device, const ProfileOptions& options) {
  const std::string key = ProfileKey(loaded.plan, device.info(), options.store.build);
  if (LoadProfile(options.store, key, loaded.plan) != ProfileFound::kNone) return {};
  LAGOON_RETURN_IF_ERROR(ProfilePlan(loaded, device, std::max(options.runs, 1)));
  const Status saved = SaveProfile(options.store, key, loaded.plan, /*tuned=*/false);
  if (!saved) spdlog::warn("model '{}': {}", loaded.plan.model, saved.error().message);
  return {};
}

}  // namespace

Result<std::unique_ptr<ServedModel>> ServedModel::Load(ModelSource source, Device& device,
                                                       const ProfileOptions& profile) {
  std::unique_ptr<ServedModel> model(new ServedModel);
  model->source_ = std::move(source);
  ConfigFile& file = model->source_.file;

  CompileOptions options;
  options.model = model->name();
  options.import.dimensions = file.settings.dimensions;
  const int max_batch_size = file.config.max_batch_size();
  options.batches = BatchesUpTo(max_batch_size);
  options.precision = file.settings.precision;
  auto compiled = CompileModel(model->source_.path, device, options);
  if (!compiled && max_batch_size > 1) {
    return Annotate(fmt::format("max_batch_size is {}", max_batch_size),
                    std::move(compiled).error());
  }
  LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<LoadedPlan> loaded, std::move(compiled));
  LAGOON_ASSIGN_OR_RETURN(model->signature_,
                          CompleteConfig(Specs(loaded->plan.inputs), Specs(loaded->plan.outputs),
                                         file.config, model->warnings_));
  LAGOON_RETURN_IF_ERROR(ProfileOneRow(*loaded, device, profile));
  ProfileLarger(*loaded, device, profile);
  model->loaded_ = loaded;
  LAGOON_RETURN_IF_ERROR(model->CreateInstances(device));
  LAGOON_RETURN_IF_ERROR(model->WarmUp(device));
  return model;
}

Status ServedModel::CreateInstances(Device& device) {
  const auto create = [&](std::uint32_t count, auto& instances) -> Status {
    for (std::uint32_t i = 0; i < count; ++i) {
      LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance,
                              Instance::Create(loaded_, device));
      instances.push_back(std::move(instance));
    }
    return {};
  };
  LAGOON_RETURN_IF_ERROR(create(settings().instances, instances_));
  if (settings().job_class == JobClass::kBestEffort) return {};
  return create(kLoweredInstances, lowered_instances_);
}

Status ServedModel::WarmUp(Device& device) {
  std::vector<std::vector<std::byte>> buffers;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const PlanTensor& input : plan().inputs) {
    inputs.push_back(buffers.emplace_back(input.spec.bytes()).data());
  }
  for (const PlanTensor& output : plan().outputs) {
    outputs.push_back(buffers.emplace_back(output.spec.bytes()).data());
  }
  for (const auto* instances : {&instances_, &lowered_instances_}) {
    for (const auto& instance : *instances) {
      instance->Touch();
      LAGOON_RETURN_IF_ERROR(RunOnce(*instance, device, inputs, outputs));
      instance->Reset();
    }
  }
  return {};
}

Status ServedModel::AddQueues(Dispatcher& dispatcher) {
  LAGOON_ASSIGN_OR_RETURN(queue_, AddQueue(dispatcher, settings().job_class, instances_));
  lowered_queue_ = queue_;
  if (settings().job_class == JobClass::kBestEffort) return {};
  LAGOON_ASSIGN_OR_RETURN(lowered_queue_,
                          AddQueue(dispatcher, JobClass::kBestEffort, lowered_instances_));
  return {};
}

Result<QueueId> ServedModel::AddQueue(
    Dispatcher& dispatcher, JobClass job_class,
    const std::vector<std::unique_ptr<Instance>>& instances) const {
  QueueOptions options;
  options.name = fmt::format("{}/{}{}", name(), version(),
                             job_class == settings().job_class ? "" : " best-effort");
  options.job_class = job_class;
  for (const auto& instance : instances) options.instances.push_back(instance.get());
  options.max_pending = settings().max_queue_size;
  options.overflow = settings().overflow;
  return dispatcher.AddQueue(std::move(options));
}

QueueId ServedModel::QueueFor(std::uint64_t priority) const {
  return priority <= kLowestRealTimePriority ? queue_ : lowered_queue_;
}

std::size_t ServedModel::SizeFor(std::int64_t batch) const {
  const std::optional<std::size_t> size = loaded_->SizeFor(batch);
  LAGOON_CHECK(size.has_value());
  return *size;
}

std::string ServedModel::DeadlineWarning() const {
  const Nanoseconds deadline = settings().deadline;
  if (deadline == Nanoseconds(0) || plan().standalone <= deadline) return "";
  return fmt::format("takes {:.3f} ms alone on the device, above its lagoon.deadline_ms of {:.3f}",
                     ToMilliseconds(plan().standalone), ToMilliseconds(deadline));
}

ModelStatistics ServedModel::Statistics(const Dispatcher& dispatcher) const {
  ModelStatistics statistics;
  statistics.name = name();
  statistics.version = version();
  recorder_.Read(statistics);
  statistics.pending = dispatcher.Pending(queue_);
  if (lowered_queue_ != queue_) statistics.pending += dispatcher.Pending(lowered_queue_);
  return statistics;
}

ModelMetadata ServedModel::Metadata() const {
  ModelMetadata metadata;
  metadata.name = name();
  metadata.platform = config().platform();
  metadata.inputs = ClientSpecs(signature_.inputs, signature_.max_batch > 0);
  metadata.outputs = ClientSpecs(signature_.outputs, signature_.max_batch > 0);
  return metadata;
}

}  // namespace lagoon
