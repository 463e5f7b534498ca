#pragma once

// The models on the device, from one opening of the device until its loss.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serving/batch/batcher.h"
#include "serving/core.h"
#include "serving/in_flight.h"
#include "serving/model_table.h"
#include "serving/plan_maker.h"
#include "serving/shares/share_keeper.h"

namespace lagoon {

/// Opens the device, loads the models onto it and serves them. When the device is lost, requests in
/// flight and all later ones are answered kUnavailable. The methods do what the methods of
/// InferenceCore with the same names do.
class DeviceCore {
 public:
  /// As InferenceCore::Open. `on_lost` is called once, on any thread, when the device is lost.
  static Result<std::unique_ptr<DeviceCore>> Open(const CoreOptions& options,
                                                  std::function<void()> on_lost);
  ~DeviceCore();
  DeviceCore(const DeviceCore&) = delete;
  DeviceCore& operator=(const DeviceCore&) = delete;

  bool Ready() const { return !draining_.load(std::memory_order_relaxed); }
  std::vector<ModelStatus> Models() const { return models_.Statuses(); }
  DispatcherStats SchedulerStatistics() const { return dispatcher_->Stats(); }
  SchedulerConfig scheduler() const { return dispatcher_->config(); }
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
  /// Call it once the device is lost. Refuses new requests with `why`, and returns when all
  /// requests in flight are answered.
  void AwaitLost(std::string why);

 private:
  explicit DeviceCore(ComputeDevice device)
      : kernels_(std::move(device.kernels)), device_(std::move(device.device)) {}
  Status MakeBatchers();
  Status KeepShares(std::optional<ShareKind> kind, TraceRecorder* trace);
  void CancelInBatchers();
  Batcher* BatcherOf(const RequestInFlight& request) const;
  Result<std::shared_ptr<RequestInFlight>> Admit(InferRequest& request, InferCallback& callback);

  // Order matters: the keeper of the shares and the batchers are destroyed first, then the maker,
  // then the dispatcher, then what its jobs used.
  const std::unique_ptr<const KernelMaker> kernels_;
  const std::unique_ptr<Device> device_;
  ModelTable models_;  // immutable after Open
  InFlightTable in_flight_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<PlanMaker> maker_;
  /// Of the models whose requests are joined: for their own class, and for requests of real-time
  /// models that lower it. Immutable after Open.
  struct Batchers {
    std::unique_ptr<Batcher> own, lowered;
  };
  std::map<const ServedModel*, Batchers> batchers_;
  std::unique_ptr<ShareKeeper> shares_;  // immutable after Open
  std::atomic<bool> draining_{false};
};

}  // namespace lagoon
