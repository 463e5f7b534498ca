#pragma once

#include <string>

#include "bench/report/report.h"

namespace lagoon::bench {

struct OverheadOptions {
  std::string zoo;
  std::string model = "resnet18";
  std::uint32_t workers = 0;
  int requests = 1000;
  int rounds = 10;  // the protocols and models take turns, in random order
};

/// Measures the time that the server adds to a request. Requests have the model's input size and go
/// one at a time, over HTTP with binary tensors, over gRPC, over gRPC with tensors in shared
/// memory, over a channel, and without an edge (`process`: Inference alone). The client is in
/// this process, on loopback.
///
/// The overhead of a request is the client's time less the time of the model's kernels
/// (compute_infer). The client's time begins just before it sends the serialised request, and ends
/// just after the last byte of the answer. The p50 is a median over windows, with its interval
/// (bench/measure/evidence.h). Windows that the host disturbed do not count.
///
/// Metrics, for a protocol P (http, grpc, grpc_shm, channel, process):
///   overhead_us_p50.P, _p99.P              with a model that has ResNet's input (602 KB) and
///                                          computes next to nothing
///   overhead_us_p50.P.small, _p99.P.small  the same with an input of 48 bytes
///   overhead_us_p50.P.MODEL, _p99.P.MODEL  with the model itself, whose weights and activations
///                                          fill the caches
///   stage_us_p50.P[.MODEL].STAGE           stages: read, parse, admit, queue, compute_input,
///                                          compute_infer, compute_output, respond; wire is the
///                                          time that no stage of the server covers. channel and
///                                          process: compute_infer and wire
///   channel_requests_per_s                 of one client with 8 requests of the small model in
///                                          flight
///   channel_client_cpu_fraction            of the thread of a client that sends one request at a
///                                          time, 6,700 a second (Paella's Figure 14)
///   channel_paced_requests_per_s           what it got of these
/// With fewer than 1,000 requests _p90 takes the place of _p99.
Status RunOverhead(const OverheadOptions& options, Report& report);

struct FootprintOptions {
  std::string zoo;
  std::vector<std::string> models;
  std::string lagoon;  // path of the binary
};

/// Measures memory and load time of `lagoon serve` in a process of its own. Metrics:
/// serve_peak_rss_mib, serve_ready_ms, load_ms.M for every model M. In this process:
/// open_ms.one_by_one and open_ms.at_once, the time to open a core that prepares its models so;
/// medians of five openings each, in turns.
Status RunFootprint(const FootprintOptions& options, Report& report);

}  // namespace lagoon::bench
