#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/report/report.h"

namespace lagoon::bench {

struct ColocationOptions {
  std::string zoo;
  /// Models that run at the same time, joined by "+"; with an open batch.
  std::vector<std::string> combinations;
  std::string scheduler = "lagoon";  // of lagoon+slab
  std::uint32_t workers = 0;         // 0: one per core
  int clients = 4;                   // of each model, in the closed loops
  std::int64_t most_rows = 16;       // of a batch
  double slo_factor = 10;            // SLO of a request: so many times its time alone
  double load = 0.7;  // of the open loops: part of what `streams` does in a closed loop
  int windows = 4;    // of each case, interleaved
  double window_seconds = 2;
  bool against_onnxruntime = true;
  ComparatorOptions onnxruntime;
  std::uint32_t seed = 1;
};

/// The models of a combination.
std::vector<std::string> ModelsOf(const std::string& combination);

/// Models on one CPU at the same time (GSLICE, Fig. 8 to 10), under these sides:
///   time-slice, streams     one request a job
///   streams+slab            requests are joined, within an SLO (SLAB)
///   shares+slab             each model on an even share of the workers; with fewer workers than
///                           models, by weight (scheduler `weighted`)
///   lagoon+slab             as shares+slab, but a share that is not used is lent
///   onnxruntime-N-M         a process for each model; N threads (all or 1), M: spin or sleep
/// First in closed loops of as many clients for each model, then with Poisson arrivals at a part of
/// the throughput under `streams`. Metrics, for a side S, a combination C and a model M:
///   throughput_ips.S.C.M, latency_ms_p50.S.C.M, latency_ms_p99.S.C.M       closed loops
///   throughput_ips.S.C-load.M, latency_ms_p50..., latency_ms_p99...        Poisson arrivals
///   slo_kept.S.C.M, slo_kept.S.C-load.M    part of the requests that were answered within the SLO
///   gue.S.C                                sum of the throughputs over the mean latency, weighted
///                                          by requests (closed loops)
///   gue_vs_default.C                       gue of lagoon+slab over that of streams
///   throughput_vs_onnxruntime.C            geometric mean over the models of lagoon+slab's
///                                          throughput over that of the best of the four settings
Status RunColocation(const ColocationOptions& options, Report& report);

}  // namespace lagoon::bench
