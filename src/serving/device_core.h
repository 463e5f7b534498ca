#pragma once

// The core for one opening of the device, until the device is lost.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serving/core.h"
#include "serving/in_flight.h"
#include "serving/model_table.h"

namespace lagoon {

/// Loads the models onto a device and serves them. When the device is lost, requests in flight and
/// all later ones are answered kUnavailable.
class DeviceCore final : public InferenceCore {
 public:
  /// As InferenceCore::Open. `on_lost` is called once, on any thread, when the device is lost.
  static Result<std::unique_ptr<DeviceCore>> Open(const CoreOptions& options,
                                                  std::function<void()> on_lost);
  ~DeviceCore() override;

  bool Ready() const override { return !draining_.load(std::memory_order_relaxed); }
  std::vector<ModelStatus> Models() const override { return models_.Statuses(); }
  DispatcherStats SchedulerStatistics() const override { return dispatcher_->Stats(); }
  SchedulerConfig scheduler() const override { return dispatcher_->config(); }
  void SwitchScheduler(const std::string& name, std::function<void(Status)> done) override;
  DeviceInfo device() const override { return device_->info(); }

  Status ModelReady(const std::string& model, const std::string& version) const override;
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override;
  Result<inference::ModelConfig> Config(const std::string& model,
                                        const std::string& version) const override;
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const override;
  RequestHandle Infer(InferRequest request, InferCallback callback) override;
  void Cancel(RequestHandle handle) override;
  void Drain(TimePoint until) override;
  /// Call it once the device is lost. Refuses new requests with `why`, and returns when all
  /// requests in flight are answered.
  void AwaitLost(std::string why);

 private:
  explicit DeviceCore(ComputeDevice device)
      : kernels_(std::move(device.kernels)), device_(std::move(device.device)) {}
  Result<std::shared_ptr<RequestInFlight>> Admit(InferRequest& request, InferCallback& callback);

  // Order matters: the dispatcher is destroyed first, then what its jobs used.
  const std::unique_ptr<const KernelMaker> kernels_;
  const std::unique_ptr<Device> device_;
  ModelTable models_;  // immutable after Open
  InFlightTable in_flight_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::atomic<bool> draining_{false};
};

}  // namespace lagoon
