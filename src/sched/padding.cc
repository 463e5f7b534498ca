#include "sched/padding.h"

#include <algorithm>

namespace lagoon {

std::optional<PaddingRoom> RoomBeside(const Job& job, std::uint32_t units) {
  const std::vector<PlanOp>& ops = job.instance->plan().ops;
  const std::size_t end = std::min(ops.size(), job.first_incomplete + kPaddingKernels);
  PaddingRoom room;
  std::uint32_t widest = 0;
  std::uint32_t width = 0;  // of the kernels that may run at the same time as the one at hand
  for (std::size_t i = job.first_incomplete; i < end; ++i) {
    const bool follows =
        std::find(ops[i].deps.begin(), ops[i].deps.end(), i - 1) != ops[i].deps.end();
    width = ops[i].blocks + (follows ? 0 : width);
    if (width >= units) break;
    widest = std::max(widest, width);
    room.time += job.queue->costs[job.size].kernel(i);
    room.until = &job.instance->progress(i);
  }
  if (room.until == nullptr) return std::nullopt;
  room.units = units - widest;
  return room;
}

}  // namespace lagoon
