#pragma once

#include <cstdint>

#include "device/block.h"

namespace lagoon {

/// Number of launches in flight that wait for, or are guarded by, a partial done count
/// (LaunchTable::watchers()). Workers read it without the lock.
///
/// A commit takes no lock, so a submission and a commit may happen at the same time. Both access
/// this word by a read-modify-write, so one of the two comes first:
///
/// - the submission: then the committing worker finds Any() and looks at all launches;
/// - the commit: then the submission sees the new count, and looks at its own launch after that.
///
/// Templated on its atomics, so that a test explores all interleavings.
template <typename Atomics>
class BasicWatchers {
 public:
  /// Under the device's lock, after a change of the table.
  void Publish(std::uint32_t count) {
    // acq_rel: this thread now sees what a worker committed before that worker's Any().
    if (count_.load(std::memory_order_relaxed) != count) {
      count_.exchange(count, std::memory_order_acq_rel);
    }
  }

  /// Under the device's lock, after Table::Add(). First makes the newest launch visible to
  /// committing workers; then settles that launch against the counts reached before.
  template <typename Table>
  void Enter(Table& table) {
    Publish(table.watchers());
    table.SettleNewest();
  }

  /// Called by a worker after a commit, without the lock. True: the worker must take the lock and
  /// call SettleAll().
  bool Any() { return count_.fetch_add(0, std::memory_order_acq_rel) != 0; }

 private:
  typename Atomics::template Atomic<std::uint32_t> count_{0};
};

using Watchers = BasicWatchers<StdAtomics>;

}  // namespace lagoon
