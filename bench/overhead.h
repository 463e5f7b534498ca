#pragma once

#include <string>

#include "bench/report.h"

namespace lagoon::bench {

struct OverheadOptions {
  std::string zoo;
  std::string model = "resnet18";
  std::uint32_t workers = 0;
  int requests = 1000;
  int rounds = 10;  // the protocols take turns, in random order
};

/// What the server adds to a request of the model's input size, at concurrency 1, over HTTP with
/// binary tensors and over gRPC: a client in this process, on loopback. Overhead is the client's
/// time from before it sends a serialised request to after the answer's last byte, less the model's
/// kernels (compute_infer). Its p50 is the median over the windows that the host did not disturb,
/// with its interval (bench/evidence.h). Metrics, for a protocol P (http, grpc):
///   overhead_us_p50.P, _p99.P                of a model of that input that computes next to
///   nothing overhead_us_p50.P.MODEL, _p99.P.MODEL    of the model itself, whose weights and
///   activations
///                                            have taken the caches
///   stage_us_p50.P[.MODEL].STAGE             read, parse, admit, queue, compute_input,
///                                            compute_infer, compute_output, respond; wire is what
///                                            no stage of the server covers
Status RunOverhead(const OverheadOptions& options, Report& report);

struct FootprintOptions {
  std::string zoo;
  std::vector<std::string> models;
  std::string lagoon;  // the binary to start
};

/// Memory and load time of `lagoon serve` in a process of its own. Metrics: serve_peak_rss_mib,
/// serve_ready_ms, load_ms.M for every model.
Status RunFootprint(const FootprintOptions& options, Report& report);

}  // namespace lagoon::bench
