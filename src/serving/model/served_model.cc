#include "serving/model/served_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "cluster/knee.h"
#include "cluster/stored_surface.h"
#include "program/compile.h"
#include "program/parts.h"
#include "program/profile/versions.h"
#include "program/split/apply_parts.h"
#include "serving/batch/wanted_rows.h"
#include "serving/model/labels.h"
#include "serving/model/model_folder.h"
#include "serving/model/python_config.h"

namespace lagoon {
namespace {

bool Lowers(std::uint64_t priority) {
  return ClassOf(JobClass::kRealTime, priority) == JobClass::kBestEffort;
}

constexpr std::uint64_t kBestEffortPriority = 2;
constexpr std::size_t kMostInputsNamed = 4;  // in a line of a log or a table

/// The interface of a served model says the number of dims of each input.
Status CheckRanks(const OnnxModel& model) {
  for (const DeclaredTensor& input : model.inputs()) {
    if (input.shape_known) continue;
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("input '{}' has no shape in the model's file. A server needs to know the "
                    "number of its dims: write a shape with open dims into the file (`lagoon "
                    "infer` runs the file as it is)",
                    input.name));
  }
  return {};
}

}  // namespace

std::vector<Dims> WithRows(std::vector<Dims> shapes, std::int64_t rows) {
  for (Dims& dims : shapes) dims.front() = rows;
  return shapes;
}

ServedModel::ServedModel(ModelSource source, Nanoseconds max_wait)
    : source_(std::move(source)),
      max_wait_(max_wait),
      recorder_(static_cast<std::size_t>(std::max(1, config().max_batch_size()))) {}

Result<std::unique_ptr<ServedModel>> ServedModel::Load(ModelSource source, Device& device,
                                                       const LoadOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<ServedModel> model,
                          Prepare(std::move(source), device, options));
  LAGOON_RETURN_IF_ERROR(model->Finish(device, options));
  return model;
}

Result<std::unique_ptr<ServedModel>> ServedModel::Prepare(ModelSource source, Device& device,
                                                          const LoadOptions& options) {
  std::unique_ptr<ServedModel> model(new ServedModel(std::move(source), options.max_wait));
  if (model->is_program() && !device.info().memory_on_host) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("is a job program, which runs on device 'cpu' only, not on '{}'",
                            device.info().name));
  }
  if (model->is_program() || model->is_python()) {
    LAGOON_RETURN_IF_ERROR(CheckNoPipe(model->source_.path));
  }
  if (model->is_ensemble()) {
    LAGOON_RETURN_IF_ERROR(model->LoadEnsemble());
  } else if (model->is_python()) {
    LAGOON_RETURN_IF_ERROR(model->LoadPython(options.python));
  } else if (model->is_compiled()) {
    LAGOON_RETURN_IF_ERROR(model->Compile(device, options));
  }
  return model;
}

/// A library is tried in a child of this process, which begins with one thread's view of all locks:
/// not while others compile.
Status ServedModel::Finish(Device& device, const LoadOptions& options) {
  if (is_program()) return LoadProgram();
  return is_compiled() ? Measure(device, options) : Status{};
}

Status ServedModel::Compile(Device& device, const LoadOptions& load) {
  const bool idle = load.open_idle == nullptr;
  prepared_ = std::make_unique<Prepared>();
  if (!idle) prepared_->source = source_;
  ConfigFile& file = source_.file;
  CompileOptions options;
  options.model = name();
  options.import.dimensions = file.settings.dimensions;
  options.precision = file.settings.precision;
  options.restart = file.settings.restart;
  options.in_place = options.restart != Restart::kByClaims;
  options.kernels = load.kernels;
  options.many_shapes = true;
  engine_ = EngineHost::Another(load.engine);
  split_long_ = load.split_long;
  options.import.engine = engine_;
  LAGOON_ASSIGN_OR_RETURN(auto compiler, ModelCompiler::Read(source_.path, device, options));
  const auto larger =
      static_cast<std::size_t>(std::max<std::int64_t>(config().max_batch_size() - kReadyRows, 0));
  plans_ = std::make_unique<ModelPlans>(
      std::move(compiler), PlanCache::Limits{.plans = file.settings.max_plans + larger});
  ProfileStore store = load.profile.store;
  store.provisional = !idle;
  plans_->UseProfiles(std::move(store), device.info());
  LAGOON_RETURN_IF_ERROR(CheckRanks(plans_->model()));
  OpenEngine();
  LAGOON_ASSIGN_OR_RETURN(buckets_, Buckets::Find(plans_->model(), file.settings.buckets));
  LAGOON_ASSIGN_OR_RETURN(prepared_->drafts, CompileAtLoad());
  std::vector<TensorSpec> inputs;
  for (const DeclaredTensor& input : plans_->model().inputs()) {
    inputs.push_back({input.name, input.type, input.dims});
  }
  LAGOON_ASSIGN_OR_RETURN(std::vector<TensorSpec> outputs, OutputSpecs(prepared_->drafts));
  LAGOON_ASSIGN_OR_RETURN(
      signature_, CompleteConfig(std::move(inputs), std::move(outputs), file.config, warnings_));
  LAGOON_RETURN_IF_ERROR(ReadLabels(source_.folder, file.config, signature_));
  if (settings().sequences) {
    LAGOON_ASSIGN_OR_RETURN(sequence_,
                            PlanSequences(*settings().sequences, source_.folder, signature_));
  }
  return {};
}

Status ServedModel::Measure(Device& device, const LoadOptions& load) {
  const bool idle = load.open_idle == nullptr;
  const std::unique_ptr<Prepared> prepared = std::move(prepared_);
  LAGOON_RETURN_IF_ERROR(PrepareBuckets(prepared->drafts, device, idle));
  LAGOON_RETURN_IF_ERROR(Profile(prepared->drafts, device, load, prepared->source));
  TakePlans(std::move(prepared->drafts));
  if (idle) ProfileParts(device);
  LAGOON_RETURN_IF_ERROR(CreateInstances(device, idle));
  ReadSurface(device.info(), load.profile.store.folder);
  if (default_ != nullptr)
    std::ranges::move(OpaqueWarnings(*plan()), std::back_inserter(warnings_));
  return {};
}

/// A stored surface that cannot be used is a warning: all is as without it.
void ServedModel::ReadSurface(const DeviceInfo& device, const std::string& profiles) {
  const std::string measured_on = SurfaceDevice(device.name, device.description, device.units);
  const auto stored = LoadSurface(profiles, name(), measured_on);
  if (!stored) warnings_.push_back(stored.error().message);
  if (!stored || !*stored) return;
  surface_ = std::make_shared<const Surface>((*stored)->surface);
  if (!settings().share.automatic) return;
  const std::uint32_t granule = device.share_granule;  // 0: shares are weights, in percent
  const std::uint32_t granules = granule == 0 ? 100 : (device.units + granule - 1) / granule;
  knee_ = static_cast<double>(Knee(*surface_, 1, granules)) / granules;
}

/// Opens the engine if the model will need it, so that no request waits for that.
void ServedModel::OpenEngine() {
  if (engine_ == nullptr || !plans_->model().HasUnknownOps()) return;
  const Status opened = engine_->OpenNow();
  if (!opened) warnings_.push_back(opened.error().message);
}

/// What the plan's kernels of an engine mean for others; nothing for ops of earlier warnings.
std::vector<std::string> ServedModel::OpaqueWarnings(const Plan& plan) {
  std::vector<std::string> warnings;
  for (const std::uint32_t index : plan.opaque) {
    const OpaqueOp& op = *plan.ops[index].opaque;
    bool is_new = false;
    for (const std::string& name : op.ops()) is_new = warned_of_.insert(name).second || is_new;
    if (!is_new) continue;
    const std::string longest =
        op.longest() == Nanoseconds(0)
            ? "as long as a run takes (lagoon_opaque_us_max will tell)"
            : fmt::format("up to {:.0f} us (the longest run so far)", ToMicroseconds(op.longest()));
    warnings.push_back(fmt::format(
        "{} runs {} in a kernel that cannot be interrupted: best-effort, it delays real-time "
        "requests by {}. Lagoon does not run it because {}",
        engine_->name(), fmt::join(op.ops(), ", "), longest, op.why()));
  }
  return warnings;
}

/// Finds out what padding means for the outputs, and that it does not change them.
Status ServedModel::PrepareBuckets(const Drafts& drafts, Device& device, bool idle) {
  if (buckets_.empty()) return {};
  if (drafts.plans.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("lagoon.buckets of {}: no plan could be made at load, so that Lagoon "
                            "does not know what padding does; lagoon.shapes gives the shapes",
                            buckets_.Names()));
  }
  std::vector<Dims> shapes;
  for (const PlanTensor& input : drafts.plans.front()->loaded->plan.inputs) {
    shapes.push_back(input.spec.dims);
  }
  LAGOON_RETURN_IF_ERROR(buckets_.FindOutputs(plans_->model(), shapes));
  return idle ? CheckPadding(buckets_, *plans_, shapes, device) : Status{};  // else ProfileBeside()
}

Result<ServedModel::Drafts> ServedModel::CompileAtLoad() {
  LAGOON_ASSIGN_OR_RETURN(const auto shapes, ShapesAtLoad(plans_->model()));
  if (shapes.empty()) return CompileGuess();
  Drafts drafts;
  for (const std::vector<Dims>& dims : shapes) {
    auto plan = plans_->CompileAtLoad(dims);
    if (!plan && !plans_->deciding().empty()) {
      // The first request says the contents.
      warnings_.push_back(fmt::format("no plan is ready: {}", plan.error().message));
      break;
    }
    if (!plan) return tl::unexpected(std::move(plan).error());
    drafts.plans.push_back(*std::move(plan));
  }
  return drafts;
}

/// Compiles for shapes that may be right, to find out whether the model can be served at all, and
/// to pack its weights.
Result<ServedModel::Drafts> ServedModel::CompileGuess() {
  Drafts drafts;
  drafts.guess = true;
  std::optional<Error> first;
  for (const GraphInputs& guess : plans_->model().Guesses()) {
    auto plan = plans_->CompileAtLoad(guess.dims);
    if (plan) {
      drafts.plans.push_back(*std::move(plan));
      return drafts;
    }
    if (!first) first = std::move(plan).error();
  }
  // The model needs what is not implemented: no other shape would load either.
  if (first->code == ErrorCode::kUnimplemented && plans_->deciding().empty()) {
    return tl::unexpected(*std::move(first));
  }
  warnings_.push_back(
      fmt::format("no plan is ready, as the model's file leaves shapes open "
                  "(lagoon.shapes gives them); a first guess says: {}",
                  first->message));
  return drafts;
}

/// From now on the plans do not change.
void ServedModel::TakePlans(Drafts drafts) {
  std::vector<std::shared_ptr<ServedPlan>> plans;
  for (auto& draft : drafts.plans) {
    plans.push_back(std::make_shared<ServedPlan>(std::move(draft)));
  }
  if (!plans.empty()) default_ = plans.front();
  if (!drafts.guess) pinned_ = std::move(plans);
}

Status ServedModel::LoadProgram() {
  inference::ModelConfig& config = source_.file.config;
  LAGOON_ASSIGN_OR_RETURN(const DeclaredTensors tensors, TensorsOf(config));
  LAGOON_ASSIGN_OR_RETURN(signature_,
                          CompleteConfig(tensors.inputs, tensors.outputs, config, warnings_));
  LAGOON_RETURN_IF_ERROR(ReadLabels(source_.folder, config, signature_));
  LAGOON_ASSIGN_OR_RETURN(warmup_, FitWarmup(settings().warmup, source_.folder, signature_));
  LAGOON_ASSIGN_OR_RETURN(library_, JobLibrary::Load(source_.path));
  // A plan without ops holds the tensors of the program.
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->plan.model = name();
  for (const TensorSpec& input : tensors.inputs) loaded->plan.inputs.push_back({input, {}, {}});
  for (const TensorSpec& output : tensors.outputs) loaded->plan.outputs.push_back({output, {}, {}});
  auto draft = std::make_unique<PlanDraft>();
  for (std::size_t i = 0; i < tensors.inputs.size(); ++i) draft->inputs.push_back(i);
  for (std::size_t i = 0; i < tensors.outputs.size(); ++i) draft->links.results.push_back(i);
  draft->links.sizes.resize(tensors.outputs.size());
  draft->loaded = std::move(loaded);
  default_ = std::make_shared<ServedPlan>(std::move(draft));
  return {};
}

Status ServedModel::LoadEnsemble() {
  inference::ModelConfig& config = source_.file.config;
  LAGOON_ASSIGN_OR_RETURN(DeclaredTensors tensors, TensorsOfEnsemble(config));
  LAGOON_ASSIGN_OR_RETURN(
      signature_,
      CompleteConfig(std::move(tensors.inputs), std::move(tensors.outputs), config, warnings_));
  return ReadLabels(source_.folder, config, signature_);
}

Status ServedModel::LoadPython(const PythonOptions& options) {
  inference::ModelConfig& config = source_.file.config;
  const auto start = [&](std::uint32_t index) -> PythonInstance& {
    PythonInstance::Options program;
    program.model = name();
    program.load = ProgramLoad({name(), version(), source_.folder, source_.path}, config, index);
    program.load["gives_way"] = settings().job_class == JobClass::kBestEffort;
    program.start =
        [interpreter = options.interpreter, title = fmt::format("lagoon {}/{}", name(), version())](
            OwnedDescriptor socket) { return StartPython(interpreter, title, std::move(socket)); };
    program.start_limit = settings().python_start;
    program.limit = settings().python_timeout;
    program.max_unread = settings().max_unread;
    program.decoupled = settings().decoupled;
    program.calls = options.calls;
    programs_.push_back(std::make_unique<PythonInstance>(std::move(program)));
    programs_.back()->Start();
    return *programs_.back();
  };
  // The first one says what the config leaves open.
  LAGOON_ASSIGN_OR_RETURN(const nlohmann::json ready, start(0).AwaitReady());
  const bool was_decoupled = settings().decoupled;
  LAGOON_RETURN_IF_ERROR(TakeCompletion(ready, config));
  std::vector<std::string> known;  // warnings, which the file's reading has given
  LAGOON_ASSIGN_OR_RETURN(source_.file.settings, ReadSettings(config, known));
  if (settings().decoupled != was_decoupled) {
    programs_.clear();
    LAGOON_RETURN_IF_ERROR(start(0).AwaitReady());
  }
  for (std::uint32_t i = 1; i < settings().instances; ++i) start(i);
  for (const auto& program : programs_) LAGOON_RETURN_IF_ERROR(program->AwaitReady());
  LAGOON_ASSIGN_OR_RETURN(DeclaredTensors tensors, TensorsOfPython(config));
  LAGOON_ASSIGN_OR_RETURN(
      signature_,
      CompleteConfig(std::move(tensors.inputs), std::move(tensors.outputs), config, warnings_));
  return ReadLabels(source_.folder, config, signature_);
}

Status ServedModel::AddQueues(Dispatcher& dispatcher) {
  queues_.reserve(2);  // where memory runs out, no queue stays that is not known here
  LAGOON_ASSIGN_OR_RETURN(queue_, AddQueue(dispatcher, settings().job_class, instances_));
  lowered_queue_ = queue_;
  if (settings().job_class == JobClass::kRealTime) {
    LAGOON_ASSIGN_OR_RETURN(lowered_queue_,
                            AddQueue(dispatcher, JobClass::kBestEffort, lowered_instances_));
  }
  return AddPlans(dispatcher);
}

Status ServedModel::RemoveQueues(Dispatcher& dispatcher) {
  for (; !queues_.empty(); queues_.pop_back()) {
    LAGOON_RETURN_IF_ERROR(dispatcher.RemoveQueue(queues_.back()));
  }
  return {};
}

/// Makes the plans of the load known. A guess is kept like a plan of a request.
Status ServedModel::AddPlans(Dispatcher& dispatcher) {
  const auto add = [&](const std::shared_ptr<ServedPlan>& plan, bool pinned) -> Status {
    if (plan != first_) {
      LAGOON_ASSIGN_OR_RETURN(plan->on, Bind(plan->loaded, dispatcher));
    }
    plans_->Keep(plan, pinned);
    return {};
  };
  for (const auto& plan : pinned_) LAGOON_RETURN_IF_ERROR(add(plan, /*pinned=*/true));
  return pinned_.empty() && default_ != nullptr ? add(default_, /*pinned=*/false) : Status{};
}

Result<PlanOnQueues> ServedModel::Bind(const std::shared_ptr<const LoadedPlan>& plan,
                                       Dispatcher& dispatcher) const {
  PlanOnQueues on;
  LAGOON_ASSIGN_OR_RETURN(on.own, dispatcher.AddPlan(queue_, plan));
  if (lowered_queue_ == queue_) return on;
  LAGOON_ASSIGN_OR_RETURN(on.lowered, dispatcher.AddPlan(lowered_queue_, plan));
  return on;
}

PlanKey ServedModel::KeyOf(const ServedPlan* before, const std::vector<Dims>& dims,
                           std::span<const std::span<const std::byte>> inputs) const {
  return is_program() ? PlanKey() : plans_->KeyOf(before, dims, inputs);
}

std::shared_ptr<ServedPlan> ServedModel::FindPlan(const PlanKey& key) const {
  return is_program() ? default_ : plans_->Find(key);
}

std::shared_ptr<ServedPlan> ServedModel::FindFreshPlan(const PlanKey& key) const {
  auto plan = FindPlan(key);
  return plan != nullptr && Outdated(plan->loaded->plan) ? nullptr : plan;
}

/// Gives a plan its parts. `several`: it is one of several plans of a request.
Status ServedModel::Cut(bool several, Plan& plan) const {
  if (settings().parts) return ApplyParts(settings().parts, several, plan);
  CutIfLong(split_long_, several, plan);
  return {};
}

Result<std::shared_ptr<ServedPlan>> ServedModel::MakePlan(const WantedPlan& wanted,
                                                          Dispatcher& dispatcher,
                                                          std::uint32_t units) {
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<PlanDraft> draft, plans_->Compile(wanted, units));
  if (draft == nullptr) return nullptr;
  // The model was loaded, so that its requests are answered: at worst by a plan in one part.
  const Status parts = Cut(draft->links.next.has_value(), draft->loaded->plan);
  if (!parts) spdlog::warn("model '{}' version {}: {}", name(), version(), parts.error().message);
  LAGOON_ASSIGN_OR_RETURN(PlanOnQueues on, Bind(draft->loaded, dispatcher));
  FreeUnboundData(draft->loaded->plan);
  auto plan = std::make_shared<ServedPlan>(std::move(draft));
  plan->on = std::move(on);
  return plan;
}

void ServedModel::KeepPlan(std::shared_ptr<ServedPlan> plan) {
  for (const std::string& warning : OpaqueWarnings(plan->loaded->plan)) {
    spdlog::warn("model '{}' version {}: {}", name(), version(), warning);
  }
  plans_->Keep(std::move(plan), /*pinned=*/false);
}

bool ServedModel::IsLargerBatch(const std::vector<Dims>& dims) const {
  const bool every_size = settings().shapes.empty() || !buckets_.empty();  // ShapesAtLoad()
  if (is_program() || !every_size || RowsOf(dims) <= kReadyRows) return false;
  return PeekPlan(KeyOf(nullptr, WithRows(dims, kReadyRows), {})) != nullptr;
}

bool ServedModel::MakesPlanFor(const std::vector<Dims>& dims) const {
  return !is_program() && (!settings().refuse_other_shapes || IsLargerBatch(dims));
}

Error ServedModel::OtherShapeError() const {
  return {ErrorCode::kInvalidArgument,
          fmt::format("model '{}': these input shapes are not among those that it is served for "
                      "(lagoon.shapes), and lagoon.other_shapes is 'refuse'",
                      name())};
}

Result<QueueId> ServedModel::AddQueue(Dispatcher& dispatcher, JobClass job_class,
                                      const std::vector<std::unique_ptr<Instance>>& instances) {
  QueueOptions options;
  options.name = fmt::format("{}/{}{}", name(), version(),
                             job_class == settings().job_class ? "" : " best-effort");
  options.job_class = job_class;
  for (const auto& instance : instances) options.instances.push_back(instance.get());
  options.max_pending = settings().max_queue_size;
  options.overflow = settings().overflow;
  if (job_class == JobClass::kBestEffort) options.max_wait = max_wait_;
  options.weight = settings().share.weight.value_or(1);
  if (settings().batching.enabled) {  // jobs are batches, and the batcher bounds the requests
    options.max_pending = std::max<std::size_t>(options.max_pending, kMaxPlaces);
    options.overflow = Overflow::kReject;
  }
  LAGOON_ASSIGN_OR_RETURN(const QueueId queue, dispatcher.AddQueue(std::move(options)));
  queues_.push_back(queue);
  return queue;
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
  for (const PlanTensor& input : plan()->inputs) options.inputs.push_back(input.spec);
  for (const PlanTensor& output : plan()->outputs) options.outputs.push_back(output.spec);
  for (const auto& [role, model_name] : settings().models) {
    Result<const ServedModel*> model = find(model_name);
    const std::string parameter = fmt::format("parameter 'lagoon.model.{}'", role);
    if (!model) return Annotate(parameter, std::move(model).error());
    if (!(*model)->is_compiled()) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("{}: '{}' is {}; it takes a compiled model", parameter, model_name,
                              (*model)->is_program()  ? "a job program itself"
                              : (*model)->is_python() ? "a model of Python"
                                                      : "an ensemble"));
    }
    if (real_time && (*model)->settings().job_class != JobClass::kRealTime) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: '{}' is best-effort, the job program real-time (PRIORITY_MAX): "
                              "it would wait for best-effort work",
                              parameter, model_name));
    }
    if ((*model)->plan() == nullptr) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: '{}' leaves its shapes open; its lagoon.shapes says for which a "
                              "plan is ready",
                              parameter, model_name));
    }
    const ServedPlan& plan = *(*model)->default_;
    if (plan.links.next || plan.links.results.size() != plan.loaded->plan.outputs.size() ||
        plan.loaded->plan.makes_outputs) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("{}: shapes in '{}' depend on data, so that it runs in parts; a job "
                              "program runs models of one part",
                              parameter, model_name));
    }
    const auto has_strings = [](const PlanTensor& tensor) {
      return tensor.spec.type == DataType::kString;
    };
    if (std::ranges::any_of(plan.loaded->plan.inputs, has_strings) ||
        std::ranges::any_of(plan.loaded->plan.outputs, has_strings)) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("{}: '{}' has strings (BYTES); a job program runs models of numbers",
                              parameter, model_name));
    }
    ProgramModel hosted{role, (*model)->QueueFor(real_time ? 0 : kBestEffortPriority), plan.loaded};
    hosted.ran = [&recorder = (*model)->recorder(), job_class](const JobResult& result) {
      recorder.RecordFinished(result, {.arrival = result.posted, .job_class = job_class});
    };
    hosted.queue_plan =
        real_time || plan.on.lowered == nullptr ? plan.on.own.get() : plan.on.lowered.get();
    options.models.push_back(std::move(hosted));
  }
  options.decoupled = settings().decoupled;
  options.max_unread = settings().max_unread;
  options.parameters = settings().parameters;
  options.max_jobs = settings().instances;
  options.max_pending = settings().max_queue_size;
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<JobProgram> program, library_->MakeProgram());
  LAGOON_ASSIGN_OR_RETURN(
      auto host, ProgramHost::Create(std::move(options), std::move(program), device, dispatcher));
  LAGOON_RETURN_IF_ERROR(RunWarmup(warmup_, signature_, device, *host));
  return host;
}

void ServedModel::StopProgram() {
  host_.reset();
  lowered_host_.reset();
}

Result<JobId> ServedModel::Post(JobSpec& spec, ServedPlan& plan, std::uint64_t priority,
                                Dispatcher& dispatcher) {
  if (!is_program()) {
    spec.queue = QueueFor(priority);
    spec.plan = spec.queue == queue_ ? plan.on.own.get() : plan.on.lowered.get();
    return dispatcher.Post(spec);
  }
  const bool lowered = Lowers(priority) && lowered_host_ != nullptr;
  return (lowered ? lowered_host_ : host_)->Post(spec);
}

void ServedModel::Cancel(JobId job, Dispatcher& dispatcher) {
  if (!is_program()) return dispatcher.Cancel(job);
  for (const auto* host : {&host_, &lowered_host_}) {
    if (*host != nullptr) (*host)->Cancel(job);
  }
}

QueueId ServedModel::QueueFor(std::uint64_t priority) const {
  return Lowers(priority) ? lowered_queue_ : queue_;
}

JobClass ServedModel::ClassOf(std::uint64_t priority) const {
  return lagoon::ClassOf(settings().job_class, priority);
}

Nanoseconds ServedModel::MaxWait(std::uint64_t priority) const {
  return ClassOf(priority) == JobClass::kRealTime ? Nanoseconds(0) : max_wait_;
}

Status ServedModel::MoveShare(UnitRange units, Dispatcher& dispatcher) const {
  const QueueMove moves[] = {{queue_, units}, {lowered_queue_, units}};
  return dispatcher.MoveShares(std::span(moves).first(lowered_queue_ == queue_ ? 1 : 2));
}

Status ServedModel::SetWeight(double weight, Dispatcher& dispatcher) const {
  LAGOON_RETURN_IF_ERROR(dispatcher.SetWeight(queue_, weight));
  if (lowered_queue_ == queue_) return {};
  return dispatcher.SetWeight(lowered_queue_, weight);
}

std::string ServedModel::StandaloneFor() const {
  std::vector<std::string> words;
  if (plan() == nullptr) return {};
  for (const PlanTensor& input : plan()->inputs) {
    if (words.size() == kMostInputsNamed) {  // a decoder of texts has two caches for every layer
      words.push_back(fmt::format("{} more", plan()->inputs.size() - kMostInputsNamed));
      break;
    }
    words.push_back(fmt::format("{} {}", input.spec.name, ToString(input.spec.dims)));
  }
  if (parts_alone_) words.push_back(fmt::format("{} parts", parts_alone_->parts));
  const std::size_t cut = plan()->part_ends.size();
  if (cut > 1) words.push_back(fmt::format("cut into {} parts", cut));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string ServedModel::DeadlineWarning() const {
  const Nanoseconds deadline = settings().deadline;
  if (deadline > Nanoseconds(0) && Standalone() > deadline) {
    return fmt::format(
        "takes {:.3f} ms alone on the device ({}), above its lagoon.deadline_ms of {:.3f}",
        ToMilliseconds(Standalone()), StandaloneFor(), ToMilliseconds(deadline));
  }
  const BatchLimitSettings& limit = settings().batching.limit;
  if (limit.slo > Nanoseconds(0) && Standalone() > limit.Budget()) {
    return fmt::format(
        "takes {:.3f} ms alone on the device, so that no batch keeps its "
        "lagoon.slo_ms of {:.3f}{}: batches of one row come nearest",
        ToMilliseconds(Standalone()), ToMilliseconds(limit.slo),
        limit.slo_of == SloOf::kRequest ? ", half of which is for waiting (lagoon.slo_of)" : "");
  }
  return "";
}

ModelStatistics ServedModel::Statistics(const Dispatcher& dispatcher) const {
  ModelStatistics statistics;
  statistics.name = name();
  statistics.version = version();
  statistics.job_class = settings().job_class;
  if (engine_ != nullptr) statistics.opaque_max = engine_->longest();
  recorder_.Read(statistics);
  if (is_program()) {
    for (const auto* host : {&host_, &lowered_host_}) {
      if (*host != nullptr) statistics.pending += (*host)->Pending();
    }
    return statistics;
  }
  if (!is_compiled()) return statistics;
  statistics.pending = dispatcher.Pending(queue_);
  if (lowered_queue_ != queue_) statistics.pending += dispatcher.Pending(lowered_queue_);
  return statistics;
}

ModelMetadata ServedModel::Metadata() const {
  ModelMetadata metadata;
  metadata.name = name();
  metadata.platform = config().platform();
  metadata.inputs = Visible(signature_.inputs, signature_.hidden_inputs);
  metadata.outputs = Visible(signature_.outputs, signature_.hidden_outputs);
  metadata.max_batch = signature_.max_batch;
  return metadata;
}

}  // namespace lagoon
