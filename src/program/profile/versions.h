#pragma once

// Multi-version kernels (REEF 5.3): every heavy op can be cut into blocks in many ways. All
// versions are measured. A version that another one beats in every respect is dropped, and the
// fastest version is used. The remaining ones are for a scheduler that prefers other blocks beside
// a real-time kernel.

#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"

namespace lagoon {

struct VersionOptions {
  int runs = 7;  // runs of each version; costs are medians
  /// A version with longer blocks is not put into use if there is one with shorter blocks. Below
  /// the limit of 100 us, because blocks take longer when caches are cold.
  Nanoseconds max_block = std::chrono::microseconds(70);
  std::size_t keep = 10;  // most versions of one op
  /// Called after every step with the number of finished steps and of all steps. May be empty.
  std::function<void(int done, int of)> progress;
  /// Called for every op with its measured versions, before pruning. May be empty.
  std::function<void(const PlanOp& op)> measured;
};

/// Measures every version of every op in its place, between its neighbours: the whole plan runs
/// `runs` times with the first version of each op, then with the second, and so on. Then puts the
/// fastest version of each op into use and prunes the others (PruneVersions); the plan's costs
/// become those of ProfilePlan. The device must be idle, and
/// no instance of the plan may exist. Errors as ProfilePlan.
Status ProfileVersions(LoadedPlan& loaded, Device& device, const VersionOptions& options);

/// Puts version `index` of `op` into use, with the cost of that version. Only while no instance of
/// the plan exists.
void UseVersion(PlanOp& op, std::uint32_t index);

/// The numbers by which versions are compared (REEF 5.3). REEF compares registers and shared memory
/// of a GPU; here these are occupancy and scratch. A block always has one CPU thread.
struct VersionTraits {
  Nanoseconds kernel{0};
  Nanoseconds block{0};
  double occupancy = 0;  // mean share of the compute units that are busy while the kernel runs
  std::size_t scratch_bytes = 0;
  std::uint32_t threads = 1;  // threads per block
  std::uint32_t blocks = 0;
};
VersionTraits TraitsOf(const OpVersion& version, std::uint32_t units);

/// True if `a` is at least as good as `b` in all six numbers, and better in one. Smaller is better.
bool Dominates(const VersionTraits& a, const VersionTraits& b);

/// Drops dominated versions. While more than `keep` are left, drops the version whose block time is
/// nearest to that of a faster one. The version in use stays. Costs must be measured.
void PruneVersions(PlanOp& op, std::uint32_t units, std::size_t keep);

/// Drops the versions without a measured cost, except those in use: no scheduler uses them, and
/// they are most of the memory of a plan. Only while no instance of the plan exists, and after
/// ProfileKey(), LoadProfile() and SaveProfile(), which need all versions.
void DropUnmeasuredVersions(Plan& plan);

}  // namespace lagoon
