#pragma once

#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/report/report.h"
#include "bench/split/options.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct SplitLiveOptions : SplitOptions {
  SplitLiveOptions() { scenarios = {1, 3, 6}; }
  std::string zoo;
  DeviceChoice device;
  int requests = 400;  // of a scenario, in all windows of a system together
  int windows = 10;    // of each scenario and system, interleaved
  double seconds = 0;  // limit of all windows (WindowsPlan::seconds); 0: no limit
  bool against_onnxruntime = true;
  ComparatorOptions onnxruntime;
};

/// The models of the zoo in the order of Table 1, or small ones in their place.
std::vector<std::string> SplitZoo(bool small);

/// SPLIT's scenarios on a real device, read as one process, with the zoo's models in the place of
/// Table 1's. `small`: five models of ResNet-18's size or less. The intervals are Table 2's, scaled
/// so that the load is the paper's. Systems: the schedulers, and `onnxruntime`: one session for
/// each model, one request at a time in order of arrival. All systems of a trial get the same
/// arrivals; MeasureWindows() chooses their order and repeats trials that the host disturbed.
/// - Short models are the three that take least time alone, as in Table 1.
/// - Models that are long (IsLong()) have as many parts as ChooseParts() says, in mode kPlan: under
///   `split` activations stay where they are.
/// Metrics: those of WriteSplitResults(), MeasurePreemptionDecision() and
///   load.C, interval_ms.C                load and mean interval of a case
///   alone_ms.<model>[.onnxruntime]       median latency without other requests
///   split_parts.<model>                  number of parts
///   split_overhead.<model>.<parts>.plan  latency alone in parts over that in one part, less 1
///   split_generations.<model>, split_fitness_vs_optimum.<model>   as RunSplitOnSim()
Status RunSplitLive(const SplitLiveOptions& options, Report& report);

}  // namespace lagoon::bench
