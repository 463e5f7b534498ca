#pragma once

// How bodies that write their output as they go cut their work into blocks. Such a block checks its
// guards only once, before it writes, so the whole block must stay below the 20 us of the block
// protocol.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lagoon {

/// Planned time of a block. Half the limit of 20 us, because costs are measured with operands in
/// the second- and third-level cache, and a block may find its operands in memory.
inline constexpr double kBlockNs = 10'000;

/// Work up to this time is one block: claims by a second unit would cost more than they save.
inline constexpr double kSingleBlockNs = 12'000;

struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// Share `index` of `parts` of the range [0, total), in order; sizes differ by at most one. Needs
/// total <= 2^31, parts <= 2^32.
constexpr Range Share(std::size_t total, std::size_t parts, std::size_t index) {
  return {total * index / parts, total * (index + 1) / parts};
}

constexpr std::size_t CeilDivide(std::size_t value, std::size_t by) {
  return (value + by - 1) / by;
}

/// Time to read or write all operands of an op once; `bytes`: their total size. Measured on a Xeon
/// at 2 GHz, one thread, other load on the host, by adding two tensors: 0.013, 0.024 and 0.044 ns
/// per byte if they fit the second-level cache, nearly fit it, and do not. The first figure is
/// rounded up for operands that a model has left in other caches.
inline double MoveNs(double bytes) {
  constexpr double kMegabyte = 1 << 20;
  if (bytes <= kMegabyte) return 0.025 * bytes;
  return (bytes <= 4 * kMegabyte ? 0.035 : 0.06) * bytes;
}

/// Number of blocks, at least 1, for `tasks` equal and indivisible pieces of work that take
/// `total_ns` together. No block is planned above kSingleBlockNs unless it is a single task. A
/// small number of blocks is made even, so that two units finish together.
inline std::uint32_t BlocksFor(double total_ns, std::size_t tasks) {
  if (total_ns <= kSingleBlockNs || tasks <= 1) return 1;
  const double tasks_per_block = kBlockNs * static_cast<double>(tasks) / total_ns;
  const auto whole_tasks = static_cast<std::size_t>(std::max(1.0, tasks_per_block));
  std::size_t blocks = CeilDivide(tasks, whole_tasks);
  if (blocks < 16) blocks += blocks % 2;
  return static_cast<std::uint32_t>(std::min(blocks, tasks));
}

}  // namespace lagoon
