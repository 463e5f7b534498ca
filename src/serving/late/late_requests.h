#pragma once

#include <memory>
#include <utility>

#include "sched/dispatcher.h"
#include "serving/late/late_log.h"

namespace lagoon {

/// Tells a LateLog of the late requests of one dispatcher. Any thread.
class LateRequests {
 public:
  /// `log` and `dispatcher` outlive the object. `work`: what the device of the dispatcher does.
  LateRequests(LateLog& log, std::shared_ptr<const RecentWork> work, const Dispatcher& dispatcher)
      : log_(log), work_(std::move(work)), dispatcher_(dispatcher) {}

  /// `late`: without what follows from `asked`. `off_core`: DispatcherStats::off_core when the
  /// request was admitted. Not for a thread that has the dispatcher's lock.
  void Add(LateRequest late, const InferRequest& asked, Nanoseconds off_core) const;

 private:
  LateLog& log_;
  const std::shared_ptr<const RecentWork> work_;
  const Dispatcher& dispatcher_;
};

}  // namespace lagoon
