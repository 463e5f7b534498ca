#include "bench/shares/sim_rows.h"

#include <algorithm>
#include <vector>

#include "bench/measure/statistics.h"
#include "bench/sim/sim_jobs.h"
#include "bench/sim/sim_stage.h"
#include "sim/surfaces/v100_surfaces.h"

namespace lagoon::bench {
namespace {

constexpr std::uint32_t kBlocksPerUnit = 4;  // of the lists whose blocks do not fill a unit
constexpr int kBatches = 4;

// Time of `rows` rows over that of one row, as published; 0: not published.
double PublishedRatio(const SimModelStatistics& statistics, std::int64_t rows) {
  if (statistics.device != "v100") return 0;
  for (const NamedSurface& named : V100Surfaces()) {
    if (named.model != statistics.model) continue;
    return named.surface.LatencyMs(rows, 1) / named.surface.LatencyMs(1, 1);
  }
  return 0;
}

}  // namespace

Result<SimModel> MakeSimRows(const GpuModel& gpu, const std::string& model, std::int64_t rows) {
  LAGOON_ASSIGN_OR_RETURN(SimModel made, MakeSimModel(gpu.name, model));
  if (rows == 1) return made;
  const double ratio = PublishedRatio(made.statistics, rows);
  const auto room = static_cast<std::int64_t>(gpu.constants.units) *
                    (made.statistics.whole_units ? 1 : kBlocksPerUnit);
  made.statistics.time = Nanoseconds(0);
  for (SimModelKernel& kernel : made.kernels) {
    const auto before = static_cast<std::int64_t>(kernel.blocks);
    const std::int64_t blocks = before * rows;
    const std::int64_t waves = (blocks + room - 1) / room;
    if (ratio > 0) {
      kernel.time =
          Nanoseconds(static_cast<std::int64_t>(static_cast<double>(kernel.time.count()) * ratio));
      kernel.block.time = kernel.time / waves;
    } else {
      kernel.time = kernel.block.time * waves;
    }
    kernel.blocks = static_cast<std::uint32_t>(blocks);
    made.statistics.time += kernel.time;
  }
  return made;
}

Result<double> SimShareMs(const GpuModel& gpu, const SimModel& model, std::uint32_t units) {
  const SimJobs jobs = SimJobs::Loops(gpu.name, model, 1);
  std::vector<SimStageQueue> queues = jobs.Queues();
  queues.front().units = {0, units};
  LAGOON_ASSIGN_OR_RETURN(Scheduler shares, MakeScheduler("shares"));
  LAGOON_ASSIGN_OR_RETURN(SimStage stage, SimStage::Open({.gpu = gpu}, std::move(shares), queues));
  const Nanoseconds longest =
      2 * model.statistics.time * static_cast<std::int64_t>(gpu.constants.units) / units;
  // A closed loop posts until the window ends; it ends after `kBatches` of the slowest batches.
  const std::vector<VirtualRun> runs =
      stage.Run(jobs.clients, jobs.Window(kBatches * longest), Nanoseconds(0));
  return Mean(runs.front().latencies_ms);
}

}  // namespace lagoon::bench
