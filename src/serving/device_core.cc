#include "serving/device_core.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/guard.h"
#include "base/log.h"
#include "policies/registry.h"
#include "program/parts.h"
#include "serving/model/request_check.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

// InferRequest::priority of requests that lower the class of their model.
constexpr std::uint64_t kLoweredPriority = 2;

/// The request's deadline: its timeout, or else that of `settings`, after its arrival. A timeout of
/// centuries, for which the sum would overflow, counts as none.
TimePoint DeadlineOf(const InferRequest& request, const ModelSettings& settings) {
  const Nanoseconds timeout =
      request.timeout > Nanoseconds(0) ? request.timeout : settings.deadline;
  if (timeout <= Nanoseconds(0) || timeout >= kNoDeadline - request.arrival) return kNoDeadline;
  return request.arrival + timeout;
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
      options.profile, core->kernels_.get(), std::move(engine), {}, options.max_wait};
  LAGOON_RETURN_IF_ERROR(
      core->models_.Load(options.repository, *core->device_, core->load_options_, options.models));
  core->load_options_.open_idle = [choice = options.device] { return OpenDevice(choice); };
  if (options.trace != nullptr) options.trace->Attach(*core->device_);
  core->dispatcher_ =
      std::make_unique<Dispatcher>(*core->device_, scheduler.config, std::move(scheduler.policy),
                                   options.trace, std::move(on_lost));
  core->maker_ = std::make_unique<PlanMaker>(*core->dispatcher_, core->device_->info().units);
  core->models_.Start(*core->device_, *core->dispatcher_, *core->maker_);
  const bool by_weight =
      core->dispatcher_->config().name == "weighted" || core->device().share_granule == 0;
  const ShareKind kind =
      options.shares.value_or(by_weight ? ShareKind::kWeight : ShareKind::kUnits);
  LAGOON_ASSIGN_OR_RETURN(
      core->shares_, ShareKeeper::Start({kind, options.trace}, *core->device_, *core->dispatcher_));
  std::vector<const LoadedVersion*> loaded;
  LAGOON_ASSIGN_OR_RETURN(const std::vector<ModelLease> leases, core->models_.FindAll(""));
  for (const ModelLease& lease : leases) loaded.push_back(&*lease);
  LAGOON_RETURN_IF_ERROR(core->KeepShares("", loaded));
  return core;
}

// ---- Loading and unloading while models serve

Status DeviceCore::LoadModel(const std::string& name) {
  Status loaded = WithoutExceptions([&] { return LoadAnew(name); });
  // Only this code is about the model itself, and not about its name or the moment.
  if (!loaded && loaded.error().code == ErrorCode::kInvalidArgument) {
    const Status noted = WithoutExceptions([&]() -> Status {
      models_.NoteFailure(name, loaded.error().message);
      return {};
    });
    if (!noted) spdlog::warn("model '{}': {}", name, noted.error().message);
  }
  return loaded;
}

Status DeviceCore::LoadAnew(const std::string& name) {
  LAGOON_RETURN_IF_ERROR(models_.CheckMayChange(name));
  // Without the mutex, as loading may take minutes, and other models may change meanwhile.
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<ModelTable::Entry> entry,
                          models_.LoadOne(options_.repository, name, *device_, load_options_));
  const MutexLock changing(change_mutex_);
  ModelTable::Removed before = MakeRoom(name, *entry);
  std::vector<const LoadedVersion*> started;
  // What has been started is stopped below, also where memory runs out.
  const Status ready = WithoutExceptions([&]() -> Status {
    for (auto& [number, version] : entry->versions) {
      LAGOON_RETURN_IF_ERROR(version.loaded->Start(*dispatcher_, *maker_));
      started.push_back(version.loaded.get());
    }
    return KeepShares(name, started);
  });
  if (!ready) {
    for (auto& [number, version] : entry->versions) Stop(std::move(version.loaded));
    return Annotate(fmt::format("model '{}' cannot be loaded", name), Error(ready.error()));
  }
  models_.Put(name, std::move(entry), before);
  for (const auto& lender : before) Stop(lender->TakeBack());
  return {};
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
  LAGOON_RETURN_IF_ERROR(models_.CheckMayChange(name));
  LAGOON_RETURN_IF_ERROR(models_.CheckLoaded(name));
  auto none = std::make_unique<ModelTable::Entry>();
  none->not_loaded = true;
  ModelTable::Removed removed = MakeRoom(name, *none);
  LAGOON_RETURN_IF_ERROR(KeepShares(name, {}));
  models_.Put(name, std::move(none), removed);
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

/// Lets `come` take the place of the versions of the model `name` that are loaded now.
Status DeviceCore::KeepShares(const std::string& name,
                              std::span<const LoadedVersion* const> come) const {
  std::vector<const ServedModel*> gone;
  if (const Result<std::vector<ModelLease>> leases = models_.FindAll(name);
      leases && !name.empty()) {
    for (const ModelLease& lease : *leases) gone.push_back(lease->model.get());
  }
  std::vector<ShareKeeper::Model> models;
  for (const LoadedVersion* const version : come) {
    if (version->model->is_program()) continue;
    models.push_back({version->model.get(), version->Batchers()});
  }
  return shares_->Replace(gone, std::move(models));
}

Result<SharesReport> DeviceCore::Shares() const { return shares_->Read(); }

Status DeviceCore::SetSharesRules(const SharesRules& rules) const {
  return shares_->SetRules(rules);
}

Status DeviceCore::ResizeShare(const std::string& model, const std::string& version,
                               const ShareWanted& wanted) const {
  LAGOON_ASSIGN_OR_RETURN(const ModelLease found, models_.Find(model, version));
  return shares_->Resize(*found->model, wanted);
}

Batcher* DeviceCore::BatcherOf(const RequestInFlight& request) const {
  const LoadedVersion& version = request.version();
  // Contents that decide a plan are of one request.
  if (version.own == nullptr || request.model().contents_decide()) return nullptr;
  const bool lowered = request.priority() >= kLoweredPriority && version.lowered != nullptr;
  return (lowered ? version.lowered : version.own).get();
}

void DeviceCore::CancelInBatchers() {
  const Result<std::vector<ModelLease>> leases = models_.FindAll("");
  for (const ModelLease& lease : *leases) {
    for (Batcher* const batcher : lease->Batchers()) batcher->CancelAll();
  }
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
    for (const Batcher* const batcher : served->Batchers()) {
      statistics.back().pending += batcher->Waiting();
      statistics.back().most_rows = std::max(statistics.back().most_rows, batcher->MostRows());
    }
  }
  shares_->AddTo(statistics);
  return statistics;
}

Result<std::shared_ptr<RequestInFlight>> DeviceCore::Admit(InferRequest& request,
                                                           InferCallback& callback) {
  LAGOON_ASSIGN_OR_RETURN(ModelLease lease, models_.Find(request.model, request.version));
  ServedModel* const model = lease->model.get();
  const TimePoint now = device_->Now();
  if (request.arrival == TimePoint{}) request.arrival = now;
  const auto refuse = [&](Error error) {
    model->recorder().RecordRefused(error.code, now - request.arrival);
    return tl::unexpected<Error>(std::move(error));
  };
  Result<RequestBinding> binding = BindRequest(request, model->signature());
  if (!binding) return refuse(std::move(binding).error());
  Result<RequestPadding> padding = model->buckets().Pad(model->signature(), *binding);
  if (!padding) {
    padding.error().message.insert(0, fmt::format("model '{}': ", model->name()));
    return refuse(std::move(padding).error());
  }
  const TimePoint deadline = DeadlineOf(request, model->settings());
  if (deadline <= now) return refuse(TimeoutError(model->name()));
  if (!model->is_program()) model->load().Arrived(model->RowsOf(binding->dims), now);
  const RequestInFlight::Admission admission{request.arrival, deadline, now};
  return std::make_shared<RequestInFlight>(std::move(request), std::move(callback),
                                           std::move(lease), *std::move(binding),
                                           *std::move(padding), admission, in_flight_, *maker_);
}

RequestHandle DeviceCore::Infer(InferRequest request, InferCallback callback) {
  Result<std::shared_ptr<RequestInFlight>> admitted =
      WithoutExceptions([&] { return Admit(request, callback); });
  if (!admitted) {
    request.payload.reset();
    callback(tl::unexpected<Error>(std::move(admitted).error()));
    return RequestHandle{};
  }
  Result<RequestHandle> handle = WithoutExceptions([&] { return Pass(*admitted); });
  if (handle) return *handle;
  (*admitted)->RefuseAwaited(std::move(handle).error());
  return RequestHandle{};
}

/// Hands the request over to what runs it, which answers it. After an error nothing has it.
Result<RequestHandle> DeviceCore::Pass(const std::shared_ptr<RequestInFlight>& request) {
  ServedModel& model = request->model();
  if (auto plan = model.FindPlan(request->Key())) {
    if (Outdated(plan->loaded->plan)) return maker_->Make(request);
    // May take more than one job.
    if (plan->links.next || Assumes(plan->loaded->plan)) {
      return maker_->Begin(request, std::move(plan));
    }
    Batcher* const batcher = BatcherOf(*request);
    if (batcher != nullptr && FitsBatches(*plan, model.RowsOf(request->dims()))) {
      LAGOON_RETURN_IF_ERROR(request->TakeRoomFor(*plan));
      const RequestHandle handle = maker_->NewHandle();
      if (!request->Await(handle)) return RequestHandle{};
      batcher->Add(handle, request, *plan);
      return handle;
    }
    return RequestInFlight::Post(request, std::move(plan), *dispatcher_);
  }
  if (!model.MakesPlanFor(request->dims())) {
    return tl::unexpected<Error>(model.OtherShapeError());
  }
  return maker_->Make(request);
}

void DeviceCore::SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) {
  spdlog::info("switching to scheduler '{}'", ChoiceOf(scheduler.config).Text());
  scheduler.config.best_effort_minimum = options_.best_effort_minimum;
  dispatcher_->Switch(scheduler.config, std::move(scheduler.policy), std::move(done));
}

void DeviceCore::Cancel(RequestHandle handle) {
  // Where memory runs out, the request goes on.
  const Status ignored = WithoutExceptions([&]() -> Status {
    CancelOne(handle);
    return {};
  });
  if (!ignored) spdlog::warn("a request is not cancelled: {}", ignored.error().message);
}

void DeviceCore::CancelOne(RequestHandle handle) {
  // A handle is the id of the job. Ids are not used again, so that the dispatcher ignores the id of
  // a job that has finished.
  if (handle == RequestHandle{}) return;
  if (PlanMaker::IsHandle(handle)) {
    if (maker_->Cancel(handle)) return;
    const Result<std::vector<ModelLease>> leases = models_.FindAll("");
    for (const ModelLease& lease : *leases) {
      for (Batcher* const batcher : lease->Batchers()) {
        if (batcher->Cancel(handle)) return;
      }
    }
    return in_flight_.Cancel(handle, *dispatcher_);
  }
  const JobId job{static_cast<std::underlying_type_t<RequestHandle>>(handle)};
  if (IsProgramRun(job)) {
    models_.CancelInPrograms(job, *dispatcher_);
  } else {
    dispatcher_->Cancel(job);
  }
}

void DeviceCore::AwaitLost(std::string why) {
  in_flight_.Close(std::move(why), /*lost=*/true);
  CancelWaiting();
  in_flight_.WaitUntilEmpty(kNoDeadline);
}

/// Those that no job runs yet.
void DeviceCore::CancelWaiting() {
  if (maker_ != nullptr) UntilMemorySuffices([&] { maker_->CancelAll(); });
  UntilMemorySuffices([&] { CancelInBatchers(); });
}

void DeviceCore::Drain(TimePoint until) {
  draining_.store(true, std::memory_order_relaxed);
  UntilMemorySuffices([&] { in_flight_.Close("the server is shutting down"); });
  if (dispatcher_ == nullptr || in_flight_.WaitUntilEmpty(until)) return;
  CancelWaiting();
  UntilMemorySuffices([&] { in_flight_.CancelAll(*dispatcher_); });
  in_flight_.WaitUntilEmpty(kNoDeadline);
}

}  // namespace lagoon
