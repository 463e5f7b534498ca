#include "sim/device/engine.h"

#include <algorithm>

#include "base/check.h"

namespace lagoon {
namespace {

std::uint32_t GroupsOf(const SimConstants& constants) {
  return static_cast<std::uint32_t>(constants.units * constants.blocks_per_unit);
}

}  // namespace

SimEngine::SimEngine(const Options& options, const GuardWords& guards, const Shares& shares,
                     TimePoint start)
    : options_(options),
      guards_(guards),
      shares_(shares),
      now_(start),
      units_(options.constants),
      // Events stay until they are polled, while launches come and go.
      events_(std::size_t{8} * options.launches, Nanoseconds(options.constants.notify_latency_ns)),
      first_launch_timer_(GroupsOf(options.constants)),
      first_copy_timer_(first_launch_timer_ + options.launches),
      front_end_timer_(first_copy_timer_ +
                       static_cast<std::uint32_t>(options.constants.copy_engines)),
      timers_(front_end_timer_ + 1),
      launches_(options.launches, /*streams=*/0),
      fronts_(launches_, guards, options.launches),
      queues_(launches_, static_cast<std::uint32_t>(options.constants.hardware_queues),
              options.streams),
      groups_(first_launch_timer_),
      copy_engines_(static_cast<std::size_t>(options.constants.copy_engines)),
      wanted_(units_.size()),
      last_dispatch_(start - std::chrono::hours(1)),
      evicted_at_(start) {
  active_.reserve(options.launches);
  copies_.reserve(options.launches);
  ready_.reserve(options.launches);
  candidates_.reserve(std::max<std::size_t>(units_.size(), given_.size()));
}

void SimEngine::RunUntil(TimePoint until) {
  while (timers_.next() <= until) {
    Advance(timers_.next());
    while (timers_.next() == now_) Fire(timers_.Pop());
    Settle();
  }
  Advance(until);
}

void SimEngine::Advance(TimePoint to) {
  busy_ += (to - now_) * units_.busy();
  now_ = to;
}

void SimEngine::Fire(std::uint32_t timer) {
  if (timer < first_launch_timer_) {
    EndGroup(timer);
  } else if (timer < first_copy_timer_) {
    const std::uint32_t index = timer - first_launch_timer_;
    launches_[index].state == State::kArriving ? Arrive(index) : MakeReady(index);
  } else if (timer < front_end_timer_) {
    EndChunk(timer - first_copy_timer_);
  } else {
    changed_ = true;
  }
}

// Makes all changes that take no time.
void SimEngine::Settle() {
  while (changed_ || queues_.any_moved()) {
    if (std::exchange(padding_retired_, false)) LookAtWaiting();
    for (std::uint32_t lane; (lane = queues_.TakeMoved()) != kNoIndex;) {
      ConsiderHead(lane, /*waited=*/true);
    }
    changed_ = false;
    PumpFrontEnd();
    PumpCopies();
    PlaceAll();
  }
  RepriceAll();
}

SubmitResult SimEngine::Add(const Launch& asked, const SimKernel& kernel) {
  SimLaunch* const launch = launches_.Take(asked, events_);
  if (launch == nullptr) return SubmitResult::kFull;
  launch->kernel = &kernel;
  Insert(*launch);
  return SubmitResult::kOk;
}

SubmitResult SimEngine::Add(const Copy& copy) {
  SimLaunch* const launch = launches_.Take(copy, events_);
  if (launch == nullptr) return SubmitResult::kFull;
  Insert(*launch);
  return SubmitResult::kOk;
}

void SimEngine::Insert(SimLaunch& launch) {
  const std::uint32_t index = launches_.IndexOf(launch);
  launches_.Link(launch);
  launch.pads = options_.joined_padding ? PaddedBy(launch) : nullptr;
  padding_ += launch.pads != nullptr ? 1 : 0;
  launch.state = State::kArriving;
  launch.lane = queues_.Choose(launch, fronts_);
  if (launch.stream == kUnordered) fronts_.Enter(launch);
  if (Retirable(launch)) {
    by_host_ = true;
    Retire(index);
    by_host_ = false;
    return;
  }
  timers_.Set(first_launch_timer_ + index,
              now_ + Nanoseconds(options_.constants.launch_latency_ns));
}

// Acts on a change that concerns one launch.
void SimEngine::Look(std::uint32_t index) {
  SimLaunch& launch = launches_[index];
  if (!launch.live) return;
  if (fronts_.LooksAlways(launch)) MakeLeave(index, now_);
  if (Retirable(launch)) return Retire(index);
  if (launch.stream != kUnordered && !launch.left_stream && launch.Complete())
    return LeaveStream(launch);
  if (launch.state == State::kWaiting) {
    const bool first =
        launch.stream == kUnordered ||
        (queues_.head(launch.lane) == index && queues_.unfinished(launch.stream) == kNoIndex);
    if (first) TryReady(index, /*waited=*/true);
  } else if (launch.state == State::kStarted && !launch.active && !launch.Spent() &&
             launch.MayBegin() && launch.progress->HasUnclaimed()) {
    Activate(index);
  }
}

// What waited for padding may begin now.
void SimEngine::LookAtWaiting() {
  for (std::uint32_t index = launches_.oldest(); index != kNoIndex;) {
    const std::uint32_t next = launches_[index].live_after;
    if (launches_[index].state == State::kWaiting) Look(index);
    index = next;
  }
}

// The done count of the kernel that the launch pads: it keeps the launch from running.
const std::atomic<std::uint32_t>* SimEngine::PaddedBy(const SimLaunch& launch) const {
  for (const Guard& guard : launch.guards) {
    const bool count = guard.word != nullptr && !guards_.Owns(guard.word);
    if (count && guard.word != &launch.progress->done_word()) return guard.word;
  }
  return nullptr;
}

// True if padding runs beside a kernel that the launch depends on.
bool SimEngine::WaitsForPadding(const SimLaunch& launch) const {
  if (padding_ == 0) return false;
  for (std::uint32_t index = launches_.oldest(); index != kNoIndex;) {
    const SimLaunch& other = launches_[index];
    index = other.live_after;
    if (other.pads == nullptr || !other.started) continue;
    const auto padded = [&other](const Dep& dep) { return &dep.on->done_word() == other.pads; };
    if (std::ranges::any_of(launch.deps, padded)) return true;
  }
  return false;
}

// `waited`: the launch was queued before it could run, so the bubble between kernels comes first.
void SimEngine::TryReady(std::uint32_t index, bool waited) {
  SimLaunch& launch = launches_[index];
  if (launch.MayBegin() && WaitsForPadding(launch)) return;
  if (launch.MayBegin()) {
    fronts_.SetWaitsFor(launch, nullptr);
    const Nanoseconds gap(waited ? options_.constants.dependent_gap_ns : 0);
    if (gap == Nanoseconds(0)) return MakeReady(index);
    launch.state = State::kGap;
    timers_.Set(first_launch_timer_ + index, now_ + gap);
    return;
  }
  for (const Dep& dep : launch.deps) {
    if (!dep.Met()) {
      fronts_.SetWaitsFor(launch, dep.on);
      return;
    }
  }
}

bool SimEngine::Retirable(const SimLaunch& launch) {
  return launch.running == 0 && (launch.Over() || launch.Spent());
}

void SimEngine::Retire(std::uint32_t index) {
  SimLaunch& launch = launches_[index];
  Report(launch, DeviceEvent::Kind::kRetired);
  timers_.Drop(first_launch_timer_ + index);
  Deactivate(index);
  if (launch.state == State::kReady) {
    std::erase_if(ready_, [index](const Active& ready) { return ready.launch == index; });
  }
  queues_.Remember(launch);
  fronts_.Leave(launch);
  LeaveStream(launch);
  if (launch.holds_queue) Exhausted(index);
  if (launch.pads != nullptr) {
    --padding_;
    padding_retired_ = changed_ = true;
  }
  launches_.Free(launch, events_);
}

// Reports how many blocks have begun and are done.
void SimEngine::Tell(SimLaunch& launch) {
  if (launch.tells == 0) return;
  --launch.tells;
  events_.PushFromDevice(
      {DeviceEvent::Kind::kProgress, launch.id, now_, launch.placed, launch.done});
}

void SimEngine::Report(SimLaunch& launch, DeviceEvent::Kind kind) {
  launches_.UseCredit(launch);
  const DeviceEvent event{kind, launch.id, now_};
  // A started launch may have events under way, which this event must not overtake.
  if (by_host_ && !launch.started) {
    events_.PushFromHost(event);
  } else {
    events_.PushFromDevice(event);
  }
}

}  // namespace lagoon
