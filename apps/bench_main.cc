// The program lagoon-bench, which `lagoon bench` starts.

#include "apps/command.h"

int main(int argc, char** argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  return lagoon::RunProgram(
      "lagoon bench", "Benchmarks of latency, memory, schedulers; each writes one JSON report",
      lagoon::AddBenchmarks, words);
}
