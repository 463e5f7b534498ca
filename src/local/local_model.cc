#include "local/local_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/guard.h"
#include "base/log.h"
#include "engine/engine_host.h"
#include "program/compile.h"
#include "program/parts.h"
#include "program/profile/versions.h"

namespace lagoon {
namespace {

std::size_t IndexOf(JobClass job_class) { return static_cast<std::size_t>(job_class); }

}  // namespace

LocalModel::LocalModel(LocalDevice& device, LocalModelOptions options)
    : device_(device), options_(std::move(options)), weight_(options_.weight) {
  SetDeadline(options_.deadline);
  SetClass(options_.job_class);
}

Status LocalModel::CheckOptions(const LocalModelOptions& options) {
  const auto refuse = [&](const std::string& what) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("model '{}': {}", options.name, what));
  };
  if (options.concurrency < 1 || options.concurrency > kMostConcurrency) {
    return refuse(fmt::format("a concurrency of {}: it is from 1 to {}", options.concurrency,
                              kMostConcurrency));
  }
  if (options.max_pending < 1 || options.max_pending > kMostPending) {
    return refuse(
        fmt::format("max_pending is {}: it is from 1 to {}", options.max_pending, kMostPending));
  }
  if (options.deadline < Nanoseconds(0)) {
    return refuse(fmt::format("a deadline of {} us: it is 0 for none, or above",
                              ToMicroseconds(options.deadline)));
  }
  if (!(options.weight > 0 && std::isfinite(options.weight))) {
    return refuse(fmt::format("a weight of {}: it is a number above 0", options.weight));
  }
  if (!(options.share >= 0 && options.share <= 1)) {
    return refuse(fmt::format("a share of {}: it is from 0 for none to 1", options.share));
  }
  if (options.profile_runs < 0 || options.profile_runs > 1000) {
    return refuse(fmt::format("{} profile runs: from 0 to 1000", options.profile_runs));
  }
  return {};
}

Result<std::unique_ptr<LocalModel>> LocalModel::Load(LocalDevice& device, const std::string& path,
                                                     LocalModelOptions options) {
  if (options.name.empty()) options.name = std::filesystem::path(path).stem().string();
  LAGOON_RETURN_IF_ERROR(CheckOptions(options));
  if (!device.usable()) return tl::unexpected<Error>(LocalDevice::ForkedError());
  std::unique_ptr<LocalModel> model(new LocalModel(device, std::move(options)));
  LAGOON_RETURN_IF_ERROR(WithoutExceptions([&] { return model->Open(path, nullptr); }));
  return model;
}

Result<std::unique_ptr<LocalModel>> LocalModel::LoadBytes(LocalDevice& device,
                                                          const ModelBytes& bytes,
                                                          LocalModelOptions options) {
  if (options.name.empty()) options.name = "model";
  LAGOON_RETURN_IF_ERROR(CheckOptions(options));
  if (!device.usable()) return tl::unexpected<Error>(LocalDevice::ForkedError());
  std::unique_ptr<LocalModel> model(new LocalModel(device, std::move(options)));
  LAGOON_RETURN_IF_ERROR(WithoutExceptions([&]() -> Status {
    LAGOON_ASSIGN_OR_RETURN(MemoryFile file, MemoryFile::Create(bytes.bytes));
    model->file_.emplace(std::move(file));
    const std::string path = model->file_->path();
    Status opened = model->Open(path, &bytes);
    if (!opened) {  // the file has no name that a user knows
      std::string& message = opened.error().message;
      if (const auto at = message.find(path); at != std::string::npos) {
        message.replace(at, path.size(), "the bytes");
      }
    }
    return opened;
  }));
  return model;
}

/// `bytes`: null for a file with a path of the user's.
Status LocalModel::Open(const std::string& path, const ModelBytes* bytes) {
  path_ = path;
  CompileOptions compile;
  compile.model = options_.name;
  if (bytes != nullptr) {
    compile.import.folder = bytes->folder;
    compile.import.weights = bytes->weights;
  }
  compile.kernels = device_.kernels();
  compile.precision = options_.precision;
  compile.many_shapes = true;
  compile.all_versions = false;
  compile.weights = &device_.weights();
  if (!options_.engine.empty()) {
    LAGOON_ASSIGN_OR_RETURN(compile.import.engine, ChooseEngine(options_.engine));
  }
  LAGOON_ASSIGN_OR_RETURN(auto compiler, ModelCompiler::Read(path, device_.device(), compile));
  plans_ = std::make_unique<ModelPlans>(std::move(compiler), kKeptPlans);
  if (options_.share > 0) LAGOON_RETURN_IF_ERROR(SetShare(options_.share));
  return MakeFirstPlan();
}

/// Finds out whether the model can be run at all, and packs the weights.
Status LocalModel::MakeFirstPlan() {
  const OnnxModel& model = plans_->model();
  std::vector<GraphInputs> tries = model.open() ? model.Guesses() : std::vector<GraphInputs>{};
  if (!model.open()) tries.push_back(model.DefaultInputs());
  std::optional<Error> first;
  for (const GraphInputs& inputs : tries) {
    Result<std::unique_ptr<PlanDraft>> draft = plans_->CompileAtLoad(inputs.dims);
    if (!draft) {
      if (!first) first = std::move(draft).error();
      continue;
    }
    counts_.compiled.fetch_add(1, std::memory_order_relaxed);
    LAGOON_RETURN_IF_ERROR(Profile(**draft));
    DropUnmeasuredVersions((*draft)->loaded->plan);
    auto plan = std::make_shared<ServedPlan>(*std::move(draft));
    const MutexLock lock(mutex_);
    LAGOON_RETURN_IF_ERROR(Bind(*plan, options_.job_class));
    may_read_weights_ = model.open() || plan->links.next || Assumes(plan->loaded->plan) ||
                        !plans_->deciding().empty();
    plans_->Keep(std::move(plan), /*pinned=*/!model.open());
    return {};
  }
  // The first run says the contents that decide the plan, or shapes that nothing could guess.
  if (!first || !plans_->deciding().empty()) return {};
  if (model.open() && first->code != ErrorCode::kUnimplemented) return {};
  return tl::unexpected<Error>(*std::move(first));
}

/// Measures the plan on a device of its own, which no job uses.
Status LocalModel::Profile(PlanDraft& draft) const {
  if (options_.profile_runs == 0) return {};
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice alone, OpenDevice(device_.options().device));
  CompileOptions compile;
  compile.model = options_.name;
  compile.import = plans_->model().options();
  compile.kernels = alone.kernels.get();
  compile.precision = options_.precision;
  compile.many_shapes = true;
  compile.all_versions = false;
  LAGOON_ASSIGN_OR_RETURN(const auto compiler, ModelCompiler::Read(path_, *alone.device, compile));
  GraphInputs inputs;
  for (const PlanTensor& input : draft.loaded->plan.inputs) {
    inputs.dims.push_back(input.spec.dims);
  }
  LAGOON_ASSIGN_OR_RETURN(const CompiledPart measured, compiler->Compile(inputs));
  LAGOON_RETURN_IF_ERROR(ProfilePlan(*measured.loaded, *alone.device, options_.profile_runs));
  ScaleProfile(measured.loaded->plan, draft.loaded->plan, device_.device().info().units);
  return {};
}

LocalModel::~LocalModel() {
  if (!device_.usable()) {
    // A forked child: the parent's threads, which may hold locks, are not there.
    const MutexLock lock(mutex_);
    (void)plans_.release();
    for (ClassQueue& one : classes_) {
      for (auto& instance : one.instances) (void)instance.release();
    }
    return;
  }
  plans_.reset();
  const MutexLock lock(mutex_);
  for (ClassQueue& one : classes_) {
    if (!one.queue) continue;
    const Status removed = device_.dispatcher().RemoveQueue(*one.queue);
    if (removed) continue;
    spdlog::error("model '{}' keeps its memory: {}", name(), removed.error().message);
    for (auto& instance : one.instances) (void)instance.release();
  }
  if (units_) device_.GiveUnits(*units_);
}

Result<QueueId> LocalModel::QueueOf(JobClass job_class) {
  ClassQueue& one = classes_[IndexOf(job_class)];
  if (one.queue) return *one.queue;
  QueueOptions queue;
  queue.name = job_class == options_.job_class
                   ? name()
                   : fmt::format("{} {}", name(), lagoon::Name(job_class));
  queue.job_class = job_class;
  one.instances.clear();
  for (std::uint32_t i = 0; i < options_.concurrency; ++i) {
    one.instances.push_back(Instance::Create(device_.device()));
    queue.instances.push_back(one.instances.back().get());
  }
  queue.max_pending = options_.max_pending;
  queue.overflow = options_.newest_wins ? Overflow::kNewestWins : Overflow::kReject;
  queue.weight = weight_;
  if (units_) queue.units = *units_;
  LAGOON_ASSIGN_OR_RETURN(const QueueId id, device_.dispatcher().AddQueue(std::move(queue)));
  one.queue = id;
  const MutexLock lock(bound_mutex_);
  queues_[IndexOf(job_class)] = id;
  return id;
}

Status LocalModel::Bind(ServedPlan& plan, JobClass job_class) {
  const bool first = !classes_[IndexOf(job_class)].queue.has_value();
  LAGOON_ASSIGN_OR_RETURN(const QueueId queue, QueueOf(job_class));
  LAGOON_ASSIGN_OR_RETURN(auto on, device_.dispatcher().AddPlan(queue, plan.loaded));
  if (first) {  // no job can be there yet
    for (auto& instance : classes_[IndexOf(job_class)].instances) instance->Touch();
  }
  const MutexLock lock(bound_mutex_);
  PlaceOf(plan, job_class) = std::move(on);
  return {};
}

bool LocalModel::FindBound(const std::shared_ptr<ServedPlan>& plan, JobClass job_class,
                           BoundPlan& bound) {
  if (plan == nullptr || Outdated(plan->loaded->plan)) return false;
  const MutexLock lock(bound_mutex_);
  const std::unique_ptr<QueuePlan>& place = PlaceOf(*plan, job_class);
  if (place == nullptr) return false;
  bound.plan = plan;
  bound.on = place.get();
  bound.queue = *queues_[IndexOf(job_class)];
  return true;
}

Result<LocalModel::BoundPlan> LocalModel::PlanFor(
    std::shared_ptr<ServedPlan> before, const std::vector<Dims>& dims,
    std::span<const std::span<const std::byte>> inputs, JobClass job_class) {
  BoundPlan bound;
  const auto find = [&] { return plans_->Find(plans_->KeyOf(before.get(), dims, inputs)); };
  if (FindBound(find(), job_class, bound)) return bound;
  const TimePoint begin = Now();
  const MutexLock lock(mutex_);
  // Another thread may have made the plan meanwhile.
  std::shared_ptr<ServedPlan> plan = find();
  if (FindBound(plan, job_class, bound)) {
    bound.compiling = Now() - begin;
    return bound;
  }
  const bool known = plan != nullptr && !Outdated(plan->loaded->plan);
  if (!known) {
    LAGOON_ASSIGN_OR_RETURN(plan, Compile(before, dims, inputs));
  }
  LAGOON_RETURN_IF_ERROR(Bind(*plan, job_class));
  if (!known) plans_->Keep(plan, /*pinned=*/false);
  LAGOON_CHECK(FindBound(plan, job_class, bound));
  bound.compiling = Now() - begin;
  if (!known && before == nullptr) NoteNewShapes(bound.compiling);
  return bound;
}

Result<std::shared_ptr<ServedPlan>> LocalModel::Compile(
    const std::shared_ptr<ServedPlan>& before, const std::vector<Dims>& dims,
    std::span<const std::span<const std::byte>> inputs) {
  std::unique_ptr<PlanDraft> draft;
  while (draft == nullptr) {  // more inputs decide the plan than were known
    LAGOON_ASSIGN_OR_RETURN(
        draft, plans_->Compile(plans_->Want(before, dims, inputs), device_.device().info().units));
  }
  counts_.compiled.fetch_add(1, std::memory_order_relaxed);
  return std::make_shared<ServedPlan>(std::move(draft));
}

void LocalModel::NoteNewShapes(Nanoseconds compiling) {
  if (new_in_a_row_ == kManyNewPlans) return;
  const std::uint64_t ended = counts_.done.load(std::memory_order_relaxed);
  // Runs of plans that were there have ended since the last new plan.
  if (ended > ended_at_new_shapes_ + 1) {
    new_in_a_row_ = 0;
    compiling_in_a_row_ = Nanoseconds(0);
  }
  ended_at_new_shapes_ = ended;
  compiling_in_a_row_ += compiling;
  if (++new_in_a_row_ != kManyNewPlans) return;
  const std::string warning = fmt::format(
      "model '{}': {} runs one after the other each had new shapes, or new contents that decide "
      "shapes, and compiled a plan of their own, {:.3f} ms on average. Pad the inputs to a few "
      "sizes, or prepare a run for each of the shapes before the first one with a deadline",
      name(), kManyNewPlans, ToMilliseconds(compiling_in_a_row_) / kManyNewPlans);
  if (options_.warn) return options_.warn(warning);
  spdlog::warn("{}", warning);
}

Status LocalModel::SetWeight(double weight) {
  if (!device_.usable()) return tl::unexpected<Error>(LocalDevice::ForkedError());
  const MutexLock lock(mutex_);
  if (!(weight > 0 && std::isfinite(weight))) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model '{}': a weight of {}: it is a number above 0", name(), weight));
  }
  for (const ClassQueue& one : classes_) {
    if (one.queue) LAGOON_RETURN_IF_ERROR(device_.dispatcher().SetWeight(*one.queue, weight));
  }
  weight_ = weight;
  return {};
}

Status LocalModel::SetShare(double share) {
  if (!device_.usable()) return tl::unexpected<Error>(LocalDevice::ForkedError());
  const MutexLock lock(mutex_);
  Result<UnitRange> units = device_.TakeUnits(share);
  if (!units) return Annotate(fmt::format("model '{}'", name()), std::move(units).error());
  for (const ClassQueue& one : classes_) {
    if (!one.queue) continue;
    const Status moved = device_.dispatcher().MoveShare(*one.queue, *units);
    if (moved) continue;
    device_.GiveUnits(*units);
    return Annotate(fmt::format("model '{}'", name()), Error(moved.error()));
  }
  if (units_) device_.GiveUnits(*units_);
  units_ = *units;
  return {};
}

void LocalModel::Count(const Ended& ended) {
  constexpr auto kOrder = std::memory_order_relaxed;
  std::atomic<std::uint64_t>& counter = ended.code == RunCode::kOk          ? counts_.done
                                        : ended.code == RunCode::kCancelled ? counts_.cancelled
                                        : ended.code == RunCode::kDeadlineExceeded ? counts_.expired
                                        : ended.code == RunCode::kSuperseded ? counts_.superseded
                                        : ended.code == RunCode::kTooLate    ? counts_.too_late
                                                                             : counts_.failed;
  counter.fetch_add(1, kOrder);
  if (ended.late) counts_.late.fetch_add(1, kOrder);
  if (ended.revocations > 0) counts_.revocations.fetch_add(ended.revocations, kOrder);
  if (ended.code != RunCode::kOk) return;
  counts_.queued_ns.fetch_add(ended.queued.count(), kOrder);
  counts_.computed_ns.fetch_add(ended.computed.count(), kOrder);
}

LocalModelStatistics LocalModel::Statistics() const {
  constexpr auto kOrder = std::memory_order_relaxed;
  LocalModelStatistics statistics;
  statistics.done = counts_.done.load(kOrder);
  statistics.expired = counts_.expired.load(kOrder);
  statistics.cancelled = counts_.cancelled.load(kOrder);
  statistics.superseded = counts_.superseded.load(kOrder);
  statistics.too_late = counts_.too_late.load(kOrder);
  statistics.failed = counts_.failed.load(kOrder);
  statistics.late = counts_.late.load(kOrder);
  statistics.revocations = counts_.revocations.load(kOrder);
  statistics.compiled = counts_.compiled.load(kOrder);
  statistics.plans = plans_->cache().size();
  statistics.plan_bytes = plans_->cache().bytes();
  statistics.queued = Nanoseconds(counts_.queued_ns.load(kOrder));
  statistics.computed = Nanoseconds(counts_.computed_ns.load(kOrder));
  if (!device_.usable()) return statistics;
  const MutexLock lock(bound_mutex_);
  for (const std::optional<QueueId>& queue : queues_) {
    if (queue) statistics.pending += device_.dispatcher().Pending(*queue);
  }
  return statistics;
}

}  // namespace lagoon
