#pragma once

#include <string>

#include "base/status.h"
#include "device/device.h"
#include "kernels/cpu_level.h"
#include "plan/plan.h"

namespace lagoon {

/// Where profiles are kept: a JSON file for every model on every device.
struct ProfileStore {
  std::string folder;  // made when it is missing; empty: nothing is kept or found
  std::string build;   // of Lagoon: other bodies have other times
};

/// $XDG_CACHE_HOME/lagoon/profiles, or ~/.cache/lagoon/profiles; empty when neither is known.
std::string DefaultProfileFolder();

/// Names the file: what a plan's times depend on, as "avx2-0123456789abcdef": the level of the
/// bodies, then 16 hexadecimal digits of the kernels, their shapes and versions, the device and the
/// build. Not the weights' values. To be made of a plan as CompileModel gave it, before its
/// versions are pruned.
std::string ProfileKey(const Plan& plan, const DeviceInfo& device, const std::string& build,
                       CpuLevel level = ActiveCpuLevel());

/// Writes the costs and versions of a profiled plan. `tuned`: its versions are measured
/// (ProfileVersions). Replaces an older file at once, so that a reader never sees half of one.
Status SaveProfile(const ProfileStore& store, const std::string& key, const Plan& plan, bool tuned);

enum class ProfileFound : std::uint8_t { kNone, kPlain, kTuned };

/// Applies the profile of a plan as CompileModel gave it: costs, the versions that were kept, the
/// one in use. kNone when there is none for this key; a file that is unreadable or does not fit is
/// reported in the log and counts as none.
ProfileFound LoadProfile(const ProfileStore& store, const std::string& key, Plan& plan);

}  // namespace lagoon
