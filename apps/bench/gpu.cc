// Benchmarks of a GPU beneath the models: guards, isolation, the cost of our machinery.

#include <memory>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "apps/load.h"
#include "bench/gpu/guards.h"
#include "bench/gpu/isolation.h"
#include "bench/gpu/machinery.h"

namespace lagoon {
namespace {

void AddGuards(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::GuardsOptions>();
  CLI::App* command = AddSimulation(
      parent, "guards", "Time until blocks on a GPU see a word that the host writes in four ways",
      *common);
  AddDeviceName(*command, options->device);
  AddRounds(*command, options->rounds, /*least=*/10);
  command->add_option("--watchers", options->watchers, "Blocks that watch the word")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->callback([common, options] {
    Measure("guards",
            {{"device", options->device.name},
             {"rounds", options->rounds},
             {"watchers", options->watchers}},
            *common, [&](bench::Report& report) { return RunGuards(*options, report); });
  });
}

void AddIsolation(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::IsolationOptions>();
  CLI::App* command = AddSimulation(
      parent, "isolation",
      "How well each mechanism of a device keeps best-effort work away from real-time work",
      *common);
  AddDevice(*command, options->device);
  AddRounds(*command, options->rounds, /*least=*/10);
  AddWindows(*command, options->windows);
  const auto add_us = [&](const char* name, double& us, const char* what) {
    command->add_option(name, us, what)->check(NumberBetween(1.0, 1e5))->capture_default_str();
  };
  add_us("--best-effort-block-us", options->best_effort_block_us, "Time of a best-effort block");
  add_us("--real-time-block-us", options->real_time_block_us, "Time of a real-time block");
  add_us("--piece-us", options->piece_us, "Time between two checks of a guard");
  command->callback([common, options] {
    Measure("isolation",
            {{"device", options->device.name},
             {"workers", options->device.workers},
             {"rounds", options->rounds},
             {"windows", options->windows},
             {"best_effort_block_us", options->best_effort_block_us},
             {"real_time_block_us", options->real_time_block_us},
             {"piece_us", options->piece_us}},
            *common, [&](bench::Report& report) { return RunIsolation(*options, report); });
  });
}

void AddMachinery(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::MachineryOptions>();
  options->models = {"resnet18"};
  CLI::App* command = AddBenchmark(
      parent, "machinery", "Cost of block protocol, entries and notes on a GPU", *common, false);
  AddDeviceName(*command, options->device);
  AddModelNames(*command, options->models);
  command->add_option("--batch", options->batch, "Size of the dimension called \"batch\"")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  AddPrecision(*command, options->precision);
  AddRounds(*command, options->rounds);
  command->add_option("--repeats", options->repeats, "Launches of a kernel in one CUDA graph")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command->callback([common, options] {
    options->zoo = common->zoo;
    if (options->device.name.starts_with("cuda:")) RequireModels(*common, options->models);
    Measure("machinery",
            {{"device", options->device.name},
             {"models", options->models},
             {"batch", options->batch},
             {"precision", options->precision == Precision::kBf16 ? "bf16" : "fp32"},
             {"rounds", options->rounds},
             {"repeats", options->repeats}},
            *common, [&](bench::Report& report) { return RunMachinery(*options, report); });
  });
}

}  // namespace

void AddGpuBenchmarks(CLI::App& bench) {
  AddGuards(bench);
  AddIsolation(bench);
  AddMachinery(bench);
}

}  // namespace lagoon
