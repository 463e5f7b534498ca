#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report/report.h"

namespace lagoon::bench {

struct InstancesOptions {
  std::string zoo;                  // folder of models
  std::vector<std::string> models;  // names in it
  std::uint32_t workers = 1;        // 0: one per core
  int rounds = 5;                   // of each model and way, each in a process of its own
};

/// What another instance of a model costs (GSLICE 3.3.3, Table 1), on the CPU: one that shares the
/// weights of the first instance, as instances of a served model do, beside one that is loaded from
/// the file again. Batch 1. The memory is private memory (RssAnon) after the instance has run once.
/// Metrics, for a model M; medians over the rounds:
///   load_ms.M.shared, load_ms.M.alone            until the other instance can run
///   instance_mib.M.shared, instance_mib.M.alone  memory that the other instance adds
///   first_load_ms.M, first_mib.M                 the same for the first instance
///   file_mib.M                                   size of the ONNX file, which is mostly weights
///   load_ratio.M, memory_ratio.M                 alone / shared: how much sharing saves
///   instances_in_16_gib.M.shared, .alone         how many instances fit, the first one included
/// The field "paper" has the same ratios of Table 1 (CNTK on a V100) and verdicts, for the models
/// that are in it: [{"model", "metric", "paper", "got", "verdict"}].
/// Forks: call it while the process has only one thread. kNotFound names a model that the zoo
/// lacks.
Status RunInstances(const InstancesOptions& options, Report& report);

}  // namespace lagoon::bench
