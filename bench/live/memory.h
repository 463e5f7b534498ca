#pragma once

#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/report/report.h"

namespace lagoon::bench {

struct MemoryOptions {
  std::string zoo;                  // folder of models
  std::vector<std::string> models;  // names in it
  bool against_onnxruntime = true;
  ComparatorOptions onnxruntime;
};

/// Measures the peak resident memory of a new process that loads one model and runs it three times
/// with one thread and batch 1, for Lagoon and for ONNX Runtime. The peak of the same process with
/// a model that computes next to nothing is subtracted: it is the memory of the library or the
/// interpreter. Metrics, for model M:
///   peak_mib.M.lagoon, .onnxruntime; memory_ratio_vs_onnxruntime.M
///   peak_base_mib.lagoon, .onnxruntime    what was subtracted
/// Forks: call it while the process has only one thread.
Status RunMemory(const MemoryOptions& options, Report& report);

}  // namespace lagoon::bench
