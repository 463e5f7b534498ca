#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "apps/load.h"
#include "bench/client/bound_model.h"
#include "bench/live/contention.h"
#include "bench/live/instances.h"
#include "bench/live/memory.h"
#include "bench/live/models.h"
#include "bench/live/outputs.h"
#include "bench/live/overhead.h"
#include "bench/live/shapes.h"
#include "bench/process/levels.h"
#include "bench/reload/reload.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kFiveCnns = {"resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1",
                                            "vgg19"};

// The `lagoon` command, which some benchmarks start.
std::string Lagoon() { return ProgramBeside("lagoon", "`./run build` or `./run bench`"); }

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

void AddModelNamesOrAll(CLI::App& command, std::vector<std::string>& models, bool& all) {
  AddModelNames(command, models);
  command.add_flag("--all", all, "Every model in the zoo");
}

/// Every level of this machine, with the options of `models` that the two share.
void MeasureLevels(const BenchCommon& common, const bench::ModelsOptions& models) {
  bench::LevelsOptions options{.zoo = models.zoo,
                               .models = models.models,
                               .workers = models.workers,
                               .batches = models.batches,
                               .engines = models.engines,
                               .rounds = models.rounds,
                               .seconds = models.seconds,
                               .seed = models.seed,
                               .comparator = models.comparator};
  for (const CpuLevel level : MachineCpuLevels()) options.levels.emplace_back(NameOf(level));
  const Json configuration = {{"models", options.models},   {"levels", options.levels},
                              {"workers", options.workers}, {"batches", options.batches},
                              {"rounds", options.rounds},   {"seconds", options.seconds},
                              {"engines", options.engines}};
  RequireModels(common, options.models);
  Measure("levels", configuration, common,
          [&](bench::Report& report) { return RunLevels(options, report); });
}

void AddModels(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::ModelsOptions>();
  options->models = kFiveCnns;
  CLI::App* command =
      AddBenchmark(parent, "models", "Latency of models, compared with ONNX Runtime and OpenVINO",
                   *common, true);
  auto all = std::make_shared<bool>(false);
  AddModelNamesOrAll(*command, options->models, *all);
  command->add_option("--batches", options->batches, "Sizes of the dimension called \"batch\"")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  AddDeviceName(*command, options->device);
  command->add_option("--workers", options->workers, "Numbers of threads to measure with (cpu)")
      ->delimiter(',')
      ->capture_default_str();
  AddRounds(*command, options->rounds);
  AddSeconds(*command, options->seconds);
  command->add_flag("--tune", options->tune, "Choose the fastest version of every kernel first");
  auto precision = std::make_shared<Precision>(Precision::kFp32);
  AddPrecision(*command, *precision)->description("bf16: measure bf16 too, in turns with fp32");
  auto openvino = std::make_shared<bool>(false);
  command->add_flag("--openvino", *openvino,
                    "Measure OpenVINO too; `pip install openvino` adds it to --python");
  command->add_flag("!--no-processes", options->processes,
                    "Beside other engines, do not measure what a process of each costs that loads "
                    "the model: time and memory");
  auto levels = std::make_shared<bool>(false);
  command
      ->add_flag("--levels", *levels,
                 "Measure every instruction-set level of this machine instead, in turns")
      ->excludes("--tune")
      ->excludes("--precision")
      ->excludes("--device");
  command->callback([common, options, all, precision, openvino, levels, command] {
    options->bf16 = *precision == Precision::kBf16;
    options->zoo = common->zoo;
    if (*all) options->models = ModelsIn(common->zoo);
    options->engines.clear();
    if (common->BesideOnnxRuntime(options->device)) options->engines.emplace_back("onnxruntime");
    if (*openvino) options->engines.emplace_back("openvino");
    options->comparator = common->OnnxRuntime();
    options->comparator.lagoon = std::filesystem::read_symlink("/proc/self/exe").string();
    if (*levels) return MeasureLevels(*common, *options);
    if (options->device.name != "cpu") {
      if (command->count("--workers") > 0) {
        Die(fmt::format("--workers is of cpu, it does nothing on device '{}'",
                        options->device.name));
      }
      options->workers = {0};
    }
    const Json configuration = {{"models", options->models},   {"device", options->device.name},
                                {"workers", options->workers}, {"rounds", options->rounds},
                                {"seconds", options->seconds}, {"engines", options->engines},
                                {"tune", options->tune},       {"precision", Name(*precision)},
                                {"batches", options->batches}, {"processes", options->processes}};
    RequireModels(*common, options->models);
    Measure("models", configuration, *common,
            [&](bench::Report& report) { return RunModels(*options, report); });
  });
}

void AddContention(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::ContentionOptions>();
  CLI::App* command = AddBenchmark(
      parent, "contention", "A real-time model beside a best-effort one, under several schedulers",
      *common, true);
  command->add_option("--realtime", options->real_time, "Real-time model")->capture_default_str();
  command->add_option("--best-effort", options->best_effort, "Best-effort model")
      ->capture_default_str();
  AddSchedulers(*command, options->schedulers);
  AddDevice(*command, options->device);
  command->add_option("--load", options->load, "Real-time load, as a part of what the model can do")
      ->check(NumberBetween(0.01, 0.99))
      ->capture_default_str();
  AddWindows(*command, options->windows);
  AddRequests(*command, options->requests);
  command->add_option("--seconds", options->seconds, "Time limit in all (0: no limit)")
      ->check(NumberBetween(0.0, 36000.0))
      ->capture_default_str();
  AddSeed(*command, options->seed);
  AddSamples(*command, *common);
  common->tracing.AddOptions(*command);
  command->callback([common, options] {
    options->zoo = common->zoo;
    options->against_onnxruntime = common->BesideOnnxRuntime(options->device);
    options->onnxruntime = common->OnnxRuntime();
    const Json configuration = {{"realtime", options->real_time},
                                {"best_effort", options->best_effort},
                                {"schedulers", Configurations(options->schedulers)},
                                {"device", options->device.name},
                                {"workers", options->device.workers},
                                {"load", options->load},
                                {"windows", options->windows},
                                {"requests", options->requests},
                                {"seconds", options->seconds},
                                {"seed", options->seed},
                                {"onnxruntime", options->against_onnxruntime}};
    RequireDevice(options->device);
    options->trace = common->tracing.Start();
    RequireModels(*common, {options->real_time, options->best_effort});
    Measure("contention", configuration, *common,
            [&](bench::Report& report) { return RunContention(*options, report); });
    common->tracing.Finish();
  });
}

void AddOverhead(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::OverheadOptions>();
  CLI::App* command = AddBenchmark(
      parent, "overhead",
      "Time that the server adds to a request over HTTP, gRPC and shared memory", *common, false);
  command->add_option("--model", options->model, "Model")->capture_default_str();
  AddWorkers(*command, options->workers);
  AddRequests(*command, options->requests);
  command->callback([common, options] {
    options->zoo = common->zoo;
    const Json configuration = {
        {"model", options->model}, {"workers", options->workers}, {"requests", options->requests}};
    RequireModels(*common, {options->model});
    Measure("overhead", configuration, *common,
            [&](bench::Report& report) { return RunOverhead(*options, report); });
  });
}

void AddFootprint(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::FootprintOptions>();
  options->models = {"resnet18", "resnet50", "mobilenet_v2"};
  CLI::App* command =
      AddBenchmark(parent, "footprint",
                   "Peak memory and load times of `lagoon serve` with some models", *common, false);
  AddModelNames(*command, options->models);
  command->callback([common, options] {
    options->zoo = common->zoo;
    options->lagoon = Lagoon();
    RequireModels(*common, options->models);
    Measure("footprint", {{"models", options->models}}, *common,
            [&](bench::Report& report) { return RunFootprint(*options, report); });
  });
}

void AddMemory(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::MemoryOptions>();
  options->models = kFiveCnns;
  CLI::App* command =
      AddBenchmark(parent, "memory", "Peak memory of running a model, compared with ONNX Runtime",
                   *common, true);
  auto all = std::make_shared<bool>(false);
  AddModelNamesOrAll(*command, options->models, *all);
  command->callback([common, options, all] {
    options->zoo = common->zoo;
    if (*all) options->models = ModelsIn(common->zoo);
    options->against_onnxruntime = !common->no_onnxruntime;
    options->onnxruntime = common->OnnxRuntime();
    const Json configuration = {{"models", options->models},
                                {"onnxruntime", options->against_onnxruntime}};
    RequireModels(*common, options->models);
    Measure("memory", configuration, *common,
            [&](bench::Report& report) { return RunMemory(*options, report); });
  });
}

void AddInstances(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::InstancesOptions>();
  options->models = {"alexnet", "resnet50", "resnet152", "vgg19"};
  CLI::App* command = AddBenchmark(parent, "instances",
                                   "GSLICE Table 1: load time and memory of another instance that "
                                   "shares the weights of the first, beside one that does not",
                                   *common, false);
  AddModelNames(*command, options->models);
  AddRounds(*command, options->rounds);
  command
      ->add_option("--workers", options->workers, "Worker threads of device cpu (0: one per core)")
      ->capture_default_str();
  command->callback([common, options] {
    options->zoo = common->zoo;
    const Json configuration = {
        {"models", options->models}, {"rounds", options->rounds}, {"workers", options->workers}};
    RequireModels(*common, options->models);
    Measure("instances", configuration, *common,
            [&](bench::Report& report) { return RunInstances(*options, report); });
  });
}

void AddShapesBenchmark(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::ShapesOptions>();
  options->models = {"resnet50", "bert_base", "ppocr_v4_det", "detr", "ssdlite"};
  options->files = "models/corpus/files";
  CLI::App* command = AddBenchmark(parent, "shapes",
                                   "Requests of shapes that were not seen before: time to compile, "
                                   "memory, and a real-time model "
                                   "beside a detector whose shapes change all the time",
                                   *common, false);
  command
      ->add_option("--files", options->files,
                   "Folder of ONNX files with open dims; ./run corpus --make fills it")
      ->envname("LAGOON_CORPUS")
      ->capture_default_str();
  command->add_option("--models", options->models, "Names of files to measure alone")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--realtime", options->real_time, "Real-time model, of the zoo")
      ->capture_default_str();
  command->add_option("--detector", options->detector, "Best-effort model, among the files")
      ->capture_default_str();
  AddSchedulers(*command, options->schedulers);
  options->schedulers = {"reset"};
  AddWorkers(*command, options->workers);
  command->add_option("--load", options->load, "Real-time load, as a part of what the model can do")
      ->check(NumberBetween(0.01, 0.99))
      ->capture_default_str();
  command->add_option("--shapes", options->shapes, "Shapes that each model sees")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  AddWindows(*command, options->windows);
  AddRequests(*command, options->requests);
  AddSeed(*command, options->seed);
  command->callback([common, options] {
    options->zoo = common->zoo;
    const Json configuration = {
        {"models", options->models},     {"realtime", options->real_time},
        {"detector", options->detector}, {"schedulers", Configurations(options->schedulers)},
        {"workers", options->workers},   {"load", options->load},
        {"shapes", options->shapes},     {"windows", options->windows},
        {"requests", options->requests}, {"seed", options->seed}};
    RequireModels(*common, {options->real_time});
    std::vector<std::string> names = options->models;
    names.push_back(options->detector);
    RequireFiles(options->files, names);
    Measure("shapes", configuration, *common,
            [&](bench::Report& report) { return RunShapes(*options, report); });
  });
}

void AddReload(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::ReloadOptions>();
  CLI::App* command = AddSimulation(
      parent, "reload",
      "Memory that a server keeps for each load of a model and for each new shape. Then a load "
      "above its capacity (HTTP and gRPC, JSON and binary, batches, deadlines, clients that leave, "
      "reloads of models): each answer must equal the answer of the idle server",
      *common);
  command
      ->add_option("--loads", options->loads,
                   "Loads and unloads of a model, each with a request between them; 0: none")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  command
      ->add_option("--shapes", options->shapes,
                   "Requests of shapes that the server has not seen; 0: none")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  command
      ->add_option("--minutes", options->minutes,
                   "Length of the mixed load; 0: none. The slope of the memory needs minutes, "
                   "everything else seconds")
      ->check(NumberBetween(0.0, 10'000.0))
      ->capture_default_str();
  command
      ->add_option("--overload", options->overload,
                   "The mixed load, as a multiple of what the server has answered to 16 clients "
                   "before")
      ->check(NumberBetween(0.1, 100.0))
      ->capture_default_str();
  command
      ->add_option("--clients", options->clients,
                   "Most requests of the mixed load at once; each client has one")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddWorkers(*command, options->workers);
  AddSeed(*command, options->seed);
  command->footer(
      "The metrics reload_rss_kib_per_load, shapes_rss_kib_per_shape and soak_rss_mib_per_hour are "
      "slopes over the second half of each part; soak_lost, soak_doubled and soak_wrong should be "
      "0. "
      "The models are written by the benchmark.\n"
      "Within a minute:  lagoon bench reload --loads 50 --shapes 500 --minutes 0.2");
  command->callback([common, options] {
    options->lagoon = Lagoon();
    const Json configuration = {{"loads", options->loads},     {"shapes", options->shapes},
                                {"minutes", options->minutes}, {"overload", options->overload},
                                {"clients", options->clients}, {"workers", options->workers},
                                {"seed", options->seed}};
    Measure("reload", configuration, *common,
            [&](bench::Report& report) { return RunReload(*options, report); });
  });
}

void AddOutputs(CLI::App& parent) {
  auto common = std::make_shared<BenchCommon>();
  auto options = std::make_shared<bench::OutputsOptions>();
  options->models = kFiveCnns;
  CLI::App* command = AddBenchmark(
      parent, "outputs",
      "Compares models' outputs with those of ONNX Runtime (or of device cpu), also when models "
      "are revoked at random moments",
      *common, true);
  auto all = std::make_shared<bool>(false);
  AddModelNamesOrAll(*command, options->models, *all);
  command->add_option("--revocations", options->revocations, "Least revocations of each model")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  AddSeed(*command, options->seed);
  command->add_option("--most-error", options->most_error, "Fail if a relative error is larger")
      ->check(NumberBetween(1e-12, 1e12))
      ->capture_default_str();
  AddDevice(*command, options->device);
  command->callback([common, options, all] {
    options->against_onnxruntime = !common->no_onnxruntime;
    options->zoo = common->zoo;
    if (*all) options->models = ModelsIn(common->zoo);
    options->onnxruntime = common->OnnxRuntime();
    const Json configuration = {
        {"models", options->models},           {"device", options->device.name},
        {"workers", options->device.workers},  {"onnxruntime", options->against_onnxruntime},
        {"revocations", options->revocations}, {"seed", options->seed}};
    RequireModels(*common, options->models);
    Measure("outputs", configuration, *common,
            [&](bench::Report& report) { return RunOutputs(*options, report); });
  });
}

void AddOnnxNodes(CLI::App& parent) {
  struct Words {
    std::string json, docs, match;
    std::string python = kPython;
    std::string script = "bench/comparators/onnx_nodes.py";
  };
  auto words = std::make_shared<Words>();
  CLI::App* command = parent.add_subcommand(
      "onnx-nodes", "Runs the ONNX project's tests of single ops and counts those that pass");
  command->add_option("--json", words->json, "Write the counts and the result of each case here");
  command->add_option("--docs", words->docs,
                      "Update the table of ops in this page (docs/guide/ops.md)");
  command->add_option("--match", words->match, "Only cases whose name has this text");
  AddPython(*command, words->python);
  command->add_option("--script", words->script, "Script that runs the cases")
      ->capture_default_str();
  command->callback([words] {
    std::vector<std::string> line{words->python, words->script, Lagoon()};
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

void AddBenchmarks(CLI::App& app) {
  AddModels(app);
  AddContention(app);
  AddBatchingBenchmark(app);
  AddDisbBenchmark(app);
  AddLoadBenchmarks(app);
  AddGenerateBenchmark(app);
  AddPlacementBenchmark(app);
  AddFleetBenchmark(app);
  AddSharesBenchmarks(app);
  AddSimBenchmarks(app);
  AddSplitBenchmark(app);
  AddGpuBenchmarks(app);
  AddOverhead(app);
  AddFootprint(app);
  AddMemory(app);
  AddInstances(app);
  AddShapesBenchmark(app);
  AddReload(app);
  AddRobotBenchmark(app);
  AddInProcessBenchmark(app);
  AddOutputs(app);
  AddOnnxNodes(app);
}

}  // namespace lagoon
