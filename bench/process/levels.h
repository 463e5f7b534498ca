#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/report/report.h"

namespace lagoon::bench {

struct LevelsOptions {
  std::string zoo;                       // folder of models
  std::vector<std::string> models;       // names in it
  std::vector<std::string> levels = {};  // of this machine, the lowest first; not empty
  std::vector<std::uint32_t> workers = {1};
  std::vector<std::int64_t> batches = {1};
  std::vector<std::string> engines;  // beside Lagoon, at the machine's highest level
  int rounds = 8;                    // trials; in each trial every side runs once, in random order
  double seconds = 1.0;              // length of a side's turn
  std::uint32_t seed = 1;            // for the order
  ComparatorOptions comparator;      // with `lagoon`
};

/// Measures the latency of models at instruction-set levels, in turns: a process of Lagoon's for
/// each level, and a process for each engine. Metrics, for model M, W workers, batch B, level L:
///   latency_ms_p50.M.wW.bB.L, .onnxruntime, .openvino
///   level_ratio.M.wW.bB.L           latency at L over that at the last of the levels, of a trial;
///                                   median over trials with its interval
///   latency_ratio_vs_best.M.wW.bB.L over the faster engine, with two or more of them
Status RunLevels(const LevelsOptions& options, Report& report);

}  // namespace lagoon::bench
