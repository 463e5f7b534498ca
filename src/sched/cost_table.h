#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lagoon {

/// Expected times of the kernels of one plan: those of the profile, refined by observation
/// (Paella 6). Not thread-safe; allocates only in the constructor.
class CostTable {
 public:
  explicit CostTable(const Plan& plan);

  /// Mean time of a kernel, from its first block to its last commit.
  Nanoseconds kernel(std::size_t op) const { return kernels_[op]; }
  /// Sum over all kernels.
  Nanoseconds total() const { return total_; }

  /// `took`: time of one run from its first block to its last commit, without a revocation in
  /// between. The mean follows slowly, so that one disturbed run does not reorder jobs.
  void Observe(std::size_t op, Nanoseconds took);

 private:
  std::vector<Nanoseconds> kernels_;  // by op
  Nanoseconds total_{0};
};

}  // namespace lagoon
