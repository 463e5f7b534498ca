#pragma once

// What one version of a model has done so far, counted as Triton counts.

#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "base/time.h"
#include "serving/core.h"

namespace lagoon {

/// Any thread may call any method; recording is a dozen relaxed additions.
/// Stages: queue is posted..started, compute_input started..inputs copied, compute_infer
/// ..computed, compute_output ..finished; success and fail count from the request's arrival.
class StatisticsRecorder {
 public:
  /// A request that a queue had accepted has ended. Of the stages, `queue` counts for every
  /// outcome, the others for kDone only.
  void RecordFinished(const JobResult& result, TimePoint arrival, TimePoint deadline);

  /// A request that no queue accepted. `code` decides the reason: kUnavailable and
  /// kDeadlineExceeded are rejections, everything else is "other".
  void RecordRefused(ErrorCode code, Nanoseconds since_arrival);

  /// Copies the counters; name, version and pending are the caller's.
  void Read(ModelStatistics& statistics) const;

 private:
  struct Stage {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> ns{0};

    void Add(Nanoseconds duration);
    StageStatistics Read() const;
  };

  void RecordSuccess(const JobResult& result, TimePoint arrival);

  std::atomic<std::uint64_t> last_inference_ms_{0};
  std::atomic<std::uint64_t> executions_{0};
  Stage success_, fail_, queue_, compute_input_, compute_infer_, compute_output_;
  std::atomic<std::uint64_t> rejected_{0}, cancelled_{0}, backend_{0}, other_{0};
  std::atomic<std::uint64_t> deadline_misses_{0}, superseded_{0};
  std::atomic<std::uint64_t> revocations_{0}, resumed_blocks_{0};
};

}  // namespace lagoon
