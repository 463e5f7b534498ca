// `lagoon bench robot`, and its clients, which are this program too.

#include "bench/robot/robot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "apps/bench/bench_command.h"
#include "apps/bench/robot_words.h"
#include "apps/command.h"
#include "apps/load.h"
#include "base/log.h"
#include "bench/robot/client.h"
#include "bench/robot/systems.h"
#include "policies/registry.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

constexpr const char* kHowTo = "`./run build` or `./run bench`";
constexpr int kLeastRequests = 5, kMostRequests = 500'000;  // of a client in a window

struct RobotWords {
  std::string scenario = "camera";
  RobotModelWords models;
  double rate = 0, deadline_ms = 0;  // 0: those of the case
  std::string background_class = "idle";
  bench::RobotOptions options;
};

// "a,b:x=1,y=2" are the systems a and b:x=1,y=2: what names no kind of system goes on with the
// parameters of the one before.
std::vector<std::string> SplitSystems(const std::string& word) {
  std::vector<std::string> systems;
  for (const std::string& part : CLI::detail::split(word, ',')) {
    const bool begins = part.starts_with("lagoon:") || part.starts_with("onnxruntime:");
    if (begins || systems.empty()) {
      systems.push_back(part);
    } else {
      systems.back() += "," + part;
    }
  }
  return systems;
}

void CheckSystems(const RobotWords& words) {
  const auto systems = bench::ParseRobotSystems(words.options.systems, words.options.transports);
  if (!systems) Die(systems.error().message);
  for (const bench::RobotSystemName& system : *systems) {
    if (!system.lagoon()) continue;
    const Result<Scheduler> made = MakeScheduler(system.scheduler);
    if (!made) Die(fmt::format("--systems {}: {}", system.name, made.error().message));
  }
}

void SetLoad(RobotWords& words) {
  bench::RobotOptions& options = words.options;
  for (const bench::RobotCase& known : bench::RobotCases()) {
    if (known.name == words.scenario) options.scenario = known;
  }
  if (words.rate > 0) options.scenario.rate = words.rate;
  if (words.deadline_ms > 0) options.scenario.deadline_ms = words.deadline_ms;
  if (options.scenario.rate * options.seconds < kLeastRequests) {
    Die(fmt::format("{:g} requests a second are fewer than {} in --seconds {:g}: make it longer",
                    options.scenario.rate, kLeastRequests, options.seconds));
  }
  if (options.scenario.rate * options.seconds > kMostRequests) {
    Die(fmt::format(
        "{:g} requests a second are more than {} in --seconds {:g}: make it shorter, or "
        "give a lower --rate",
        options.scenario.rate, kMostRequests, options.seconds));
  }
  SetRobotModels(words.models, options);
}

Json ConfigurationOf(const RobotWords& words) {
  const bench::RobotOptions& options = words.options;
  return {{"case", words.scenario},
          {"rate", options.scenario.rate},
          {"deadline_ms", options.scenario.deadline_ms},
          {"realtime_clients", options.scenario.clients},
          {"realtime", options.scenario.model},
          {"background", options.background},
          {"background_class", words.background_class},
          {"systems", options.systems},
          {"transports", options.transports},
          {"workers", options.workers},
          {"trials", options.trials},
          {"seconds", options.seconds},
          {"seed", options.seed}};
}

void AddModelOptions(CLI::App& command, RobotWords& words) {
  std::map<std::string, std::string> cases;
  std::string told;
  for (const bench::RobotCase& one : bench::RobotCases()) {
    cases[one.name] = one.name;
    told += fmt::format("{}{} ({})", told.empty() ? "" : "; ", one.name, one.what);
  }
  TakeNames(command.add_option("--case", words.scenario, "What is real-time: " + told), cases)
      ->capture_default_str();
  AddRobotModels(command, words.models);
  command
      .add_option("--rate", words.rate,
                  "Requests a second of each real-time client (0: the case's)")
      ->check(NumberBetween(0.0, 100'000.0));
  command.add_option("--deadline-ms", words.deadline_ms, "A later answer is late (0: the case's)")
      ->check(NumberBetween(0.0, 1e6));
}

void AddSystemOptions(CLI::App& command, RobotWords& words, BenchCommon& common) {
  const auto set = [&words](const std::vector<std::string>& given) {
    words.options.systems.clear();
    for (const std::string& word : given) {
      for (std::string& one : SplitSystems(word)) words.options.systems.push_back(std::move(one));
    }
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--systems", set,
          "lagoon:SCHEDULER, and ONNX Runtime with a process for each model: onnxruntime:plain, "
          "onnxruntime:nice19 and onnxruntime:idle (SCHED_IDLE) for the background, "
          "onnxruntime:cgroup (control groups by weight), onnxruntime:fifo (SCHED_FIFO for the "
          "real-time model). What the system does not permit is skipped, and why is said")
      ->default_str(CLI::detail::join(words.options.systems, ","));
  command
      .add_option("--transport", words.options.transports,
                  "How Lagoon's clients reach it: grpc and http from a process each; process: "
                  "clients and models in one process")
      ->delimiter(',')
      ->check(CLI::IsMember({"grpc", "http", "process"}))
      ->capture_default_str();
  command
      .add_option("--background-class", words.background_class,
                  "Scheduling class of Lagoon's background clients over grpc and http")
      ->check(CLI::IsMember({"idle", "nice19", "normal"}))
      ->capture_default_str();
  AddWorkers(command, words.options.workers);
  command.add_option("--comparator-worker", common.worker, "Script that runs other engines")
      ->capture_default_str();
}

void AddClient(CLI::App& bench) {
  auto schedule_class = std::make_shared<bench::ScheduleClass>(bench::ScheduleClass::kNormal);
  CLI::App* command = bench.add_subcommand("robot-client", "A client of `robot`, which starts it");
  command->group("");  // not in the help
  TakeNames(command->add_option("--class", *schedule_class), bench::kScheduleClasses);
  command->callback([schedule_class] {
    spdlog::set_level(spdlog::level::warn);
    if (const Status entered = bench::Enter(*schedule_class); !entered) {
      Die(entered.error().message);
    }
    if (const int status = bench::RunRobotClient(); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace

void AddRobotModels(CLI::App& command, RobotModelWords& words) {
  command.add_option("--realtime", words.real_time,
                     "Real-time model in place of that of the case: a name in --files, or a file");
  command
      .add_option("--background", words.background,
                  "Models in closed loops, one request after the other: names in --files, or files")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--files", words.files, "Folder of ONNX files; ./run corpus --make fills it")
      ->envname("LAGOON_CORPUS")
      ->capture_default_str();
  command.add_option(
      "--shape", words.shapes,
      "Shape of an input with open sizes: INPUT=AxBxC or MODEL/INPUT=AxBxC (default: "
      "480 x 640 for the last two of three or more, 64 for the last of two, and 1)");
}

void SetRobotModels(const RobotModelWords& words, bench::RobotOptions& options) {
  if (!words.real_time.empty()) options.scenario.model = words.real_time;
  if (std::ranges::find(words.background, "") != words.background.end()) {
    Die("--background has an empty name: give one model at least, by its name in --files or its "
        "file");
  }
  std::vector<std::string> models = words.background;
  models.push_back(options.scenario.model);
  RequireFiles(words.files, models);
  options.scenario.model = FileOf(words.files, options.scenario.model);
  options.background.clear();
  for (const std::string& model : words.background) {
    options.background.push_back(FileOf(words.files, model));
  }
  for (const std::string& word : words.shapes) {
    const std::size_t equals = word.rfind('=');
    const std::optional<Dims> dims =
        equals == std::string::npos ? std::nullopt : ParseDims(word.substr(equals + 1));
    if (!dims) Die(fmt::format("--shape {}: must be INPUT=AxBxC or MODEL/INPUT=AxBxC", word));
    options.shapes[word.substr(0, equals)] = *dims;
  }
}

void AddRobotBenchmark(CLI::App& bench) {
  auto common = std::make_shared<BenchCommon>();
  auto words = std::make_shared<RobotWords>();
  words->options.systems = {"lagoon:lagoon",      "lagoon:reset",     "onnxruntime:plain",
                            "onnxruntime:nice19", "onnxruntime:idle", "onnxruntime:cgroup",
                            "onnxruntime:fifo"};
  CLI::App* command = AddSimulation(
      bench, "robot",
      "How late a real-time model answers when its clients, the server and background models have "
      "the same cores: Lagoon, and ONNX Runtime with nice, SCHED_IDLE and the like",
      *common);
  AddModelOptions(*command, *words);
  AddSystemOptions(*command, *words, *common);
  command
      ->add_option("--trials", words->options.trials,
                   "Trials of each system: a window of the real-time clients alone, and one of all")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seconds", words->options.seconds, "Length of a window")
      ->check(NumberBetween(0.01, 3600.0))
      ->capture_default_str();
  AddSeed(*command, words->options.seed);
  AddPlot(*command, *common);
  command->footer(
      "robot_latency_normalized_p99.SYSTEM compares the window of all clients with that of the "
      "real-time ones alone; robot_background_work.SYSTEM adds up the background models, each as a "
      "part of what it does alone.\n"
      "In two minutes:  lagoon bench robot --systems lagoon:lagoon,onnxruntime:idle --trials 2\n"
      "Your own models: lagoon bench robot --realtime a.onnx --rate 30 --deadline-ms 33 "
      "--background b.onnx,c.onnx");
  command->callback([common, words] {
    CheckSystems(*words);
    SetLoad(*words);
    bench::RobotOptions& options = words->options;
    options.lagoon = ProgramBeside("lagoon", kHowTo);
    options.client = ProgramBeside("lagoon-bench", kHowTo);
    options.background_class = bench::kScheduleClasses.at(words->background_class);
    options.onnxruntime = common->OnnxRuntime();
    Measure("robot", ConfigurationOf(*words), *common,
            [&](bench::Report& report) { return RunRobot(options, report); });
  });
  AddClient(bench);
}

}  // namespace lagoon
