#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/device/fronts.h"
#include "sim/device/sim_launch.h"

namespace lagoon {

/// The first-in-first-out queues between the host and the front end of a simulated GPU, and the
/// launch of each stream that has left its queue but is not finished. Only the head of a queue can
/// become ready (Paella 2.1). Externally locked. Nothing allocates after construction.
class HardwareQueues {
 public:
  /// `launches` is borrowed.
  HardwareQueues(SimLaunches& launches, std::uint32_t queues, std::uint32_t streams)
      : launches_(launches),
        queues_(queues),
        stream_launch_(streams + 1, kNoIndex),
        evictions_(queues) {
    moved_.reserve(queues);
  }

  /// The queue that a new launch takes. An ordered stream has one queue. An unordered launch goes
  /// where the launches that it depends on went, as if it were in their stream. If there is none,
  /// it takes the next queue in turn. Padding goes with the kernel that it pads, because in REEF
  /// the two are one launch: kNoIndex.
  std::uint32_t Choose(const SimLaunch& launch, const Fronts& fronts) {
    const auto queues = static_cast<std::uint32_t>(queues_.size());
    if (launch.stream != kUnordered) return (Raw(launch.stream) - 1) % queues;
    if (launch.max_claimants != 0) return kNoIndex;
    for (const Dep& dep : launch.deps) {
      const std::uint32_t lane = LaneOf(dep, fronts);
      if (lane != kNoIndex) return lane;
    }
    return next_lane_++ % queues;
  }
  /// Call when a launch retires: launches that depend on it may still come.
  void Remember(const SimLaunch& launch) {
    recent_[next_recent_++ % recent_.size()] = {launch.progress, launch.lane};
  }

  /// Puts a launch of an ordered stream behind its queue. True: it is the head.
  bool Push(SimLaunch& launch) {
    const std::uint32_t index = launches_.IndexOf(launch);
    Queue& queue = queues_[launch.lane];
    launch.in_queue = true;
    launch.queue_before = queue.last;
    launch.queue_after = kNoIndex;
    (queue.last == kNoIndex ? queue.first : launches_[queue.last].queue_after) = index;
    queue.last = index;
    used_ += launch.queue_before == kNoIndex ? 1 : 0;
    return launch.queue_before == kNoIndex;
  }

  /// Takes a launch out of its queue, if it is in it. True: the queue is empty thereby, so that an
  /// unordered launch may take it.
  bool Remove(SimLaunch& launch) {
    if (!std::exchange(launch.in_queue, false)) return false;
    Queue& queue = queues_[launch.lane];
    (launch.queue_before == kNoIndex ? queue.first : launches_[launch.queue_before].queue_after) =
        launch.queue_after;
    (launch.queue_after == kNoIndex ? queue.last : launches_[launch.queue_after].queue_before) =
        launch.queue_before;
    const bool empty = queue.first == kNoIndex;
    used_ -= empty ? 1 : 0;
    NoteMoved(launch.lane);
    return empty;
  }

  /// The head of a queue, or kNoIndex.
  std::uint32_t head(std::uint32_t lane) const { return queues_[lane].first; }

  /// The launch of an ordered stream that has left its queue but is not finished, or kNoIndex.
  /// While there is one, the next launch of the stream waits.
  std::uint32_t unfinished(StreamId stream) const { return stream_launch_[Raw(stream)]; }
  void SetUnfinished(const SimLaunch& launch) {
    stream_launch_[Raw(launch.stream)] = launches_.IndexOf(launch);
  }
  /// The next launch of its stream no longer waits for this one.
  void Finish(const SimLaunch& launch) {
    std::uint32_t& unfinished = stream_launch_[Raw(launch.stream)];
    if (unfinished != launches_.IndexOf(launch)) return;
    unfinished = kNoIndex;
    NoteMoved(launch.lane);
  }

  /// A queue whose head has changed since it was last taken here, or kNoIndex: the newest first.
  std::uint32_t TakeMoved() {
    if (moved_.empty()) return kNoIndex;
    const std::uint32_t lane = moved_.back();
    moved_.pop_back();
    queues_[lane].moved = false;
    return lane;
  }
  bool any_moved() const { return !moved_.empty(); }

  /// Launches of ordered streams are at the head of a queue already. An unordered launch needs a
  /// free queue until all of its blocks are placed.
  bool HasQueueFor(const SimLaunch& launch) const {
    return launch.stream != kUnordered || held_ == 0 || held_ + used_ < queues_.size();
  }
  void Hold(SimLaunch& launch) {
    launch.holds_queue = true;
    ++held_;
  }
  /// Returns true if the launch held a queue.
  bool Release(SimLaunch& launch) {
    if (!std::exchange(launch.holds_queue, false)) return false;
    --held_;
    return true;
  }

  /// Counts the revoked launches that each queue has to get past (REEF 4.2).
  void ResetEvictions() { std::fill(evictions_.begin(), evictions_.end(), 0); }
  void Evict(SimLaunch& launch) {
    if (!std::exchange(launch.evicted, true) && launch.lane != kNoIndex) ++evictions_[launch.lane];
  }
  std::uint32_t most_evictions() const {
    return *std::max_element(evictions_.begin(), evictions_.end());
  }

 private:
  struct Queue {
    std::uint32_t first = kNoIndex, last = kNoIndex;
    bool moved = false;  // in moved_
  };
  struct Recent {
    const Progress* names = nullptr;
    std::uint32_t lane = kNoIndex;
  };

  void NoteMoved(std::uint32_t lane) {
    if (!std::exchange(queues_[lane].moved, true)) moved_.push_back(lane);
  }

  // The queue of the launch that names the record `dep.on`, or named it a short while ago. A record
  // may lie at the address of an older record, whose launch has retired. If `dep` is met, the
  // launch that completed it retired later than that one. The newest entry is looked at first, so
  // addresses make no difference.
  std::uint32_t LaneOf(const Dep& dep, const Fronts& fronts) const {
    const std::uint32_t lane = fronts.LaneOf(dep.on);
    if (lane != kNoIndex || !dep.Met()) return lane;
    for (std::size_t i = 0; i < recent_.size(); ++i) {
      const Recent& recent = recent_[(next_recent_ - 1 - i) % recent_.size()];
      if (recent.names == dep.on) return recent.lane;
    }
    return kNoIndex;
  }

  SimLaunches& launches_;
  std::vector<Queue> queues_;
  std::vector<std::uint32_t> stream_launch_;  // by StreamId
  std::vector<std::uint32_t> moved_;          // queues whose head has changed
  std::vector<std::uint32_t> evictions_;      // by queue
  std::uint32_t used_ = 0;                    // number of queues that are not empty
  std::uint32_t held_ = 0;                    // number of queues held by unordered launches
  std::uint32_t next_lane_ = 0;
  std::array<Recent, 64> recent_;  // ring of the launches that retired last
  std::uint32_t next_recent_ = 0;
};

}  // namespace lagoon
