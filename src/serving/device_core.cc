#include "serving/device_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/guard.h"
#include "base/log.h"
#include "policies/registry.h"
#include "program/parts.h"
#include "serving/model/request_check.h"
#include "serving/request/flight.h"
#include "serving/request/pass.h"
#include "serving/request/python_queue.h"
#include "serving/request/sequences.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

// InferRequest::priority of requests that lower the class of their model.

/// The request's deadline: its timeout, or else that of `settings`, after its arrival. A timeout of
/// centuries, for which the sum would overflow, counts as none.
TimePoint DeadlineOf(const InferRequest& request, const ModelSettings& settings) {
  const Nanoseconds timeout =
      request.timeout > Nanoseconds(0) ? request.timeout : settings.deadline;
  if (timeout <= Nanoseconds(0) || timeout >= kNoDeadline - request.arrival) return kNoDeadline;
  return request.arrival + timeout;
}

void AddShares(const SharesReport& report, std::vector<ModelStatistics>& statistics) {
  for (ModelStatistics& model : statistics) {
    const auto share = std::ranges::find_if(report.models, [&](const ModelShare& one) {
      return one.model == model.name && one.version == model.version;
    });
    if (share == report.models.end()) continue;  // a job program
    model.share = share->share.value_or(0);
    model.share_moves = share->moves;
  }
}

}  // namespace

Result<std::unique_ptr<DeviceCore>> DeviceCore::Open(const CoreOptions& options,
                                                     std::function<void()> on_lost) {
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(options.scheduler));
  scheduler.config.best_effort_minimum = options.best_effort_minimum;
  LAGOON_ASSIGN_OR_RETURN(ComputeDevice device, OpenDevice(options.device));
  std::shared_ptr<EngineHost> engine = options.engine_host;
  if (engine == nullptr) {
    LAGOON_ASSIGN_OR_RETURN(engine, ChooseEngine(options.engine));
  }
  std::unique_ptr<DeviceCore> core(new DeviceCore(options, std::move(device)));
  core->load_options_ = {
      options.profile,      core->kernels_.get(),         std::move(engine), {}, options.max_wait,
      options.load_threads, {options.python, core.get()}, options.split_long};
  LAGOON_RETURN_IF_ERROR(
      core->models_.Load(options.repository, *core->device_, core->load_options_, options.models));
  core->load_options_.open_idle = [choice = options.device] { return OpenDevice(choice); };
  if (options.trace != nullptr) options.trace->Attach(*core->device_);
  SchedObserver* observer = options.trace;
  if (options.late != nullptr) {
    RecentWork::Options recent;
    recent.blocks_to = options.trace;
    recent.events_to = options.trace;
    core->recent_ = std::make_shared<RecentWork>(*core->device_, recent);
    observer = core->recent_.get();
  }
  core->dispatcher_ = std::make_unique<Dispatcher>(
      *core->device_, scheduler.config, std::move(scheduler.policy), observer, std::move(on_lost));
  core->tenants_ = std::make_shared<Tenants>(
      options.tenants, [dispatcher = core->dispatcher_.get()](std::uint32_t tenant) {
        return dispatcher->TenantKernels(tenant);
      });
  if (options.late != nullptr) {
    core->late_.emplace(*options.late, core->recent_, *core->dispatcher_);
  }
  core->maker_ = std::make_unique<PlanMaker>(*core->dispatcher_, core->device_->info().units);
  core->models_.Start(*core->device_, *core->dispatcher_, *core->maker_);
  const bool by_weight =
      core->dispatcher_->config().name == "weighted" || core->device().share_granule == 0;
  const ShareKind kind =
      options.shares.value_or(by_weight ? ShareKind::kWeight : ShareKind::kUnits);
  const DeviceInfo info = core->device();
  LAGOON_ASSIGN_OR_RETURN(
      core->shares_,
      ShareKeeper::Make({.kind = kind,
                         .units = info.units,
                         .granule = std::max(info.share_granule, 1u),
                         .trace = options.trace,
                         .surplus = options.share_surplus ? MaxMinRules::Surplus::kProportional
                                                          : MaxMinRules::Surplus::kNone}));
  std::vector<SharedModel*> loaded;
  LAGOON_ASSIGN_OR_RETURN(const std::vector<ModelLease> leases, core->models_.FindAll(""));
  for (const ModelLease& lease : leases) {
    if (lease->model->is_compiled()) loaded.push_back(&*lease);
  }
  LAGOON_RETURN_IF_ERROR(core->KeepShares("", loaded));
  core->shares_->Start(*core->device_);
  return core;
}

// ---- Loading and unloading while models serve

Status DeviceCore::LoadModel(const std::string& name, const LoadOverride& with) {
  return LoadNoting(name, with, /*as_step=*/false);
}

/// `as_step`: of an ensemble.
Status DeviceCore::LoadNoting(const std::string& name, const LoadOverride& with, bool as_step) {
  Status loaded = WithoutExceptions([&] { return LoadAnew(name, with, as_step); });
  // Only these codes are about the model itself, and not about the moment.
  const bool of_model = !loaded && (loaded.error().code == ErrorCode::kInvalidArgument ||
                                    loaded.error().code == ErrorCode::kUnimplemented);
  if (of_model && IsModelName(name)) {
    const Status noted = WithoutExceptions([&]() -> Status {
      models_.NoteFailure(name, loaded.error().message);
      return {};
    });
    if (!noted) spdlog::warn("model '{}': {}", name, noted.error().message);
  }
  return loaded;
}

Status DeviceCore::LoadAnew(const std::string& name, const LoadOverride& with, bool as_step) {
  LAGOON_RETURN_IF_ERROR(models_.CheckMayChange(name));
  // Without the mutex, as loading may take minutes, and other models may change meanwhile.
  LAGOON_ASSIGN_OR_RETURN(
      std::unique_ptr<ModelTable::Entry> entry,
      models_.LoadOne(options_.repository, name, with, *device_, load_options_));
  if (as_step && !ModelTable::StepsOf(*entry).empty()) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("model '{}' is an ensemble itself, which cannot be a step", name));
  }
  LAGOON_RETURN_IF_ERROR(LoadSteps(name, *entry));
  const MutexLock changing(change_mutex_);
  ModelTable::Removed before = MakeRoom(name, *entry);
  std::vector<SharedModel*> started;
  // If this fails, also because memory runs out, the versions in `started` are stopped below.
  const Status ready = WithoutExceptions([&]() -> Status {
    for (auto& [number, version] : entry->versions) {
      LAGOON_RETURN_IF_ERROR(version.loaded->Start(*dispatcher_, *maker_));
      if (version.loaded->model->is_compiled()) started.push_back(version.loaded.get());
    }
    return KeepShares(name, started);
  });
  if (!ready) {
    for (auto& [number, version] : entry->versions) Stop(std::move(version.loaded));
    return Annotate(fmt::format("model '{}' cannot be loaded", name), Error(ready.error()));
  }
  models_.Put(name, std::move(entry), before);
  CheckEnsembles();
  calls_.Forget(name);
  for (const auto& lender : before) Stop(lender->TakeBack());
  return {};
}

/// For an ensemble: loads the models of its steps that are not served, and checks that they fit.
Status DeviceCore::LoadSteps(const std::string& name, const ModelTable::Entry& entry) {
  for (const std::string& step : ModelTable::StepsOf(entry)) {
    if (models_.Find(step, "")) continue;
    spdlog::info("model '{}': loads model '{}', which is a step of it", name, step);
    Status loaded = LoadNoting(step, {}, /*as_step=*/true);
    if (!loaded) {
      return Annotate(fmt::format("model '{}' cannot be loaded", name), std::move(loaded).error());
    }
  }
  const Status fits = models_.CheckEnsemble(entry);
  if (fits) return {};
  return Annotate(fmt::format("model '{}' cannot be loaded", name), Error(fits.error()));
}

/// After each change of the table.
void DeviceCore::CheckEnsembles() {
  UntilMemorySuffices([&] { models_.CheckEnsembles(); });
}

/// Takes all the memory that is needed to let `entry` take the place of the model, so that this
/// does not end half-way.
ModelTable::Removed DeviceCore::MakeRoom(const std::string& name, ModelTable::Entry& entry) {
  ModelTable::Removed room = models_.MakeRoom(name, entry);
  kept_.reserve(kept_.size() + room.capacity() + entry.versions.size());
  return room;
}

Status DeviceCore::UnloadModel(const std::string& name) {
  const MutexLock changing(change_mutex_);
  LAGOON_RETURN_IF_ERROR(models_.CheckLoaded(name));
  LAGOON_RETURN_IF_ERROR(models_.CheckMayChange(name));
  auto none = std::make_unique<ModelTable::Entry>();
  none->not_loaded = true;
  ModelTable::Removed removed = MakeRoom(name, *none);
  LAGOON_RETURN_IF_ERROR(KeepShares(name, {}));
  models_.Put(name, std::move(none), removed);
  CheckEnsembles();
  calls_.Forget(name);
  for (const auto& lender : removed) Stop(lender->TakeBack());
  spdlog::info("model '{}': unloaded", name);
  return {};
}

/// Frees a version that no request uses. The keeper of the shares must not know the version.
/// MakeRoom() comes before. Does not throw.
void DeviceCore::Stop(std::unique_ptr<LoadedVersion> version) {
  const auto stop = [&] { return version->Stop(*dispatcher_, *maker_); };
  if (UntilMemorySuffices(stop)) return;
  spdlog::warn("model '{}' keeps its memory until the device is opened again: it was lost",
               version->model->name());
  kept_.push_back(std::move(version));
}

// ---- Shares

/// Whether the device and its scheduler can keep the shares of these models.
Status DeviceCore::CheckShares(std::span<SharedModel* const> come) const {
  const auto shares = [](const SharedModel* one) { return one->ShareTerms().share.any(); };
  if (std::ranges::none_of(come, shares)) return {};
  const ShareKind kind = shares_->Read().kind;
  if (kind == ShareKind::kUnits && device().share_granule == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the shares cannot be ranges of units: device '{}' has no such ranges; "
                            "use `--shares weight` and the scheduler 'weighted'",
                            device().name));
  }
  if (kind == ShareKind::kWeight && scheduler().name != "weighted") {
    spdlog::warn(
        "the shares of models are weights, which have no effect under the scheduler '{}': use "
        "'weighted'",
        scheduler().name);
  }
  return {};
}

/// Lets `come` take the place of the versions of the model `name` that are loaded now.
Status DeviceCore::KeepShares(const std::string& name, std::span<SharedModel* const> come) const {
  LAGOON_RETURN_IF_ERROR(CheckShares(come));
  std::vector<SharedModel*> gone;
  if (const Result<std::vector<ModelLease>> leases = models_.FindAll(name);
      leases && !name.empty()) {
    for (const ModelLease& lease : *leases) {
      if (lease->model->is_compiled()) gone.push_back(&*lease);
    }
  }
  return shares_->Replace(gone, come, device_->Now());
}

Result<SharesReport> DeviceCore::Shares() const { return shares_->Read(); }

Status DeviceCore::SetSharesRules(const SharesRules& rules) const {
  return shares_->SetRules(rules, device_->Now());
}

Status DeviceCore::ResizeShare(const std::string& model, const std::string& version,
                               const ShareWanted& wanted) const {
  LAGOON_ASSIGN_OR_RETURN(const ModelLease found, models_.Find(model, version));
  if (!found->model->is_compiled()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model '{}' is {}, which has no share: the models that it runs have",
                            found->model->name(),
                            found->model->is_program()  ? "a job program"
                            : found->model->is_python() ? "a program in Python"
                                                        : "an ensemble"));
  }
  const Status resized = shares_->Resize(*found, wanted, device_->Now());
  if (resized) return {};
  return Annotate(fmt::format("model '{}'", found->model->name()), Error(resized.error()));
}

DeviceCore::~DeviceCore() {
  Drain(Now());
  shares_.reset();
  {
    const MutexLock changing(change_mutex_);
    for (const auto& version : kept_) version->StopBatchers();
  }
  models_.StopBatchers();
  UntilMemorySuffices([&] { models_.StopPrograms(); });
}

Status DeviceCore::ModelReady(const std::string& model, const std::string& version) const {
  const Result<ModelLease> found = models_.Find(model, version);
  if (!found) return tl::unexpected<Error>(found.error());
  return {};
}

Result<ModelMetadata> DeviceCore::Metadata(const std::string& model,
                                           const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const ModelLease found, models_.Find(model, version));
  LAGOON_ASSIGN_OR_RETURN(const std::vector<ModelLease> all, models_.FindAll(model));
  ModelMetadata metadata = found->model->Metadata();
  for (const ModelLease& served : all) metadata.versions.push_back(served->model->version());
  return metadata;
}

Result<inference::ModelConfig> DeviceCore::Config(const std::string& model,
                                                  const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const ModelLease found, models_.Find(model, version));
  return found->model->config();
}

Result<std::vector<ModelStatistics>> DeviceCore::Statistics(const std::string& model,
                                                            const std::string& version) const {
  std::vector<ModelLease> found;
  if (version.empty()) {
    LAGOON_ASSIGN_OR_RETURN(found, models_.FindAll(model));
  } else {
    LAGOON_ASSIGN_OR_RETURN(ModelLease one, models_.Find(model, version));
    found.push_back(std::move(one));
  }
  std::vector<ModelStatistics> statistics;
  for (const ModelLease& served : found) {
    statistics.push_back(served->model->Statistics(*dispatcher_));
    if (served->python != nullptr) statistics.back().pending += served->python->Waiting();
    for (const Batcher* const batcher : served->Batchers()) {
      statistics.back().pending += batcher->Waiting();
      statistics.back().most_rows = std::max(statistics.back().most_rows, batcher->MostRows());
    }
  }
  AddShares(shares_->Read(), statistics);
  return statistics;
}

Result<std::shared_ptr<Flight>> DeviceCore::Admit(ModelLease lease, InferRequest& request,
                                                  const TimePoint* given, InferCallback& callback) {
  ServedModel& model = *lease->model;
  const TimePoint now = device_->Now();
  if (request.arrival == TimePoint{}) request.arrival = now;
  const auto refuse = [&](Error error) {
    model.recorder().RecordRefused(error.code, now - request.arrival);
    return tl::unexpected<Error>(std::move(error));
  };
  if (model.settings().decoupled && request.stream == nullptr) {
    return refuse({ErrorCode::kUnimplemented,
                   fmt::format("model '{}' is decoupled, it has any number of answers: ask by "
                               "ModelStreamInfer or generate_stream",
                               model.name())});
  }
  if (model.settings().decoupled) request.stream->MayGive();
  Result<RequestBinding> binding = BindRequest(request, model.signature());
  if (!binding) return refuse(std::move(binding).error());
  if (model.sequence()) {
    Status bound = BindSequence(*model.sequence(), model.signature(), request.sequence, *binding);
    if (!bound) {
      bound.error().message.insert(0, fmt::format("model '{}': ", model.name()));
      return refuse(std::move(bound).error());
    }
  }
  Result<RequestPadding> padding = model.buckets().Pad(model.signature(), *binding);
  if (!padding) {
    padding.error().message.insert(0, fmt::format("model '{}': ", model.name()));
    return refuse(std::move(padding).error());
  }
  const TimePoint deadline = given != nullptr ? *given : DeadlineOf(request, model.settings());
  if (deadline <= now) {
    if (given == nullptr) TellOfLate(model, request, deadline);  // else the ensemble's end tells
    return refuse(TimeoutError(model.name()));
  }
  Result<std::shared_ptr<const Tenants::Hold>> tenant = tenants_->Take(request);
  if (!tenant) return refuse(std::move(tenant).error());
  const std::int64_t rows = model.RowsOf(binding->dims);
  if (model.is_compiled()) model.load().Arrived(rows, now);
  std::string id = std::move(request.id);
  const Nanoseconds off_core =
      late_ && deadline != kNoDeadline ? dispatcher_->Stats().off_core : Nanoseconds(0);
  auto asked = std::make_shared<const Request>(Request{std::move(request), *std::move(binding),
                                                       *std::move(padding), deadline, now, rows,
                                                       off_core, *std::move(tenant)});
  return std::make_shared<Flight>(
      std::move(asked), std::move(id), std::move(callback), std::move(lease),
      Flight::Device{flights_, *maker_, *dispatcher_, late_ ? &*late_ : nullptr});
}

/// Tells of a request whose deadline had passed before it was admitted.
void DeviceCore::TellOfLate(const ServedModel& model, const InferRequest& request,
                            TimePoint deadline) const {
  if (!late_ && request.end == nullptr) return;
  RequestEnd end;
  end.job_class = model.ClassOf(request.priority);
  end.job = WithoutJob(Outcome::kExpired, Now());
  end.received = std::max(request.received, request.arrival);
  end.admitted = end.job.posted;  // not `finished`: no time counts twice
  end.deadline = deadline;
  end.late = true;
  if (request.end != nullptr) *request.end = end;
  if (!late_) return;
  late_->Add({.model = model.name(), .version = model.version(), .id = request.id, .end = end},
             request, dispatcher_->Stats().off_core);
}

RequestHandle DeviceCore::Infer(InferRequest request, InferCallback callback) {
  Result<std::shared_ptr<Flight>> admitted =
      WithoutExceptions([&]() -> Result<std::shared_ptr<Flight>> {
        LAGOON_ASSIGN_OR_RETURN(ModelLease lease, models_.Find(request.model, request.version));
        return Admit(std::move(lease), request, nullptr, callback);
      });
  return Begin(std::move(admitted), Sender::kClient, request, callback);
}

RequestHandle DeviceCore::InferStep(ModelLease model, InferRequest request, TimePoint deadline,
                                    InferCallback callback) {
  Result<std::shared_ptr<Flight>> admitted =
      WithoutExceptions([&] { return Admit(std::move(model), request, &deadline, callback); });
  return Begin(std::move(admitted), Sender::kEnsemble, request, callback);
}

RequestHandle DeviceCore::Call(const std::string& caller, InferRequest request, TimePoint deadline,
                               InferCallback callback) {
  Result<std::shared_ptr<Flight>> admitted =
      WithoutExceptions([&]() -> Result<std::shared_ptr<Flight>> {
        LAGOON_ASSIGN_OR_RETURN(ModelLease lease, models_.Find(request.model, request.version));
        std::vector<std::string> steps;
        if (lease->model->is_ensemble()) {
          for (const auto& step : lease->model->settings().ensemble->steps) {
            steps.push_back(step.model);
          }
        }
        LAGOON_RETURN_IF_ERROR(calls_.Add(caller, request.model, steps));
        return Admit(std::move(lease), request, &deadline, callback);
      });
  return Begin(std::move(admitted), Sender::kProgram, request, callback);
}

/// Returns false if the request is refused, as Flights::why_closed() says.
bool DeviceCore::List(Flight& flight, Sender sender) {
  if (sender == Sender::kClient) return flights_.Add(flight);
  if (sender == Sender::kProgram) return flights_.AddCall(flight);
  flights_.AddStep(flight);
  return true;
}

/// Lists the request and hands it over, or answers with the error.
RequestHandle DeviceCore::Begin(Result<std::shared_ptr<Flight>> admitted, Sender sender,
                                InferRequest& request, InferCallback& callback) {
  if (!admitted) {
    request.payload.reset();
    callback(tl::unexpected<Error>(std::move(admitted).error()));
    return RequestHandle{};
  }
  Flight& flight = **admitted;
  Status passed = WithoutExceptions([&]() -> Status {
    if (!List(flight, sender)) return Fail(ErrorCode::kUnavailable, flights_.why_closed());
    return Pass(*admitted);
  });
  if (!passed) flight.Refuse(std::move(passed).error());
  return flight.handle();
}

/// Hands the request over to what answers it. After an error nothing has it.
Status DeviceCore::Pass(const std::shared_ptr<Flight>& flight) {
  if (flight->model().is_ensemble()) {
    LAGOON_ASSIGN_OR_RETURN(std::vector<ModelLease> steps, models_.FindSteps(flight->model()));
    return flight->RunSteps(*this, std::move(steps));
  }
  if (flight->version().python != nullptr) {
    flight->version().python->Add(flight);
    return {};
  }
  Sequences* const sequences = flight->version().sequences.get();
  return sequences != nullptr ? sequences->Add(flight) : PassOn(flight, *maker_);
}

void DeviceCore::SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) {
  spdlog::info("switching to scheduler '{}'", ChoiceOf(scheduler.config).Text());
  scheduler.config.best_effort_minimum = options_.best_effort_minimum;
  dispatcher_->Switch(scheduler.config, std::move(scheduler.policy), std::move(done));
}

void DeviceCore::Cancel(RequestHandle handle) {
  if (const std::shared_ptr<Flight> flight = flights_.Find(handle)) flight->Cancel();
}

void DeviceCore::AwaitLost(std::string why) {
  flights_.Close(std::move(why), /*lost=*/true);
  UntilMemorySuffices([&] { flights_.CancelAll(); });
  flights_.WaitUntilEmpty(kNoDeadline);
}

void DeviceCore::Drain(TimePoint until) {
  draining_.store(true, std::memory_order_relaxed);
  UntilMemorySuffices([&] { flights_.Close("the server is shutting down"); });
  if (flights_.WaitUntilEmpty(until)) return;
  UntilMemorySuffices([&] { flights_.EndAll(); });
  flights_.WaitUntilEmpty(kNoDeadline);
}

}  // namespace lagoon
