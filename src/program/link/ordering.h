#pragma once

// The partial order that dependencies define on the ops of a plan.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lagoon {

/// Answers "is op `before` always complete when op `after` starts?". Memory is quadratic, in bits:
/// 4096 ops take 2 MiB. Immutable.
class Ordering {
 public:
  /// `deps[i]`: the ops that op i waits for, each below i.
  explicit Ordering(std::span<const std::vector<std::uint32_t>> deps);

  bool Precedes(std::uint32_t before, std::uint32_t after) const {
    return (ancestors_[after][before / 64] >> (before % 64) & 1) != 0;
  }
  /// True if the two ops may run at the same time.
  bool Unordered(std::uint32_t a, std::uint32_t b) const {
    return a != b && !Precedes(a, b) && !Precedes(b, a);
  }
  std::size_t size() const { return ancestors_.size(); }

 private:
  std::vector<std::vector<std::uint64_t>> ancestors_;  // per op: its ancestors, as bits
};

/// The fewest dependencies that give the same order, ascending.
std::vector<std::vector<std::uint32_t>> ReduceDeps(
    std::span<const std::vector<std::uint32_t>> deps);

}  // namespace lagoon
