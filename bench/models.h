#pragma once

#include <string>
#include <vector>

#include "bench/onnxruntime.h"
#include "bench/report.h"

namespace lagoon::bench {

struct ModelsOptions {
  std::string zoo;                  // folder of models
  std::vector<std::string> models;  // names in it
  std::vector<std::uint32_t> workers = {1, 2};
  int rounds = 5;        // lagoon and ONNX Runtime take turns
  double seconds = 1.0;  // of each turn
  bool against_onnxruntime = true;
  bool tune = false;  // as after `lagoon profile`
  OnnxRuntimeOptions onnxruntime;
};

/// Latency of every model at batch 1, beside ONNX Runtime with as many threads in the same run.
/// Metrics, for model M and W workers:
///   latency_ms_p50.M.wW.lagoon, .onnxruntime; latency_ratio_vs_onnxruntime.M.wW (of the medians)
///   kernel_gap_us_p50.M    last commit of a kernel to the first block of the kernel that waited
///   for it load_ms.M, weights_mib.M, arena_mib.M, kernels.M, block_us_max.M
Status RunModels(const ModelsOptions& options, Report& report);

}  // namespace lagoon::bench
