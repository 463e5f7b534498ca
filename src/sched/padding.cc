#include "sched/padding.h"

#include <algorithm>
#include <span>

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
          .taken = std::max(a.taken, b.taken),
          .time = a.time + b.time,
          .begun = a.begun,
          .occupancy = std::max(a.occupancy, b.occupancy),
          .packed = a.packed,
          .bandwidth_ppm = std::max(a.bandwidth_ppm, b.bandwidth_ppm),
          .until = b.until,
          .last = b.last,
          .records = b.records};
}

// Whether op `index` depends on the one before.
bool Follows(const Instance& instance, std::size_t index) {
  const std::span<const Dep> deps = instance.launch(index).deps;
  return std::ranges::find(deps, &instance.progress(index - 1), &Dep::on) != deps.end();
}

// The room beside kernel `i` and the next kernels of which none depends on the one before: they may
// run at the same time, so that their needs add up. `i` moves behind them. Zero units: they need
// all units.
PaddingRoom RoomBesideGroup(const Job& job, std::uint32_t units, bool packed, std::size_t& i) {
  const std::vector<PlanOp>& ops = job.instance->plan().ops;
  PaddingRoom room{.packed = packed};
  const std::uint32_t own = UnitsOf(*job.queue, units);
  std::uint32_t width = 0;
  do {
    const Progress& progress = job.instance->progress(i);
    const std::uint32_t occupancy = std::max(ops[i].occupancy, 1U);
    width += packed ? (progress.blocks() + occupancy - 1) / occupancy : progress.blocks();
    room.bandwidth_ppm +=
        std::uint64_t{std::min(progress.blocks(), own * occupancy)} * ops[i].cost.bandwidth_ppm;
    room.time += job.costs->kernel(i);
    room.occupancy = std::max(room.occupancy, ops[i].occupancy);
    room.until = &progress;
    room.last = i;
    room.records = &job.instance->records();
    ++i;
  } while (width < own && i < ops.size() && !Follows(*job.instance, i));
  room.taken = std::min(width, own);
  room.units = units - room.taken;
  return room;
}

// The room beside kernel `first` and what follows: RoomBeside().
std::optional<PaddingRoom> RoomFrom(const Job& job, std::size_t first, std::uint32_t units,
                                    const RoomRules& rules) {
  const std::size_t end = std::min(job.instance->plan().ops.size(), first + rules.kernels);
  std::optional<PaddingRoom> room;
  for (std::size_t i = first; i < end;) {
    const PaddingRoom next = RoomBesideGroup(job, units, rules.packed, i);
    if (next.units == 0) break;
    const PaddingRoom joined = room ? Join(*room, next) : next;
    if (room && Use(joined) < Use(*room) + Use(next)) break;
    room = joined;
  }
  return room;
}

// Whether the device has op `last`, and no kernel of the job runs beside it and what is before it.
bool IsLast(const Job& job, std::size_t last) {
  const std::size_t next = last + 1;
  return last < job.next_op &&
         (next == job.instance->plan().ops.size() || Follows(*job.instance, next));
}

// The room that begins when kernel `last` is complete: RoomBehind().
std::optional<PaddingRoom> RoomBehind(const Job& job, std::size_t last, std::uint32_t units,
                                      const RoomRules& rules) {
  if (!IsLast(job, last)) return std::nullopt;
  std::optional<PaddingRoom> room = RoomFrom(job, last + 1, units, rules);
  if (!room) return std::nullopt;
  const Progress& before = job.instance->progress(last);
  room->after = Dep{&before, before.blocks()};
  if (room->after->Met()) room->begun = kRelaunch;
  return room;
}

// The room beside the last blocks of a kernel that needs all units: those that are left when as
// many as possible have run at once, again and again. Zero units: they need all units too.
PaddingRoom TailOf(const Job& job, std::uint32_t units, bool packed) {
  const std::size_t op = job.first_incomplete;
  const PlanOp& kernel = job.instance->plan().ops[op];
  const Progress& progress = job.instance->progress(op);
  const std::uint32_t occupancy = std::max(OccupancyOf(kernel, job.instance->version(op)), 1U);
  const std::uint32_t own = UnitsOf(*job.queue, units);
  const std::uint32_t last = progress.blocks() % (own * occupancy);
  const std::uint32_t width = packed ? (last + occupancy - 1) / occupancy : std::min(last, own);
  if (last == 0 || width == own) return {};
  return {.units = units - width,
          .taken = width,
          .time = kernel.cost.block,
          .occupancy = occupancy,
          .packed = packed,
          .bandwidth_ppm = std::uint64_t{last} * kernel.cost.bandwidth_ppm,
          .until = &progress,
          .last = op,
          .records = &job.instance->records(),
          .after = Dep{&progress, progress.blocks() - last}};
}

// Whether rooms are beside the job.
bool NeedsUnits(const Job& job) {
  return job.job_class == JobClass::kRealTime && job.state == Job::State::kActive &&
         job.first_incomplete < job.instance->plan().ops.size();
}

// The version that the op must keep, or nullopt if another one may be chosen: no block of the op
// has run, and neither the op nor a later op (from before a revocation) has a launch in flight.
// Copies of outputs that depend on the op also have the group's guard and left before the op.
std::optional<std::uint32_t> StartedVersion(const Job& job, std::size_t op) {
  if (!job.started) return std::nullopt;
  bool started = job.instance->progress(op).done() > 0;
  for (std::size_t i = op; !started && i < std::max(op + 1, job.revoked_until); ++i) {
    started = job.instance->in_flight(i) > 0;
  }
  return started ? std::optional(job.instance->version(op)) : std::nullopt;
}

// Whether the job's next kernel fits into the room. The job may not have started yet.
bool FitsBeside(const Job& job, const PaddingRoom& whole) {
  const PaddingRoom room = RoomFor(whole, *job.queue);
  if (room.units == 0) return false;
  if (room.after && job.launches > 0 && job.background) return false;  // of another kind
  const Plan& plan = job.instance != nullptr ? job.instance->plan() : job.plan->plan();
  const std::vector<PlanOp>& ops = plan.ops;
  std::size_t op = job.next_op;
  while (job.started && op < ops.size() && job.instance->progress(op).Complete()) ++op;
  return op == ops.size() || VersionBeside(ops[op], StartedVersion(job, op), room).has_value();
}

// What padding sees of a version.
struct Cut {
  std::uint32_t blocks = 0;
  std::uint32_t occupancy = 0;
  OpCost cost;
};

Cut CutOf(const PlanOp& op, std::uint32_t version) {
  if (op.versions.empty() || version == op.version) {
    return {op.blocks, OccupancyOf(op, version), op.cost};
  }
  return {op.versions[version].blocks, OccupancyOf(op, version), op.versions[version].cost};
}

Nanoseconds AllBlocks(const Cut& cut, const PaddingRoom& room) {
  const std::uint32_t at_once = BlocksAtOnce(room, room.units, cut.occupancy);
  return cut.cost.block * ((cut.blocks + at_once - 1) / at_once);
}

/// What must end before the room does: a block, or all of them if those that are done would run
/// again, or if the kernel cannot leave. Of a kernel of an engine, which cannot leave, the longest
/// run counts.
Nanoseconds TimeInRoom(const PlanOp& op, const Cut& cut, const PaddingRoom& room) {
  if (op.opaque != nullptr) return std::max(cut.cost.block, op.opaque->longest());
  const bool by_blocks = op.restart == Restart::kByClaims || !room.leaves;
  return by_blocks ? cut.cost.block : AllBlocks(cut, room);
}

/// The memory bandwidth that the kernel takes in the room, in millionths of the device's.
std::uint64_t BandwidthInRoom(const Cut& cut, const PaddingRoom& room) {
  const std::uint32_t at_once = std::min(cut.blocks, BlocksAtOnce(room, room.units, cut.occupancy));
  return std::uint64_t{at_once} * cut.cost.bandwidth_ppm;
}

}  // namespace

std::uint32_t UnitsIn(const PaddingRoom& room, const JobQueue& queue) {
  const std::uint32_t share = queue.options.units.count;
  if (share == 0) return room.units;
  return std::min(room.units, share - std::min(share, room.taken));
}

PaddingRoom RoomFor(const PaddingRoom& room, const JobQueue& queue) {
  PaddingRoom own = room;
  own.units = UnitsIn(room, queue);
  return own;
}

std::optional<PaddingRoom> RoomBeside(const Job& job, std::uint32_t units, std::uint32_t kernels,
                                      bool packed) {
  return RoomFrom(job, job.first_incomplete, units, {.kernels = kernels, .packed = packed});
}

std::optional<PaddingRoom> LaterRoomBeside(const Job& job, std::uint32_t units,
                                           const RoomRules& rules, TimePoint now) {
  const std::size_t op = job.first_incomplete;
  PaddingRoom room = rules.tails ? TailOf(job, units, rules.packed) : PaddingRoom{};
  if (room.units == 0) return RoomBehind(job, op, units, rules);
  if (!IsLast(job, op)) return std::nullopt;
  // As RoomOf(): what begins now is late.
  if (room.after->Met()) {
    const Nanoseconds before_tail = job.costs->kernel(op) - room.time;
    const Nanoseconds over =
        job.op_since != TimePoint{} ? now - job.op_since - before_tail : Nanoseconds(0);
    room.begun = kRelaunch + std::max(over, Nanoseconds(0));
  }
  return room;
}

std::optional<std::uint32_t> VersionBeside(const PlanOp& op, std::optional<std::uint32_t> started,
                                           const PaddingRoom& room) {
  const Nanoseconds left = room.time - room.begun;
  const auto versions = static_cast<std::uint32_t>(std::max<std::size_t>(op.versions.size(), 1));
  const std::optional<std::uint32_t> only =
      started || room.versions ? started : std::optional(op.version);
  std::optional<std::uint32_t> best;
  Nanoseconds soonest{0};
  for (std::uint32_t i = only.value_or(0); i < (only ? *only + 1 : versions); ++i) {
    const Cut cut = CutOf(op, i);
    const bool measured = i == op.version || cut.cost.block > Nanoseconds(0);
    if (!measured || cut.occupancy < room.occupancy) continue;
    if (BandwidthInRoom(cut, room) > room.bandwidth_left_ppm) continue;
    if (TimeInRoom(op, cut, room) >= left) continue;
    const Nanoseconds all = AllBlocks(cut, room);
    if (best && all >= soonest) continue;
    best = i;
    soonest = all;
  }
  return best;
}

std::uint32_t BlocksInRoom(const PlanOp& op, std::uint32_t version, const PaddingRoom& room) {
  const Cut cut = CutOf(op, version);
  const std::uint64_t blocks = BlocksWithin(room.time - room.begun, cut.cost.block,
                                            BlocksAtOnce(room, room.units, cut.occupancy));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, cut.blocks));
}

bool ChooseVersion(Job& job, const PaddingRoom* room) {
  const PlanOp& op = job.instance->plan().ops[job.next_op];
  const std::optional<std::uint32_t> started = StartedVersion(job, job.next_op);
  std::optional<std::uint32_t> version = started;
  if (room != nullptr) {
    const PaddingRoom own = RoomFor(*room, *job.queue);
    if (own.units > 0) version = VersionBeside(op, started, own);
    if (own.units == 0 || !version) return false;
  }
  if (!started && !op.versions.empty()) {
    job.instance->UseVersion(job.next_op, version.value_or(op.version));
  }
  return true;
}

// The room beside one of the real-time jobs.
std::optional<PaddingRoom> Padding::RoomOf(const Job& job, const RoomRules& rules) const {
  const std::uint32_t units = device_.info().units;
  std::optional<PaddingRoom> room = RoomFrom(job, job.first_incomplete, units, rules);
  if (!room && (rules.tails || !rules.leaves)) {
    return LaterRoomBeside(job, units, rules, device_.Now());
  }
  if (!room) return std::nullopt;
  // Padding that is submitted before the kernel can start begins with it.
  if (job.op_since != TimePoint{}) room->begun = kRelaunch + (device_.Now() - job.op_since);
  return room;
}

std::optional<PaddingRoom> Padding::FindRoom(const RoomRules& rules) const {
  const std::uint32_t units = device_.info().units;
  std::optional<PaddingRoom> room;
  std::uint32_t taken = 0;  // units that all real-time jobs need
  std::uint64_t bandwidth_ppm = 0;
  for (const Job& job : active_) {
    if (!NeedsUnits(job)) continue;
    const std::optional<PaddingRoom> beside = RoomOf(job, rules);
    // A room that begins later is one beside one job only.
    if (!beside || (room && (room->after || beside->after))) return std::nullopt;
    taken += units - beside->units;
    bandwidth_ppm += beside->bandwidth_ppm;
    const std::uint32_t occupancy = std::max(beside->occupancy, room ? room->occupancy : 0);
    if (!room || beside->time - beside->begun < room->time - room->begun) room = beside;
    room->occupancy = occupancy;
  }
  return room ? Ruled(*room, rules, taken, bandwidth_ppm) : std::nullopt;
}

std::optional<PaddingRoom> Padding::RoomAfter(const PaddingRoom& room,
                                              const RoomRules& rules) const {
  const auto first = std::ranges::find_if(active_, NeedsUnits);
  if (first == active_.end() || room.after) return std::nullopt;
  if (std::find_if(std::next(first), active_.end(), NeedsUnits) != active_.end()) {
    return std::nullopt;
  }
  const std::uint32_t units = device_.info().units;
  const std::optional<PaddingRoom> after = RoomBehind(*first, room.last, units, rules);
  if (!after) return std::nullopt;
  return Ruled(*after, rules, units - after->units, after->bandwidth_ppm);
}

std::optional<PaddingRoom> Padding::Ruled(PaddingRoom room, const RoomRules& rules,
                                          std::uint32_t taken, std::uint64_t bandwidth_ppm) const {
  const std::uint32_t units = device_.info().units;
  if (taken >= units) return std::nullopt;
  room.units = units - taken;
  room.versions = rules.versions;
  room.leaves = rules.leaves;
  room.taken = taken;
  room.bandwidth_ppm = bandwidth_ppm;
  if (rules.bandwidth > 0) {
    const auto most = static_cast<std::uint64_t>(rules.bandwidth * 1e6);
    room.bandwidth_left_ppm = most - std::min(most, bandwidth_ppm);
  }
  return room;
}

bool Padding::Fits(const Job& job, const PaddingRoom& room) {
  ++candidates_;
  if (!room.leaves && Has(job)) return false;
  return FitsBeside(job, room);
}

Job* Padding::Pick(const PaddingRoom& room, Policy& policy, std::uint32_t most) {
  const ReadyView view(ready_, {.real_time = false, .best_effort = true, .start_new = true});
  const Decision decision = policy.Pick({device_.Now(), view});
  if (!decision.job) return nullptr;
  Job& first = *jobs_.find(*decision.job);
  if (Fits(first, room)) return &first;
  std::uint32_t tries = 0;
  for (const bool started : {true, false}) {
    for (const ScheduledJob& scheduled : ready_.jobs(JobClass::kBestEffort, started)) {
      if (++tries > most) return nullptr;
      Job& job = *jobs_.find(scheduled.id);
      if (Fits(job, room)) return &job;
    }
  }
  return nullptr;
}

std::uint32_t Padding::UnitsFor(const Job& job, const PaddingRoom& room, std::uint32_t free) const {
  const Inside* const inside = Find(job);
  if (inside != nullptr && inside->until == room.until) return inside->units;
  const Plan& plan = job.instance != nullptr ? job.instance->plan() : job.plan->plan();
  if (job.next_op >= plan.ops.size()) return std::min(free, 1U);
  const PlanOp& op = plan.ops[job.next_op];
  PaddingRoom all = room;
  all.units = free;
  const auto started = job.instance != nullptr ? StartedVersion(job, job.next_op) : std::nullopt;
  const Cut cut = CutOf(op, VersionBeside(op, started, all).value_or(op.version));
  const std::uint32_t on_a_unit = BlocksAtOnce(room, 1, cut.occupancy);
  return std::min(free, std::max((cut.blocks + on_a_unit - 1) / on_a_unit, 1U));
}

PaddingRoom Padding::PartOf(const PaddingRoom& room, std::uint32_t units, const Job* job) const {
  PaddingRoom part = room;
  part.units = units;
  if (room.bandwidth_left_ppm == kNoBandwidthLimit) return part;
  for (const Inside& inside : jobs_inside_) {
    if (inside.until != room.until || inside.job == job) continue;
    part.bandwidth_left_ppm -= std::min(part.bandwidth_left_ppm, inside.bandwidth_ppm);
  }
  return part;
}

const Padding::Inside* Padding::Find(const Job& job) const {
  const auto found = std::ranges::find(jobs_inside_, &job, &Inside::job);
  return found == jobs_inside_.end() ? nullptr : &*found;
}

std::uint32_t Padding::FreeUnits(const PaddingRoom& room) const {
  std::uint32_t taken = 0;
  for (const Inside& inside : jobs_inside_) {
    if (inside.until == room.until) taken += inside.units;
  }
  return room.units - std::min(room.units, taken);
}

bool Padding::WaitFor(const PaddingRoom& room, Launch& launch) {
  if (!room.after) return true;
  if (launch.deps.size() >= kMostDeps) return false;
  std::array<Dep, kMostDeps>& deps = deps_[JobLaunches::SlotOf(launch.id)];
  *std::ranges::copy(launch.deps, deps.begin()).out = *room.after;
  launch.deps = std::span(deps).first(launch.deps.size() + 1);
  return true;
}

void Padding::Add(Job& job, LaunchId launch, const PaddingRoom& room) {
  auto found = std::ranges::find(jobs_inside_, &job, &Inside::job);
  if (found == jobs_inside_.end()) found = jobs_inside_.insert(found, {.job = &job});
  const Cut cut = CutOf(job.instance->plan().ops[job.next_op], job.instance->version(job.next_op));
  const std::uint64_t bandwidth_ppm = BandwidthInRoom(cut, room);
  const bool more = found->until == room.until;
  found->bandwidth_ppm = more ? std::max(found->bandwidth_ppm, bandwidth_ppm) : bandwidth_ppm;
  ++found->kernels;
  found->units = room.units;
  found->until = room.until;
  watched_[JobLaunches::SlotOf(launch)] = *room.records;
}

void Padding::Remove(const Job& job, LaunchId launch) {
  const auto found = std::ranges::find(jobs_inside_, &job, &Inside::job);
  if (--found->kernels == 0) {
    *found = jobs_inside_.back();
    jobs_inside_.pop_back();
  }
  watched_[JobLaunches::SlotOf(launch)] = nullptr;
}

}  // namespace lagoon
