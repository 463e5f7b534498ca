#include "sched/padding.h"

#include <algorithm>

namespace lagoon {
namespace {

// Time before the first block runs in a room: for an event, a step and a launch.
constexpr Nanoseconds kRelaunch = std::chrono::microseconds(10);

// Unit time (ns times units) that best-effort work gets from a room.
std::int64_t Use(const PaddingRoom& room) {
  return std::max<std::int64_t>(0, (room.time - kRelaunch).count()) * room.units;
}

PaddingRoom Join(const PaddingRoom& a, const PaddingRoom& b) {
  return {.units = std::min(a.units, b.units),
          .time = a.time + b.time,
          .occupancy = std::max(a.occupancy, b.occupancy),
          .until = b.until};
}

bool Follows(const PlanOp& op, std::size_t other) {
  return std::find(op.deps.begin(), op.deps.end(), other) != op.deps.end();
}

// The room beside kernel `i` and the next kernels of which none depends on the one before: they may
// run at the same time, so that their needs add up. `i` moves behind them. Zero units: they need
// all units.
PaddingRoom RoomBesideGroup(const Job& job, std::uint32_t units, std::size_t& i) {
  const std::vector<PlanOp>& ops = job.instance->plan().ops;
  PaddingRoom room;
  std::uint32_t width = 0;
  do {
    const Progress& progress = job.instance->progress(i);
    width += progress.blocks();
    room.time += job.costs->kernel(i);
    room.occupancy = std::max(room.occupancy, ops[i].occupancy);
    room.until = &progress;
    ++i;
  } while (width < units && i < ops.size() && !Follows(ops[i], i - 1));
  room.units = units - std::min(width, units);
  return room;
}

}  // namespace

std::optional<PaddingRoom> RoomBeside(const Job& job, std::uint32_t units, std::uint32_t kernels) {
  const std::size_t end = std::min(job.instance->plan().ops.size(), job.first_incomplete + kernels);
  std::optional<PaddingRoom> room;
  for (std::size_t i = job.first_incomplete; i < end;) {
    const PaddingRoom next = RoomBesideGroup(job, units, i);
    if (next.units == 0) break;
    const PaddingRoom joined = room ? Join(*room, next) : next;
    if (room && Use(joined) < Use(*room) + Use(next)) break;
    room = joined;
  }
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
