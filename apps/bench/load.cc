// Figures of Paella and REEF on a real device: `load`, `depth`, `block-events`.

#include "apps/load.h"

#include <memory>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "bench/gpu/block_events.h"
#include "bench/host/depth.h"
#include "bench/live/random_load.h"

namespace lagoon {
namespace {

void AddLoad(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::RandomLoadOptions>();
  options->models = {"resnet18", "mobilenet_v2", "resnet34",  "squeezenet1_1",
                     "resnet50", "densenet121",  "googlenet", "inception_v3"};
  CLI::App* command = AddBenchmark(
      parent, "load", "Paella 7: models under random load, up to saturation", *common, true);
  AddModelNames(*command, options->models);
  AddSchedulers(*command, options->schedulers);
  options->schedulers = {"single-stream", "job-streams", "kernel-streams", "sjf", "rr",
                         "paella",        "lagoon"};
  command->get_option("--schedulers")->default_str(CLI::detail::join(options->schedulers, ","));
  AddDevice(*command, options->device);
  command
      ->add_option("--loads", options->loads,
                   "Jobs a second, as parts of what the device does one job after the other")
      ->delimiter(',')
      ->check(NumberBetween(1e-4, 100.0))
      ->capture_default_str();
  command
      ->add_option("--sigmas", options->sigmas,
                   "Of the lognormal times between jobs; 0: exponential times")
      ->delimiter(',')
      ->check(NumberBetween(0.0, 4.0))
      ->capture_default_str();
  command->add_flag("--by-size", options->by_size,
                    "The longer a model takes alone, the fewer of the jobs are its (Figure 12)");
  command->add_option("--jobs", options->jobs, "Jobs of a window")
      ->check(CLI::Range(10, 1'000'000))
      ->capture_default_str();
  AddWindows(*command, options->windows);
  AddSeed(*command, options->seed);
  command->callback([common, options] {
    options->zoo = common->zoo;
    options->against_onnxruntime = common->BesideOnnxRuntime(options->device);
    options->onnxruntime = common->OnnxRuntime();
    const nlohmann::json configuration = {{"models", options->models},
                                          {"schedulers", Configurations(options->schedulers)},
                                          {"device", options->device.name},
                                          {"workers", options->device.workers},
                                          {"loads", options->loads},
                                          {"sigmas", options->sigmas},
                                          {"by_size", options->by_size},
                                          {"jobs", options->jobs},
                                          {"windows", options->windows},
                                          {"seed", options->seed},
                                          {"onnxruntime", options->against_onnxruntime}};
    RequireDevice(options->device);
    RequireModels(*common, options->models);
    Measure("load", configuration, *common,
            [&](bench::Report& report) { return RunRandomLoad(*options, report); });
  });
}

void AddDepth(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::DepthOptions>();
  CLI::App* command = AddSimulation(
      parent, "depth", "REEF 21: what the depth of the device's queue costs the host", *common);
  AddWorkers(*command, options->workers);
  command->add_option("--depths", options->depths, "Kernels of a job in the device's queue")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--kernel-us", options->kernel_us, "Time of a kernel in us")
      ->check(NumberBetween(0.1, 1e5))
      ->capture_default_str();
  command->add_option("--window-seconds", options->window_seconds, "Length of a window")
      ->check(NumberBetween(0.05, 60.0))
      ->capture_default_str();
  AddWindows(*command, options->windows);
  AddSeed(*command, options->seed);
  command->callback([common, options] {
    Measure("depth",
            {{"workers", options->workers},
             {"depths", options->depths},
             {"kernel_us", options->kernel_us},
             {"window_seconds", options->window_seconds},
             {"windows", options->windows},
             {"seed", options->seed}},
            *common, [&](bench::Report& report) { return RunDepth(*options, report); });
  });
}

void AddBlockEvents(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::BlockEventsOptions>();
  CLI::App* command =
      AddSimulation(parent, "block-events",
                    "Paella 15: what reports of blocks cost a kernel of empty blocks", *common);
  AddDevice(*command, options->device);
  AddRounds(*command, options->rounds, /*least=*/10);
  AddWindows(*command, options->windows);
  AddSeed(*command, options->seed);
  command->callback([common, options] {
    Measure("block-events",
            {{"device", options->device.name},
             {"workers", options->device.workers},
             {"rounds", options->rounds},
             {"windows", options->windows},
             {"seed", options->seed}},
            *common, [&](bench::Report& report) { return RunBlockEvents(*options, report); });
  });
}

}  // namespace

void AddLoadBenchmarks(CLI::App& bench) {
  AddLoad(bench);
  AddDepth(bench);
  AddBlockEvents(bench);
}

}  // namespace lagoon
