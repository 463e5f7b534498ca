// `lagoon bench in-process`.

#include "bench/in_process/in_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/bench/bench_command.h"
#include "apps/bench/robot_words.h"
#include "apps/command.h"
#include "apps/load.h"

namespace lagoon {
namespace {

constexpr int kMostSteps = 10'000'000;

struct InProcessWords {
  RobotModelWords models;
  bench::InProcessOptions options;
};

void AddWays(CLI::App& command, bench::InProcessOptions& options) {
  std::string told;
  for (const bench::InProcessWay& way : bench::InProcessWays()) {
    options.ways.emplace_back(way.name);
    told += fmt::format("{}{} ({})", told.empty() ? "" : "; ", way.name, way.what);
  }
  command.add_option("--ways", options.ways, told + "; none: only others' tests")
      ->delimiter(',')
      ->capture_default_str();
  AddWorkers(command, options.programs.workers);
  command
      .add_option("--liblagoon", options.programs.library, "liblagoon.so (default: the build's)")
      ->envname("LAGOON_LIBRARY");
  command
      .add_option("--plugin", options.programs.plugin, "liblagoon_ort.so (default: the build's)")
      ->envname("LAGOON_ORT_LIBRARY");
}

void AddJudge(CLI::App& command, InProcessWords& words) {
  command
      .add_option("--nodes", words.options.nodes,
                  "Node tests of ONNX through the plug-in: those with this text in their "
                  "name; all; none")
      ->capture_default_str();
  command
      .add_option("--corpus", words.options.corpus,
                  "Models of the corpus through the plug-in, of those in --files: ids with * and "
                  "?; none")
      ->capture_default_str();
}

std::string ScriptOrDie(const std::string& name) {
  const std::optional<std::string> script = FindScript(name);
  if (!script) {
    Die(fmt::format("there is no '{}' in this folder or above the program: run it in a checkout",
                    name));
  }
  return *script;
}

void SetPrograms(InProcessWords& words) {
  constexpr const char* kHow = "`./run bench` or --liblagoon and --plugin";
  bench::InProcessOptions& options = words.options;
  if (options.ways == std::vector<std::string>{"none"}) options.ways.clear();
  if (const auto ways = bench::ParseInProcessWays(options.ways); !ways) {
    Die("--ways: " + ways.error().message);
  }
  const auto uses = [&](const char* way) { return std::ranges::count(options.ways, way) > 0; };
  const bool judges = options.nodes != "none" || options.corpus != "none";
  if (options.programs.library.empty() && uses("lagoon")) {
    options.programs.library = ProgramBeside("../src/capi/liblagoon.so.1", kHow);
  }
  if (options.programs.plugin.empty() && (judges || uses("plugin"))) {
    options.programs.plugin = ProgramBeside("../src/ort/liblagoon_ort.so", kHow);
  }
  options.programs.worker = ScriptOrDie("bench/comparators/in_process_worker.py");
  if (judges) options.judge = ScriptOrDie("bench/comparators/ort_judge.py");
  if (!judges && options.ways.empty())
    Die("--ways, --nodes and --corpus are none: nothing is left");
  if (options.steps < options.rounds) {
    Die(fmt::format("--steps {} are fewer than one in each of --rounds {}", options.steps,
                    options.rounds));
  }
}

nlohmann::json InProcessConfiguration(const InProcessWords& words) {
  const bench::InProcessOptions& options = words.options;
  return {{"ways", options.ways},
          {"controller", options.load.scenario.model},
          {"neighbours", options.load.background},
          {"rate", options.load.scenario.rate},
          {"workers", options.programs.workers},
          {"rounds", options.rounds},
          {"steps", options.steps},
          {"seconds", options.seconds},
          {"nodes", options.nodes},
          {"corpus", options.corpus},
          {"seed", options.load.seed}};
}

}  // namespace

void AddInProcessBenchmark(CLI::App& bench) {
  auto common = std::make_shared<BenchCommon>();
  auto words = std::make_shared<InProcessWords>();
  bench::InProcessOptions& options = words->options;
  for (const bench::RobotCase& known : bench::RobotCases()) {
    if (known.name == "controller") options.load.scenario = known;
  }
  words->models.background = {"ssdlite", "minilm_sentences"};
  options.nodes = "all";
  options.corpus = "*";
  CLI::App* command = AddSimulation(
      bench, "in-process",
      "A control loop and its neighbours in one program: ONNX Runtime, its plug-in, liblagoon",
      *common);
  AddWays(*command, options);
  AddRobotModels(*command, words->models);
  command->add_option("--rate", options.load.scenario.rate, "Steps a second of the control loop")
      ->check(NumberBetween(1.0, 10'000.0))
      ->capture_default_str();
  command
      ->add_option("--steps", options.steps,
                   "Steps of the control loop beside the others, all rounds together")
      ->check(CLI::Range(1, kMostSteps))
      ->capture_default_str();
  AddRounds(*command, options.rounds);
  AddSeconds(*command, options.seconds);
  AddSeed(*command, options.load.seed);
  AddJudge(*command, *words);
  AddPlot(*command, *common);
  command->footer(
      "together_over_alone.WAY.MODEL is a latency beside the other models over that alone; "
      "missed_deadlines.WAY counts steps without an answer before the next one; added_us_p50.WAY "
      "is a run that computes nothing.\n"
      "In two minutes: lagoon bench in-process --nodes none --corpus none\n"
      "Of record:      lagoon bench in-process --steps 100000 --rounds 10 --json in-process.json\n"
      "Your models:    lagoon bench in-process --realtime policy.onnx --background a.onnx,b.onnx");
  command->callback([common, words] {
    SetPrograms(*words);
    bench::InProcessOptions& chosen = words->options;
    SetRobotModels(words->models, chosen.load);
    chosen.files = words->models.files;
    chosen.programs.python = common->python;
    Measure("in-process", InProcessConfiguration(*words), *common,
            [&](bench::Report& report) { return RunInProcess(chosen, report); });
  });
}

}  // namespace lagoon
