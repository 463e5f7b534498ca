#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "cluster/placement/placer.h"

namespace lagoon {

/// Runs a placer on a thread of its own, so that a decision has a time limit. One thread calls
/// Place().
class PlacerRunner {
 public:
  explicit PlacerRunner(std::unique_ptr<Placer> placer);
  /// Waits for the call under way.
  ~PlacerRunner();
  PlacerRunner(const PlacerRunner&) = delete;
  PlacerRunner& operator=(const PlacerRunner&) = delete;

  const std::string& name() const { return name_; }
  bool decides_shares() const { return decides_shares_; }
  /// The placer's assignment for `view`. kDeadlineExceeded: there is none within `limit`; what the
  /// placer returns later is dropped. kUnavailable: the placer still runs for an earlier view.
  /// kInternal: the placer threw an exception, which the message has.
  Result<Assignment> Place(PlacementView view, Nanoseconds limit);
  /// Whether a call is under way. If not, the destructor does not wait.
  bool busy() const {
    const MutexLock lock(mutex_);
    return running_;
  }

 private:
  void Run(const std::stop_token& stop);
  Result<Assignment> Call(const PlacementView& view);

  const std::unique_ptr<Placer> placer_;  // used by the thread only
  const std::string name_;
  const bool decides_shares_;
  mutable Mutex mutex_;
  CondVar wanted_, placed_;
  std::optional<PlacementView> view_ GUARDED_BY(mutex_);         // for the thread to take
  std::optional<Result<Assignment>> result_ GUARDED_BY(mutex_);  // of the last view
  bool running_ GUARDED_BY(mutex_) = false;
  bool dropped_ GUARDED_BY(mutex_) = false;  // no one waits for the result of the call under way
  std::jthread thread_;                      // last member
};

}  // namespace lagoon
