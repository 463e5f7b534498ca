#include "sched/padding.h"

#include <algorithm>

namespace lagoon {

std::optional<PaddingRoom> RoomBeside(const Job& job, std::uint32_t units, std::uint32_t kernels) {
  const std::vector<PlanOp>& ops = job.instance->plan().ops;
  const std::size_t end = std::min(ops.size(), job.first_incomplete + kernels);
  PaddingRoom room;
  std::uint32_t widest = 0;
  std::uint32_t width = 0;  // of the kernels that may run at the same time as the one at hand
  for (std::size_t i = job.first_incomplete; i < end; ++i) {
    const bool follows =
        std::find(ops[i].deps.begin(), ops[i].deps.end(), i - 1) != ops[i].deps.end();
    const Progress& progress = job.instance->progress(i);
    width = progress.blocks() + (follows ? 0 : width);
    if (width >= units) break;
    widest = std::max(widest, width);
    room.occupancy = std::max(room.occupancy, ops[i].occupancy);
    room.time += job.queue->costs[job.size].kernel(i);
    room.until = &progress;
  }
  if (room.until == nullptr) return std::nullopt;
  room.units = units - widest;
  return room;
}

std::optional<std::uint32_t> VersionBeside(const PlanOp& op, std::optional<std::uint32_t> started,
                                           const PaddingRoom& room) {
  if (op.occupancy < room.occupancy) return std::nullopt;
  if (op.versions.empty()) return op.cost.block < room.time ? std::optional(0) : std::nullopt;
  std::optional<std::uint32_t> best;
  Nanoseconds soonest{0};
  for (std::uint32_t i = 0; i < op.versions.size(); ++i) {
    const OpVersion& version = op.versions[i];
    const Nanoseconds block = i == op.version ? op.cost.block : version.cost.block;
    const bool measured = i == op.version || block > Nanoseconds(0);
    if (started.value_or(i) != i || !measured || block >= room.time) continue;
    const Nanoseconds all = block * ((version.blocks + room.units - 1) / room.units);
    if (best && all >= soonest) continue;
    best = i;
    soonest = all;
  }
  return best;
}

}  // namespace lagoon
