#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "apps/command.h"
#include "apps/serving/place_json.h"
#include "base/json.h"
#include "cluster/placement/registry.h"

namespace lagoon {
namespace {

// With more latency models than this, placer and store begin anew.
constexpr std::size_t kMostLatencies = 10'000;

/// A placer and what it has borrowed.
struct PlacerState {
  LatencyStore latencies;  // outlives the placer
  std::unique_ptr<Placer> placer;
};

std::unique_ptr<PlacerState> Begin(const std::string& name) {
  auto state = std::make_unique<PlacerState>();
  Result<std::unique_ptr<Placer>> placer = MakePlacer(name);
  if (!placer) Die(placer.error().message);
  state->placer = *std::move(placer);
  return state;
}

Result<std::string> Decide(std::string_view line, PlacerState& state) {
  LAGOON_ASSIGN_OR_RETURN(const PlacementView view, ParseView(line, state.latencies));
  const Assignment assignment = state.placer->Place(view);
  LAGOON_RETURN_IF_ERROR(CheckAssignment(view, assignment));
  return AssignmentJson(view, assignment);
}

void RunPlace(const std::string& name) {
  std::unique_ptr<PlacerState> state = Begin(name);
  std::string line;
  while (std::getline(std::cin, line)) {
    if (state->latencies.size() > kMostLatencies) state = Begin(name);
    const Result<std::string> decided = Decide(line, *state);
    std::puts(decided ? decided->c_str()
                      : DumpJson(nlohmann::json{{"error", decided.error().message}}).c_str());
    std::fflush(stdout);
  }
}

void PrintPlacers() {
  for (const PlacerInfo& placer : Placers()) {
    std::printf("%-10s %s\n", placer.name.c_str(), placer.summary.c_str());
  }
}

}  // namespace

void AddPlace(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "place",
      "Decide which device of a fleet serves which model: reads views as lines of JSON from the "
      "standard input, and writes one line with the assignment, or with 'error', for each");
  auto name = std::make_shared<std::string>("lagoon");
  auto list = std::make_shared<bool>(false);
  command->add_option("--placer", *name, "The placer; --list shows all")->capture_default_str();
  command->add_flag("--list", *list, "List the placers and end");
  command->callback([name, list] { *list ? PrintPlacers() : RunPlace(*name); });
}

}  // namespace lagoon
