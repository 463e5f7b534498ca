#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report/report.h"

namespace lagoon::bench {

struct ShapesOptions {
  std::string files;                // folder of ONNX files with open dims
  std::vector<std::string> models;  // names of files in it, without .onnx
  std::string zoo;
  std::string real_time = "resnet18";     // in the zoo
  std::string detector = "ppocr_v4_det";  // among the files
  std::vector<std::string> schedulers = {"reset"};
  std::uint32_t workers = 0;  // 0: one per core
  double load = 0.5;          // arrivals, as a part of the real-time model's standalone maximum
  int windows = 10;           // of each kind, interleaved
  int requests = 1000;        // real-time requests in all windows of one kind together
  int shapes = 50;            // that a model sees
  std::uint32_t seed = 1;
};

/// Measures requests of shapes that a server has not seen before. Images have heights and widths
/// from 128 to 512 in steps of 32, texts 96 to 160 steps. Metrics, for a model M and a scheduler S:
///   new_shape_ms.M, new_shape_ms_p90.M    time to compile a plan for another shape, alone on the
///                                         machine; the first shape is not counted
///   memory_mib.M.first, .all              resident memory of a new process that serves the model,
///                                         after its first answer, and after all shapes
///   memory_ratio.M                        the second over the first; target: at most 1.5
///   realtime_latency_normalized_p50.S, _p99.S   of the real-time model (evenly spaced arrivals)
///                                         beside a best-effort stream of the detector in which
///                                         each request has a new shape, over alone; p90 if there
///                                         are too few requests; target for p99: at most 1.10
///   realtime_latency_ms_p50.S.alone, .contended   and p99, over all windows together
///   new_shapes_per_s.S                    requests of the detector answered meanwhile
/// Forks: call it while the process has only one thread.
Status RunShapes(const ShapesOptions& options, Report& report);

}  // namespace lagoon::bench
