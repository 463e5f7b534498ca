#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/report/report.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct ModelsOptions {
  std::string zoo;                  // folder of models
  std::vector<std::string> models;  // names in it
  DeviceChoice device;              // its `workers` is replaced by each of:
  std::vector<std::uint32_t> workers = {1, 2};
  /// Sizes of the dimension that files call "batch". A file without such a dimension has a fixed
  /// size and runs for batch 1 only.
  std::vector<std::int64_t> batches = {1};
  int rounds = 8;                    // trials; in each trial every side runs once, in random order
  double seconds = 1.0;              // length of a side's turn
  std::uint32_t seed = 1;            // for the order
  std::vector<std::string> engines;  // to compare with: "onnxruntime", "openvino"
  bool tune = false;  // use the fastest version of every op, as after `lagoon profile`
  bool bf16 = false;  // measure bf16 too, in turns with our own fp32
  ComparatorOptions comparator;
};

/// Measures the latency of every model, and in the same run that of the other engines with as many
/// threads. Metrics, for model M, W workers and batch B (on a GPU without ".wW", and without the
/// blocks' times):
///   latency_ms_p50.M.wW.bB.lagoon, .onnxruntime, .openvino
///   latency_ratio_vs_onnxruntime.M.wW.bB   ratio of a trial's medians; median over trials with its
///                                          interval (bench/measure/evidence.h); target: at most
///                                          1.25
///   latency_ratio_vs_onnxruntime_geomean.wW.bB
///                                          geometric mean of these ratios over the models
///   latency_ratio_vs_openvino..., latency_ratio_vs_best...
///                                          the same for OpenVINO, and for whichever engine is
///                                          faster in a trial; target of the latter: at most 1.15
///   kernel_gap_us_p50.M    from the last commit of a kernel to the first block of a kernel that
///                          waited for it
///   block_us_p99.M         CPU time of a block, over all blocks of 5 inferences
///   block_us_max.M         the largest of the kernels' mean block times
///   load_ms.M, weights_mib.M, arena_mib.M, kernels.M
/// With `bf16` also:
///   latency_ms_p50.M.wW.bB.bf16
///   bf16_speedup.M.wW.bB                   latency of fp32 over that of bf16, as above
///   bf16_top1_agreement.M, bf16_cosine.M   with fp32 over 16 inputs (bench/live/agreement.h)
///   block_us_p99.M.bf16, weights_mib.M.bf16
Status RunModels(const ModelsOptions& options, Report& report);

}  // namespace lagoon::bench
