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
  /// For each op the first op of its idempotent group (FindIdempotentGroups); none is kNoGroup.
  std::span<const std::uint32_t> groups;
  /// One of the device's guards, which nobody else raises.
  GuardId guard{};
  /// Asked before every launch: when to revoke it, counted from its submission. Nothing: never.
  std::function<std::optional<Nanoseconds>()> revoke_after;
};

struct RestoreStats {
  std::size_t revocations = 0;     // launches that left their kernel incomplete
  std::size_t reexecuted = 0;      // kernels that ran again for it, the interrupted one included
  std::size_t max_reexecuted = 0;  // for one revocation
};

/// RunOnce as an engine without claims does it (REEF 4.4): kernels run one after another; what a
/// revoked kernel has already written is forgotten, and its idempotent group runs again from its
/// first kernel. Errors as RunOnce.
Status RunWithRestore(Instance& instance, Device& device, std::span<const void* const> inputs,
                      std::span<void* const> outputs, const RestoreOptions& options,
                      RestoreStats& stats);

}  // namespace lagoon
