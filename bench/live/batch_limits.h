#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report/report.h"

namespace lagoon::bench {

struct BatchLimitsOptions {
  std::string zoo;
  std::string model = "squeezenet1_1";                              // with an open batch
  std::vector<double> slos_ms = {25, 50, 100, 200};                 // of a batch (lagoon.slo_of)
  std::vector<std::string> limiters = {"slab", "aimd", "clipper"};  // lagoon.batching
  std::string scheduler = "reset";
  std::uint32_t workers = 0;  // 0: one per core
  std::int64_t most_rows = 32;
  double seconds = 4;  // of each case
};

/// How fast a batch limiter finds how many rows end within an SLO (GSLICE Fig. 15). A served model
/// gets as many requests as it takes, from its first one on. Metrics, for a limiter L (slab, aimd,
/// clipper) and an SLO in ms:
///   L_converge_ms.SLO      from the first request until the limit stays within a row, or 10 %, of
///                          what it is in the last quarter of the time (median). -1: it does not.
///                          Target of slab at 50 ms: less than 300
///   L_rows.SLO             that median
///   L_batch_ms_mean.SLO    the last quarter's time, by its number of batches
///   L_throughput_ips.SLO   in the last quarter
/// The field "batch_limits" has the limit over time: {"L.SLO": [[ms, rows], ...]}.
Status RunBatchLimits(const BatchLimitsOptions& options, ProgressBar& progress, Report& report);

}  // namespace lagoon::bench
