#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>

#include "base/status.h"
#include "base/time.h"
#include "device/device.h"
#include "plan/instance.h"

namespace lagoon {

/// When an op's first block ran and when its last one was committed.
struct OpTimes {
  TimePoint placed;
  TimePoint complete;
};

struct RunOptions {
  /// 1 runs every op alone on the device.
  std::size_t max_in_flight = std::numeric_limits<std::size_t>::max();
  /// Empty, or one for each op of the plan, to be filled.
  std::span<OpTimes> times;
  /// Asked when the run begins and after each revocation: when to revoke all launches of ops next,
  /// counted from then. Nothing, or no function: never.
  std::function<std::optional<Nanoseconds>()> revoke_after;
  /// One of the device's, which nobody else raises. Only with `revoke_after`.
  GuardId guard{};
  /// Counts the launches that were revoked before their op was complete. May be null.
  std::size_t* revoked = nullptr;
};

/// RunOnce with options.
Status RunPlan(Instance& instance, Device& device, std::span<const void* const> inputs,
               std::span<void* const> outputs, const RunOptions& options);

}  // namespace lagoon
