#pragma once

// Multi-version kernels (REEF 5.3): every heavy op can be cut into blocks in many ways. They are
// measured, the ones that another beats in every respect are dropped, and the fastest one is used;
// the others are for a scheduler that wants other blocks beside a real-time kernel.

#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"

namespace lagoon {

struct VersionOptions {
  int runs = 7;  // of each version; medians are kept
  /// A version with longer blocks is not put into use where there is one with shorter blocks. Below
  /// the bound of 100 us, because they take longer when caches are cold.
  Nanoseconds max_block = std::chrono::microseconds(70);
  std::size_t keep = 10;  // versions of one op at most
  /// Called after every step with the steps done and their number. May be empty.
  std::function<void(int done, int of)> progress;
  /// Called for every op with its measured versions, before they are pruned. May be empty.
  std::function<void(const PlanOp& op)> measured;
};

/// Measures every version of every op where it will run, between its neighbours: the whole plan
/// runs `runs` times with each op's first version, then with the second, and so on. Then prunes
/// (PruneVersions) and puts the fastest version of each op into use; the plan's costs are those of
/// ProfilePlan. For the plan `size` of `loaded` only. The device must be idle, and no instance of
/// the plan may exist. Errors as ProfilePlan.
Status ProfileVersions(LoadedPlan& loaded, Device& device, const VersionOptions& options,
                       std::size_t size = 0);

/// Puts version `index` of `op` into use, with its cost. Only while no instance of the plan exists.
void UseVersion(PlanOp& op, std::uint32_t index);

/// What counts when versions are compared (REEF 5.3; registers and shared memory of a GPU are
/// occupancy and scratch here, a block always has one thread of a CPU).
struct VersionTraits {
  Nanoseconds kernel{0};
  Nanoseconds block{0};
  double occupancy = 0;  // mean share of the units that it keeps busy while it runs
  std::size_t scratch_bytes = 0;
  std::uint32_t threads = 1;  // of a block
  std::uint32_t blocks = 0;
};
VersionTraits TraitsOf(const OpVersion& version, std::uint32_t units);

/// Whether `a` is at least as good as `b` in all six respects, and better in one.
bool Dominates(const VersionTraits& a, const VersionTraits& b);

/// Drops the versions that another one dominates, and from more than `keep` those whose block time
/// is nearest to that of a faster one. The version in use stays. Needs measured costs.
void PruneVersions(PlanOp& op, std::uint32_t units, std::size_t keep);

}  // namespace lagoon
