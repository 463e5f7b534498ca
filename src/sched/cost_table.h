#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lagoon {

/// Expected times of the kernels of one plan: those of the profile, refined by observation
/// (Paella 6). Not thread-safe, but for total(); allocates only in the constructor.
class CostTable {
 public:
  explicit CostTable(const Plan& plan);

  /// Mean time of a kernel, from its first block to its last commit.
  Nanoseconds kernel(std::size_t op) const { return kernels_[op].time; }
  /// Time of one of its blocks. 0: not known.
  Nanoseconds block(std::size_t op) const {
    const Kernel& kernel = kernels_[op];
    return kernel.time / std::max<std::int64_t>(1, kernel.Rounds(std::max(units_, 1u)));
  }
  /// Sum over all kernels. Any thread.
  Nanoseconds total() const { return total_.load(std::memory_order_relaxed); }

  /// The kernels run on `units` of the device's `all` units from now on. Scales their times by the
  /// number of rounds in which so many units run all blocks. Until the first call they run on all.
  void UseUnits(std::uint32_t units, std::uint32_t all);

  /// `took`: time of one run from its first block to its last commit, without a revocation in
  /// between. The mean follows slowly, so that one disturbed run does not reorder jobs.
  void Observe(std::size_t op, Nanoseconds took);

  /// Memory that the table has allocated.
  std::size_t bytes() const { return kernels_.capacity() * sizeof(Kernel); }

 private:
  struct Kernel {
    Nanoseconds time{0};
    std::uint32_t blocks = 0, occupancy = 1;

    std::int64_t Rounds(std::uint32_t units) const {
      const std::uint64_t at_once = std::uint64_t{units} * occupancy;
      return static_cast<std::int64_t>((blocks + at_once - 1) / at_once);
    }
  };

  std::vector<Kernel> kernels_;                     // by op
  std::atomic<Nanoseconds> total_{Nanoseconds(0)};  // changed by one thread at a time
  std::uint32_t units_ = 0;                         // that the times are for; 0: all
};

}  // namespace lagoon
