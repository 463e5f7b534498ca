#pragma once

// How the bodies that write as they go cut their work into blocks. Such a block checks its guards
// once, before it writes, so all of it must stay under the 20 us of the block protocol.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lagoon {

/// What a block is planned to take. Half the limit of 20 us: the costs are measured with operands
/// in the second- and third-level cache, and a block may find them in memory.
inline constexpr double kBlockNs = 10'000;

/// Work up to this is one block: a second unit would cost more in claims than it saves.
inline constexpr double kSingleBlockNs = 12'000;

struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// Share `index` of `parts` of `total` things in order; sizes differ by at most one.
/// total <= 2^31, parts <= 2^32.
constexpr Range Share(std::size_t total, std::size_t parts, std::size_t index) {
  return {total * index / parts, total * (index + 1) / parts};
}

constexpr std::size_t CeilDivide(std::size_t value, std::size_t by) {
  return (value + by - 1) / by;
}

/// Time to move all operands of an op, `bytes` together, read and written once. Measured on a Xeon
/// at 2 GHz, one thread, neighbours busy, by adding two tensors: 0.013, 0.024 and 0.044 ns per byte
/// where they fit the second-level cache, nearly fit it, and do not; the first rounded up for
/// operands that a model has left elsewhere.
inline double MoveNs(double bytes) {
  constexpr double kMegabyte = 1 << 20;
  if (bytes <= kMegabyte) return 0.025 * bytes;
  return (bytes <= 4 * kMegabyte ? 0.035 : 0.06) * bytes;
}

/// Blocks for `tasks` alike and indivisible pieces of work that take `total_ns` together, at least
/// 1: no block is planned above kSingleBlockNs unless it is a single task. Few blocks are made an
/// even number, so that two units finish together.
inline std::uint32_t BlocksFor(double total_ns, std::size_t tasks) {
  if (total_ns <= kSingleBlockNs || tasks <= 1) return 1;
  const double tasks_per_block = kBlockNs * static_cast<double>(tasks) / total_ns;
  const auto whole_tasks = static_cast<std::size_t>(std::max(1.0, tasks_per_block));
  std::size_t blocks = CeilDivide(tasks, whole_tasks);
  if (blocks < 16) blocks += blocks % 2;
  return static_cast<std::uint32_t>(std::min(blocks, tasks));
}

}  // namespace lagoon
