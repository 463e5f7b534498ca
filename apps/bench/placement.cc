// `lagoon bench placement` on simulated devices, `lagoon bench fleet` on real ones, and
// `lagoon bench interference`.

#include "bench/placement/placement.h"

#include <cstdio>
#include <memory>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "apps/load.h"
#include "bench/fleet/fleet.h"
#include "bench/shares/co_runs.h"
#include "sim/placement/comparators.h"

namespace lagoon {
namespace {

std::string NamesOfPlacers() {
  std::string names;
  for (const PlacerInfo& info : AllPlacers()) names += (names.empty() ? "" : ", ") + info.name;
  return names;
}

void AddScenario(CLI::App& command, bench::PlacementOptions& options) {
  command
      .add_option("--placers", options.placers, "Which ones (default: all): " + NamesOfPlacers())
      ->delimiter(',');
  command
      .add_option("--gpus", options.gpus, "Numbers of simulated A100s; ten models for each four")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--loads", options.loads,
                  "Arrival rates; at 1 the models need 60 % of the GPUs if each has its knee")
      ->delimiter(',')
      ->check(NumberBetween(0.01, 10.0))
      ->capture_default_str();
  command.add_option("--seeds", options.seeds, "Runs of each case, with other arrivals and rates")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--seconds", options.seconds,
                  "Virtual time of a run; its first third is not counted")
      ->check(NumberBetween(1.0, 86'400.0))
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Threads that simulate")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
}

void AddKnowledge(CLI::App& command, bench::PlacementOptions& options) {
  command
      .add_option("--interference", options.interference,
                  "Latency model of the placers: none, paper, constant, ridge, saturating")
      ->capture_default_str();
  command.add_flag("!--no-online", options.online,
                   "Without the correction of the latency models by what is measured");
  command
      .add_option("--rates", options.rates,
                  "How the placers know arrival rates: monitor, last-second, oracle")
      ->capture_default_str();
  command.add_option("--margin", options.margin, "Standard errors that are added to the rates")
      ->check(NumberBetween(0.0, 100.0))
      ->capture_default_str();
  command
      .add_option("--busy", options.busy,
                  "What part of its capacity gpulet, gslice, igniter and usher ask of a replica; "
                  "their papers: 1")
      ->check(NumberBetween(0.01, 1.0))
      ->capture_default_str();
  command
      .add_option("--groups", options.groups,
                  "So many GPUs at a time decide on their own, each group with models of its own "
                  "(InSS 5.2); 0: all together")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command.add_flag("--exact", options.exact,
                   "The simulated truth is as the latency models assume, without noise");
  command.add_flag("--paper-baselines", options.paper_too,
                   "Also a second block: the baselines as InSS describes them, without headroom, "
                   "and shares that change by loading");
  command.add_flag("--fill", options.fill,
                   "Batches wait until they are full, as InSS has it, or until it gets late");
}

Status ShowErrors(const std::string& name, const std::vector<MeasuredPoint>& points,
                  bench::Report& report) {
  std::string table;
  LAGOON_RETURN_IF_ERROR(bench::ReportPoints(name, points, report, table));
  std::fputs(table.c_str(), stderr);
  return {};
}

void AddInterference(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::CoRunOptions>();
  auto points = std::make_shared<std::string>();
  CLI::App* command = AddBenchmark(
      parent, "interference",
      "InSS: how much models slow each other down on shares of the CPU, and how well that is "
      "predicted for pairs that were not measured",
      *common, false);
  AddModelNames(*command, options->models);
  command->add_option("--rows", options->rows, "Rows of a batch")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  AddWorkers(*command, options->workers);
  command->add_option("--pairs", options->pairs, "Measurements of each pair of models")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddRounds(*command, options->rounds);
  command->add_option("--window-seconds", options->seconds, "Length of a window")
      ->check(NumberBetween(0.05, 60.0))
      ->capture_default_str();
  AddSeed(*command, options->seed);
  command->add_option("--points", *points,
                      "Writes the measured times to this file, for "
                      "`lagoon bench placement --points`");
  command->callback([common, options, points] {
    options->zoo = common->zoo;
    const nlohmann::json configuration = {
        {"models", options->models},   {"rows", options->rows},
        {"workers", options->workers}, {"pairs", options->pairs},
        {"rounds", options->rounds},   {"window_seconds", options->seconds},
        {"seed", options->seed}};
    RequireModels(*common, options->models);
    Measure("interference", configuration, *common, [&](bench::Report& report) -> Status {
      LAGOON_ASSIGN_OR_RETURN(const auto measured, bench::MeasureCoRuns(*options));
      if (!points->empty()) LAGOON_RETURN_IF_ERROR(WriteMeasuredPoints(*points, measured));
      report.Field("points_text", MeasuredPointsText(measured));
      return ShowErrors("the measured points", measured, report);
    });
  });
}

}  // namespace

void AddPlacementBenchmark(CLI::App& bench) {
  AddInterference(bench);
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::PlacementOptions>();
  auto points = std::make_shared<std::string>();
  CLI::App* command = AddSimulation(
      bench, "placement",
      "InSS: many models on many simulated GPUs under several placers; or how exact latency models "
      "are on measured co-runs (--points)",
      *common);
  AddPlot(*command, *common);
  AddScenario(*command, *options);
  AddKnowledge(*command, *options);
  AddSeed(*command, options->seed);
  command->add_option("--points", *points,
                      "Instead: a file of measured times (docs/guide/fleet.md), of which each "
                      "pair of models is predicted by a fit that has not seen it");
  command->callback([common, options, points] {
    if (!points->empty()) {
      Measure("points", {{"points", *points}}, *common, [&](bench::Report& report) -> Status {
        LAGOON_ASSIGN_OR_RETURN(const auto measured, ReadMeasuredPoints(*points));
        return ShowErrors(*points, measured, report);
      });
      return;
    }
    const nlohmann::json configuration = {
        {"placers", options->placers}, {"gpus", options->gpus},
        {"loads", options->loads},     {"seeds", options->seeds},
        {"seconds", options->seconds}, {"interference", options->interference},
        {"online", options->online},   {"rates", options->rates},
        {"margin", options->margin},   {"busy", options->busy},
        {"groups", options->groups},   {"paper_baselines", options->paper_too},
        {"exact", options->exact},     {"fill", options->fill},
        {"seed", options->seed}};
    Measure("placement", configuration, *common,
            [&](bench::Report& report) { return RunPlacement(*options, report); });
  });
}

void AddFleetBenchmark(CLI::App& bench) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::FleetBenchOptions>();
  options->placers = {"static", "least-loaded", "lagoon"};
  CLI::App* command = AddBenchmark(
      bench, "fleet", "InSS: models on several devices, with rates that change, under each placer",
      *common, false);
  AddModelNames(*command, options->files);
  command->add_option("--number", options->models, "Models, which are copies of --models in turns")
      ->check(CLI::Range(2, 256))
      ->capture_default_str();
  command->add_option("--fleet", options->devices, "Devices, as `lagoon serve --fleet`")
      ->capture_default_str();
  command->add_option("--placers", options->placers, "Placers to compare")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::FleetBenchPlacers()))
      ->capture_default_str();
  AddScheduler(*command, options->scheduler);
  command
      ->add_option("--sides", options->sides,
                   "What placers decide besides devices: none, shares (of the devices; they hold "
                   "under the scheduler 'weighted', and on devices of several units), limits "
                   "(shares, and the rows of batches)")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::kFleetBenchSides))
      ->capture_default_str();
  command
      ->add_option("--load", options->load,
                   "Arrivals of all models together: a part of what the devices can do")
      ->check(NumberBetween(0.01, 2.0))
      ->capture_default_str();
  command
      ->add_option("--slo-factor", options->slo_factor,
                   "SLO of a request: so many times the longest time of a model alone")
      ->check(NumberBetween(1.0, 1000.0))
      ->capture_default_str();
  command
      ->add_option("--rate", options->rate_per_s,
                   "Requests per second of all models together, in place of --load, so that runs "
                   "can be compared; 0: by the models' times, which each run measures")
      ->check(NumberBetween(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--slo-ms", options->slo_ms,
                   "SLO of a request, in place of --slo-factor; 0: by the models' times")
      ->check(NumberBetween(0.0, 3.6e6))
      ->capture_default_str();
  command->add_option("--phases", options->phases, "Times that the rates are drawn anew")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--phase-seconds", options->phase_seconds, "Length of a phase")
      ->check(NumberBetween(0.1, 3600.0))
      ->capture_default_str();
  AddSeed(*command, options->seed);
  command->add_option("--seeds", options->seeds, "Runs of each placer, with other arrivals")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->callback([common, options] {
    options->zoo = common->zoo;
    const nlohmann::json configuration = {{"models", options->files},
                                          {"number", options->models},
                                          {"seeds", options->seeds},
                                          {"fleet", options->devices},
                                          {"placers", options->placers},
                                          {"scheduler", Configurations({options->scheduler})},
                                          {"sides", options->sides},
                                          {"load", options->load},
                                          {"slo_factor", options->slo_factor},
                                          {"rate_per_s", options->rate_per_s},
                                          {"slo_ms", options->slo_ms},
                                          {"phases", options->phases},
                                          {"phase_seconds", options->phase_seconds},
                                          {"seed", options->seed}};
    RequireModels(*common, options->files);
    Measure("fleet", configuration, *common,
            [&](bench::Report& report) { return RunFleet(*options, report); });
  });
}

}  // namespace lagoon
