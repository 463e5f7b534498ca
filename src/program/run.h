#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "device/device.h"
#include "plan/instance.h"

namespace lagoon {

/// When an op's first block started and when its last block was committed.
struct OpTimes {
  TimePoint placed;
  TimePoint complete;
};

struct RunOptions {
  /// Limit for operations in flight. 1 runs every op alone on the device.
  std::size_t max_in_flight = std::numeric_limits<std::size_t>::max();
  /// Empty, or one entry per op of the plan, which the run fills.
  std::span<OpTimes> times;
  /// Empty, or ends of parts as in Plan::part_ends: no op of a part starts before all ops of the
  /// part before are complete, and the host has learned it.
  std::span<const std::uint32_t> part_ends;
  /// Called when the run begins and after each revocation. Returns the time from the call to the
  /// next revocation of all launches of ops. Nothing, or no function: no revocation.
  std::function<std::optional<Nanoseconds>()> revoke_after;
  /// A guard of the device that no other code raises. Only with `revoke_after`.
  GuardId guard{};
  /// A share of the device, which bounds where the ops run. Copies have none.
  ShareId share = kAllUnits;
  /// Counts the launches that were revoked before their op was complete. May be null.
  std::size_t* revoked = nullptr;
  /// Gets Instance::TakeMade(). May be null.
  std::vector<std::shared_ptr<const MadeTensor>>* made = nullptr;
};

/// RunOnce with options.
Status RunPlan(Instance& instance, Device& device, std::span<const void* const> inputs,
               std::span<void* const> outputs, const RunOptions& options);

}  // namespace lagoon
