#pragma once

// A device for scheduling tests that runs nothing by itself. The test decides when which block
// runs, on the test's own thread, and reads a log of everything that the scheduler submitted or
// raised.

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/host/copy_range.h"
#include "device/host/shares.h"
#include "device/observer.h"
#include "plan/plan.h"

namespace lagoon::testing {

class FakeDevice final : public Device {
 public:
  enum class Time { kVirtual, kReal };  // real: the dispatcher's timer runs on a thread of its own

  explicit FakeDevice(std::uint32_t max_launches = 64, Time time = Time::kVirtual,
                      std::uint32_t units = 1) {
    info_.name = "fake";
    info_.units = units;  // only reported: in fact one block runs at a time
    info_.max_launches = max_launches;
    info_.share_granule = 1;
    info_.max_shares = Shares::kMost;
    info_.virtual_time = time == Time::kVirtual;
  }

  // ---- The test's side

  void HurryBackground(bool hurry) override { hurry_ = hurry; }
  bool hurry() const { return hurry_; }
  /// It has a background (Launch::background).
  void HaveBackground() { info_.max_background_launches = info_.max_launches; }

  /// Runs the next block of the best-ranked runnable launch to its commit. False: nothing is
  /// runnable.
  bool RunBlock() { return StartBlock() && FinishBlock(true); }
  /// If true, the worst-ranked runnable launch goes first, as if the others' units were busy.
  void PreferLast(bool last) { prefer_last_ = last; }
  /// Runs a whole block beside the running one, which keeps running.
  bool RunBlockBeside() {
    const auto running = std::exchange(running_, std::nullopt);
    const bool ran = RunBlock();
    running_ = running;
    return ran;
  }
  /// Claims a block and leaves it running.
  bool StartBlock() {
    InFlight* best = nullptr;
    for (InFlight& launch : launches_) {
      if (!Runnable(launch)) continue;
      const bool better =
          best == nullptr || (prefer_last_ ? launch.rank > best->rank : launch.rank < best->rank);
      if (better) best = &launch;
    }
    if (best == nullptr) return false;
    running_ = {best->id, *best->progress->Claim()};
    if (observer_ != nullptr) {
      observer_->OnPlaced({.launch = best->id, .tile = running_->second, .placed = Now()});
    }
    ++best->active;
    if (!best->placed) Event(DeviceEvent::Kind::kPlaced, best->id);
    best->placed = true;
    ++best->begun;
    if (Tell(*best, best->begun)) News();
    return true;
  }
  /// Ends the running block: committed, or left without a result. Then retires the launches that
  /// are over and calls the listener.
  bool FinishBlock(bool commit) {
    InFlight& launch = Find(running_->first);
    if (observer_ != nullptr) {
      observer_->OnEnded({.launch = launch.id, .tile = running_->second}, Now(), commit);
    }
    --launch.active;
    if (!commit) {
      launch.progress->Unclaim(running_->second);
    } else {
      ++blocks_run;
      if (launch.copy.bytes > 0 && launch.progress->done() == 0) {
        CopyRange(launch.copy, 0, launch.copy.bytes);
      }
      ++launch.done;
      if (launch.progress->Commit()) {
        Event(DeviceEvent::Kind::kComplete, launch.id);
      } else {
        Tell(launch, launch.done);
      }
    }
    running_.reset();
    News();
    return true;
  }
  /// Whether a guard of the running block is raised, so that the block should leave.
  bool GuardsRaised() {
    const InFlight& launch = Find(running_->first);
    for (const Guard& guard : launch.guards) {
      if (!guard.only_before_start && guard.Raised()) return true;
    }
    return false;
  }
  /// Runs until nothing is runnable; returns the number of blocks.
  int RunAll() {
    int blocks = 0;
    while (RunBlock()) ++blocks;
    return blocks;
  }
  void Advance(Nanoseconds by) {
    offset_ += by;
    News();
  }
  void Lose() {
    Event(DeviceEvent::Kind::kLost, LaunchId{});
    News();
  }
  std::size_t launches() const { return launches_.size(); }
  bool work_held() const { return held_; }
  /// Launch::max_claimants of the last launch.
  std::uint32_t max_claimants() const { return max_claimants_; }
  /// Launch::background of the last launch.
  bool background() const { return background_; }
  /// Launch::share of the last launch, and the units of a share.
  ShareId share() const { return share_; }
  bool beyond_share() const { return beyond_share_; }  // Launch::beyond_share of the last launch
  UnitRange units(ShareId share) const { return shares_.units(share); }
  int raises = 0;
  int blocks_run = 0;
  int mixed = 0;  // launches whose dependencies in flight have another value of background
  std::size_t most_launches = 0;
  std::vector<std::string> log;  // "submit 3", "copy 1", "raise 0 to 1"
  /// Called by Submit and Transfer when the device has the launch. Simulates what happens on a
  /// device while its dispatcher is in the middle of a round.
  std::function<void()> on_submit;
  /// Called by Allocate.
  std::function<void()> on_allocate;
  /// If true, the listener is not called, as for events that a call of the dispatcher itself
  /// causes.
  bool quiet = false;
  /// How often each kProgress comes. 0: they are lost.
  int tells = 1;
  /// The device reports kProgress.
  void TellBlocks() { info_.tells_blocks = true; }

  // ---- The scheduler's side

  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> Allocate(std::size_t bytes, MemoryKind) override {
    if (on_allocate) on_allocate();
    return Buffer(::operator new(bytes + 1), bytes,
                  [](void* data, std::size_t) { ::operator delete(data); });
  }
  Result<KernelHandle> Load(const CodeImage&, const KernelSpec&) override { return KernelHandle{}; }
  Result<StreamId> CreateStream(const StreamOptions&) override { return StreamId{++streams_}; }
  Result<ShareId> CreateShare(const std::string& name, UnitRange units) override {
    return shares_.Create(name, units);
  }
  Status PrepareUnits(UnitRange units) override { return shares_.CheckBounds("a share", units); }
  Result<GuardId> CreateGuard() override {
    guards_.emplace_back(0);
    return GuardId{static_cast<std::uint32_t>(guards_.size() - 1)};
  }
  const std::atomic<std::uint32_t>* GuardWord(GuardId guard) const override {
    return &guards_[Raw(guard)];
  }
  TimePoint Now() const override {
    return (info_.virtual_time ? created_ : lagoon::Now()) + offset_;
  }
  SubmitResult Submit(const Launch& launch) override {
    max_claimants_ = launch.max_claimants;
    background_ = launch.background;
    share_ = launch.share;
    beyond_share_ = launch.beyond_share;
    InFlight in_flight{launch.id, launch.stream, launch.rank, launch.progress, launch.deps, {}, {}};
    in_flight.background = launch.background;
    in_flight.step = ProgressStep(launch.tell_every, launch.progress->blocks());
    std::copy(std::begin(launch.guards), std::end(launch.guards), in_flight.guards);
    return Take(in_flight, "submit " + std::to_string(launch.rank & 0xffff));
  }
  SubmitResult Transfer(const Copy& copy) override {
    InFlight in_flight{copy.id, copy.stream, copy.rank, copy.progress, copy.deps, {}, copy};
    in_flight.background = copy.background;
    std::ranges::copy(CopyGuards(copy), in_flight.guards);
    return Take(in_flight, "copy " + std::to_string(copy.rank & 0xffff));
  }
  SubmitResult Raise(GuardId guard, std::uint32_t value) override {
    ++raises;
    log.push_back("raise " + std::to_string(Raw(guard)) + " to " + std::to_string(value));
    guards_[Raw(guard)].store(value);
    Retire();  // the caller polls: see DeviceListener
    return SubmitResult::kOk;
  }
  Status MoveShare(ShareId share, UnitRange units) override {
    LAGOON_RETURN_IF_ERROR(shares_.CheckMove(share, units));
    log.push_back("move share " + std::to_string(Raw(share)) + " to " + Text(units));
    shares_.Move(share, units);
    return {};
  }
  std::size_t Poll(std::span<DeviceEvent> events) override {
    std::size_t count = 0;
    for (; count < events.size() && !events_.empty(); ++count) {
      events[count] = events_.front();
      events_.pop_front();
    }
    return count;
  }
  void SetListener(DeviceListener* listener) override { listener_ = listener; }
  void Wait(TimePoint) override {}
  void Wake() override {}
  UnitTimes Times() const override { return {}; }
  void SetWorkHeld(bool held) override { held_ = held; }
  void SetObserver(DeviceObserver* observer) override { observer_ = observer; }

 private:
  struct InFlight {
    LaunchId id;
    StreamId stream;
    Rank rank;
    Progress* progress;
    std::span<const Dep> deps;
    Guard guards[kGuardsPerLaunch];
    Copy copy;
    int active = 0;
    bool placed = false;
    bool background = false;
    std::uint32_t step = 0, begun = 0, done = 0;
  };

  bool Revoked(const InFlight& launch) const {
    for (const Guard& guard : launch.guards) {
      if (guard.Raised() && !(guard.only_before_start && launch.placed)) return true;
    }
    return false;
  }
  bool Runnable(const InFlight& launch) const {
    if (Revoked(launch) || !launch.progress->HasUnclaimed()) return false;
    for (const Dep& dep : launch.deps) {
      if (!dep.Met()) return false;
    }
    if (launch.stream == kUnordered) return true;
    for (const InFlight& other : launches_) {
      if (&other == &launch) return true;
      if (other.stream == launch.stream && !other.progress->Complete()) return false;
    }
    return true;
  }
  SubmitResult Take(const InFlight& launch, std::string entry) {
    if (launches_.size() == info_.max_launches) return SubmitResult::kFull;
    for (const InFlight& other : launches_) {
      const bool together = other.progress == launch.progress ||
                            std::ranges::any_of(launch.deps, [&](const Dep& dep) {
                              return dep.on == other.progress;
                            });
      if (together && other.background != launch.background) ++mixed;
    }
    launches_.push_back(launch);
    most_launches = std::max(most_launches, launches_.size());
    log.push_back(std::move(entry));
    if (on_submit) on_submit();
    return SubmitResult::kOk;
  }
  InFlight& Find(LaunchId id) {
    for (InFlight& launch : launches_) {
      if (launch.id == id) return launch;
    }
    std::abort();
  }
  void Retire() {
    std::erase_if(launches_, [&](const InFlight& launch) {
      if (launch.active > 0 || !(launch.progress->Complete() || Revoked(launch))) return false;
      Event(DeviceEvent::Kind::kRetired, launch.id);
      return true;
    });
  }
  void Event(DeviceEvent::Kind kind, LaunchId id) { events_.push_back({kind, id, Now()}); }
  // Whether it told of the blocks, now that `count` have begun or are done.
  bool Tell(const InFlight& launch, std::uint32_t count) {
    const bool due =
        launch.step != 0 && (count % launch.step == 0 || count == launch.progress->blocks());
    for (int i = 0; due && i < tells; ++i) {
      events_.push_back(
          {DeviceEvent::Kind::kProgress, launch.id, Now(), launch.begun, launch.done});
    }
    return due && tells > 0;
  }
  void News() {
    Retire();
    if (listener_ != nullptr && !quiet) listener_->OnDeviceNews();
  }

  DeviceInfo info_;
  Shares shares_{info_};  // only kept: blocks run regardless of them
  std::vector<InFlight> launches_;
  std::optional<std::pair<LaunchId, std::uint32_t>> running_;
  std::deque<std::atomic<std::uint32_t>> guards_;
  std::deque<DeviceEvent> events_;
  std::uint32_t streams_ = 0;
  const TimePoint created_ = TimePoint{} + std::chrono::hours(1);  // begin of virtual time
  Nanoseconds offset_{0};
  DeviceListener* listener_ = nullptr;
  DeviceObserver* observer_ = nullptr;
  bool held_ = false;
  std::uint32_t max_claimants_ = 0;
  bool background_ = false;
  bool hurry_ = false;
  ShareId share_ = kAllUnits;
  bool beyond_share_ = false;
  bool prefer_last_ = false;
};

/// A chain of `ops` kernels of `blocks` blocks, with one small input and output.
inline std::shared_ptr<const LoadedPlan> ChainPlan(std::uint32_t ops, std::uint32_t blocks) {
  auto loaded = std::make_shared<LoadedPlan>();
  Plan& plan = loaded->plan;
  plan.model = "chain";
  for (std::uint32_t i = 0; i < ops; ++i) {
    PlanOp op;
    op.name = "op" + std::to_string(i);
    op.blocks = blocks;
    if (i > 0) op.deps = {i - 1};
    plan.ops.push_back(op);
  }
  plan.arena_bytes = 128;
  plan.inputs.push_back({{"x", DataType::kFloat32, {4}}, {Region::kArena, 0, 16}, {0}});
  plan.outputs.push_back({{"y", DataType::kFloat32, {4}}, {Region::kArena, 64, 16}, {ops - 1}});
  return loaded;
}

}  // namespace lagoon::testing
