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

/// Larger batches get the profile that `lagoon profile` has stored for them, else the costs of one
/// row times the number of rows: measuring each batch would take as long as loading.
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
                                                       const LoadOptions& options) {
  std::unique_ptr<ServedModel> model(new ServedModel);
  model->source_ = std::move(source);
  if (model->is_program() && !device.info().memory_on_host) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("is a job program, which runs on device 'cpu' only, not on '{}'",
                            device.info().name));
  }
  LAGOON_RETURN_IF_ERROR(model->is_program() ? model->LoadProgram()
                                             : model->Compile(device, options));
  return model;
}

Status ServedModel::Compile(Device& device, const LoadOptions& load) {
  ConfigFile& file = source_.file;
  CompileOptions options;
  options.model = name();
  options.import.dimensions = file.settings.dimensions;
  const int max_batch_size = file.config.max_batch_size();
  options.batches = BatchesUpTo(max_batch_size);
  options.precision = file.settings.precision;
  options.kernels = load.kernels;
  auto compiled = CompileModel(source_.path, device, options);
  if (!compiled && max_batch_size > 1) {
    return Annotate(fmt::format("max_batch_size is {}", max_batch_size),
                    std::move(compiled).error());
  }
  LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<LoadedPlan> loaded, std::move(compiled));
  LAGOON_ASSIGN_OR_RETURN(signature_,
                          CompleteConfig(Specs(loaded->plan.inputs), Specs(loaded->plan.outputs),
                                         file.config, warnings_));
  LAGOON_RETURN_IF_ERROR(ProfileOneRow(*loaded, device, load.profile));
  ProfileLarger(*loaded, device, load.profile);
  loaded_ = loaded;
  LAGOON_RETURN_IF_ERROR(CreateInstances(device));
  return WarmUp(device);
}

Status ServedModel::LoadProgram() {
  inference::ModelConfig& config = source_.file.config;
  LAGOON_ASSIGN_OR_RETURN(const DeclaredTensors tensors, TensorsOf(config));
  LAGOON_ASSIGN_OR_RETURN(signature_,
                          CompleteConfig(tensors.inputs, tensors.outputs, config, warnings_));
  LAGOON_ASSIGN_OR_RETURN(library_, JobLibrary::Load(source_.path));
  // A plan without ops holds the tensors of the program.
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->plan.model = name();
  for (const TensorSpec& input : tensors.inputs) loaded->plan.inputs.push_back({input, {}, {}});
  for (const TensorSpec& output : tensors.outputs) loaded->plan.outputs.push_back({output, {}, {}});
  loaded_ = std::move(loaded);
  return {};
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

Status ServedModel::StartProgram(Device& device, Dispatcher& dispatcher, const FindModel& find) {
  LAGOON_ASSIGN_OR_RETURN(host_, Host(settings().job_class, device, dispatcher, find));
  if (settings().job_class == JobClass::kBestEffort) return {};
  LAGOON_ASSIGN_OR_RETURN(lowered_host_, Host(JobClass::kBestEffort, device, dispatcher, find));
  return {};
}

Result<std::unique_ptr<ProgramHost>> ServedModel::Host(JobClass job_class, Device& device,
                                                       Dispatcher& dispatcher,
                                                       const FindModel& find) const {
  const bool real_time = job_class == JobClass::kRealTime;
  ProgramHostOptions options;
  options.name = fmt::format("{}/{}{}", name(), version(),
                             job_class == settings().job_class ? "" : " best-effort");
  options.job_class = job_class;
  for (const PlanTensor& input : plan().inputs) options.inputs.push_back(input.spec);
  for (const PlanTensor& output : plan().outputs) options.outputs.push_back(output.spec);
  for (const auto& [role, model_name] : settings().models) {
    Result<const ServedModel*> model = find(model_name);
    const std::string parameter = fmt::format("parameter 'lagoon.model.{}'", role);
    if (!model) return Annotate(parameter, std::move(model).error());
    if ((*model)->is_program()) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("{}: '{}' is a job program itself; it takes a compiled model",
                              parameter, model_name));
    }
    if (real_time && (*model)->settings().job_class != JobClass::kRealTime) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: '{}' is best-effort, the job program real-time (PRIORITY_MAX): "
                              "it would wait for best-effort work",
                              parameter, model_name));
    }
    options.models.push_back(
        {role, (*model)->QueueFor(real_time ? 0 : kLowestRealTimePriority + 1), &(*model)->plan()});
  }
  options.parameters = settings().parameters;
  options.max_jobs = settings().instances;
  options.max_pending = settings().max_queue_size;
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<JobProgram> program, library_->MakeProgram());
  return ProgramHost::Create(std::move(options), std::move(program), device, dispatcher);
}

void ServedModel::StopProgram() {
  host_.reset();
  lowered_host_.reset();
}

Result<JobId> ServedModel::Post(JobSpec& spec, std::uint64_t priority, Dispatcher& dispatcher) {
  if (!is_program()) {
    spec.queue = QueueFor(priority);
    return dispatcher.Post(spec);
  }
  const bool lowered = priority > kLowestRealTimePriority && lowered_host_ != nullptr;
  return (lowered ? lowered_host_ : host_)->Post(spec);
}

void ServedModel::Cancel(JobId job, Dispatcher& dispatcher) {
  if (!is_program()) return dispatcher.Cancel(job);
  for (const auto* host : {&host_, &lowered_host_}) {
    if (*host != nullptr) (*host)->Cancel(job);
  }
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
  if (is_program()) {
    for (const auto* host : {&host_, &lowered_host_}) {
      if (*host != nullptr) statistics.pending += (*host)->Pending();
    }
    return statistics;
  }
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
