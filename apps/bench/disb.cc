// `lagoon bench disb`, on real devices and on simulated ones.

#include "bench/live/disb.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string_view>

#include "apps/bench/bench_command.h"
#include "apps/bench/simulated.h"
#include "apps/command.h"
#include "apps/load.h"
#include "bench/client/bound_model.h"
#include "bench/client/onnxruntime_beside.h"
#include "bench/papers/disb_paper.h"
#include "bench/sim/disb_sensitivity.h"
#include "bench/sim/disb_sim.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

// The options of `lagoon bench disb` besides those of a run.
struct DisbWords {
  std::string device = "cpu";
  std::string workload = "A";
  std::string scale = "small";
  std::vector<std::string> clients = {"queue", "newest"};
  std::string zoo;  // empty: a simulated device, which has no zoo
  bool sensitivity = false;
  KernelWords kernels;
  std::vector<std::string> settings = {"plain", "nice19", "idle", "cgroup"};
  Json skipped = Json::object();  // settings that the system does not permit, and why

  bool simulated() const { return IsSimulated(device); }
  // Kernels of a CPU were measured, so its models are those of the zoo.
  bool simulates_cpu() const { return device.starts_with("sim:cpu"); }
  bench::DisbScale Scale() const {
    if (simulated() && !simulates_cpu()) return bench::DisbScale::kSimulated;
    return scale == "small" ? bench::DisbScale::kSmall : bench::DisbScale::kPaper;
  }
  std::vector<bench::DisbLoad::Late> Clients() const {
    using Late = bench::DisbLoad::Late;
    std::vector<Late> ways;
    for (const std::string& word : clients) {
      ways.push_back(word == "newest" ? Late::kNewest : Late::kQueue);
    }
    return ways;
  }
  std::vector<std::string> Workloads() const {
    if (workload == "all") return {"A", "B", "C", "D", "E", "REAL"};
    return {workload};
  }
};

bench::DisbWorkload LoadWorkload(const DisbWords& words, const std::string& name, unsigned seed) {
  Result<bench::DisbWorkload> workload = name.ends_with(".json")
                                             ? bench::ReadDisbWorkload(name)
                                             : bench::NamedDisbWorkload(name, words.Scale(), seed);
  if (!workload) Die(workload.error().message);
  for (bench::DisbClient& client : workload->clients) {
    if (words.simulates_cpu()) client.model = bench::ZooNameOf(client.model);
    if (words.zoo.empty() || std::filesystem::exists(bench::ModelFile(words.zoo, client.model))) {
      continue;
    }
    client.model = bench::ZooNameOf(client.model);
  }
  return *std::move(workload);
}

// The models of all chosen workloads.
std::vector<std::string> ModelsOf(const DisbWords& words, unsigned seed) {
  std::vector<std::string> models;
  for (const std::string& workload : words.Workloads()) {
    for (const bench::DisbClient& client : LoadWorkload(words, workload, seed).clients) {
      models.push_back(client.model);
    }
  }
  return models;
}

// Runs `one` for each of the chosen workloads, all for one report.
Status RunDisbWorkloads(const DisbWords& words, bench::DisbRunOptions& run,
                        const std::function<Status()>& one) {
  const std::vector<std::string> workloads = words.Workloads();
  for (const std::string& workload : workloads) {
    run.workload = LoadWorkload(words, workload, run.seed);
    if (workloads.size() > 1) run.suffix = "." + workload;
    LAGOON_RETURN_IF_ERROR(one());
  }
  return {};
}

// Whether the device and the kernels of all models are those that stand for REEF's. Otherwise the
// paper says nothing about the results.
bool IsPublished(const DisbWords& words, const GpuModel& gpu) {
  return IsBuiltIn(gpu) && words.kernels.files.empty() &&
         (words.kernels.of.empty() || words.kernels.of == gpu.name);
}

void RunSimDisb(const DisbWords& words, const bench::DisbRunOptions& run, Json configuration,
                BenchCommon& common) {
  bench::SimDisbOptions options;
  static_cast<bench::DisbRunOptions&>(options) = run;
  options.closed_loop_slowdown = bench::SimDisbOptions().closed_loop_slowdown;
  options.gpu = SimulatedGpu(words.device);
  options.kernels = ReadKernels(words.kernels, options.gpu, ModelsOf(words, options.seed));
  options.watch = WatchOf(common.tracing, options.schedulers.size() * options.clients.size() *
                                              words.Workloads().size());
  configuration["profile"] = GpuModelJson(options.gpu);
  Measure("disb", std::move(configuration), common, [&](bench::Report& report) -> Status {
    report.Field("predicted", true);
    if (words.sensitivity) {
      options.workload = LoadWorkload(words, words.workload, options.seed);
      std::string table;
      LAGOON_RETURN_IF_ERROR(RunDisbSensitivity(options, report, table));
      std::fputs(table.c_str(), stderr);
      return {};
    }
    LAGOON_RETURN_IF_ERROR(
        RunDisbWorkloads(words, options, [&] { return bench::RunDisbOnSim(options, report); }));
    if (IsPublished(words, options.gpu)) {
      const std::string table =
          bench::ComparePaper(options.gpu.name, words.workload, words.workload == "all", report);
      std::fputs(table.c_str(), stderr);
    }
    std::fputs(bench::SystemTable(report).c_str(), stderr);
    return {};
  });
}

// The settings of ONNX Runtime that the system permits. Says which are skipped.
std::vector<std::string> SettingsOf(DisbWords& words, bool beside) {
  std::vector<std::string> permitted;
  for (const std::string& setting : words.settings) {
    if (!beside) break;
    const Status status = bench::Permitted(setting);
    if (status) {
      permitted.push_back(setting);
      continue;
    }
    words.skipped["onnxruntime-" + setting] = status.error().message;
    std::fprintf(stderr, "ONNX Runtime under %s is skipped: %s\n", setting.c_str(),
                 status.error().message.c_str());
  }
  return permitted;
}

// Dies if an option is given that has no effect on a sensitivity analysis.
void RefuseOfRuns(const CLI::App& command) {
  for (const char* name : {"--samples", "--trace", "--clients"}) {
    if (command.count(name) == 0) continue;
    Die(fmt::format("{} has no effect with --sensitivity: leave it out; --json has all values",
                    name));
  }
}

// Dies if an option is given that has no effect on a simulated device.
void RefuseOfRealDevices(const CLI::App& command, const DisbWords& words) {
  std::vector<std::string> names = kOfRealDevices;
  names.emplace_back("--settings");
  if (!words.simulates_cpu()) names.emplace_back("--scale");
  if (command.count("--plot") == 0) names.emplace_back("--python");
  RefuseOptions(command, names, words.device);
}

void AddDisbOptions(CLI::App& command, bench::DisbOptions& options, DisbWords& words) {
  command
      .add_option("--device", words.device,
                  "cpu, cuda:N (see `lagoon devices`), or sim:NAME: a simulated GPU (mi50, "
                  " gv100, or a file of a GPU model) or CPU (cpu2, cpu4, cpu8) in virtual time")
      ->capture_default_str();
  command
      .add_option("--workload", words.workload,
                  "A, B, C, D, E, REAL, a file in DISB's format (.json), or all (the named ones)")
      ->capture_default_str();
  command
      .add_option("--scale", words.scale,
                  "paper: the paper's five models; small: five models of ResNet-18's size or less")
      ->check(CLI::IsMember({"paper", "small"}))
      ->capture_default_str();
  command
      .add_option("--clients", words.clients,
                  "What clients do with requests that are due while another one of theirs runs: "
                  "queue: send each; newest: as DISB's clients, send the newest and drop the "
                  "others")
      ->delimiter(',')
      ->check(CLI::IsMember({"queue", "newest"}))
      ->capture_default_str();
  command
      .add_option("--settings", words.settings,
                  "What keeps ONNX Runtime's background models low: plain (nothing), nice19, idle "
                  "(SCHED_IDLE), cgroup (control groups by weight), fifo (SCHED_FIFO for the "
                  "real-time ones). What the system does not permit is skipped")
      ->delimiter(',')
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(bench::kOsSettings), std::end(bench::kOsSettings))))
      ->capture_default_str();
  command.add_flag("--sensitivity", words.sensitivity,
                   "On a simulated device: repeat with each assumed or calibrated constant at half "
                   "and at double its value (default: workload C, schedulers reef and streams)");
  AddKernels(command, words.kernels);
  AddSchedulers(command, options.schedulers);
  AddWorkers(command, options.device.workers);
  AddCudaDriver(command, options.device);
  CLI::Option* const windows = AddWindows(command, options.windows);
  windows->description(windows->get_description() + "; on simulated devices 5 by default");
  AddRequests(command, options.requests);
  command
      .add_option("--seconds", options.seconds, "Longest time of a scheduler's windows together")
      ->check(NumberBetween(1.0, 3600.0))
      ->capture_default_str();
  AddSeed(command, options.seed);
}

}  // namespace

void AddDisbBenchmark(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::DisbOptions>();
  auto words = std::make_shared<DisbWords>();
  CLI::App* command = AddBenchmark(
      parent, "disb", "DISB (REEF, Table 2): real-time clients beside best-effort ones", *common,
      true);
  AddDisbOptions(*command, *options, *words);
  AddSamples(*command, *common);
  common->tracing.AddOptions(*command);
  command->get_option("--trace")->description(
      "Write a trace to this file, for https://ui.perfetto.dev. On a simulated device: of the "
      "first window; where there are several schedulers, kinds of clients or workloads, of each "
      "in a file of its own (t.json: t.reef.json, t.reef.newest.json, t.reef.A.json). More than "
      "four files keep 2^22 blocks together, unless --trace-capacity says otherwise");
  command->callback([common, options, words, command] {
    RefuseTwice("--clients", words->clients);
    if (words->sensitivity) {
      if (!words->simulated()) {
        Die("--sensitivity needs a simulated device: add --device sim:mi50 or sim:gv100");
      }
      RefuseOfRuns(*command);
      if (words->workload == "all") Die("--sensitivity takes one workload, not 'all'");
      if (command->count("--workload") == 0) words->workload = "C";
      if (command->count("--schedulers") == 0) options->schedulers = {"reef", "streams"};
    }
    if (words->simulated() && command->count("--windows") == 0) {
      options->windows = bench::DisbRunOptions().windows;
    }
    options->clients = words->Clients();
    Json configuration = {
        {"device", words->device},
        {"workload", words->workload},
        {"newest", std::ranges::count(options->clients, bench::DisbLoad::Late::kNewest) > 0},
        {"schedulers", Configurations(options->schedulers)},
        {"windows", options->windows},
        {"requests", options->requests},
        {"seconds", options->seconds},
        {"seed", options->seed}};
    if (words->simulated()) {
      RefuseOfRealDevices(*command, *words);
      if (words->simulates_cpu()) configuration["scale"] = words->scale;
      words->kernels.AddTo(configuration);
      return RunSimDisb(*words, *options, std::move(configuration), *common);
    }
    RefuseKernels(*command, words->device);
    options->zoo = words->zoo = common->zoo;
    options->device.name = words->device;
    options->settings = SettingsOf(*words, common->BesideOnnxRuntime(options->device));
    options->onnxruntime = common->OnnxRuntime();
    configuration["scale"] = words->scale;
    configuration["workers"] = options->device.workers;
    configuration["onnxruntime"] = options->settings;
    RequireDevice(options->device);
    options->trace = common->tracing.Start();
    RequireModels(*common, ModelsOf(*words, options->seed));
    Measure("disb", std::move(configuration), *common, [&](bench::Report& report) {
      report.Field("skipped", words->skipped);
      return RunDisbWorkloads(*words, *options, [&] { return RunDisb(*options, report); });
    });
    common->tracing.Finish();
  });
}

}  // namespace lagoon
