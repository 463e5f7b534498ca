#include "plan/plan.h"

#include <algorithm>

#include "base/check.h"

namespace lagoon {

void FreeUnboundData(Plan& plan) {
  for (PlanOp& op : plan.ops) {
    op.args = std::vector<std::byte>();
    op.deps = std::vector<std::uint32_t>();
    if (op.versions.empty()) op.relocations = std::vector<Relocation>();
    op.reads = std::vector<ByteRange>();
    op.writes = std::vector<ByteRange>();
    op.name.shrink_to_fit();
    op.relocations.shrink_to_fit();
  }
  plan.buffers = std::vector<PlanBuffer>();
}

const std::byte* LoadedPlan::Weight(std::size_t offset) const {
  const auto after = std::ranges::upper_bound(weights, offset, {},
                                              [](const auto& chunk) { return chunk->offset; });
  LAGOON_CHECK(after != weights.begin());
  const WeightChunk& chunk = **std::prev(after);
  LAGOON_CHECK(offset - chunk.offset <= chunk.memory.size());
  return chunk.memory.data() + (offset - chunk.offset);
}

}  // namespace lagoon
