#include "serving/core.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "base/log.h"
#include "policies/registry.h"
#include "serving/in_flight.h"
#include "serving/model_table.h"
#include "serving/request_check.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

class Core final : public InferenceCore {
 public:
  explicit Core(ComputeDevice device)
      : kernels_(std::move(device.kernels)), device_(std::move(device.device)) {}
  ~Core() override {
    Drain(Now());
    models_.StopPrograms();
  }

  Status Start(const CoreOptions& options, Scheduler scheduler) {
    LAGOON_RETURN_IF_ERROR(
        models_.Load(options.repository, *device_, {options.profile, kernels_.get()}));
    if (options.trace != nullptr) options.trace->Attach(*device_);
    dispatcher_ = std::make_unique<Dispatcher>(*device_, scheduler.config,
                                               std::move(scheduler.policy), options.trace);
    models_.AddQueues(*device_, *dispatcher_);
    return {};
  }

  bool Ready() const override { return !draining_.load(std::memory_order_relaxed); }
  std::vector<ModelStatus> Models() const override { return models_.Statuses(); }
  DispatcherStats SchedulerStatistics() const override { return dispatcher_->Stats(); }
  SchedulerConfig scheduler() const override { return dispatcher_->config(); }
  void SwitchScheduler(const std::string& name, std::function<void(Status)> done) override;
  const DeviceInfo& device() const override { return device_->info(); }

  Status ModelReady(const std::string& model, const std::string& version) const override;
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override;
  Result<const inference::ModelConfig*> Config(const std::string& model,
                                               const std::string& version) const override;
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const override;
  RequestHandle Infer(InferRequest request, InferCallback callback) override;
  void Cancel(RequestHandle handle) override;
  void Drain(TimePoint until) override;

 private:
  Result<std::shared_ptr<RequestInFlight>> Admit(InferRequest& request, InferCallback& callback);

  // In order of need: the dispatcher goes first, then what its jobs used.
  const std::unique_ptr<const KernelMaker> kernels_;
  const std::unique_ptr<Device> device_;
  ModelTable models_;  // immutable after Start
  InFlightTable in_flight_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::atomic<bool> draining_{false};
};

Status Core::ModelReady(const std::string& model, const std::string& version) const {
  const Result<ServedModel*> found = models_.Find(model, version);
  if (!found) return tl::unexpected<Error>(found.error());
  return {};
}

Result<ModelMetadata> Core::Metadata(const std::string& model, const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const ServedModel* found, models_.Find(model, version));
  LAGOON_ASSIGN_OR_RETURN(const std::vector<const ServedModel*> all, models_.FindAll(model));
  ModelMetadata metadata = found->Metadata();
  for (const ServedModel* served : all) metadata.versions.push_back(served->version());
  return metadata;
}

Result<const inference::ModelConfig*> Core::Config(const std::string& model,
                                                   const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const ServedModel* found, models_.Find(model, version));
  return &found->config();
}

Result<std::vector<ModelStatistics>> Core::Statistics(const std::string& model,
                                                      const std::string& version) const {
  std::vector<const ServedModel*> found;
  if (version.empty()) {
    LAGOON_ASSIGN_OR_RETURN(found, models_.FindAll(model));
  } else {
    LAGOON_ASSIGN_OR_RETURN(const ServedModel* one, models_.Find(model, version));
    found.push_back(one);
  }
  std::vector<ModelStatistics> statistics;
  for (const ServedModel* served : found) statistics.push_back(served->Statistics(*dispatcher_));
  return statistics;
}

/// When `settings` and the request want an answer; counted from its arrival.
TimePoint DeadlineOf(const InferRequest& request, const ModelSettings& settings) {
  const Nanoseconds timeout =
      request.timeout > Nanoseconds(0) ? request.timeout : settings.deadline;
  // A timeout of centuries would overflow.
  if (timeout <= Nanoseconds(0) || timeout >= kNoDeadline - request.arrival) return kNoDeadline;
  return request.arrival + timeout;
}

Result<std::shared_ptr<RequestInFlight>> Core::Admit(InferRequest& request,
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
  const TimePoint deadline = DeadlineOf(request, model->settings());
  if (deadline <= now) return refuse(TimeoutError(model->name()));
  const RequestInFlight::Admission admission{request.arrival, deadline};
  return std::make_shared<RequestInFlight>(std::move(request), std::move(callback), *model,
                                           *std::move(binding), admission);
}

RequestHandle Core::Infer(InferRequest request, InferCallback callback) {
  Result<std::shared_ptr<RequestInFlight>> admitted = Admit(request, callback);
  if (!admitted) {
    request.payload.reset();
    callback(tl::unexpected<Error>(std::move(admitted).error()));
    return RequestHandle{};
  }
  return RequestInFlight::Post(*admitted, in_flight_, *dispatcher_);
}

void Core::SwitchScheduler(const std::string& name, std::function<void(Status)> done) {
  Result<Scheduler> scheduler = MakeScheduler(name);
  if (!scheduler) return done(tl::unexpected<Error>(std::move(scheduler).error()));
  spdlog::info("switching to scheduler '{}'", name);
  dispatcher_->Switch(scheduler->config, std::move(scheduler->policy), std::move(done));
}

void Core::Cancel(RequestHandle handle) {
  // A handle is the job's id, which is never used again: the dispatcher ignores one that has
  // finished.
  if (handle == RequestHandle{}) return;
  const JobId job{static_cast<std::underlying_type_t<RequestHandle>>(handle)};
  if (IsHosted(job)) {
    models_.CancelInPrograms(job, *dispatcher_);
  } else {
    dispatcher_->Cancel(job);
  }
}

void Core::Drain(TimePoint until) {
  draining_.store(true, std::memory_order_relaxed);
  in_flight_.Close();
  if (dispatcher_ == nullptr || in_flight_.WaitUntilEmpty(until)) return;
  in_flight_.CancelAll(*dispatcher_);
  in_flight_.WaitUntilEmpty(kNoDeadline);
}

}  // namespace

std::span<const std::string_view> InferenceCore::Schedulers() { return SchedulerNames(); }

Result<std::unique_ptr<InferenceCore>> InferenceCore::Open(const CoreOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(options.scheduler));
  LAGOON_ASSIGN_OR_RETURN(ComputeDevice device, OpenDevice(options.device));
  auto core = std::make_unique<Core>(std::move(device));
  LAGOON_RETURN_IF_ERROR(core->Start(options, std::move(scheduler)));
  return core;
}

}  // namespace lagoon
