#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>

#include "apps/command.h"
#include "apps/load.h"
#include "apps/tracing.h"
#include "base/log.h"
#include "bench/contention.h"
#include "bench/disb.h"
#include "bench/disb_paper.h"
#include "bench/disb_sim.h"
#include "bench/memory.h"
#include "bench/models.h"
#include "bench/outputs.h"
#include "bench/overhead.h"
#include "policies/registry.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

// What every benchmark takes.
struct Common {
  std::string zoo = "models/zoo";
  std::string json;
  std::string python = ".venv/bin/python";
  std::string worker = "bench/comparators/onnxruntime_worker.py";
  std::string plot;
  bool no_onnxruntime = false;
  Tracing tracing;

  bench::OnnxRuntimeOptions OnnxRuntime() const {
    bench::OnnxRuntimeOptions options;
    options.python = python;
    options.worker = worker;
    return options;
  }
};

const std::vector<std::string> kFiveCnns = {"resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1",
                                            "vgg19"};

// Runs the benchmark and writes its file, also when it failed half-way would hide why: then it dies
// instead.
void Measure(const std::string& name, Json configuration, const Common& common,
             const std::function<Status(bench::Report&)>& run) {
  spdlog::set_level(spdlog::level::warn);
  bench::Report report(name, std::move(configuration), Build());
  if (const Status status = run(report); !status) Die(status.error().message);
  if (const Status status = report.Write(common.json); !status) Die(status.error().message);
  if (common.plot.empty()) return;
  if (common.json.empty()) Die("--plot draws from the file of --json; name one");
  const std::string command =
      common.python + " bench/plots/plot.py '" + common.json + "' --out '" + common.plot + "'";
  // No other thread is left. NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (std::system(command.c_str()) != 0) Die("the plot failed: " + command);
}

CLI::App* AddBenchmark(CLI::App& bench, const std::string& name, const std::string& description,
                       Common& common, bool has_comparator) {
  CLI::App* command = bench.add_subcommand(name, description);
  command->add_option("--zoo", common.zoo, "Folder of models (./run models makes it)")
      ->capture_default_str();
  command->add_option("--json", common.json, "Write the report here; without it, to stdout");
  if (!has_comparator) return command;
  command->add_option("--plot", common.plot, "Draw the report into this folder");
  command->add_flag("--no-onnxruntime", common.no_onnxruntime, "Without ONNX Runtime beside it");
  command->add_option("--python", common.python, "Python with onnxruntime")->capture_default_str();
  command->add_option("--onnxruntime-worker", common.worker, "Its process")->capture_default_str();
  return command;
}

// The folders with a model, in the order of their names.
std::vector<std::string> ModelsIn(const std::string& zoo) {
  std::vector<std::string> models;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(zoo, error)) {
    if (std::filesystem::exists(entry.path() / "1" / "model.onnx")) {
      models.push_back(entry.path().filename().string());
    }
  }
  if (models.empty()) Die(fmt::format("no model in '{}'; ./run models makes some", zoo));
  std::sort(models.begin(), models.end());
  return models;
}

void AddModelNames(CLI::App& command, std::vector<std::string>& models, bool& all) {
  command.add_option("--models", models, "Names in the zoo")->delimiter(',')->capture_default_str();
  command.add_flag("--all", all, "Every model of the zoo's folder");
}

void AddModels(CLI::App& parent) {
  auto common = std::make_shared<Common>();
  auto options = std::make_shared<bench::ModelsOptions>();
  options->models = kFiveCnns;
  CLI::App* command = AddBenchmark(
      parent, "models", "Latency of every model, beside ONNX Runtime with as many threads", *common,
      true);
  auto all = std::make_shared<bool>(false);
  AddModelNames(*command, options->models, *all);
  command->add_option("--batches", options->batches, "Sizes of the dimension called \"batch\"")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--workers", options->workers, "Thread counts")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Turns of each side")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Length of a turn")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command->add_flag("--tune", options->tune, "Choose the fastest version of every kernel first");
  auto precision = std::make_shared<Precision>(Precision::kFp32);
  AddPrecision(*command, *precision)->description("bf16: also that, beside our fp32");
  command->callback([common, options, all, precision] {
    options->bf16 = *precision == Precision::kBf16;
    options->zoo = common->zoo;
    if (*all) options->models = ModelsIn(common->zoo);
    options->against_onnxruntime = !common->no_onnxruntime;
    options->onnxruntime = common->OnnxRuntime();
    const Json configuration = {{"models", options->models},
                                {"workers", options->workers},
                                {"rounds", options->rounds},
                                {"seconds", options->seconds},
                                {"onnxruntime", options->against_onnxruntime},
                                {"tune", options->tune},
                                {"precision", Name(*precision)},
                                {"batches", options->batches}};
    Measure("models", configuration, *common,
            [&](bench::Report& report) { return RunModels(*options, report); });
  });
}

// What each name stands for, printed into every report.
Json Configurations(const std::vector<std::string>& schedulers) {
  Json configurations;
  for (const std::string& name : schedulers) {
    const SchedulerConfig config = MakeScheduler(name)->config;
    configurations[name] = {{"streams", static_cast<int>(config.streams)},
                            {"preemption", static_cast<int>(config.preemption)},
                            {"ranks", static_cast<int>(config.ranks)},
                            {"max_active_jobs", config.max_active_jobs},
                            {"depth", config.depth},
                            {"max_kernels", config.max_kernels},
                            {"extra_blocks", config.extra_blocks},
                            {"padding_kernels", config.padding_kernels}};
  }
  return configurations;
}

void AddContention(CLI::App& parent) {
  auto common = std::make_shared<Common>();
  auto options = std::make_shared<bench::ContentionOptions>();
  options->schedulers = {"sequential", "streams", "wait", "one-kernel", "reset", "reef", "lagoon"};
  std::vector<std::string> known(SchedulerNames().begin(), SchedulerNames().end());
  CLI::App* command = AddBenchmark(
      parent, "contention", "A real-time model beside a best-effort one, under every scheduler",
      *common, true);
  command->add_option("--realtime", options->real_time, "Real-time model")->capture_default_str();
  command->add_option("--best-effort", options->best_effort, "Best-effort model")
      ->capture_default_str();
  command->add_option("--schedulers", options->schedulers, "Names")
      ->delimiter(',')
      ->check(CLI::IsMember(known))
      ->capture_default_str();
  command->add_option("--workers", options->workers, "Worker threads (0: one per core)")
      ->capture_default_str();
  command->add_option("--load", options->load, "Real-time load, of its standalone maximum")
      ->check(CLI::Range(0.01, 0.99))
      ->capture_default_str();
  command->add_option("--windows", options->windows, "Interleaved windows")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--requests", options->requests, "Real-time requests in all (p99 from 1000 on)")
      ->check(CLI::Range(10, 1000000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the arrivals' phase")->capture_default_str();
  common->tracing.AddOptions(*command);
  command->callback([common, options] {
    options->zoo = common->zoo;
    options->against_onnxruntime = !common->no_onnxruntime;
    options->onnxruntime = common->OnnxRuntime();
    const Json configuration = {{"realtime", options->real_time},
                                {"best_effort", options->best_effort},
                                {"schedulers", Configurations(options->schedulers)},
                                {"workers", options->workers},
                                {"load", options->load},
                                {"windows", options->windows},
                                {"requests", options->requests},
                                {"seed", options->seed},
                                {"onnxruntime", options->against_onnxruntime}};
    options->trace = common->tracing.Start();
    Measure("contention", configuration, *common,
            [&](bench::Report& report) { return RunContention(*options, report); });
    common->tracing.Finish();
  });
}

bench::DisbWorkload LoadWorkload(const std::string& word, bench::DisbScale scale, unsigned seed) {
  Result<bench::DisbWorkload> workload = word.ends_with(".json")
                                             ? bench::ReadDisbWorkload(word)
                                             : bench::NamedDisbWorkload(word, scale, seed);
  if (!workload) Die(workload.error().message);
  return *std::move(workload);
}

// What `lagoon bench disb` takes besides the options of a run.
struct DisbWords {
  std::string device = "cpu";
  std::string workload = "A";
  std::string scale = "small";

  bool simulated() const { return device != "cpu"; }
  bench::DisbScale Scale() const {
    if (simulated()) return bench::DisbScale::kSimulated;
    return scale == "small" ? bench::DisbScale::kSmall : bench::DisbScale::kPaper;
  }
  std::vector<std::string> Workloads() const {
    if (workload == "all") return {"A", "B", "C", "D", "E", "REAL"};
    return {workload};
  }
};

// One report of all workloads that were asked for.
Status RunDisbWorkloads(const DisbWords& words, bench::DisbRunOptions& run,
                        const std::function<Status()>& one) {
  const std::vector<std::string> workloads = words.Workloads();
  for (const std::string& workload : workloads) {
    run.workload = LoadWorkload(workload, words.Scale(), run.seed);
    if (workloads.size() > 1) run.suffix = "." + workload;
    LAGOON_RETURN_IF_ERROR(one());
  }
  return {};
}

Json ConstantsOf(const SimProfile& profile) {
  Json constants;
  for (const SimConstantInfo& info : SimConstantTable()) {
    constants[std::string(info.name)] = profile.constants.*info.member;
  }
  return constants;
}

void RunSimDisb(const DisbWords& words, const bench::DisbRunOptions& run, Json configuration,
                const Common& common) {
  constexpr std::string_view kPrefix = "sim:";
  if (!words.device.starts_with(kPrefix)) {
    Die(fmt::format("there is no device '{}'; there are cpu and sim:PROFILE", words.device));
  }
  Result<SimProfile> profile = LoadSimProfile(words.device.substr(kPrefix.size()));
  if (!profile) Die(profile.error().message);
  bench::SimDisbOptions options;
  static_cast<bench::DisbRunOptions&>(options) = run;
  options.closed_loop_slowdown = bench::SimDisbOptions().closed_loop_slowdown;
  options.profile = *std::move(profile);
  configuration["profile"] = {{"name", options.profile.name},
                              {"constants", ConstantsOf(options.profile)}};
  Measure("disb", std::move(configuration), common, [&](bench::Report& report) -> Status {
    report.Field("predicted", true);
    LAGOON_RETURN_IF_ERROR(
        RunDisbWorkloads(words, options, [&] { return bench::RunDisbOnSim(options, report); }));
    const std::string table =
        bench::ComparePaper(options.profile.name, words.workload, words.workload == "all", report);
    std::fputs(table.c_str(), stderr);
    return {};
  });
}

// Options that would do nothing would seem to have done something.
void RefuseOfTheCpu(const CLI::App& command, const std::string& device) {
  for (const char* name : {"--zoo", "--scale", "--workers", "--no-onnxruntime", "--python",
                           "--onnxruntime-worker", "--trace"}) {
    if (command.count(name) > 0) {
      Die(fmt::format("{} is of the CPU, it does nothing on device '{}'", name, device));
    }
  }
}

void AddDisb(CLI::App& parent) {
  auto common = std::make_shared<Common>();
  auto options = std::make_shared<bench::DisbOptions>();
  auto words = std::make_shared<DisbWords>();
  CLI::App* command = AddBenchmark(
      parent, "disb", "DISB (REEF, Table 2): real-time clients beside best-effort ones", *common,
      true);
  options->schedulers = {"sequential", "streams", "wait", "one-kernel", "reset", "reef", "lagoon"};
  const std::vector<std::string> known(SchedulerNames().begin(), SchedulerNames().end());
  command
      ->add_option(
          "--device", words->device,
          "cpu, or sim:PROFILE: a simulated GPU (mi50, gv100, or a profile file) in virtual "
          "time")
      ->capture_default_str();
  command
      ->add_option("--workload", words->workload,
                   "A, B, C, D, E, REAL, a file of DISB's form (.json), or all: the named ones")
      ->capture_default_str();
  command
      ->add_option("--scale", words->scale,
                   "paper: its five models; small: five of ResNet-18's size")
      ->check(CLI::IsMember({"paper", "small"}))
      ->capture_default_str();
  command->add_option("--schedulers", options->schedulers, "Names")
      ->delimiter(',')
      ->check(CLI::IsMember(known))
      ->capture_default_str();
  command->add_option("--workers", options->workers, "Worker threads (0: one per core)")
      ->capture_default_str();
  command->add_option("--windows", options->windows, "Interleaved windows of each scheduler")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--requests", options->requests, "Real-time requests in all (p99 from 1000 on)")
      ->check(CLI::Range(10, 1000000))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "At most, of a scheduler's windows together")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the arrivals")->capture_default_str();
  common->tracing.AddOptions(*command);
  command->callback([common, options, words, command] {
    Json configuration = {{"device", words->device},
                          {"workload", words->workload},
                          {"schedulers", Configurations(options->schedulers)},
                          {"windows", options->windows},
                          {"requests", options->requests},
                          {"seconds", options->seconds},
                          {"seed", options->seed}};
    if (words->simulated()) {
      RefuseOfTheCpu(*command, words->device);
      return RunSimDisb(*words, *options, std::move(configuration), *common);
    }
    options->zoo = common->zoo;
    options->against_onnxruntime = !common->no_onnxruntime;
    options->onnxruntime = common->OnnxRuntime();
    configuration["scale"] = words->scale;
    configuration["workers"] = options->workers;
    configuration["onnxruntime"] = options->against_onnxruntime;
    options->trace = common->tracing.Start();
    Measure("disb", std::move(configuration), *common, [&](bench::Report& report) {
      return RunDisbWorkloads(*words, *options, [&] { return RunDisb(*options, report); });
    });
    common->tracing.Finish();
  });
}

void AddOverhead(CLI::App& parent) {
  auto common = std::make_shared<Common>();
  auto options = std::make_shared<bench::OverheadOptions>();
  CLI::App* command = AddBenchmark(parent, "overhead",
                                   "What the server adds to a request over HTTP and gRPC, by stage",
                                   *common, false);
  command->add_option("--model", options->model, "Model")->capture_default_str();
  command->add_option("--workers", options->workers, "Worker threads (0: one per core)")
      ->capture_default_str();
  command->add_option("--requests", options->requests, "Of each protocol")
      ->check(CLI::Range(10, 1000000))
      ->capture_default_str();
  command->callback([common, options] {
    options->zoo = common->zoo;
    const Json configuration = {
        {"model", options->model}, {"workers", options->workers}, {"requests", options->requests}};
    Measure("overhead", configuration, *common,
            [&](bench::Report& report) { return RunOverhead(*options, report); });
  });
}

void AddFootprint(CLI::App& parent) {
  auto common = std::make_shared<Common>();
  auto options = std::make_shared<bench::FootprintOptions>();
  options->models = {"resnet18", "resnet50", "mobilenet_v2"};
  CLI::App* command =
      AddBenchmark(parent, "footprint",
                   "Peak memory and load times of `lagoon serve` with some models", *common, false);
  command->add_option("--models", options->models, "Names in the zoo")
      ->delimiter(',')
      ->capture_default_str();
  command->callback([common, options] {
    options->zoo = common->zoo;
    options->lagoon = std::filesystem::read_symlink("/proc/self/exe");
    Measure("footprint", {{"models", options->models}}, *common,
            [&](bench::Report& report) { return RunFootprint(*options, report); });
  });
}

void AddMemory(CLI::App& parent) {
  auto common = std::make_shared<Common>();
  auto options = std::make_shared<bench::MemoryOptions>();
  options->models = kFiveCnns;
  CLI::App* command = AddBenchmark(
      parent, "memory", "Peak memory of loading and running a model, beside ONNX Runtime", *common,
      true);
  auto all = std::make_shared<bool>(false);
  AddModelNames(*command, options->models, *all);
  command->callback([common, options, all] {
    options->zoo = common->zoo;
    if (*all) options->models = ModelsIn(common->zoo);
    options->against_onnxruntime = !common->no_onnxruntime;
    options->onnxruntime = common->OnnxRuntime();
    const Json configuration = {{"models", options->models},
                                {"onnxruntime", options->against_onnxruntime}};
    Measure("memory", configuration, *common,
            [&](bench::Report& report) { return RunMemory(*options, report); });
  });
}

void AddOutputs(CLI::App& parent) {
  auto common = std::make_shared<Common>();
  auto options = std::make_shared<bench::OutputsOptions>();
  options->models = kFiveCnns;
  CLI::App* command = AddBenchmark(
      parent, "outputs",
      "Whether models compute what ONNX Runtime computes, also when they are revoked at random",
      *common, true);
  auto all = std::make_shared<bool>(false);
  AddModelNames(*command, options->models, *all);
  command->add_option("--revocations", options->revocations, "Of each model, at least")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the moments")->capture_default_str();
  command->callback([common, options, all] {
    if (common->no_onnxruntime) Die("bench outputs compares with ONNX Runtime");
    options->zoo = common->zoo;
    if (*all) options->models = ModelsIn(common->zoo);
    options->onnxruntime = common->OnnxRuntime();
    const Json configuration = {{"models", options->models},
                                {"workers", options->workers},
                                {"revocations", options->revocations},
                                {"seed", options->seed}};
    Measure("outputs", configuration, *common,
            [&](bench::Report& report) { return RunOutputs(*options, report); });
  });
}

void AddOnnxNodes(CLI::App& parent) {
  struct Words {
    std::string json, docs, match;
    std::string python = ".venv/bin/python";
    std::string script = "bench/comparators/onnx_nodes.py";
  };
  auto words = std::make_shared<Words>();
  CLI::App* command = parent.add_subcommand(
      "onnx-nodes", "The ONNX project's own tests of single ops: how many pass");
  command->add_option("--json", words->json, "Write counts and every case here");
  command->add_option("--docs", words->docs, "Renew the table of ops in this page (docs/ops.md)");
  command->add_option("--match", words->match, "Only cases whose name has this text");
  command->add_option("--python", words->python, "Python with numpy and onnx")
      ->capture_default_str();
  command->add_option("--script", words->script, "What runs the cases")->capture_default_str();
  command->callback([words] {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    std::vector<std::string> line{words->python, words->script, self};
    for (const auto& [option, value] :
         {std::pair{"--json", words->json}, {"--docs", words->docs}, {"--match", words->match}}) {
      if (!value.empty()) line.insert(line.end(), {option, value});
    }
    std::vector<char*> arguments;
    for (std::string& word : line) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    Die(fmt::format("cannot run {}: {}", words->python, std::generic_category().message(errno)));
  });
}

}  // namespace

void AddBench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure; every benchmark writes one JSON report");
  command->require_subcommand(1);
  AddModels(*command);
  AddContention(*command);
  AddDisb(*command);
  AddOverhead(*command);
  AddFootprint(*command);
  AddMemory(*command);
  AddOutputs(*command);
  AddOnnxNodes(*command);
}

}  // namespace lagoon
