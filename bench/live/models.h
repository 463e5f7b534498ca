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
  bool tune = false;      // use the fastest version of every op, as after `lagoon profile`
  bool bf16 = false;      // measure bf16 too, in turns with our own fp32
  bool processes = true;  // with engines: also what a process of each side costs
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
///   latency_ratio_vs_best_geomean.S.wW.bB  the same over a set (SetOf()); target: at most 1
///   int8_ratio_vs_best.M                   for a quantised model: the geometric mean of its
///                                          latency_ratio_vs_best over the settings
///   load_ratio_vs_best.M and the others of MeasureProcessCosts()
///   kernel_gap_us_p50.M    from the last commit of a kernel to the first block of a kernel that
///                          waited for it
///   block_us_p99.M         CPU time of a block, over all blocks of 5 inferences
///   block_us_max.M         the largest of the kernels' mean block times
///   load_ms.M, weights_mib.M, arena_mib.M, kernels.M
/// Fields of the report:
///   undecided   names of metrics with a target that the measurements do not decide: the host
///               disturbed them, they are too few, or the interval of a ratio is wider than
///               kMostSpread of it
///   not_run     "M.engine": why the engine does not run the model; the others are compared
/// With `bf16` also:
///   latency_ms_p50.M.wW.bB.bf16
///   bf16_speedup.M.wW.bB                   latency of fp32 over that of bf16, as above
///   bf16_top1_agreement.M, bf16_cosine.M   with fp32 over 16 inputs (bench/live/agreement.h)
///   block_us_p99.M.bf16, weights_mib.M.bf16
Status RunModels(const ModelsOptions& options, Report& report);

/// The set that a model of the folder `zoo` counts in: what its zoo.json says ("ten"), otherwise
/// "zoo"; with "_int8" behind it if the model is quantised.
std::string SetOf(const std::string& zoo, const std::string& model);
/// By its name: NAME.qdq, NAME.qoperator or NAME.dynamic.
bool IsQuantised(const std::string& model);

inline constexpr double kMostSpread = 0.15;

}  // namespace lagoon::bench
