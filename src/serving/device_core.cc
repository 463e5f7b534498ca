#include "serving/device_core.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "policies/registry.h"
#include "program/parts.h"
#include "serving/request_check.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

// InferRequest::priority of requests of the model's own class, and of those that lower it.
constexpr std::uint64_t kOwnPriority = 0, kLoweredPriority = 2;

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
  LAGOON_ASSIGN_OR_RETURN(ComputeDevice device, OpenDevice(options.device));
  std::shared_ptr<EngineHost> engine = options.engine_host;
  if (engine == nullptr) {
    LAGOON_ASSIGN_OR_RETURN(engine, ChooseEngine(options.engine));
  }
  std::unique_ptr<DeviceCore> core(new DeviceCore(std::move(device)));
  LAGOON_RETURN_IF_ERROR(
      core->models_.Load(options.repository, *core->device_,
                         {options.profile, core->kernels_.get(), std::move(engine)}));
  if (options.trace != nullptr) options.trace->Attach(*core->device_);
  core->dispatcher_ =
      std::make_unique<Dispatcher>(*core->device_, scheduler.config, std::move(scheduler.policy),
                                   options.trace, std::move(on_lost));
  core->models_.AddQueues(*core->device_, *core->dispatcher_);
  core->maker_ = std::make_unique<PlanMaker>(*core->dispatcher_, core->device_->info().units);
  LAGOON_RETURN_IF_ERROR(core->MakeBatchers());
  LAGOON_RETURN_IF_ERROR(core->KeepShares(options.shares, options.trace));
  return core;
}

Status DeviceCore::MakeBatchers() {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<const ServedModel*> all, models_.FindAll(""));
  for (const ServedModel* const found : all) {
    if (!found->settings().batching.enabled) continue;
    LAGOON_ASSIGN_OR_RETURN(ServedModel* const model,
                            models_.Find(found->name(), found->version()));
    Batchers& batchers = batchers_[model];
    batchers.own = std::make_unique<Batcher>(*model, kOwnPriority, *dispatcher_, *maker_);
    if (model->settings().job_class != JobClass::kRealTime) continue;
    batchers.lowered = std::make_unique<Batcher>(*model, kLoweredPriority, *dispatcher_, *maker_);
  }
  return {};
}

Status DeviceCore::KeepShares(std::optional<ShareKind> kind, TraceRecorder* trace) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<const ServedModel*> all, models_.FindAll(""));
  std::vector<ShareKeeper::Model> models;
  for (const ServedModel* const found : all) {
    if (found->is_program()) continue;
    LAGOON_ASSIGN_OR_RETURN(ServedModel* const model,
                            models_.Find(found->name(), found->version()));
    ShareKeeper::Model& kept = models.emplace_back(ShareKeeper::Model{model, {}});
    const auto batchers = batchers_.find(model);
    if (batchers == batchers_.end()) continue;
    kept.batchers.push_back(batchers->second.own.get());
    if (batchers->second.lowered) kept.batchers.push_back(batchers->second.lowered.get());
  }
  const bool by_weight = dispatcher_->config().name == "weighted" || device().share_granule == 0;
  const ShareKind chosen = kind.value_or(by_weight ? ShareKind::kWeight : ShareKind::kUnits);
  LAGOON_ASSIGN_OR_RETURN(
      shares_, ShareKeeper::Start(std::move(models), {chosen, trace}, *device_, *dispatcher_));
  return {};
}

Result<SharesReport> DeviceCore::Shares() const { return shares_->Read(); }

Status DeviceCore::SetSharesRules(const SharesRules& rules) const {
  return shares_->SetRules(rules);
}

Status DeviceCore::ResizeShare(const std::string& model, const std::string& version,
                               const ShareWanted& wanted) const {
  LAGOON_ASSIGN_OR_RETURN(const ServedModel* found, models_.Find(model, version));
  return shares_->Resize(*found, wanted);
}

Batcher* DeviceCore::BatcherOf(const RequestInFlight& request) const {
  const auto batchers = batchers_.find(&request.model());
  // Contents that decide a plan are of one request.
  if (batchers == batchers_.end() || request.model().contents_decide()) return nullptr;
  const bool lowered = request.priority() >= kLoweredPriority && batchers->second.lowered;
  return (lowered ? batchers->second.lowered : batchers->second.own).get();
}

void DeviceCore::CancelInBatchers() {
  for (const auto& [model, batchers] : batchers_) {
    for (const auto* batcher : {&batchers.own, &batchers.lowered}) {
      if (*batcher != nullptr) (*batcher)->CancelAll();
    }
  }
}

DeviceCore::~DeviceCore() {
  Drain(Now());
  models_.StopPrograms();
}

Status DeviceCore::ModelReady(const std::string& model, const std::string& version) const {
  const Result<ServedModel*> found = models_.Find(model, version);
  if (!found) return tl::unexpected<Error>(found.error());
  return {};
}

Result<ModelMetadata> DeviceCore::Metadata(const std::string& model,
                                           const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const ServedModel* found, models_.Find(model, version));
  LAGOON_ASSIGN_OR_RETURN(const std::vector<const ServedModel*> all, models_.FindAll(model));
  ModelMetadata metadata = found->Metadata();
  for (const ServedModel* served : all) metadata.versions.push_back(served->version());
  return metadata;
}

Result<inference::ModelConfig> DeviceCore::Config(const std::string& model,
                                                  const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const ServedModel* found, models_.Find(model, version));
  return found->config();
}

Result<std::vector<ModelStatistics>> DeviceCore::Statistics(const std::string& model,
                                                            const std::string& version) const {
  std::vector<const ServedModel*> found;
  if (version.empty()) {
    LAGOON_ASSIGN_OR_RETURN(found, models_.FindAll(model));
  } else {
    LAGOON_ASSIGN_OR_RETURN(const ServedModel* one, models_.Find(model, version));
    found.push_back(one);
  }
  std::vector<ModelStatistics> statistics;
  for (const ServedModel* served : found) {
    statistics.push_back(served->Statistics(*dispatcher_));
    const auto batchers = batchers_.find(served);
    if (batchers == batchers_.end()) continue;
    for (const auto* batcher : {&batchers->second.own, &batchers->second.lowered}) {
      if (*batcher == nullptr) continue;
      statistics.back().pending += (*batcher)->Waiting();
      statistics.back().most_rows = std::max(statistics.back().most_rows, (*batcher)->MostRows());
    }
  }
  shares_->AddTo(statistics);
  return statistics;
}

Result<std::shared_ptr<RequestInFlight>> DeviceCore::Admit(InferRequest& request,
                                                           InferCallback& callback) {
  LAGOON_ASSIGN_OR_RETURN(ServedModel* const model, models_.Find(request.model, request.version));
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
  return std::make_shared<RequestInFlight>(std::move(request), std::move(callback), *model,
                                           *std::move(binding), *std::move(padding), admission,
                                           in_flight_, *maker_);
}

RequestHandle DeviceCore::Infer(InferRequest request, InferCallback callback) {
  Result<std::shared_ptr<RequestInFlight>> admitted = Admit(request, callback);
  if (!admitted) {
    request.payload.reset();
    callback(tl::unexpected<Error>(std::move(admitted).error()));
    return RequestHandle{};
  }
  const std::shared_ptr<RequestInFlight>& request_in_flight = *admitted;
  ServedModel& model = request_in_flight->model();
  if (auto plan = model.FindPlan(request_in_flight->Key())) {
    if (Outdated(plan->loaded->plan)) return maker_->Make(request_in_flight);
    // May take more than one job.
    if (plan->links.next || Assumes(plan->loaded->plan)) {
      return maker_->Begin(request_in_flight, std::move(plan));
    }
    Batcher* const batcher = BatcherOf(*request_in_flight);
    if (batcher != nullptr && FitsBatches(*plan, request_in_flight->dims().front().front())) {
      const RequestHandle handle = maker_->NewHandle();
      if (!request_in_flight->Await(handle)) return RequestHandle{};
      batcher->Add(handle, request_in_flight, *plan);
      return handle;
    }
    return RequestInFlight::Post(request_in_flight, std::move(plan), *dispatcher_);
  }
  if (model.settings().refuse_other_shapes || model.is_program()) {
    request_in_flight->RefuseAwaited(model.OtherShapeError());
    return RequestHandle{};
  }
  return maker_->Make(request_in_flight);
}

void DeviceCore::SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) {
  spdlog::info("switching to scheduler '{}'", ChoiceOf(scheduler.config).Text());
  dispatcher_->Switch(scheduler.config, std::move(scheduler.policy), std::move(done));
}

void DeviceCore::Cancel(RequestHandle handle) {
  // A handle is the id of the job. Ids are not used again, so that the dispatcher ignores the id of
  // a job that has finished.
  if (handle == RequestHandle{}) return;
  if (PlanMaker::IsHandle(handle)) {
    if (maker_->Cancel(handle)) return;
    for (const auto& [model, batchers] : batchers_) {
      if (batchers.own->Cancel(handle)) return;
      if (batchers.lowered != nullptr && batchers.lowered->Cancel(handle)) return;
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
  in_flight_.Close(std::move(why));
  maker_->CancelAll();
  CancelInBatchers();
  in_flight_.WaitUntilEmpty(kNoDeadline);
}

void DeviceCore::Drain(TimePoint until) {
  draining_.store(true, std::memory_order_relaxed);
  in_flight_.Close("the server is shutting down");
  if (dispatcher_ == nullptr || in_flight_.WaitUntilEmpty(until)) return;
  if (maker_ != nullptr) maker_->CancelAll();
  CancelInBatchers();
  in_flight_.CancelAll(*dispatcher_);
  in_flight_.WaitUntilEmpty(kNoDeadline);
}

}  // namespace lagoon
