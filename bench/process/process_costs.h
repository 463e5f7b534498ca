#pragma once

#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/measure/evidence.h"
#include "bench/report/report.h"

namespace lagoon::bench {

struct ProcessCostsOptions {
  std::string zoo;                   // folder of models
  std::vector<std::string> models;   // names in it
  std::vector<std::string> engines;  // beside Lagoon
  int rounds = 8;                    // in each, every side has a new process, in random order
  std::uint32_t seed = 1;            // for the order
  ComparatorOptions comparator;      // with `lagoon`
};

/// Measures what a process costs that loads one model, with one thread and batch 1: for Lagoon and
/// each engine, in turns. What the same process costs with a model that computes next to nothing is
/// subtracted from memory: it is the library or the interpreter. Metrics, for model M:
///   load_ms.M.lagoon, .onnxruntime, .openvino       from the file to a model that can run
///   resident_mib.M.lagoon, ...                      after loading and one run
///   peak_mib.M.lagoon, ...                          up to then
///   load_ratio_vs_best.M, resident_ratio_vs_best.M, memory_ratio_vs_best.M
///                                                   over the least of the engines in the same
///                                                   round, with two engines or more; the last is
///                                                   of peaks. Memory counts as at least 1 MiB
///   resident_base_mib.lagoon, ..., peak_base_mib    what was subtracted
/// Targets: at most 1. They are undecided where the host disturbed a process. An engine that does
/// not run a model has no metrics of the model. Returns the metrics that are undecided.
Result<std::vector<std::string>> MeasureProcessCosts(const ProcessCostsOptions& options,
                                                     Report& report, Evidence& evidence);

}  // namespace lagoon::bench
