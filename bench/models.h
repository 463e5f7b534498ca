#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/onnxruntime.h"
#include "bench/report.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct ModelsOptions {
  std::string zoo;                  // folder of models
  std::vector<std::string> models;  // names in it
  DeviceChoice device;              // but for its workers:
  std::vector<std::uint32_t> workers = {1, 2};
  /// Sizes of the dimension that files call "batch". Files without one have their own size: they
  /// run for 1 only.
  std::vector<std::int64_t> batches = {1};
  int rounds = 8;          // trials: each side once, in random order
  double seconds = 1.0;    // of each turn
  std::uint32_t seed = 1;  // of the order
  bool against_onnxruntime = true;
  bool tune = false;  // as after `lagoon profile`
  bool bf16 = false;  // beside our own fp32, which takes turns with it
  OnnxRuntimeOptions onnxruntime;
};

/// Latency of every model, beside ONNX Runtime with as many threads in the same run. Metrics, for
/// model M, W workers and batch B (on a GPU without ".wW", and without the blocks' times):
///   latency_ms_p50.M.wW.bB.lagoon, .onnxruntime; latency_ratio_vs_onnxruntime.M.wW.bB (median
///   over trials of the ratio of medians, with its interval: bench/evidence.h; target: at most
///   1.25), and its geometric mean over the models latency_ratio_vs_onnxruntime_geomean.wW.bB
///   kernel_gap_us_p50.M    last commit of a kernel to the first block of one that waited for it
///   block_us_p99.M         CPU time of the thread, over all blocks of 5 inferences
///   block_us_max.M         of the kernels' mean blocks
///   load_ms.M, weights_mib.M, arena_mib.M, kernels.M
/// With `bf16` also:
///   latency_ms_p50.M.wW.bB.bf16; bf16_speedup.M.wW.bB (the same, above 1 is faster)
///   bf16_top1_agreement.M, bf16_cosine.M   with fp32 over 16 inputs (bench/agreement.h)
///   block_us_p99.M.bf16, weights_mib.M.bf16
Status RunModels(const ModelsOptions& options, Report& report);

}  // namespace lagoon::bench
