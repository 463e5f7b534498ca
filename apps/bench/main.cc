// The program lagoon-bench, which `lagoon bench` and `lagoon train` start.

#include <iostream>
#include <memory>
#include <string_view>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "apps/reference/pages.h"
#include "base/log.h"
#include "bench/process/model_worker.h"

namespace lagoon {
namespace {

constexpr const char* kModelWorker = "model-worker";

void AddCommands(CLI::App& app) {
  AddBenchmarks(app);
  AddReference(app, [&app] {
    CLI::App training;
    AddTraining(training);
    return std::vector{BenchPage(app), TrainPage(training)};
  });
}

/// The side of Lagoon in a process of its own, which `models` starts; no command of users.
void AddModelWorker(CLI::App& app) {
  const auto options = std::make_shared<bench::ModelWorkerOptions>();
  CLI::App* command = app.add_subcommand(kModelWorker, "Runs a model, driven line by line");
  command->add_option("file", options->file)->required();
  command->add_option("workers", options->workers)->required();
  command->add_option("batch", options->batch)->required();
  command->callback([options] {
    spdlog::set_level(spdlog::level::warn);
    const Status status = RunModelWorker(*options, std::cin, std::cout);
    if (!status) Die(status.error().message);
  });
}

}  // namespace
}  // namespace lagoon

int main(int argc, char** argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  if (words.size() > 1 && std::string_view(words[1]) == "train") {
    return lagoon::RunProgram("lagoon", "Training of what decides by networks", lagoon::AddTraining,
                              words);
  }
  if (words.size() > 1 && std::string_view(words[1]) == lagoon::kModelWorker) {
    return lagoon::RunProgram("lagoon bench", "A model in a process of its own",
                              lagoon::AddModelWorker, words);
  }
  return lagoon::RunProgram(
      "lagoon bench", "Benchmarks of latency, memory, schedulers; each writes one JSON report",
      lagoon::AddCommands, words);
}
