#pragma once

#include <string>
#include <vector>

#include "bench/onnxruntime.h"
#include "bench/report.h"

namespace lagoon::bench {

struct MemoryOptions {
  std::string zoo;                  // folder of models
  std::vector<std::string> models;  // names in it
  bool against_onnxruntime = true;
  OnnxRuntimeOptions onnxruntime;
};

/// Peak resident memory of a process that loads one model and runs it three times with one thread,
/// batch 1: Lagoon and ONNX Runtime, each in a new process, less the peak of the same process with
/// a model that computes next to nothing (a library, an interpreter). Metrics, for model M:
///   peak_mib.M.lagoon, .onnxruntime; memory_ratio_vs_onnxruntime.M
///   peak_base_mib.lagoon, .onnxruntime    what was subtracted
/// Call it while the process has one thread: it forks.
Status RunMemory(const MemoryOptions& options, Report& report);

}  // namespace lagoon::bench
