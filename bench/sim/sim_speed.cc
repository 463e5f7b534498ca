#include "bench/sim/sim_speed.h"

#include <algorithm>

#include "bench/measure/statistics.h"
#include "bench/sim/sim_jobs.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;

struct Case {
  std::string scheduler;
  SimJobs jobs;
  std::vector<double> events = {}, kernels = {}, speedups = {};  // by round

  std::string name() const { return scheduler + "." + jobs.device; }
};

Status RunRound(Case& measured, const SimSpeedOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(measured.jobs.device));
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(measured.scheduler));
  LAGOON_ASSIGN_OR_RETURN(
      SimStage stage, SimStage::Open({.gpu = gpu}, std::move(scheduler), measured.jobs.Queues()));
  const DisbWindow window =
      measured.jobs.Window(std::chrono::duration_cast<Nanoseconds>(Seconds(options.seconds)));
  const TimePoint virtual_start = stage.device().Now();
  const TimePoint start = Now();
  stage.Run(measured.jobs.clients, window, Nanoseconds(0));
  const double took = Seconds(Now() - start).count();
  // Every block that ended was placed before, and no block still runs: two events per block.
  measured.events.push_back(2 * static_cast<double>(stage.device().blocks_ended()) / took);
  measured.kernels.push_back(static_cast<double>(stage.dispatcher().Stats().launches) / took);
  measured.speedups.push_back(Seconds(stage.device().Now() - virtual_start).count() / took);
  return {};
}

}  // namespace

Status RunSimSpeed(const SimSpeedOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const SimJobs disb, SimJobs::Disb("gv100", "C"));
  LAGOON_ASSIGN_OR_RETURN(const SimJobs mix, SimJobs::Loops("t4", 64));
  std::vector<Case> cases{{"lagoon", disb},
                          {"paella", mix},
                          {"paella", SimJobs::Loops("gtx1660s", PaellaFigure2Job(), 400)}};
  ProgressBar progress("bench sim", options.rounds * static_cast<int>(cases.size()));
  for (int round = 0; round < options.rounds; ++round) {
    for (Case& measured : cases) {
      LAGOON_RETURN_IF_ERROR(RunRound(measured, options));
      progress.Step(measured.name());
    }
  }
  for (const Case& measured : cases) {
    const double events = Median(measured.events);
    report.Metric("sim_block_events_per_second." + measured.name(), events);
    report.Metric("sim_kernels_per_second." + measured.name(), Median(measured.kernels));
    report.Metric("sim_speedup." + measured.name(), Median(measured.speedups));
  }
  report.Metric("sim_block_events_per_second",
                std::min(Median(cases[0].events), Median(cases[1].events)));
  return {};
}

}  // namespace lagoon::bench
