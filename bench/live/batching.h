#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/live/batch_limits.h"
#include "bench/report/report.h"

namespace lagoon::bench {

struct BatchingOptions {
  BatchLimitsOptions limits;  // their zoo, scheduler and workers are those below
  std::string zoo;
  std::vector<std::string> models;  // with an open batch
  std::string scheduler = "reset";
  std::uint32_t workers = 0;  // 0: one per core
  /// Arrivals, as a part of what the model computes one request at a time. The largest is the
  /// overload.
  std::vector<double> loads = {0.3, 0.6, 0.9, 1.2, 1.5, 10};
  std::int64_t most_rows = 16;  // of a batch
  double deadline_alpha = 20;   // requests must be answered within so many times the time alone
  int windows = 6;              // of each model, load and side, interleaved
  double window_seconds = 1;
  std::uint32_t seed = 1;
};

/// What joining requests into batches (dynamic_batching) gains and costs: the same model, served
/// with and without it, gets the same requests of one row in turns (Poisson arrivals; latencies are
/// counted from the intended arrival). Metrics, for a model M, a load of N percent, and a side S
/// (batched or single):
///   capacity_ips.M                        requests a second, one at a time, all cores busy
///   throughput_ips.M.S.lN                 requests answered in time, a second
///   latency_ms_p50.M.S.lN, _p99           of these; p90 if there are too few
///   refused_fraction.M.S.lN               refused at once, or expired
///   rows_per_batch.M.lN                   mean
///   batching_gain.M                       largest throughput of batched over that of single
///   overload_goodput_fraction.M           batched: throughput at the largest load over the largest
///                                         at any load; target: at least 0.95
///   overload_refusal_ms_p99.M             how long a refusal takes there; target: less than 1
///   batcher_added_us_p50                  batched less single, for requests one at a time of a
///                                         model that computes next to nothing; target: at most 5
/// And those of MeasureBatchSteps() for each model, with the deadline as the SLO of a batch; those
/// of MeasureGivingUp() for the first model without batches, at twice its capacity and
/// the deadline as the limit, and those of RunBatchLimits().
Status RunBatching(const BatchingOptions& options, Report& report);

}  // namespace lagoon::bench
