#include "bench/sim_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/paella_jobs.h"
#include "bench/sim_stage.h"
#include "bench/statistics.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;

struct Case {
  std::string scheduler, device;
  std::vector<DisbClient> clients = {};
  std::map<std::string, SimModel> models = {};
  std::vector<double> events = {}, kernels = {}, speedups = {};  // a round each

  std::string name() const { return scheduler + "." + device; }
};

void AddLoops(Case& loops, const SimModel& model, std::size_t count) {
  const std::string name(model.statistics.model);
  for (std::size_t i = 0; i < count; ++i) {
    loops.clients.push_back({fmt::format("{}.{}", name, i), name, JobClass::kBestEffort, {}});
  }
  loops.models.emplace(name, model);
}

Result<Case> DisbC() {
  Case disb{.scheduler = "lagoon", .device = "gv100"};
  LAGOON_ASSIGN_OR_RETURN(const DisbWorkload workload,
                          NamedDisbWorkload("C", DisbScale::kSimulated, 1));
  disb.clients = workload.clients;
  for (const DisbClient& client : disb.clients) {
    LAGOON_ASSIGN_OR_RETURN(SimModel model, MakeSimModel(disb.device, client.model));
    disb.models.emplace(client.model, std::move(model));
  }
  return disb;
}

Result<Case> PaellaMix() {
  Case mix{.scheduler = "paella", .device = "t4"};
  for (const SimModelStatistics& statistics : SimModelTable()) {
    if (statistics.device != mix.device) continue;
    LAGOON_ASSIGN_OR_RETURN(const SimModel model, MakeSimModel(mix.device, statistics.model));
    AddLoops(mix, model, 8);
  }
  return mix;
}

Case SingleBlocks() {
  Case single{.scheduler = "paella", .device = "gtx1660s"};
  AddLoops(single, PaellaFigure2Job(), 400);
  return single;
}

Status RunRound(Case& measured, const SimSpeedOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const SimProfile profile, LoadSimProfile(measured.device));
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(measured.scheduler));
  std::vector<SimStageQueue> queues;
  DisbWindow window;
  window.span = std::chrono::duration_cast<Nanoseconds>(Seconds(options.seconds));
  std::mt19937 random(1);
  for (const DisbClient& client : measured.clients) {
    const SimModel& model = measured.models.at(client.model);
    queues.push_back({client.name, client.job_class, &model});
    window.arrivals.emplace_back();
    if (IsClosedLoop(client)) continue;
    window.arrivals.back() = Arrivals(client.load, model.statistics.time, window.span, random);
  }
  LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                          SimStage::Open({.profile = profile}, std::move(scheduler), queues));
  const TimePoint virtual_start = stage.device().Now();
  const TimePoint start = Now();
  stage.Run(measured.clients, window, Nanoseconds(0));
  const double took = Seconds(Now() - start).count();
  // What has ended was placed, and nothing is left.
  measured.events.push_back(2 * static_cast<double>(stage.device().blocks_ended()) / took);
  measured.kernels.push_back(static_cast<double>(stage.dispatcher().Stats().launches) / took);
  measured.speedups.push_back(Seconds(stage.device().Now() - virtual_start).count() / took);
  return {};
}

}  // namespace

Status RunSimSpeed(const SimSpeedOptions& options, Report& report) {
  std::vector<Case> cases;
  LAGOON_ASSIGN_OR_RETURN(cases.emplace_back(), DisbC());
  LAGOON_ASSIGN_OR_RETURN(cases.emplace_back(), PaellaMix());
  cases.push_back(SingleBlocks());
  Progress progress("bench sim", options.rounds * static_cast<int>(cases.size()));
  for (int round = 0; round < options.rounds; ++round) {
    for (Case& measured : cases) {
      LAGOON_RETURN_IF_ERROR(RunRound(measured, options));
      progress.Step(measured.name());
    }
  }
  double slowest = Median(cases.front().events);
  for (const Case& measured : cases) {
    const double events = Median(measured.events);
    slowest = std::min(slowest, events);
    report.Metric("sim_block_events_per_second." + measured.name(), events);
    report.Metric("sim_kernels_per_second." + measured.name(), Median(measured.kernels));
    report.Metric("sim_speedup." + measured.name(), Median(measured.speedups));
  }
  report.Metric("sim_block_events_per_second", slowest);
  return {};
}

}  // namespace lagoon::bench
