// Figures of Paella and REEF on a real device: `load`, `depth`, `block-events`.

#include "apps/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "apps/bench/bench_command.h"
#include "apps/bench/simulated.h"
#include "apps/command.h"
#include "bench/gpu/block_events.h"
#include "bench/host/depth.h"
#include "bench/live/random_load.h"
#include "bench/sim/load.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

// The options of `lagoon bench load`.
struct LoadWords {
  BenchCommon common;
  bench::RandomLoadOptions options;
  KernelWords kernels;  // of simulated devices

  Json Configuration() const {
    return {{"models", options.models},      {"schedulers", Configurations(options.schedulers)},
            {"device", options.device.name}, {"loads", options.loads},
            {"sigmas", options.sigmas},      {"by_size", options.by_size},
            {"jobs", options.jobs},          {"windows", options.windows},
            {"seed", options.seed}};
  }
};

void RunSimLoad(LoadWords& words) {
  bench::SimRandomLoadOptions options;
  options.gpu = SimulatedGpu(words.options.device.name);
  options.kernels = ReadKernels(words.kernels, options.gpu, words.options.models);
  if (words.options.models.empty()) {
    words.options.models = ModelsWithKernels(options.kernels, options.gpu);
  }
  if (words.options.models.empty()) {
    Die(fmt::format("device '{}' has no models: add --kernels MODEL=FILE or --kernels-of DEVICE",
                    options.gpu.name));
  }
  static_cast<bench::LoadRunOptions&>(options) = words.options;
  options.watch = WatchOf(words.common.tracing, options.schedulers.size());
  Json configuration = words.Configuration();
  words.kernels.AddTo(configuration);
  configuration["profile"] = GpuModelJson(options.gpu);
  Measure("load", std::move(configuration), words.common, [&](bench::Report& report) -> Status {
    report.Field("predicted", true);
    LAGOON_RETURN_IF_ERROR(RunRandomLoadOnSim(options, report));
    std::fputs(bench::LoadTable(report).c_str(), stderr);
    return {};
  });
}

void RunLiveLoad(LoadWords& words) {
  bench::RandomLoadOptions& options = words.options;
  options.zoo = words.common.zoo;
  options.against_onnxruntime = words.common.BesideOnnxRuntime(options.device);
  options.onnxruntime = words.common.OnnxRuntime();
  if (options.models.empty()) {
    options.models = {"resnet18", "mobilenet_v2", "resnet34",  "squeezenet1_1",
                      "resnet50", "densenet121",  "googlenet", "inception_v3"};
  }
  Json configuration = words.Configuration();
  configuration["workers"] = options.device.workers;
  configuration["onnxruntime"] = options.against_onnxruntime;
  RequireDevice(options.device);
  options.trace = words.common.tracing.Start();
  RequireModels(words.common, options.models);
  Measure("load", std::move(configuration), words.common, [&](bench::Report& report) -> Status {
    LAGOON_RETURN_IF_ERROR(RunRandomLoad(options, report));
    std::fputs(bench::LoadTable(report).c_str(), stderr);
    return {};
  });
  words.common.tracing.Finish();
}

void AddLoadOptions(CLI::App& command, LoadWords& words) {
  bench::RandomLoadOptions& options = words.options;
  command
      .add_option(
          "--models", options.models,
          "Names in the zoo (default: eight of the paper's); on a simulated device names of "
          "kernel lists (default: all that there are)")
      ->delimiter(',');
  AddSchedulers(command, options.schedulers);
  options.schedulers = {"single-stream", "job-streams", "kernel-streams", "sjf", "rr",
                        "paella",        "lagoon"};
  command.get_option("--schedulers")->default_str(CLI::detail::join(options.schedulers, ","));
  AddDevice(command, options.device);
  command.get_option("--device")
      ->description(
          "cpu, cuda:N (see `lagoon devices`), or sim:NAME, a simulated device in virtual time");
  AddKernels(command, words.kernels);
  command
      .add_option("--loads", options.loads,
                  "Jobs a second, as parts of what the device does one job after the other")
      ->delimiter(',')
      ->check(NumberBetween(1e-4, 100.0))
      ->capture_default_str();
  command
      .add_option("--sigmas", options.sigmas,
                  "Of the lognormal times between jobs; 0: exponential times")
      ->delimiter(',')
      ->check(NumberBetween(0.0, 4.0))
      ->capture_default_str();
  command.add_flag("--by-size", options.by_size,
                   "The longer a model takes alone, the fewer of the jobs are its (Figure 12)");
  command.add_option("--jobs", options.jobs, "Jobs of a window")
      ->check(CLI::Range(10, 1'000'000))
      ->capture_default_str();
  AddWindows(command, options.windows);
  AddSeed(command, options.seed);
  AddSamples(command, words.common);
  words.common.tracing.AddOptions(command);
}

void AddLoad(CLI::App& parent) {
  auto words = std::make_shared<LoadWords>();
  CLI::App* command = AddBenchmark(
      parent, "load", "Paella 7: models under random load, up to saturation", words->common, true);
  AddLoadOptions(*command, *words);
  command->callback([words, command] {
    const std::string& device = words->options.device.name;
    RefuseTwice("--models", words->options.models);
    RefuseTwice("--loads", words->options.loads);
    RefuseTwice("--sigmas", words->options.sigmas);
    std::ranges::sort(words->options.loads);  // up to saturation
    if (IsSimulated(device)) {
      std::vector<std::string> names = kOfRealDevices;
      if (command->count("--plot") == 0) names.emplace_back("--python");
      RefuseOptions(*command, names, device);
      return RunSimLoad(*words);
    }
    RefuseKernels(*command, device);
    RunLiveLoad(*words);
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
