#pragma once

// The models on the device, from one opening of the device until its loss.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "serving/core/models.h"
#include "serving/core/repository_control.h"
#include "serving/core/request.h"
#include "serving/core/scheduler_control.h"
#include "serving/core_options.h"
#include "serving/late/late_requests.h"
#include "serving/model_table.h"
#include "serving/python/call_graph.h"
#include "serving/python/job.h"
#include "serving/request/batcher.h"
#include "serving/request/ensemble_run.h"
#include "serving/request/flights.h"
#include "serving/request/plan_maker.h"
#include "serving/shares/share_keeper.h"

namespace lagoon {

/// Opens the device, loads the models onto it and serves them. When the device is lost, requests in
/// flight and all later ones are answered kUnavailable. The methods do what the methods of
/// Inference and of its facets with the same names do.
class DeviceCore final : private StepRunner, private PythonCalls {
 public:
  /// As OpenCore(). `on_lost` is called once, on any thread, when the device is lost.
  static Result<std::unique_ptr<DeviceCore>> Open(const CoreOptions& options,
                                                  std::function<void()> on_lost);
  ~DeviceCore();
  DeviceCore(const DeviceCore&) = delete;
  DeviceCore& operator=(const DeviceCore&) = delete;

  bool Ready() const { return !draining_.load(std::memory_order_relaxed); }
  std::vector<ModelStatus> Models() const { return models_.Statuses(); }
  DispatcherStats SchedulerStatistics() const { return dispatcher_->Stats(); }
  SchedulerConfig scheduler() const { return dispatcher_->config(); }
  std::vector<TenantStatistics> TenantsSeen() const { return tenants_->Statistics(); }
  void SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done);
  DeviceInfo device() const { return device_->info(); }

  Status ModelReady(const std::string& model, const std::string& version) const;
  Result<ModelMetadata> Metadata(const std::string& model, const std::string& version) const;
  Result<inference::ModelConfig> Config(const std::string& model, const std::string& version) const;
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const;
  Result<SharesReport> Shares() const;
  Status SetSharesRules(const SharesRules& rules) const;
  Status ResizeShare(const std::string& model, const std::string& version,
                     const ShareWanted& wanted) const;
  RequestHandle Infer(InferRequest request, InferCallback callback);
  void Cancel(RequestHandle handle);
  void Drain(TimePoint until);
  /// Loads one model while the others serve; blocks until the new version answers requests.
  /// Requests in flight for the version before are answered by that one, and then it is destroyed.
  /// On an error the version before stays. The errors are those of RepositoryControl::LoadModel. At
  /// most one LoadModel() or UnloadModel() of a model at a time; those of different models may
  /// overlap.
  Status LoadModel(const std::string& name, const LoadOverride& with);
  /// Blocks until the requests in flight of the model are answered and its memory is free. The
  /// errors are those of RepositoryControl::UnloadModel.
  Status UnloadModel(const std::string& name);
  /// The models that are loaded or that failed to load when the device was opened.
  std::vector<std::string> ModelNames() const { return models_.Names(); }
  /// Call it once the device is lost. Refuses new requests with `why`, and returns when all
  /// requests in flight are answered.
  void AwaitLost(std::string why);

 private:
  DeviceCore(const CoreOptions& options, ComputeDevice device)
      : options_(options), kernels_(std::move(device.kernels)), device_(std::move(device.device)) {}
  Status CheckShares(std::span<SharedModel* const> come) const;
  Status KeepShares(const std::string& name, std::span<SharedModel* const> come) const;
  Status LoadNoting(const std::string& name, const LoadOverride& with, bool as_step);
  Status LoadAnew(const std::string& name, const LoadOverride& with, bool as_step);
  ModelTable::Removed MakeRoom(const std::string& name, ModelTable::Entry& entry)
      REQUIRES(change_mutex_);
  void Stop(std::unique_ptr<LoadedVersion> version) REQUIRES(change_mutex_);
  Status LoadSteps(const std::string& name, const ModelTable::Entry& entry);
  void CheckEnsembles();
  // StepRunner
  RequestHandle InferStep(ModelLease model, InferRequest request, TimePoint deadline,
                          InferCallback callback) override;
  void CancelStep(RequestHandle step) override { Cancel(step); }
  // PythonCalls
  RequestHandle Call(const std::string& caller, InferRequest request, TimePoint deadline,
                     InferCallback callback) override;
  void CancelCall(RequestHandle call) override { Cancel(call); }
  /// `deadline`: null: as the request and the model have it. After an error, or an exception,
  /// `callback` is as it was.
  Result<std::shared_ptr<Flight>> Admit(ModelLease lease, InferRequest& request,
                                        const TimePoint* deadline, InferCallback& callback);
  void TellOfLate(const ServedModel& model, const InferRequest& request, TimePoint deadline) const;
  /// Who has sent a request.
  enum class Sender : std::uint8_t { kClient, kEnsemble, kProgram };
  RequestHandle Begin(Result<std::shared_ptr<Flight>> admitted, Sender sender,
                      InferRequest& request, InferCallback& callback);
  bool List(Flight& flight, Sender sender);
  Status Pass(const std::shared_ptr<Flight>& flight);

  const CoreOptions options_;
  LoadOptions load_options_;  // immutable after Open
  // Order matters: the keeper of the shares and the batchers are destroyed first, then the maker,
  // then the dispatcher, then what its jobs used.
  const std::unique_ptr<const KernelMaker> kernels_;
  std::shared_ptr<RecentWork> recent_;  // null: nothing is recorded of late requests
  const std::unique_ptr<Device> device_;
  Mutex change_mutex_;  // one change of the table of models at a time
  /// Models that were unloaded while the device was lost: the dispatcher still knows them.
  std::vector<std::unique_ptr<LoadedVersion>> kept_ GUARDED_BY(change_mutex_);
  CallGraph calls_;
  ModelTable models_;
  Flights flights_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::shared_ptr<Tenants> tenants_;
  std::optional<LateRequests> late_;
  std::unique_ptr<PlanMaker> maker_;
  std::unique_ptr<ShareKeeper> shares_;  // immutable after Open
  std::atomic<bool> draining_{false};
};

}  // namespace lagoon
