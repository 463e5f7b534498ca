#include "program/link/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace lagoon {
namespace {

/// True if no op uses `first` any more when `second` is written.
bool DiesBefore(const BufferUse& first, const BufferUse& second, const Ordering& ordering) {
  return std::all_of(first.ops.begin(), first.ops.end(),
                     [&](std::uint32_t op) { return ordering.Precedes(op, second.producer); });
}

bool MayShare(const BufferUse& a, const BufferUse& b, const Ordering& ordering) {
  if (a.pinned || b.pinned) return false;
  return DiesBefore(a, b, ordering) || DiesBefore(b, a, ordering);
}

struct Interval {
  std::size_t begin, end;
};

/// The start of the smallest gap between `taken` that holds `bytes`, or the end of the last
/// interval.
std::size_t BestFit(std::vector<Interval> taken, std::size_t bytes) {
  std::sort(taken.begin(), taken.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::size_t best = 0;
  std::size_t best_gap = std::numeric_limits<std::size_t>::max();
  std::size_t end = 0;
  for (const Interval& interval : taken) {
    if (interval.begin > end) {
      const std::size_t gap = interval.begin - end;
      if (gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
    }
    end = std::max(end, interval.end);
  }
  return best_gap == std::numeric_limits<std::size_t>::max() ? end : best;
}

}  // namespace

MemoryPlan PlanMemory(std::span<const BufferUse> buffers, const Ordering& ordering) {
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });

  MemoryPlan plan;
  plan.offsets.resize(buffers.size());
  std::vector<std::size_t> placed;
  for (const std::size_t i : by_size) {
    const std::size_t bytes = AlignBuffer(buffers[i].bytes);
    std::vector<Interval> taken;
    for (const std::size_t other : placed) {
      if (MayShare(buffers[i], buffers[other], ordering)) continue;
      const std::size_t begin = plan.offsets[other];
      taken.push_back({begin, begin + AlignBuffer(buffers[other].bytes)});
    }
    plan.offsets[i] = BestFit(std::move(taken), bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    placed.push_back(i);
  }
  return plan;
}

}  // namespace lagoon
