#pragma once

#include <string>

#include "base/status.h"
#include "device/device.h"
#include "kernels/cpu_level.h"
#include "plan/plan.h"

namespace lagoon {

/// Where profiles are kept: one JSON file per model and device.
struct ProfileStore {
  std::string folder;  // created if missing; empty: profiles are not saved or loaded
  std::string build;   // version of Lagoon, because other bodies take other times
  /// If true, profiles are saved as provisional, because other work took time from the measurement,
  /// and provisional ones are loaded too. If false, provisional profiles do not count.
  bool provisional = false;
};

/// $XDG_CACHE_HOME/lagoon/profiles, or ~/.cache/lagoon/profiles; empty if neither is known.
std::string DefaultProfileFolder();

/// Name of the profile's file, made from all that the plan's times depend on:
/// "avx2-0123456789abcdef" is the level of the bodies, then 16 hexadecimal digits for the kernels,
/// their shapes and versions, the device and the build. Independent of the weights' values. Call on
/// a plan as CompileModel returns it, before its versions are pruned.
std::string ProfileKey(const Plan& plan, const DeviceInfo& device, const std::string& build,
                       CpuLevel level = ActiveCpuLevel());

/// Writes the costs, versions and parts of a profiled plan. `tuned`: its versions are measured
/// (ProfileVersions). Replaces an older file atomically, so that a reader never sees half a file.
Status SaveProfile(const ProfileStore& store, const std::string& key, const Plan& plan, bool tuned);

enum class ProfileFound : std::uint8_t { kNone, kPlain, kTuned };

/// Applies the saved profile to a plan as CompileModel returns it: the costs, the versions that
/// were kept, the version in use, and the ends of the parts (none, if it has none). kNone if there
/// is no profile for this key. A file that is unreadable or does not fit is logged and also gives
/// kNone.
ProfileFound LoadProfile(const ProfileStore& store, const std::string& key, Plan& plan);

}  // namespace lagoon
