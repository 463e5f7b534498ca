// `lagoon bench fleet`.

#include <memory>

#include "apps/bench_command.h"
#include "apps/load.h"
#include "bench/fleet/fleet.h"
#include "serving/fleet/fleet_placers.h"

namespace lagoon {

void AddFleetBenchmark(CLI::App& bench) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::FleetBenchOptions>();
  options->placers = FleetPlacers();
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
      ->check(CLI::IsMember(FleetPlacers()))
      ->capture_default_str();
  AddScheduler(*command, options->scheduler);
  command
      ->add_option("--load", options->load,
                   "Arrivals of all models together: a part of what the devices can do")
      ->check(CLI::Range(0.01, 2.0))
      ->capture_default_str();
  command
      ->add_option("--slo-factor", options->slo_factor,
                   "SLO of a request: so many times the longest time of a model alone")
      ->check(CLI::Range(1.0, 1000.0))
      ->capture_default_str();
  command->add_option("--phases", options->phases, "Times that the rates are drawn anew")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--phase-seconds", options->phase_seconds, "Length of a phase")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  AddSeed(*command, options->seed);
  command->callback([common, options] {
    options->zoo = common->zoo;
    const nlohmann::json configuration = {{"models", options->files},
                                          {"number", options->models},
                                          {"fleet", options->devices},
                                          {"placers", options->placers},
                                          {"scheduler", Configurations({options->scheduler})},
                                          {"load", options->load},
                                          {"slo_factor", options->slo_factor},
                                          {"phases", options->phases},
                                          {"phase_seconds", options->phase_seconds},
                                          {"seed", options->seed}};
    Measure("fleet", configuration, *common,
            [&](bench::Report& report) { return RunFleet(*options, report); });
  });
}

}  // namespace lagoon
