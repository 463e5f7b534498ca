#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/sim/kernel_lists.h"
#include "bench/sim/virtual_clients.h"
#include "policies/registry.h"
#include "sched/observer.h"
#include "sim/device/sim_device.h"

namespace lagoon::bench {

/// The queue of one client of a stage.
struct SimStageQueue {
  std::string name;
  JobClass job_class = JobClass::kBestEffort;
  const SimModel* model = nullptr;  // null: the client has no queue
  std::size_t instances = 1;        // the client's requests that run at once
  UnitRange units = {};             // QueueOptions::units
};

/// Whether a scheduler stands for REEF as it was published.
inline bool IsReef(const SchedulerConfig& config) {
  return config.name == "reef" || config.name == "reef-mv";
}

/// What a revocation does to running blocks: REEF kills them. Under all other schedulers they leave
/// at their next check.
inline SimAbort AbortOf(const SchedulerConfig& config) {
  return IsReef(config) ? SimAbort::kKill : SimAbort::kCheck;
}

/// Whether the kernels of a stage have versions (VersionsOf): only where the scheduler stands for
/// REEF and padding chooses versions. Under all others kernels are as REEF's lists have them: a
/// `lagoon` with versions would gain from kernels that `reef` does not have.
inline bool HasVersions(const SchedulerConfig& config) {
  return IsReef(config) && config.padding_versions;
}

/// What a stage does beside running jobs. Each may be empty.
struct SimStageHooks {
  /// Makes a device to put between the dispatcher and the simulated device.
  std::function<std::unique_ptr<Device>(Device&)> wrap = {};
  /// Called with the device before it runs anything: may observe it, and returns the dispatcher's
  /// observer, which outlives the stage.
  std::function<SchedObserver*(Device&)> watch = {};
};

/// Records one window of each system. Both functions or neither.
struct SimWatch {
  /// SimStageHooks::watch of a system.
  std::function<SchedObserver*(Device&, const std::string& system)> begin = {};
  std::function<Status()> end = {};  // the window is over, and its stage is gone

  bool wanted() const { return begin != nullptr; }
  SimStageHooks HooksOf(const std::string& system) const {
    SimStageHooks hooks;
    hooks.watch = [this, system](Device& device) { return begin(device, system); };
    return hooks;
  }
};

/// A simulated device and a dispatcher with some clients' models under a scheduler. Every run takes
/// a new stage, so that no run affects the next. One thread.
class SimStage {
 public:
  using Wrap = std::function<std::unique_ptr<Device>(Device&)>;

  /// Clients of one model share its plan. Fails when a model does not fit the device, naming it.
  static Result<SimStage> Open(const SimDeviceOptions& options, Scheduler scheduler,
                               std::span<const SimStageQueue> queues, const Wrap& wrap = {}) {
    return Open(options, std::move(scheduler), queues, SimStageHooks{.wrap = wrap});
  }
  static Result<SimStage> Open(const SimDeviceOptions& options, Scheduler scheduler,
                               std::span<const SimStageQueue> queues, const SimStageHooks& hooks);

  /// Runs a window of `clients`, in the order of the queues. The window begins after `settle`.
  std::vector<VirtualRun> Run(const std::vector<DisbClient>& clients, const DisbWindow& window,
                              Nanoseconds settle);

  /// Fractions of the units' time since the start: with blocks, and without blocks while work was
  /// held back.
  double UnitsBusy() const { return Fraction(device_->Times().busy); }
  double IdleWhileReady() const { return Fraction(device_->Times().idle_while_ready); }

  SimDevice& device() { return *device_; }
  Dispatcher& dispatcher() { return *dispatcher_; }
  const std::vector<std::optional<QueueId>>& queues() const { return queues_; }

 private:
  SimStage() = default;
  double Fraction(Nanoseconds unit_time) const;

  std::unique_ptr<SimDevice> device_;
  TimePoint start_;
  std::unique_ptr<Device> wrapped_;  // null: the dispatcher uses the device itself
  std::vector<std::unique_ptr<Instance>> instances_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<std::optional<QueueId>> queues_;  // by client
};

/// The time of a request alone on the device, in the mean of some that follow each other. All
/// kernels of a request are submitted at once.
Result<Nanoseconds> SimStandalone(const SimDeviceOptions& options, const SimModel& model);

}  // namespace lagoon::bench
