// `lagoon bench batching`.

#include "bench/live/batching.h"

#include <memory>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "apps/load.h"

namespace lagoon {

void AddBatchingBenchmark(CLI::App& bench) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::BatchingOptions>();
  options->models = {"resnet18", "squeezenet1_1", "mobilenet_v2", "bert_tiny", "gnmt_tiny"};
  CLI::App* command = AddBenchmark(bench, "batching",
                                   "What joining requests into batches gains and costs: throughput "
                                   "and latency over the load, and an overload",
                                   *common, false);
  AddModelNames(*command, options->models);
  command->add_option("--scheduler", options->scheduler, "Scheduler, with parameters")
      ->capture_default_str();
  AddWorkers(*command, options->workers);
  command
      ->add_option("--loads", options->loads,
                   "Arrivals, as parts of what the model computes one request at a time")
      ->delimiter(',')
      ->check(NumberBetween(0.01, 100.0))
      ->capture_default_str();
  command->add_option("--most-rows", options->most_rows, "Rows of a batch at most")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  command
      ->add_option("--deadline-alpha", options->deadline_alpha,
                   "Deadline of a request: so many times the time alone")
      ->check(NumberBetween(1.0, 1000.0))
      ->capture_default_str();
  command
      ->add_option("--slos", options->limits.slos_ms,
                   "SLOs of a batch in ms, at which batch limiters are compared (lagoon.batching)")
      ->delimiter(',')
      ->check(NumberBetween(0.01, 3600000.0))
      ->capture_default_str();
  command->add_option("--slo-model", options->limits.model, "Model of that comparison")
      ->capture_default_str();
  command
      ->add_option("--slo-seconds", options->limits.seconds,
                   "Seconds that each limiter runs at each SLO")
      ->check(NumberBetween(0.1, 600.0))
      ->capture_default_str();
  AddWindows(*command, options->windows);
  command->add_option("--window-seconds", options->window_seconds, "Length of a window")
      ->check(NumberBetween(0.05, 60.0))
      ->capture_default_str();
  AddSeed(*command, options->seed);
  AddPlot(*command, *common);
  command->callback([common, options] {
    options->zoo = common->zoo;
    const nlohmann::json configuration = {{"models", options->models},
                                          {"scheduler", Configurations({options->scheduler})},
                                          {"workers", options->workers},
                                          {"loads", options->loads},
                                          {"most_rows", options->most_rows},
                                          {"deadline_alpha", options->deadline_alpha},
                                          {"slos", options->limits.slos_ms},
                                          {"slo_model", options->limits.model},
                                          {"slo_seconds", options->limits.seconds},
                                          {"windows", options->windows},
                                          {"window_seconds", options->window_seconds},
                                          {"seed", options->seed}};
    std::vector<std::string> models = options->models;
    if (!options->limits.slos_ms.empty()) models.push_back(options->limits.model);
    RequireModels(*common, models);
    Measure("batching", configuration, *common,
            [&](bench::Report& report) { return RunBatching(*options, report); });
  });
}

}  // namespace lagoon
