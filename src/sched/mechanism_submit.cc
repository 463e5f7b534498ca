// The part of a step after reading events: revoke, pick, pad and submit.

#include <algorithm>

#include "base/check.h"
#include "sched/mechanism.h"

namespace lagoon {
namespace {

constexpr int kRealTime = static_cast<int>(JobClass::kRealTime);
constexpr int kBestEffort = static_cast<int>(JobClass::kBestEffort);

// So many times in a row real-time work may revoke a kernel of which no block gets done. Then one
// block is spared. A block that is longer than the pauses between real-time jobs would else begin
// anew for ever.
constexpr std::uint32_t kMostTimesInVain = 8;

UnitNeed NeedOf(const PlanOp& op, std::uint32_t version) {
  const bool own = !op.versions.empty() && op.versions[version].kernel;
  const UnitNeed& need = own ? op.versions[version].need : op.need;
  const bool known = need.blocks + need.threads + need.registers + need.shared_bytes > 0;
  return known ? need : UnitNeed{.blocks = kWholeUnit / OccupancyOf(op, version)};
}

std::uint32_t PlanNumber(const Job& job) { return job.plan != nullptr ? job.plan->number() : 0; }

}  // namespace

// Whether the job takes nothing from best-effort work but the core of the thread that waits for it.
// That thread computes a short job alone, and the operating system gives it a core at once where
// best-effort work runs in the background: background threads are of its idle class. To revoke the
// blocks would throw away what they have done, on all units.
bool Mechanism::RunsBeside(const Job& job) const {
  return job.job_class == JobClass::kRealTime && job.help.alone && job.help.helper != kNoUnit &&
         config_.preemption == SchedulerConfig::Preemption::kReset &&
         device_.info().max_background_launches > 0;
}

// Whether there is real-time work that best-effort work leaves the device to.
bool Mechanism::RealTimeWork() const {
  if (continuing_ > 0 || held_until_ != kNoDeadline) return true;
  const std::size_t all = computing_[kRealTime] + ready_.Count(JobClass::kRealTime);
  const std::size_t beside = beside_computing_ + beside_ready_;
  if (all > beside) return true;
  return beside > 0 && std::ranges::any_of(active_, [](const Job& job) {
           return job.job_class == JobClass::kBestEffort && job.launches > 0 && !job.background;
         });
}

bool Mechanism::RealTimeMode() const {
  return config_.preemption != SchedulerConfig::Preemption::kNone && RealTimeWork() &&
         !minimum_.in_slice();
}

void Mechanism::RevokeBestEffort() {
  if (revocable_ == 0) return;
  TellRevoked(revocable_);
  device_.Raise(group_guard_, ++group_limit_);
  revocable_ = 0;
  for (Job& job : active_) {
    if (job.job_class != JobClass::kBestEffort) continue;
    job.launches_wait = false;
    const std::size_t first = FirstRevocable(job);
    if (job.next_op <= first) continue;
    ++job.result.revocations;
    CountServed(job, job.instance->progress(job.first_incomplete).done());
    CountInVain(job, first);
    GoBack(job, first);
  }
}

// After the first block that was spared, the next ones of the kernel are as long: once in vain is
// enough for them.
void Mechanism::CountInVain(Job& job, std::size_t op) {
  const Job::InVain before = job.in_vain;
  const std::uint32_t done = job.instance->progress(op).done();
  job.in_vain = {op, done, 1};
  if (before.op != op) return;
  if (before.done == done) job.in_vain.times = before.times + 1;
  if (before.done != done && before.times >= kMostTimesInVain) job.in_vain.times = before.times;
}

std::size_t Mechanism::FirstRevocable(const Job& job) const {
  const bool spared = spared_.job == &job && spared_.op == job.first_incomplete;
  return job.first_incomplete + (spared ? 1 : 0);
}

// Whether a block of the job's next op may run to its end beside real-time work. The block runs on
// one unit, and there is one such block at a time. So real-time work that has at least two units
// goes on with all of its units but one. Where the block could take the only unit of a real-time
// queue, none is spared: real-time work goes first, however long best-effort work waits.
bool Mechanism::MaySpare(const Job& job) const {
  if (config_.preemption != SchedulerConfig::Preemption::kReset || spared_.job != nullptr ||
      job.job_class != JobClass::kBestEffort || job.next_op != job.first_incomplete ||
      job.in_vain.op != job.next_op || job.in_vain.times < kMostTimesInVain ||
      job.in_vain.done != job.instance->progress(job.next_op).done() ||
      job.instance->plan().ops[job.next_op].restart != Restart::kByClaims) {
    return false;
  }
  const std::uint32_t all = device_.info().units;
  const UnitRange own = RangeOf(*job.queue, all);
  for (std::uint32_t i = 0; i < Raw(queues_.next_id()); ++i) {
    const JobQueue& queue = *queues_.Find(QueueId{i});
    if (queue.removed || queue.options.job_class != JobClass::kRealTime) continue;
    const UnitRange units = RangeOf(queue, all);
    if (units.count == 1 && own.Has(units.first)) return false;
  }
  return true;
}

// Whether the op is not revoked once it has begun. A group that real-time work restarts again and
// again would else never end.
bool Mechanism::RunsToItsEnd(const Job& job, std::size_t op) const {
  const Restart restart = job.instance->plan().ops[op].restart;
  return restart == Restart::kNever || (restart == Restart::kByGroup && job.restarts.op == op &&
                                        job.restarts.times >= kMostTimesInVain);
}

void Mechanism::TellRevoked(std::uint32_t kernels) {
  ++stats_.revocations;
  if (observer_ == nullptr) return;
  observer_->OnEvent({.kind = SchedEvent::Kind::kRevoked, .value = kernels, .at = device_.Now()});
}

void Mechanism::Revoke(Job& job) {
  TellRevoked(static_cast<std::uint32_t>(job.next_op - job.first_incomplete));
  JobQueue::Slot& slot = job.queue->slots[job.slot];
  device_.Raise(slot.guard, ++slot.revision);
  ++job.result.revocations;
  job.launches_wait = false;
  GoBack(job, job.first_incomplete);
}

// Whether the picked job goes before all jobs that hold the device. If it does, it takes the device
// from them. A better-ranked job that waits for its own kernels keeps the device until it has
// submitted its last one.
bool Mechanism::MayTakeDevice(const Job& job) {
  if (!config_.preempt_by_rank || job.job_class == JobClass::kRealTime) return true;
  const auto others = [&](const Job& other) {
    return &other != &job && other.job_class == JobClass::kBestEffort &&
           other.state == Job::State::kActive;
  };
  for (const Job& other : active_) {
    if (others(other) && !other.ready_hook.is_linked() && other.rank < job.rank &&
        other.next_op < other.instance->plan().ops.size()) {
      return false;
    }
  }
  for (Job& other : active_) {
    if (others(other) && other.rank > job.rank && other.next_op > other.first_incomplete) {
      Revoke(other);
    }
  }
  return true;
}

// Whether clients that are far behind are raised (Policy::IsBehind). Not with preempt_by_rank:
// there jobs of worse ranks have left the device, so that they are ready, and two jobs that are
// raised and preempt each other in turns would do so for ever.
bool Mechanism::Raises() const {
  return config_.preemption == SchedulerConfig::Preemption::kReset &&
         config_.ranks == SchedulerConfig::Ranks::kPolicy && !config_.preempt_by_rank;
}

// Revokes the kernels of clients that are far behind, unless the next one to run is in front
// already. That the job is not ready does not matter: it may have `depth` kernels in the device.
void Mechanism::RaiseBehind() {
  if (!Raises() || !policy_->AnyBehind()) return;
  for (Job& job : active_) {
    const bool waits = job.state == Job::State::kActive && job.job_class == JobClass::kBestEffort &&
                       job.next_op > job.first_incomplete &&
                       job.first_incomplete >= job.front_until && !SharesTime(job);
    if (!waits || !policy_->IsBehind(ClientOf(job))) continue;
    std::uint32_t kernels = 0;
    for (std::size_t i = job.first_incomplete; i < job.next_op; ++i) {
      kernels += job.instance->progress(i).Complete() ? 0 : 1;
    }
    policy_->OnRaised(job, kernels);
    Revoke(job);
  }
}

// Whether the launch was revoked, so that its kernel may have been interrupted. Real-time work
// interrupts kernels that have begun under Preemption::kReset only; a job alone is always
// interrupted (Revoke()).
bool Mechanism::Revoked(const JobLaunch& launch) const {
  if (launch.padding || launch.spared) return false;
  const bool by_group = config_.preemption == SchedulerConfig::Preemption::kReset &&
                        launch.job->job_class == JobClass::kBestEffort &&
                        launch.limit != group_limit_;
  return by_group || launch.revision != launch.job->queue->slots[launch.job->slot].revision;
}

// Treats `op` and all ops after it as not submitted.
void Mechanism::GoBack(Job& job, std::size_t op) {
  job.revoked_until = std::max(job.revoked_until, job.next_op);
  job.front_until = std::min(job.front_until, op);
  SetNextOp(job, op);
  UpdateReady(job);
}

bool Mechanism::TellsBlocks() const {
  return config_.block_events > 0 && config_.extra_blocks && device_.info().tells_blocks;
}

bool Mechanism::PaddingLeaves() const {
  return config_.padding_leaves || !device_.info().slices_kernels;
}

bool Mechanism::SlicesKernels(const Job& job) const {
  return config_.kernel_slice > Nanoseconds(0) && job.job_class == JobClass::kBestEffort;
}

// How many of the `blocks` blocks of the job's next op a launch begins. 0: all of them.
std::uint32_t Mechanism::SliceOf(const Job& job, std::uint32_t blocks,
                                 const PaddingRoom* room) const {
  const PlanOp& op = job.instance->plan().ops[job.next_op];
  const std::uint32_t version = job.instance->version(job.next_op);
  if (room != nullptr) {
    if (room->leaves) return 0;
    const std::uint32_t most = BlocksInRoom(op, version, RoomFor(*room, *job.queue));
    return most < blocks ? most : 0;
  }
  if (!SlicesKernels(job) || !device_.info().slices_kernels) return 0;
  const std::uint32_t all = device_.info().units;
  const std::uint64_t at_once = std::uint64_t{config_.lend_units ? all : UnitsOf(*job.queue, all)} *
                                std::max(OccupancyOf(op, version), 1U);
  const std::uint64_t slice =
      BlocksWithin(config_.kernel_slice, job.costs->block(job.next_op), at_once);
  return slice < blocks ? static_cast<std::uint32_t>(slice) : 0;
}

bool Mechanism::Fits() const {
  if (config_.one_part && kernels_[kRealTime] + kernels_[kBestEffort] > 0) return false;
  if (!config_.extra_blocks || ledger_.Fill(device_.info().units) < 1) return true;
  if (*config_.extra_blocks == 0) return false;
  if (TellsBlocks()) return ledger_.waiting() < *config_.extra_blocks;
  return kernels_[kRealTime] + kernels_[kBestEffort] < 2 ||
         ledger_.Beyond(device_.info().units) < *config_.extra_blocks;
}

ReadyView::Eligibility Mechanism::Eligible(bool best_effort) const {
  const auto room = [this](int job_class) {
    return config_.max_kernels == 0 || kernels_[job_class] < config_.max_kernels;
  };
  const bool preempts = config_.preemption != SchedulerConfig::Preemption::kNone;
  return {.real_time = (preempts || room(kRealTime)) && !minimum_.in_slice(),
          .best_effort = best_effort && room(kBestEffort),
          .start_new = config_.max_active_jobs == 0 || active_.size() < config_.max_active_jobs,
          .start_real_time = config_.max_real_time_jobs == 0 ||
                             computing_[kRealTime] < config_.max_real_time_jobs};
}

void Mechanism::PickAndSubmit() {
  bool real_time_mode = RealTimeMode();
  if (!real_time_mode) RaiseBehind();
  const auto must_wait = [&] {
    return real_time_mode && kernels_[kBestEffort] > 0 &&
           config_.preemption == SchedulerConfig::Preemption::kWait;
  };
  while (Fits() && !must_wait()) {
    if (!Pick(ReadyView(ready_, Eligible(!real_time_mode)))) break;
    real_time_mode = RealTimeMode();
  }
  if (real_time_mode && config_.padding_kernels > 0) PadRealTime();
  device_.SetWorkHeld(ready_.Any(JobClass::kRealTime) || ready_.Any(JobClass::kBestEffort));
}

// Returns false if the policy waits or nothing more fits. A full device causes another step when a
// launch retires.
bool Mechanism::Pick(const ReadyView& view) {
  const Decision decision = policy_->Pick({device_.Now(), view});
  if (!decision.job) return false;
  Job& job = *jobs_.find(*decision.job);
  LAGOON_CHECK(decision.ops > 0 && decision.rank <= Decision::kLastRank);
  job.rank = decision.rank;
  return MayTakeDevice(job) && Serve(job, decision.ops, nullptr);
}

bool Mechanism::Serve(Job& job, std::uint32_t ops, const PaddingRoom* room) {
  LAGOON_CHECK(job.ready_hook.is_linked());
  job.served = ++picks_;
  job.unit_time = Nanoseconds(0);
  if (!job.started) {
    Start(job);
    if (ops == ~0u) LeaveOutCuts(job);
  }
  return SubmitNext(job, ops, room);
}

// The job runs whole: what its plan has only because of cuts counts as done.
void Mechanism::LeaveOutCuts(Job& job) {
  for (const std::uint32_t op : job.instance->plan().cut_ops) {
    Progress& progress = job.instance->progress(op);
    progress.Mirror(progress.blocks());
  }
}

void Mechanism::PadRealTime() {
  if (!ready_.Any(JobClass::kBestEffort)) return;
  const RoomRules rules{.kernels = config_.padding_kernels,
                        .packed = config_.packed_padding,
                        .bandwidth = config_.padding_bandwidth,
                        .versions = config_.padding_versions,
                        .leaves = PaddingLeaves(),
                        .tails = config_.padding_ahead};
  const std::optional<PaddingRoom> room = padding_.FindRoom(rules);
  if (!room) return;
  FillRoom(*room);
  if (rules.leaves) return;
  if (const auto after = padding_.RoomAfter(*room, rules)) FillRoom(*after);
}

void Mechanism::FillRoom(const PaddingRoom& room) {
  const auto pad = [&](Job& job, std::uint32_t units) {
    const PaddingRoom own = padding_.PartOf(room, units, &job);
    const std::uint64_t before = stats_.padded_launches;
    // Blocks that do not leave must end in the room: more are tried when these have ended.
    Serve(job, own.leaves ? ~0u : 1, &own);
    return stats_.padded_launches > before;
  };
  for (const Padding::Inside& inside : padding_.inside()) {
    if (room.leaves && inside.until == room.until && inside.job->ready_hook.is_linked()) {
      pad(*inside.job, inside.units);
    }
  }
  while (const std::uint32_t free = padding_.FreeUnits(room)) {
    const std::uint64_t before = padding_.candidates();
    Job* const job =
        padding_.Pick(padding_.PartOf(room, free, nullptr), *policy_, config_.padding_candidates);
    ++stats_.padding_choices;
    stats_.padding_candidates += padding_.candidates() - before;
    if (job == nullptr || !pad(*job, padding_.UnitsFor(*job, room, free))) return;
  }
}

// A real-time job starts beside another one, which best-effort work pads: the room is a new one.
void Mechanism::RevokePadding() {
  for (const Padding::Inside& inside : padding_.inside()) Revoke(*inside.job);
  padding_.Forget();
}

// Returns false if not all kernels or copies were submitted, because the device is full or a kernel
// does not fit into the room.
bool Mechanism::SubmitNext(Job& job, std::uint32_t ops, const PaddingRoom* room) {
  Instance& instance = *job.instance;
  const JobQueue::Slot& slot = job.queue->slots[job.slot];
  // What waits for a real-time kernel is of the same kind as that kernel (Launch::background).
  const bool waits = room != nullptr && room->after;
  if (job.launches == 0) job.background = InBackground(job) && !waits;
  if (waits && job.background) return false;
  for (; job.next_input < job.inputs.size(); ++job.next_input) {
    if (job.Keeps(job.next_input)) {
      Progress& copied = *instance.InputCopy(job.next_input, nullptr).progress;
      copied.Mirror(copied.blocks());
      continue;
    }
    Copy copy = instance.InputCopy(job.next_input, job.inputs[job.next_input]);
    if (job.parts != nullptr) {
      copy.from = nullptr;
      copy.parts = job.parts->inputs[job.next_input];
    }
    copy.guards[0] = {device_.GuardWord(slot.leaving_guard), slot.left, true};
    if (!SubmitCopy(job, copy, JobLaunch::Kind::kInput, job.next_input)) return false;
  }
  UpdateReady(job);
  const std::size_t last = instance.plan().ops.size();
  std::uint32_t kernels = 0;
  bool all = true;
  while (all && kernels < ops && job.ready_hook.is_linked() && job.next_op < last) {
    if (!instance.progress(job.next_op).Complete()) {
      all = ChooseVersion(job, room) && SubmitOp(job, room);
      if (!all) break;
      ++kernels;
    }
    const bool follows = std::max(job.front_until, job.first_incomplete) >= job.next_op;
    SetNextOp(job, job.next_op + 1);
    if (follows && job.rank == Decision::kFrontRank) job.front_until = job.next_op;
    UpdateReady(job);
  }
  if (kernels > 0) policy_->OnSubmitted(job, kernels);
  return all && (!OutputsMayGo(job) || SubmitOutputs(job));
}

// Copies of outputs are submitted right after the last kernels, so that the device starts them
// without the dispatcher. But not after padding, which may be revoked when its room ends, while the
// copies would stay.
bool Mechanism::OutputsMayGo(const Job& job) const {
  const std::size_t ops = job.instance->plan().ops.size();
  if (job.next_op < ops || job.output_launches > 0) return false;
  return job.first_incomplete == ops || !padding_.Has(job);
}

// A copy that has not begun must be revoked with the kernels that it waits for: when its job
// leaves, or when the kernels are revoked. In an ordered stream the kernels would otherwise be
// submitted again behind the copy.
bool Mechanism::SubmitOutputs(Job& job) {
  const JobQueue::Slot& slot = job.queue->slots[job.slot];
  const bool revocable = job.job_class == JobClass::kBestEffort &&
                         config_.preemption != SchedulerConfig::Preemption::kNone &&
                         job.first_incomplete < job.instance->plan().ops.size();
  for (; job.next_output < job.outputs.size(); ++job.next_output) {
    if (job.outputs[job.next_output] == nullptr) continue;  // not wanted
    Copy copy = job.instance->OutputCopy(job.next_output, job.outputs[job.next_output]);
    if (job.parts != nullptr) {
      copy.to = nullptr;
      copy.parts = job.parts->outputs[job.next_output];
    }
    if (copy.progress->Complete()) continue;  // done before the other copies were revoked
    copy.guards[0] = {device_.GuardWord(slot.guard), slot.revision, true};
    if (revocable) copy.guards[1] = {device_.GuardWord(group_guard_), group_limit_, true};
    if (!SubmitCopy(job, copy, JobLaunch::Kind::kOutput, job.next_output)) return false;
    ++job.output_launches;
  }
  UpdateReady(job);
  return true;
}

// In the background jobs divide the units among themselves, so that each stays on few of them: a
// job on a unit of its own finds its data in that unit's caches, and waits for no other unit at the
// end of each kernel. Two jobs on a core each do 1.06 (VGG-19) to 1.45 times (MobileNetV2) the work
// of two jobs that take turns on both. Rounded up, so that no unit is left over. 0: all units.
std::uint32_t Mechanism::UnitsFor(const Job& job) const {
  const std::uint32_t jobs = computing_[kBestEffort];
  if (!job.background || jobs < 2) return 0;
  return (UnitsOf(*job.queue, device_.info().units) + jobs - 1) / jobs;
}

void Mechanism::SetGuards(const Job& job, const PaddingRoom* room, bool spared,
                          Launch& launch) const {
  launch.max_claimants = UnitsFor(job);
  const JobQueue::Slot& slot = job.queue->slots[job.slot];
  if (room != nullptr) {
    launch.guards[0] = GuardOf(*room);
    const std::uint32_t occupancy =
        OccupancyOf(job.instance->plan().ops[job.next_op], job.instance->version(job.next_op));
    launch.max_claimants = BlocksAtOnce(*room, UnitsIn(*room, *job.queue), occupancy);
  } else if (spared) {
    launch.guards[0] = {&launch.progress->done_word(), launch.progress->done()};
    launch.max_claimants = 1;
  } else if (job.job_class == JobClass::kBestEffort &&
             config_.preemption != SchedulerConfig::Preemption::kNone) {
    launch.guards[0] = {device_.GuardWord(group_guard_), group_limit_,
                        config_.preemption == SchedulerConfig::Preemption::kWait};
  }
  launch.guards[1] = {device_.GuardWord(slot.guard), slot.revision, false};
  if (!RunsToItsEnd(job, job.next_op)) return;
  for (Guard& guard : launch.guards) guard.only_before_start = true;
}

// In the background the jobs of models are equal: the model that had least of the device goes first
// on every unit. In order of arrival, two models of 22 ms on two units would leave 36 % of an equal
// share to one of 3 ms. With preempt_by_rank the policy's order is what the user asks for.
bool Mechanism::SharesTime(const Job& job) const {
  return job.background && !config_.preempt_by_rank;
}

// The rank of the job's next op.
Rank Mechanism::TurnOf(const Job& job) const {
  Nanoseconds time = job.queue->served;
  for (std::size_t op = job.first_incomplete; op < job.next_op; ++op) time += job.costs->kernel(op);
  return std::min(static_cast<Rank>(time.count()), Rank{Decision::kLastRank});
}

// A queue that had no jobs does not save up time, but for what a client needs for its next request.
void Mechanism::CatchUp(JobQueue& queue) {
  constexpr Nanoseconds kMostSaved = std::chrono::milliseconds(20);
  Nanoseconds least = Nanoseconds::max();
  for (const Job& job : active_) {
    if (job.queue == &queue) return;
    if (job.job_class == JobClass::kBestEffort) least = std::min(least, job.queue->served);
  }
  if (least < Nanoseconds::max()) queue.served = std::max(queue.served, least - kMostSaved);
}

bool Mechanism::SubmitOp(Job& job, const PaddingRoom* room) {
  if (launches_.full()) return false;
  JobQueue::Slot& slot = job.queue->slots[job.slot];
  Launch launch = job.instance->launch(job.next_op);
  const bool best_effort = job.job_class == JobClass::kBestEffort;
  const bool spared = room == nullptr && MaySpare(job);
  const std::uint32_t done = launch.progress->done();
  const std::uint32_t left = launch.progress->blocks() - done;
  launch.most_blocks = spared ? 0 : SliceOf(job, left, room);
  const std::uint32_t blocks = launch.most_blocks > 0 ? launch.most_blocks : left;
  SetGuards(job, room, spared, launch);
  launch.tell_every = TellsBlocks() ? config_.block_events : 0;
  launch.share = job.queue->share;
  launch.help = job.help;
  launch.beyond_share = config_.lend_units && !spared;
  launch.id = launches_.Add(
      {.job = &job,
       .kind = JobLaunch::Kind::kOp,
       .index = static_cast<std::uint32_t>(job.next_op),
       .limit = group_limit_,
       .revision = slot.revision,
       .blocks = blocks,
       .need = NeedOf(job.instance->plan().ops[job.next_op], job.instance->version(job.next_op)),
       .padding = room != nullptr,
       .spared = spared,
       .whole = done == 0 && blocks == left && room == nullptr && !spared,
       .slice = launch.most_blocks > 0});
  launch.stream = job.stream;
  launch.background = job.background;
  // In the background the cores are others' by intention.
  if (!job.background) launch.expected_block = job.costs->block(job.next_op);
  launch.rank = RankOf(job, JobLaunch::Kind::kOp);
  if (room != nullptr && !padding_.WaitFor(*room, launch)) {
    launches_.Remove(launch.id);
    return false;
  }
  const TimePoint at = observer_ == nullptr ? TimePoint{} : device_.Now();
  if (!Accepted(device_.Submit(launch), launch.id, job)) return false;
  ++kernels_[best_effort ? kBestEffort : kRealTime];
  ledger_.Add(launches_.Find(launch.id));
  job.unit_time += UnitTimeOf(job, blocks);
  ++job.instance->in_flight(job.next_op);
  if (spared) {
    spared_ = {&job, job.next_op};
  } else if (best_effort && room == nullptr) {
    ++revocable_;
  }
  if (room != nullptr) {
    padding_.Add(job, launch.id, *room);
    ++stats_.padded_launches;
  }
  const bool resumed = job.next_op < job.revoked_until && done > 0;
  if (resumed) {
    job.result.resumed_blocks += done;
    stats_.resumed_blocks += done;
  }
  if (observer_ != nullptr) {
    TellLaunch(SchedEvent::Kind::kLaunched, launch.id, at, PlanNumber(job));
    if (resumed) TellLaunch(SchedEvent::Kind::kResumed, launch.id, at, done);
  }
  return true;
}

// The unit time of `blocks` blocks of the next op.
Nanoseconds Mechanism::UnitTimeOf(const Job& job, std::uint32_t blocks) const {
  const PlanOp& op = job.instance->plan().ops[job.next_op];
  const bool known = op.cost.block > Nanoseconds(0);
  return blocks * (known ? op.cost.block : std::chrono::microseconds(1));
}

bool Mechanism::SubmitCopy(Job& job, Copy copy, JobLaunch::Kind kind, std::size_t index) {
  if (launches_.full()) return false;
  copy.id = launches_.Add({.job = &job, .kind = kind, .index = static_cast<std::uint32_t>(index)});
  copy.stream = job.stream;
  copy.background = job.background;
  copy.help = job.help;
  copy.rank = RankOf(job, kind);
  const TimePoint at = observer_ == nullptr ? TimePoint{} : device_.Now();
  if (!Accepted(device_.Transfer(copy), copy.id, job)) return false;
  if (observer_ != nullptr) {
    TellLaunch(SchedEvent::Kind::kLaunched, copy.id, at, PlanNumber(job));
  }
  return true;
}

bool Mechanism::Accepted(SubmitResult result, LaunchId id, Job& job) {
  if (result == SubmitResult::kOk) {
    ++job.launches;
    ++stats_.launches;
    return true;
  }
  launches_.Remove(id);
  ++stats_.refused_launches;
  return false;
}

// Where clients are raised, their copies are always in front: a copy is short, and it is not
// revoked with the kernels that wait for it.
Rank Mechanism::RankOf(const Job& job, JobLaunch::Kind kind) const {
  constexpr Rank kBehindRealTime = Rank{1} << 63;
  const bool best_effort = job.job_class == JobClass::kBestEffort;
  const Rank of_class = best_effort ? kBehindRealTime : 0;
  if (kind == JobLaunch::Kind::kOp && SharesTime(job)) return TurnOf(job) | of_class;
  if (kind != JobLaunch::Kind::kOp && best_effort && Raises()) {
    return Decision::kFrontRank | of_class;
  }
  switch (config_.ranks) {
    case SchedulerConfig::Ranks::kSubmission:
      return 0;
    case SchedulerConfig::Ranks::kClass:
      return Raw(job.id) | of_class;
    case SchedulerConfig::Ranks::kPolicy:
      return job.rank | of_class;
  }
  CheckFailed("a known Ranks", __FILE__, __LINE__);
}

}  // namespace lagoon
