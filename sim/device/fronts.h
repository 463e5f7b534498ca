#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/host/guard_words.h"
#include "sim/device/sim_launch.h"

namespace lagoon {

/// The launches that a done count may concern: at the head of their hardware queue, or in no
/// stream. Kept outside of the slots, so that a search touches few cache lines. Externally locked.
/// Nothing allocates after construction.
class Fronts {
 public:
  /// Both are borrowed.
  Fronts(SimLaunches& launches, const GuardWords& guards, std::uint32_t capacity)
      : launches_(launches), guards_(guards) {
    fronts_.reserve(capacity);
    hits_.reserve(capacity);
  }

  /// Does nothing if the launch is there already.
  void Enter(SimLaunch& launch) {
    if (launch.front != kNoIndex) return;
    launch.front = static_cast<std::uint32_t>(fronts_.size());
    const bool always = launch.WatchesCount(guards_);
    watchers_ += always ? 1 : 0;
    fronts_.push_back({launch.progress, nullptr, launches_.IndexOf(launch), always});
  }

  void Leave(SimLaunch& launch) {
    if (launch.front == kNoIndex) return;
    watchers_ -= fronts_[launch.front].look_always ? 1 : 0;
    fronts_[launch.front] = fronts_.back();
    launches_[fronts_[launch.front].launch].front = launch.front;
    fronts_.pop_back();
    launch.front = kNoIndex;
  }

  /// Says which record the launch waits for. Null: it waits for none.
  void SetWaitsFor(const SimLaunch& launch, const Progress* progress) {
    fronts_[launch.front].waits_for = progress;
  }
  /// True if any commit may concern the launch, because it looks at a partial count.
  bool LooksAlways(const SimLaunch& launch) const {
    return launch.front != kNoIndex && fronts_[launch.front].look_always;
  }

  /// The launches that a new done count of `progress` concerns. Valid until the next call.
  std::span<const std::uint32_t> AfterDone(const Progress* progress, bool complete) {
    hits_.clear();
    if (!complete && watchers_ == 0) return hits_;
    for (const Front& front : fronts_) {
      const bool named = complete && (front.names == progress || front.waits_for == progress);
      if (named || front.look_always) hits_.push_back(front.launch);
    }
    return hits_;
  }
  /// The launches that tiles of `progress` concern that came back: a relaunch may have found none.
  std::span<const std::uint32_t> AfterUnclaim(const Progress* progress) {
    hits_.clear();
    for (const Front& front : fronts_) {
      if (front.names == progress || front.look_always) hits_.push_back(front.launch);
    }
    return hits_;
  }

  /// The hardware queue of the first launch that names `progress` and has a queue, or kNoIndex.
  std::uint32_t LaneOf(const Progress* progress) const {
    for (const Front& front : fronts_) {
      if (front.names != progress) continue;  // first, as the launch is in another cache line
      if (const std::uint32_t lane = launches_[front.launch].lane; lane != kNoIndex) return lane;
    }
    return kNoIndex;
  }

 private:
  struct Front {
    const Progress* names;      // its record
    const Progress* waits_for;  // record that it waits for; null: none
    std::uint32_t launch;
    bool look_always;
  };

  SimLaunches& launches_;
  const GuardWords& guards_;
  std::vector<Front> fronts_;
  std::vector<std::uint32_t> hits_;
  std::uint32_t watchers_ = 0;  // number of fronts with look_always
};

}  // namespace lagoon
