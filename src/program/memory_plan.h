#pragma once

// Where the buffers of a plan lie in its arena.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/ordering.h"

namespace lagoon {

/// Every buffer starts at a multiple of this: a cache line, and the widest vector.
inline constexpr std::size_t kBufferAlignment = 64;

constexpr std::size_t AlignBuffer(std::size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// A buffer to be placed. `ops` write or read it.
struct BufferUse {
  std::size_t bytes = 0;
  std::uint32_t producer = 0;      // the op that writes it, unless `pinned`
  std::vector<std::uint32_t> ops;  // the producer and all readers
  bool pinned = false;             // valid during the whole job: shares its bytes with nobody
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // of each buffer, in the order given
  std::size_t bytes = 0;             // of the arena
};

/// Places the largest buffers first, each in the tightest gap that fits. Two buffers share bytes
/// only if `ordering` puts every op that uses the one before the op that writes the other: reuse
/// needs no dependencies beyond those of the data and never keeps branches from overlapping in
/// time.
MemoryPlan PlanMemory(std::span<const BufferUse> buffers, const Ordering& ordering);

}  // namespace lagoon
