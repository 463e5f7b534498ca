#pragma once

#include <vector>

#include "bench/report/report.h"
#include "bench/split/options.h"
#include "bench/split/scenario.h"
#include "sim/device/gpu_model.h"

namespace lagoon::bench {

struct SplitSimOptions : SplitOptions {
  GpuModel gpu;  // its kernel lists: bench/sim/kernel_lists.h
  std::vector<SplitReading> readings = {SplitReading::kOneProcess, SplitReading::kPerModel};
  int requests = 1000;  // of a scenario
  int seeds = 10;       // of each scenario: runs with other arrivals
  int threads = 1;      // that simulate; they do not change the metrics
  bool sweep = false;   // also loads from 0.2 to 1.2, one process
  int decision_rounds = 9;
};

/// SPLIT's scenarios (5.5) on a simulated device in virtual time. The models are those of Table 1;
/// `split` has them in the parts and with the overheads of Table 3 (CutIntoParts()), and
/// `split.plan` in the same parts without overhead.
/// Equal options give equal metrics, but for preemption_decision_us. Metrics: those of
/// WriteSplitResults(), MeasurePreemptionDecision() and
///   load.CX                                   LoadOf() the case
///   split_parts.<model>                       number of parts that Eq. 2 chooses from Table 3
///   split_overhead.<model>.<parts>.{plan,onnx}  time alone in so many parts over the time in one
///                                             part, less 1; with Table 3's numbers of parts
///   split_sigma_ms.<model>.<parts>            standard deviation of the parts' times
///   split_generations.<model>                 generations until the genetic search had its best
///   split_fitness_vs_optimum.<model>          fitness of the search over that of the optimum, both
///                                             below 0: 1 is best
/// And the field "generations": GenerationsOf() for each row of Table 3.
Status RunSplitOnSim(const SplitSimOptions& options, Report& report);

}  // namespace lagoon::bench
