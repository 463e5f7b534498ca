#include "bench/shares/switch.h"

#include <fmt/format.h>

#include <memory>
#include <thread>
#include <utility>

#include "bench/measure/statistics.h"
#include "bench/shares/switch_cpu.h"
#include "sim/device/gpu_model.h"

namespace lagoon::bench {
namespace {

Status CheckUnits(const std::string& device, std::uint32_t units) {
  if (units >= 3) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("device '{}' has {} units; two shares that move need at least 3", device, units));
}

Status Write(const std::string& device, const SwitchKind& kind, const SwitchRun& run,
             Report& report) {
  const std::string of = fmt::format("{}.{}", device, kind.name);
  if (run.times.idle_us.empty()) {
    return Fail(ErrorCode::kInternal, fmt::format("{}: no move had a block after it", of));
  }
  report.Metric("share_switch_idle_us_p50." + of, Median(run.times.idle_us));
  report.Metric("share_switch_idle_us_p99." + of, Percentile(run.times.idle_us, 99));
  report.Metric("service_gap_us_p99." + of, Percentile(run.times.gap_us, 99));
  report.Metric("moves." + of, static_cast<double>(run.times.idle_us.size()));
  report.Metric("moves_without_block." + of, static_cast<double>(run.times.without_block));
  report.Metric("jobs." + of, static_cast<double>(run.jobs));
  report.Metric("jobs_lost." + of, static_cast<double>(run.lost));
  report.Metric("share_evicted_kernels." + of, static_cast<double>(run.evictions));
  return {};
}

}  // namespace

std::vector<SwitchKind> SwitchKinds(std::uint32_t units) {
  // Half to three quarters. With 3 units: one unit to two.
  const std::uint32_t less = units / 2, more = std::max(less + 1, units * 3 / 4);
  const UnitRange front{0, less}, back{units - less, less};
  return {{"resize",
           {{{UnitRange{0, less}, UnitRange{less, units - less}},
             {UnitRange{0, more}, UnitRange{more, units - more}}}}},
          {"swap", {{{front, back}, {back, front}}}}};
}

Status RunSwitch(const SwitchOptions& options, Report& report) {
  ProgressBar progress("bench shares --switch", options.cpu ? 5 : 2);
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(options.gpu));
  const auto units = static_cast<std::uint32_t>(gpu.constants.units);
  LAGOON_RETURN_IF_ERROR(CheckUnits("sim:" + gpu.name, units));
  for (const SwitchKind& kind : SwitchKinds(units)) {
    LAGOON_ASSIGN_OR_RETURN(const SwitchRun run, RunSimSwitch(options, kind));
    LAGOON_RETURN_IF_ERROR(Write("sim-" + gpu.name, kind, run, report));
    progress.Step("sim " + kind.name);
  }
  if (!options.cpu) return {};
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<CpuSwitch> cpu, CpuSwitch::Open(options));
  LAGOON_RETURN_IF_ERROR(CheckUnits("cpu", cpu->workers()));
  const unsigned cores = std::thread::hardware_concurrency();
  report.Field(
      "workers",
      {{"workers", cpu->workers()}, {"cores", cores}, {"oversubscribed", cpu->workers() > cores}});
  for (const SwitchKind& kind : SwitchKinds(cpu->workers())) {
    LAGOON_ASSIGN_OR_RETURN(const SwitchRun run, cpu->Run(kind));
    LAGOON_RETURN_IF_ERROR(Write("cpu", kind, run, report));
    report.Metric("results_wrong.cpu." + kind.name, static_cast<double>(run.wrong));
    progress.Step("cpu " + kind.name);
  }
  if (options.restarts > 0) {
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> gaps, cpu->Restarts());
    report.Metric("restart_gap_ms", Median(gaps));
  }
  progress.Step("restart");
  return {};
}

}  // namespace lagoon::bench
