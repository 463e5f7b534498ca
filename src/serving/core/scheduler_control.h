#pragma once

// A core's device and its scheduler.

#include <functional>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "policies/registry.h"
#include "sched/dispatcher.h"
#include "serving/core/inference.h"
#include "serving/core/tenant_statistics.h"

namespace lagoon {

/// Any thread may call any method.
class SchedulerControl {
 public:
  virtual ~SchedulerControl() = default;

  virtual DispatcherStats SchedulerStatistics() const = 0;
  virtual SchedulerConfig scheduler() const = 0;
  /// The tenants that have or had requests lately; none without CoreOptions::tenants.
  virtual std::vector<TenantStatistics> Tenants() const { return {}; }
  /// Changes to this scheduler (MakeScheduler()). Requests in flight finish under the old
  /// scheduler; later ones wait for them. `done` is called once, on any thread. For its errors see
  /// Dispatcher::Switch; kUnavailable also while the device is lost.
  virtual void SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) = 0;
  virtual DeviceInfo device() const = 0;
};

/// All 0 if the core has no scheduler.
inline DispatcherStats SchedulerStatisticsOf(Inference& core) {
  const SchedulerControl* const schedulers = core.schedulers();
  return schedulers == nullptr ? DispatcherStats() : schedulers->SchedulerStatistics();
}

}  // namespace lagoon
