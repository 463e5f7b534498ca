// `lagoon bench split`, on simulated devices and on real ones.

#include <fmt/format.h>

#include <memory>

#include "apps/bench/bench_command.h"
#include "apps/bench/simulated.h"
#include "apps/command.h"
#include "apps/load.h"
#include "bench/split/split_live.h"
#include "bench/split/split_sim.h"
#include "policies/parameters.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

// The options of `lagoon bench split`. Some have an effect on simulated devices only, or on real
// ones only.
struct SplitWords {
  std::string device = "sim:nano";
  std::string schedulers;  // empty: DefaultSplitSchedulers()
  std::vector<int> scenarios;
  std::vector<std::string> readings = {"one-process", "per-model"};
  std::string scale = "paper";
  int requests = 0;  // 0: the default of the kind of device
  bench::SplitSimOptions sim;
  bench::SplitLiveOptions live;

  bool simulated() const { return device.starts_with("sim:"); }
};

void SetShared(const SplitWords& words, bench::SplitOptions& options) {
  if (!words.scenarios.empty()) options.scenarios = words.scenarios;
  options.schedulers = words.schedulers.empty() ? bench::DefaultSplitSchedulers()
                                                : SplitSchedulers(words.schedulers);
  options.small = words.scale == "small";
  const auto known = bench::SplitRuns(options.schedulers);
  if (!known) Die(known.error().message);
}

Json SharedConfiguration(const SplitWords& words, const bench::SplitOptions& options,
                         int requests) {
  return {{"device", words.device},
          {"scenarios", options.scenarios},
          {"schedulers", Configurations(options.schedulers)},
          {"requests", requests},
          {"deadline_alpha", options.deadline_alpha},
          {"seed", options.seed}};
}

void RunSimSplit(SplitWords& words, const BenchCommon& common) {
  Result<GpuModel> gpu = LoadGpuModel(words.device.substr(std::string("sim:").size()));
  if (!gpu) Die(gpu.error().message);
  bench::SplitSimOptions& options = words.sim;
  options.gpu = *std::move(gpu);
  options.seed = words.live.seed;
  options.deadline_alpha = words.live.deadline_alpha;
  SetShared(words, options);
  if (words.requests > 0) options.requests = words.requests;
  options.readings.clear();
  for (const std::string& word : words.readings) {
    const Result<bench::SplitReading> reading = bench::ParseSplitReading(word);
    if (!reading) Die(reading.error().message);
    options.readings.push_back(*reading);
  }
  Json configuration = SharedConfiguration(words, options, options.requests);
  configuration["profile"] = GpuModelJson(options.gpu);
  configuration["readings"] = words.readings;
  configuration["seeds"] = options.seeds;
  configuration["sweep"] = options.sweep;
  Measure("split", std::move(configuration), common, [&](bench::Report& report) {
    report.Field("predicted", true);
    return RunSplitOnSim(options, report);
  });
}

void RunLiveSplit(SplitWords& words, const BenchCommon& common) {
  bench::SplitLiveOptions& options = words.live;
  options.device.name = words.device;
  options.zoo = common.zoo;
  options.against_onnxruntime = common.BesideOnnxRuntime(options.device);
  options.onnxruntime = common.OnnxRuntime();
  SetShared(words, options);
  if (words.requests > 0) options.requests = words.requests;
  if (options.requests < options.windows) options.windows = options.requests;
  Json configuration = SharedConfiguration(words, options, options.requests);
  configuration["readings"] = {"one-process"};
  configuration["scale"] = words.scale;
  configuration["windows"] = options.windows;
  configuration["seconds"] = options.seconds;
  configuration["workers"] = options.device.workers;
  configuration["onnxruntime"] = options.against_onnxruntime;
  Open(options.device);  // an unknown device is named before missing models
  RequireModels(common, bench::SplitZoo(options.small));
  Measure("split", std::move(configuration), common,
          [&](bench::Report& report) { return RunSplitLive(options, report); });
}

void AddSharedOptions(CLI::App& command, SplitWords& words) {
  command
      .add_option("--device", words.device,
                  "sim:nano (a Jetson Nano in virtual time), cpu, or cuda:N (see `lagoon devices`)")
      ->capture_default_str();
  command
      .add_option("--scenarios", words.scenarios,
                  "Numbers in the paper's Table 2 (default: 1 to 6; on a real device 1, 3 and 6)")
      ->delimiter(',');
  command.add_option("--schedulers", words.schedulers,
                     "Schedulers to compare, with parameters: split,clockwork:admit_by_deadline=0 "
                     "(docs/guide/schedulers.md; default: all that the paper has, and Lagoon's)");
  command
      .add_option("--requests", words.requests,
                  "Requests of each scenario (default: 1000; on a real device 400, in all windows)")
      ->check(CLI::Range(10, 100'000));
  command
      .add_option("--scale", words.scale,
                  "Real device: paper: the paper's five models; small: five models of ResNet-18's "
                  "size or less")
      ->check(CLI::IsMember({"paper", "small"}))
      ->capture_default_str();
  command
      .add_option("--deadline-alpha", words.live.deadline_alpha,
                  "Deadlines of the schedulers that take one: so many times the time alone")
      ->check(NumberBetween(1.0, 1000.0))
      ->capture_default_str();
  AddSeed(command, words.live.seed);
}

void AddSimOptions(CLI::App& command, bench::SplitSimOptions& options,
                   std::vector<std::string>& readings) {
  command
      .add_option(
          "--reading", readings,
          "Simulated: who sends the requests of Table 2: one-process (the paper's figures), "
          "per-model (an overload)")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--seeds", options.seeds, "Simulated: runs of each scenario, with other gaps")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_flag("--sweep", options.sweep, "Simulated: also loads from 0.2 to 1.2");
  command.add_option("--threads", options.threads, "Simulated: threads that simulate")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
}

void AddLiveOptions(CLI::App& command, bench::SplitLiveOptions& options) {
  AddWorkers(command, options.device.workers);
  AddCudaDriver(command, options.device);
  CLI::Option* const windows = AddWindows(command, options.windows);
  windows->description("Real device: " + windows->get_description());
  command
      .add_option("--seconds", options.seconds,
                  "Real device: longest time of all windows together (0: no limit)")
      ->check(NumberBetween(0.0, 86'400.0))
      ->capture_default_str();
}

}  // namespace

void AddSplitBenchmark(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto words = std::make_shared<SplitWords>();
  CLI::App* command = AddBenchmark(
      parent, "split", "SPLIT (Figures 6, 7; Tables 2, 3): five models that share a device evenly",
      *common, true);
  AddSharedOptions(*command, *words);
  AddSimOptions(*command, words->sim, words->readings);
  AddLiveOptions(*command, words->live);
  command->callback([common, words, command] {
    if (words->simulated()) {
      RefuseOptions(*command,
                    {"--zoo", "--scale", "--workers", "--windows", "--seconds", "--no-onnxruntime",
                     "--comparator-worker", "--cuda-driver"},
                    words->device);
      return RunSimSplit(*words, *common);
    }
    RefuseOptions(*command, {"--reading", "--seeds", "--sweep", "--threads"}, words->device);
    RunLiveSplit(*words, *common);
  });
}

}  // namespace lagoon
