#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/status.h"
#include "device/device.h"
#include "plan/instance.h"

namespace lagoon {

struct RestoreOptions {
  /// For each op the first op of its idempotent group (FindIdempotentGroups); no entry may be
  /// kNoGroup.
  std::span<const std::uint32_t> groups;
  /// A guard of the device that no other code raises.
  GuardId guard{};
  /// Called before every launch. Returns the time from the launch's submission to its revocation;
  /// nothing: no revocation.
  std::function<std::optional<Nanoseconds>()> revoke_after;
};

struct RestoreStats {
  std::size_t revocations = 0;     // launches that left their kernel incomplete
  std::size_t reexecuted = 0;      // kernels that ran again, the interrupted ones included
  std::size_t max_reexecuted = 0;  // most kernels that ran again for one revocation
};

/// RunOnce as in an engine without claims (REEF 4.4). Kernels run one after another. After a
/// revocation the results of the interrupted kernel are forgotten, and its idempotent group runs
/// again from its first kernel. Errors as RunOnce.
Status RunWithRestore(Instance& instance, Device& device, std::span<const void* const> inputs,
                      std::span<void* const> outputs, const RestoreOptions& options,
                      RestoreStats& stats);

}  // namespace lagoon
