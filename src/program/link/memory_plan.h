#pragma once

// The places of a plan's buffers in its arena.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/link/ordering.h"

namespace lagoon {

/// Every buffer starts at a multiple of this: a cache line, which is also the widest vector.
inline constexpr std::size_t kBufferAlignment = 64;

constexpr std::size_t AlignBuffer(std::size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// A buffer to be placed, and the ops that use it.
struct BufferUse {
  std::size_t bytes = 0;
  std::uint32_t producer = 0;      // the op that writes it, unless `pinned`
  std::vector<std::uint32_t> ops;  // the producer and all readers
  bool pinned = false;             // valid during the whole job: no other buffer shares its bytes
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // offset of each buffer, in the given order
  std::size_t bytes = 0;             // bytes of the arena
};

/// Places the largest buffers first, each in the tightest gap that fits. Two buffers share bytes
/// only if `ordering` puts every op that uses the first buffer before the op that writes the
/// second. So sharing needs no dependencies beyond those of the data, and branches can still
/// overlap in time.
MemoryPlan PlanMemory(std::span<const BufferUse> buffers, const Ordering& ordering);

}  // namespace lagoon
