#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lagoon {

/// What the kernels of one queue's plan cost: the profile's figures, refined by what is observed
/// (Paella 6). Not thread-safe; allocates only when made.
class CostTable {
 public:
  explicit CostTable(const Plan& plan);

  /// Mean time of a kernel, from its first block to its last commit.
  Nanoseconds kernel(std::size_t op) const { return kernels_[op]; }
  /// Sum over all kernels.
  Nanoseconds total() const { return total_; }

  /// A kernel ran from its first block to its last commit, not revoked in between, in `took`. The
  /// mean follows slowly, so that one disturbed run does not reorder jobs.
  void Observe(std::size_t op, Nanoseconds took);

 private:
  std::vector<Nanoseconds> kernels_;  // by op
  Nanoseconds total_{0};
};

}  // namespace lagoon
