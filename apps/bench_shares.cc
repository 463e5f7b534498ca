// `lagoon bench shares`.

#include <memory>

#include "apps/bench_command.h"
#include "apps/load.h"
#include "bench/live/colocation.h"

namespace lagoon {

void AddSharesBenchmark(CLI::App& bench) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::ColocationOptions>();
  options->combinations = {"resnet18+bert_tiny", "squeezenet1_1+mobilenet_v2",
                           "resnet18+squeezenet1_1+bert_tiny"};
  CLI::App* command = AddBenchmark(bench, "shares",
                                   "GSLICE: models that share a CPU, under shares of it and "
                                   "without, beside ONNX Runtime",
                                   *common, true);
  command
      ->add_option("combinations", options->combinations,
                   "Models of the zoo that run at the same time, joined by '+'")
      ->capture_default_str();
  command->add_option("--scheduler", options->scheduler, "Scheduler of the side lagoon+slab")
      ->capture_default_str();
  AddWorkers(*command, options->workers);
  command->add_option("--clients", options->clients, "Clients of each model in the closed loops")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--most-rows", options->most_rows, "Rows of a batch at most")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  command
      ->add_option("--slo-factor", options->slo_factor,
                   "SLO of a request: so many times its time alone")
      ->check(CLI::Range(1.0, 1000.0))
      ->capture_default_str();
  command
      ->add_option("--load", options->load,
                   "Poisson arrivals: a part of what the models do under 'streams'")
      ->check(CLI::Range(0.01, 10.0))
      ->capture_default_str();
  AddWindows(*command, options->windows);
  command->add_option("--window-seconds", options->window_seconds, "Length of a window")
      ->check(CLI::Range(0.05, 60.0))
      ->capture_default_str();
  AddSeed(*command, options->seed);
  command->callback([common, options] {
    options->zoo = common->zoo;
    options->against_onnxruntime = common->BesideOnnxRuntime({});
    options->onnxruntime = common->OnnxRuntime();
    const nlohmann::json configuration = {{"combinations", options->combinations},
                                          {"scheduler", Configurations({options->scheduler})},
                                          {"workers", options->workers},
                                          {"clients", options->clients},
                                          {"most_rows", options->most_rows},
                                          {"slo_factor", options->slo_factor},
                                          {"load", options->load},
                                          {"windows", options->windows},
                                          {"window_seconds", options->window_seconds},
                                          {"onnxruntime", options->against_onnxruntime},
                                          {"seed", options->seed}};
    Measure("shares", configuration, *common,
            [&](bench::Report& report) { return RunColocation(*options, report); });
  });
}

}  // namespace lagoon
