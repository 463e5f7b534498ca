#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "cluster/batch_limiter.h"
#include "sim/cluster/cluster_spec.h"

namespace lagoon {

/// The arrivals of requests that wait, in order. Its memory is a power of two and only grows.
class ArrivalRing {
 public:
  bool empty() const { return first_ == end_; }
  std::size_t size() const { return end_ - first_; }
  Nanoseconds front() const { return times_[first_ & (times_.size() - 1)]; }
  void Pop() { ++first_; }
  void Push(Nanoseconds time) {
    if (size() == times_.size()) Grow();
    times_[end_++ & (times_.size() - 1)] = time;
  }

 private:
  void Grow() {
    std::vector<Nanoseconds> larger(times_.size() * 2);
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) larger[i] = times_[(first_ + i) & (times_.size() - 1)];
    times_ = std::move(larger);
    first_ = 0;
    end_ = count;
  }

  std::vector<Nanoseconds> times_ = std::vector<Nanoseconds>(16);
  std::size_t first_ = 0, end_ = 0;
};

/// A copy of a model on a device.
///   kPending -> kLoading -> kServing -> kGone
/// kPending: the model has not started. A replica of the start begins as kServing. kGone may follow
/// any state.
struct SimReplica {
  enum class State : std::uint8_t { kPending, kLoading, kServing, kGone };

  ReplicaSpec spec;  // `granules`: those that the replica has, or waits for while kLoading
  State state = State::kPending;
  ArrivalRing waiting;
  std::unique_ptr<BatchLimiter> limiter;  // null: `rows` is the limit
  std::int64_t rows = 1;
  std::uint32_t running = 0;            // batches
  bool resizing = false;                // a change of the share is under way
  bool stopped = false;                 // ResizeKind::kRestart: serves nothing until the change
  Nanoseconds ready{0};                 // kLoading: when it is loaded; kServing: idle until then
  std::optional<Nanoseconds> fill_at;   // an event at this time looks for a full batch
  std::optional<std::size_t> replaces;  // the replica whose work this one takes over when loaded
  std::uint64_t routed = 0;             // requests since the model's set of replicas changed

  std::int64_t Limit() const { return limiter ? limiter->Limit() : rows; }
};

}  // namespace lagoon
