#pragma once

#include <cstdint>
#include <string>

#include "bench/measure/evidence.h"
#include "bench/report/report.h"

namespace lagoon::bench {

/// The steps from one request at a time to batches that the server forms, each with what the one
/// before has:
///   one       one request of one row is in flight
///   two       two are
///   copied    two batches are in flight; the client joins rows into a batch by copies, and divides
///             the answer by copies
///   gathered  the same rows come one by one: the server's own copies gather and scatter them
///   slab      and it finds how many rows end within the SLO, up to twice as many
inline constexpr const char* kBatchSteps[] = {"one", "two", "copied", "gathered", "slab"};

struct BatchStepsOptions {
  std::string zoo, model, scheduler;
  std::uint32_t workers = 0;  // 0: one per core
  std::int64_t rows = 16;     // of a batch
  double slo_ms = 100;        // of a batch, for the last step
  int windows = 6;            // of each step, interleaved
  double window_seconds = 1;
  std::uint32_t seed = 1;
};

/// What each step gains, in closed loops (GSLICE Fig. 12a, b, where the first server also spends
/// 0.7 ms between two requests). Metrics, for a model M:
///   step_ips.M.STEP          rows answered a second
///   step_gain.M.STEP         over the step before, of the same trial
Status MeasureBatchSteps(const BatchStepsOptions& options, Evidence& evidence,
                         ProgressBar& progress);

}  // namespace lagoon::bench
