#include "trace/recent_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "plan/plan.h"

namespace lagoon {
namespace {

std::uint64_t Ns(TimePoint time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<Nanoseconds>(time.time_since_epoch()).count());
}

// Parts of a record of a launch.
std::uint64_t Pair(std::uint64_t high, std::uint32_t low) { return high << 32 | low; }
std::uint32_t High(std::uint64_t pair) { return static_cast<std::uint32_t>(pair >> 32); }
std::uint32_t Low(std::uint64_t pair) { return static_cast<std::uint32_t>(pair); }

constexpr std::uint32_t kIsKernel = 1;

// Simulated GPUs report their copies as those of units behind the others.
constexpr std::uint32_t kSimulatedCopyEngines = 4;

}  // namespace

RecentWork::RecentWork(Device& device, const Options& options)
    : options_(options),
      blocks_known_(device.info().blocks_on_host),
      launches_(std::max<std::size_t>(options.launches, 1)) {
  std::uint32_t units = std::max(device.info().units, device.info().observed_units);
  if (device.info().virtual_time) units += kSimulatedCopyEngines;
  for (std::uint32_t i = 0; i < units && blocks_known_; ++i) {
    units_.emplace_back(std::max<std::size_t>(options.records, 1));
  }
  device.SetObserver(this);
}

// ---- Recording

void RecentWork::OnPlaced(const DeviceBlock& block) {
  if (options_.blocks_to != nullptr) options_.blocks_to->OnPlaced(block);
  if (block.unit >= units_.size()) return;
  Unit& unit = units_[block.unit];
  unit.running_since.store(Ns(block.placed), std::memory_order_relaxed);
  // release: who sees the launch sees its begin.
  unit.running.store(Raw(block.launch) + 1, std::memory_order_release);
}

void RecentWork::OnEnded(const DeviceBlock& block, TimePoint at, bool committed) {
  if (options_.blocks_to != nullptr) options_.blocks_to->OnEnded(block, at, committed);
  if (block.unit >= units_.size()) return;
  Unit& unit = units_[block.unit];
  const std::uint64_t placed = Ns(block.placed), ended = Ns(at);
  const bool same = unit.any && unit.launch == Raw(block.launch) &&
                    ended - unit.begin <= static_cast<std::uint64_t>(kLongestRecord.count());
  if (!same) {
    unit.launch = Raw(block.launch);
    unit.begin = placed;
    unit.busy = unit.blocks = unit.left = 0;
  }
  unit.busy += ended - placed;
  ++unit.blocks;
  if (!committed) ++unit.left;
  const RecentRing<5>::Record record = {unit.launch, unit.begin, unit.busy, unit.blocks, unit.left};
  if (same) {
    unit.ring.Amend(record);
  } else {
    unit.ring.Push(record);
  }
  unit.any = true;
  unit.running.store(0, std::memory_order_relaxed);
}

void RecentWork::OnStart(const SchedulerConfig& config, TimePoint at) {
  if (options_.events_to != nullptr) options_.events_to->OnStart(config, at);
}

void RecentWork::OnSwitch(const SchedulerConfig& config, TimePoint at) {
  if (options_.events_to != nullptr) options_.events_to->OnSwitch(config, at);
}

void RecentWork::OnQueue(QueueId queue, const QueueOptions& options) {
  if (options_.events_to != nullptr) options_.events_to->OnQueue(queue, options);
  const MutexLock lock(mutex_);
  if (queues_.size() <= Raw(queue)) queues_.resize(Raw(queue) + 1);
  queues_[Raw(queue)] = {options.name, options.job_class, {}};
}

void RecentWork::OnPlan(QueueId queue, std::uint32_t number, const Plan& plan) {
  if (options_.events_to != nullptr) options_.events_to->OnPlan(queue, number, plan);
  const auto opaque = [](const PlanOp& op) { return op.opaque != nullptr; };
  if (number >= kMaxPlans || std::ranges::none_of(plan.ops, opaque)) return;
  const MutexLock lock(mutex_);
  std::vector<std::vector<bool>>& plans = queues_[Raw(queue)].opaque;
  if (plans.size() <= number) plans.resize(number + 1);
  plans[number].clear();
  for (const PlanOp& op : plan.ops) plans[number].push_back(opaque(op));
}

void RecentWork::OnEvent(const SchedEvent& event) {
  if (options_.events_to != nullptr) options_.events_to->OnEvent(event);
  if (event.kind != SchedEvent::Kind::kLaunched) return;
  const std::uint32_t work = event.work == SchedEvent::Work::kKernel ? kIsKernel : 0;
  launches_.Push({Raw(event.launch), Raw(event.job), Pair(Raw(event.queue), event.index),
                  Pair(event.value, work), Ns(event.at)});
}

// ---- Reading

/// Adds up records of a span.
class RecentWork::Sum {
 public:
  Sum(std::uint64_t from, std::uint64_t to) : from_(from), to_(to) {}

  void AddLaunches(const RecentRing<5>::Copy& copy) {
    for (const RecentRing<5>::Record& record : copy.records) {
      launches_[record[0]] = {record[1], record[2], record[3]};
      if (record[4] >= from_ && record[4] < to_) ++Of(record[0]).launches;
    }
  }
  /// A record of a unit. Its time counts as spread evenly.
  void AddRecord(const RecentRing<5>::Record& record) {
    const auto [launch, begin, busy, blocks, left] = record;
    const std::uint64_t end = begin + busy;
    if (end <= from_ || begin >= to_) return;
    const std::uint64_t inside = std::min(end, to_) - std::max(begin, from_);
    // In virtual time a block may take no time.
    const double part = busy == 0 ? 1 : static_cast<double>(inside) / static_cast<double>(busy);
    const auto parts_of = [part](std::uint64_t count) {
      return static_cast<std::uint64_t>(std::llround(static_cast<double>(count) * part));
    };
    AddTime(launch, inside);
    Of(launch).blocks += std::max<std::uint64_t>(parts_of(blocks), 1);
    Of(launch).left += parts_of(left);
  }
  /// The block that runs.
  void AddRunning(const Unit& unit) {
    const std::uint64_t running = unit.running.load(std::memory_order_acquire);
    const std::uint64_t since = unit.running_since.load(std::memory_order_relaxed);
    if (running == 0 || since >= to_) return;
    AddTime(running - 1, to_ - std::max(since, from_));
    ++Of(running - 1).blocks;
  }
  std::vector<Work> Jobs(const std::vector<Queue>& queues) const {
    std::vector<Work> jobs;
    for (const auto& [id, job] : jobs_) {
      jobs.push_back(job.work);
      if (job.queue >= queues.size()) continue;
      jobs.back().model = queues[job.queue].model;
      jobs.back().job_class = queues[job.queue].job_class;
    }
    std::ranges::stable_sort(jobs, [](const Work& a, const Work& b) {
      return std::pair(a.busy, a.launches) > std::pair(b.busy, b.launches);
    });
    return jobs;
  }
  void FindOpaque(const std::vector<Queue>& queues) {
    for (const auto& [launch, time] : times_) {
      const auto found = launches_.find(launch);
      if (found == launches_.end() || Low(found->second.plan_and_work) != kIsKernel) continue;
      const std::uint32_t queue = High(found->second.queue_and_op);
      const std::uint32_t op = Low(found->second.queue_and_op);
      const std::uint32_t plan = High(found->second.plan_and_work);
      if (queue >= queues.size() || plan >= queues[queue].opaque.size()) continue;
      const std::vector<bool>& opaque = queues[queue].opaque[plan];
      if (op < opaque.size() && opaque[op]) Of(launch).opaque += Nanoseconds(time);
    }
  }

 private:
  struct Launch {
    std::uint64_t job, queue_and_op, plan_and_work;
  };
  struct Job {
    Work work;
    std::uint32_t queue = UINT32_MAX;  // UINT32_MAX: not known
  };

  void AddTime(std::uint64_t launch, std::uint64_t ns) {
    times_[launch] += ns;
    Of(launch).busy += Nanoseconds(ns);
  }
  /// The work of the launch's job; that of job 0 if the launch is not known any more.
  Work& Of(std::uint64_t launch) {
    const auto found = launches_.find(launch);
    Job& job = jobs_[found == launches_.end() ? 0 : found->second.job];
    if (found != launches_.end()) {
      job.work.job = JobId{found->second.job};
      job.queue = High(found->second.queue_and_op);
    }
    return job.work;
  }

  const std::uint64_t from_, to_;
  std::unordered_map<std::uint64_t, Launch> launches_;
  std::unordered_map<std::uint64_t, std::uint64_t> times_;  // ns, by launch
  std::map<std::uint64_t, Job> jobs_;                       // by JobId
};

RecentWork::Report RecentWork::Between(TimePoint from, TimePoint to) const {
  Report report;
  report.blocks_known = blocks_known_;
  Sum sum(Ns(from), Ns(to));
  // The units first: a launch that a block belongs to was reported before the block.
  std::vector<RecentRing<5>::Copy> copies;
  for (const Unit& unit : units_) copies.push_back(unit.ring.Read());
  const RecentRing<5>::Copy launches = launches_.Read();
  report.complete = !launches.lost || launches.records.front()[4] <= Ns(from);
  sum.AddLaunches(launches);
  for (const RecentRing<5>::Copy& copy : copies) {
    if (copy.lost && !copy.records.empty() && copy.records.front()[1] > Ns(from)) {
      report.complete = false;
    }
    for (const RecentRing<5>::Record& record : copy.records) sum.AddRecord(record);
  }
  for (const Unit& unit : units_) sum.AddRunning(unit);
  const MutexLock lock(mutex_);
  sum.FindOpaque(queues_);
  report.jobs = sum.Jobs(queues_);
  return report;
}

}  // namespace lagoon
