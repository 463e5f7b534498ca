// The program lagoon-bench, which `lagoon bench` starts.

#include "apps/command.h"
#include "apps/reference/pages.h"

namespace lagoon {
namespace {

void AddCommands(CLI::App& app) {
  AddBenchmarks(app);
  AddReference(app, [&app] { return std::vector{BenchPage(app)}; });
}

}  // namespace
}  // namespace lagoon

int main(int argc, char** argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  return lagoon::RunProgram(
      "lagoon bench", "Benchmarks of latency, memory, schedulers; each writes one JSON report",
      lagoon::AddCommands, words);
}
