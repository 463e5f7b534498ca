// The program lagoon-bench, which `lagoon bench` and `lagoon train` start.

#include <string_view>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "apps/reference/pages.h"

namespace lagoon {
namespace {

void AddCommands(CLI::App& app) {
  AddBenchmarks(app);
  AddReference(app, [&app] {
    CLI::App training;
    AddTraining(training);
    return std::vector{BenchPage(app), TrainPage(training)};
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
  return lagoon::RunProgram(
      "lagoon bench", "Benchmarks of latency, memory, schedulers; each writes one JSON report",
      lagoon::AddCommands, words);
}
