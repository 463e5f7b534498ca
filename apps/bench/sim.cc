// Benchmarks of and on simulated devices: the simulator's speed, the cost of a decision, the
// papers' figures. And one in real time: how long jobs wait for the dispatcher.

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "apps/load.h"
#include "bench/host/admission.h"
#include "bench/papers/figures.h"
#include "bench/sim/cluster_speed.h"
#include "bench/sim/decision.h"
#include "bench/sim/sim_speed.h"

namespace lagoon {
namespace {

void AddSimSpeed(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::SimSpeedOptions>();
  CLI::App* command = AddSimulation(
      parent, "sim", "Speed of the simulator, dispatcher and policy included", *common);
  AddRounds(*command, options->rounds);
  AddSeconds(*command, options->seconds);
  command->callback([common, options] {
    Measure("sim", {{"rounds", options->rounds}, {"seconds", options->seconds}}, *common,
            [&](bench::Report& report) { return RunSimSpeed(*options, report); });
  });
}

void AddDecision(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::DecisionOptions>();
  CLI::App* command =
      AddSimulation(parent, "decision", "Host time of a scheduling decision", *common);
  AddRounds(*command, options->rounds);
  AddSeconds(*command, options->seconds);
  command->callback([common, options] {
    Measure("decision", {{"rounds", options->rounds}, {"seconds", options->seconds}}, *common,
            [&](bench::Report& report) { return RunDecision(*options, report); });
  });
}

void AddAdmission(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::AdmissionOptions>();
  CLI::App* command = AddSimulation(
      parent, "admission", "How long real-time jobs wait for the dispatcher beside short kernels",
      *common);
  AddWorkers(*command, options->workers);
  AddRequests(*command, options->requests);
  AddRounds(*command, options->rounds);
  command->add_option("--clients", options->clients, "Best-effort clients")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--kernel-us", options->kernel_us, "Time of a kernel in us")
      ->check(NumberBetween(0.1, 1e5))
      ->capture_default_str();
  AddScheduler(*command, options->scheduler);
  AddSeed(*command, options->seed);
  command->callback([common, options] {
    if (options->requests < options->rounds) options->rounds = options->requests;
    Measure("admission",
            {{"workers", options->workers},
             {"requests", options->requests},
             {"rounds", options->rounds},
             {"clients", options->clients},
             {"kernel_us", options->kernel_us},
             {"scheduler", Configurations({options->scheduler})},
             {"seed", options->seed}},
            *common, [&](bench::Report& report) { return RunAdmission(*options, report); });
  });
}

void AddClusterSpeed(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::ClusterSpeedOptions>();
  CLI::App* command = AddSimulation(parent, "cluster-sim",
                                    "Speed of the batch-level simulator of many devices", *common);
  command->add_option("--gpus", options->gpus, "Devices")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  AddSeconds(*command, options->seconds);
  AddSeed(*command, options->seed);
  command->callback([common, options] {
    Measure("cluster-sim",
            {{"gpus", options->gpus}, {"seconds", options->seconds}, {"seed", options->seed}},
            *common, [&](bench::Report& report) { return RunClusterSpeed(*options, report); });
  });
}

void AddGpuModel(CLI::App& parent) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = parent.add_subcommand(
      "gpu-model", "Print a built-in simulated device, to begin a file for --device sim:FILE.json");
  command->add_option("name", *name, "Its name (default: list all names)");
  command->callback([name] {
    if (name->empty()) {
      for (const std::string_view built_in : BuiltInGpuModels()) {
        std::printf("%-10s%s\n", std::string(built_in).c_str(),
                    LoadGpuModel(std::string(built_in))->description.c_str());
      }
      return;
    }
    const std::string_view text = BuiltInGpuModelText(*name);
    if (text.empty()) Die(LoadGpuModel(*name).error().message);
    std::printf("%s\n", std::string(text).c_str());
  });
}

void AddFigures(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::FiguresOptions>();
  CLI::App* command = AddSimulation(
      parent, "figures",
      "Figures of REEF, Paella, GSLICE and InSS on simulated devices, beside their numbers",
      *common);
  AddPlot(*command, *common);
  command->add_option("--only", options->only, "Names such as reef-17 (default: all that can run)")
      ->delimiter(',');
  command->add_option("--paper", options->paper, "gslice, inss, paella or reef (default: all)");
  command->add_option("--effort", options->effort, "Factor for the requests of each figure")
      ->check(NumberBetween(0.001, 10.0))
      ->capture_default_str();
  AddSeed(*command, options->seed);
  command->callback([common, options] {
    const nlohmann::json configuration = {{"only", options->only},
                                          {"paper", options->paper},
                                          {"effort", options->effort},
                                          {"seed", options->seed}};
    Measure("figures", configuration, *common, [&](bench::Report& report) -> Status {
      report.Field("predicted", true);
      std::string table;
      LAGOON_RETURN_IF_ERROR(RunFigures(*options, report, table));
      std::fputs(table.c_str(), stderr);
      return {};
    });
  });
}

}  // namespace

void AddSimBenchmarks(CLI::App& bench) {
  AddSimSpeed(bench);
  AddDecision(bench);
  AddAdmission(bench);
  AddClusterSpeed(bench);
  AddGpuModel(bench);
  AddFigures(bench);
}

}  // namespace lagoon
