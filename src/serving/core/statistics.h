#pragma once

// Counters of one version of a model, with Triton's definitions.

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "serving/core/histogram.h"
#include "serving/core/models.h"

namespace lagoon {

/// Whether a request counts as one that missed its deadline: it expired, or ended later.
bool IsLate(const JobResult& result, TimePoint deadline);

/// Any thread may call any method; recording is two dozen relaxed additions. The stages, in stamps
/// of JobResult:
///
/// - queue: from posted to started
/// - compute_input: from started to inputs_copied
/// - compute_infer: from inputs_copied to computed
/// - compute_output: from computed to finished
/// - success, fail: from the request's arrival to its end
class StatisticsRecorder {
 public:
  /// `most_rows`: executions of up to so many rows are also counted by their rows.
  explicit StatisticsRecorder(std::size_t most_rows = 0) : batches_(most_rows) {}

  /// A request that a queue had accepted has ended. `queue` counts for every outcome, the compute
  /// stages for kDone only.
  /// A batch that served several requests.
  struct Batch {
    std::int64_t rows = 1;  // of all its requests; at least 1
    bool counts = true;     // this request counts the execution; set for one request of the batch
  };
  struct Request {
    TimePoint arrival;
    TimePoint deadline = kNoDeadline;
    std::size_t rows = 1;                        // at least 1 (ServedModel::RowsOf)
    std::optional<Batch> batch = {};             // empty: the request was an execution of its own
    JobClass job_class = JobClass::kBestEffort;  // of the request
  };
  void RecordFinished(const JobResult& result, const Request& request);

  /// A request that no queue accepted. `code` decides the reason: kUnavailable and
  /// kDeadlineExceeded are rejections, everything else is "other".
  void RecordRefused(ErrorCode code, Nanoseconds since_arrival);

  /// Copies the counters; the caller sets name, version and pending.
  void Read(ModelStatistics& statistics) const;

 private:
  struct Stage {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> ns{0};

    void Add(Nanoseconds duration);
    StageStatistics Read() const;
  };

  struct Compute {
    Stage input, infer, output;

    void Add(const JobResult& result);
  };

  /// The requests of one class.
  struct Stages {
    HistogramRecorder request, queue, compute_input, compute_infer, compute_output;

    StageHistograms Read() const;
  };

  void RecordSuccess(const JobResult& result, const Request& request);

  std::atomic<std::uint64_t> last_inference_ms_{0};
  std::atomic<std::uint64_t> executions_{0};
  std::atomic<std::uint64_t> inferences_{0};
  Stage fail_;
  std::array<Stages, 2> by_class_;  // by JobClass
  std::vector<Compute> batches_;    // indexed by rows - 1
  std::atomic<std::uint64_t> rejected_{0}, cancelled_{0}, backend_{0}, other_{0};
  std::atomic<std::uint64_t> deadline_misses_{0}, superseded_{0}, too_late_{0};
  std::atomic<std::uint64_t> revocations_{0}, resumed_blocks_{0}, repeated_kernels_{0};
};

}  // namespace lagoon
