// `lagoon bench shares`, and `lagoon bench surface`, which `lagoon profile --shares` starts for
// simulated GPUs.

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "apps/load.h"
#include "bench/live/colocation.h"
#include "bench/shares/sim_rows.h"
#include "bench/shares/switch.h"
#include "bench/shares/tune.h"
#include "cluster/share_points.h"

namespace lagoon {
namespace {

// `lagoon bench shares`: the options of its three parts.

CLI::App* AddColocation(CLI::App& parent, const std::shared_ptr<BenchCommon>& common,
                        bench::ColocationOptions& options) {
  CLI::App* command = AddBenchmark(parent, "shares",
                                   "GSLICE: models that share a CPU, under shares of it and "
                                   "without, beside ONNX Runtime; or what a move costs (--switch), "
                                   "or shares that follow the load (--tune)",
                                   *common, true);
  command->footer("What batches bring, and who limits them (SLAB): lagoon bench batching");
  options.combinations = {"resnet18+bert_tiny", "squeezenet1_1+mobilenet_v2",
                          "resnet18+squeezenet1_1+bert_tiny"};
  command
      ->add_option("combinations", options.combinations,
                   "Models of the zoo that run at the same time, joined by '+'")
      ->capture_default_str();
  command->add_option("--scheduler", options.scheduler, "Scheduler of the side lagoon+slab")
      ->capture_default_str();
  command->add_option("--clients", options.clients, "Clients of each model in the closed loops")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--most-rows", options.most_rows, "Rows of a batch at most")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  command
      ->add_option("--slo-factor", options.slo_factor,
                   "SLO of a request: so many times its time alone")
      ->check(NumberBetween(1.0, 1000.0))
      ->capture_default_str();
  command
      ->add_option("--load", options.load,
                   "Poisson arrivals: a part of what the models do under 'streams'")
      ->check(NumberBetween(0.01, 10.0))
      ->capture_default_str();
  AddWindows(*command, options.windows);
  command->add_option("--window-seconds", options.window_seconds, "Length of a window")
      ->check(NumberBetween(0.05, 60.0))
      ->capture_default_str();
  return command;
}

void AddSimulated(CLI::App& command, std::string& gpu, std::vector<std::string>& models) {
  CLI::App* group = command.add_option_group("With --switch or --tune");
  group->add_option("--gpu", gpu, "Simulated GPU with kernel lists")->capture_default_str();
  group
      ->add_option("--gpu-models", models,
                   "Kernel lists of that GPU (default: resnet50,vgg19 with --switch, "
                   "vgg19,resnet50,alexnet with --tune)")
      ->delimiter(',');
}

void AddSwitch(CLI::App& command, bench::SwitchOptions& options) {
  CLI::App* group = command.add_option_group("With --switch");
  AddModelNames(*group, options.models);
  group->add_flag("!--no-cpu", options.cpu, "Only the simulated GPU");
  group->add_option("--moves", options.moves, "Moves of shares, of each kind")
      ->check(CLI::Range(2, 100'000))
      ->capture_default_str();
  group->add_option("--restarts", options.restarts, "Restarts of the first model")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
}

void AddTune(CLI::App& command, bench::TuneOptions& options) {
  CLI::App* group = command.add_option_group("With --tune");
  group->add_option("--seconds", options.seconds, "Length of the run in virtual time")
      ->check(NumberBetween(1.0, 3600.0))
      ->capture_default_str();
  group
      ->add_option("--hot", options.hot,
                   "Arrivals of the model that is hot: a part of what it does alone")
      ->check(NumberBetween(0.001, 10.0))
      ->capture_default_str();
  group->add_option("--cold", options.cold, "The same for the other models")
      ->check(NumberBetween(0.001, 10.0))
      ->capture_default_str();
  group->add_option("--hold-down", options.hold_down_s, "Seconds between two moves of a model")
      ->check(NumberBetween(0.0, 3600.0))
      ->capture_default_str();
}

void RunColocationWith(const BenchCommon& common, bench::ColocationOptions& options) {
  options.zoo = common.zoo;
  options.against_onnxruntime = common.BesideOnnxRuntime({});
  options.onnxruntime = common.OnnxRuntime();
  const nlohmann::json configuration = {{"combinations", options.combinations},
                                        {"scheduler", Configurations({options.scheduler})},
                                        {"workers", options.workers},
                                        {"clients", options.clients},
                                        {"most_rows", options.most_rows},
                                        {"slo_factor", options.slo_factor},
                                        {"load", options.load},
                                        {"windows", options.windows},
                                        {"window_seconds", options.window_seconds},
                                        {"onnxruntime", options.against_onnxruntime},
                                        {"seed", options.seed}};
  std::vector<std::string> models;
  for (const std::string& combination : options.combinations) {
    const std::vector<std::string> some = bench::ModelsOf(combination);
    models.insert(models.end(), some.begin(), some.end());
  }
  std::erase(models, "");  // RunColocation() names the combination
  RequireModels(common, models);
  Measure("shares", configuration, common,
          [&](bench::Report& report) { return RunColocation(options, report); });
}

void RunSwitchWith(const BenchCommon& common, bench::SwitchOptions& options) {
  options.zoo = common.zoo;
  const nlohmann::json configuration = {
      {"switch", true},         {"models", options.models},
      {"gpu", options.gpu},     {"gpu_models", options.gpu_models},
      {"cpu", options.cpu},     {"workers", options.workers},
      {"moves", options.moves}, {"restarts", options.restarts},
      {"seed", options.seed}};
  if (options.cpu) RequireModels(common, options.models);
  Measure("shares", configuration, common,
          [&](bench::Report& report) { return RunSwitch(options, report); });
}

void RunTuneWith(const BenchCommon& common, const bench::TuneOptions& options) {
  const nlohmann::json configuration = {{"tune", true},
                                        {"gpu", options.gpu},
                                        {"models", options.models},
                                        {"seconds", options.seconds},
                                        {"hot", options.hot},
                                        {"cold", options.cold},
                                        {"slo_factor", options.slo_factor},
                                        {"hold_down_s", options.hold_down_s},
                                        {"seed", options.seed}};
  Measure("shares", configuration, common,
          [&](bench::Report& report) { return RunTune(options, report); });
}

// What the command line says of the three parts.
struct SharesWords {
  BenchCommon common;
  bench::ColocationOptions colocation;
  bench::SwitchOptions moves;
  bench::TuneOptions tune;
  bool of_switch = false, of_tune = false;
  std::string gpu = "v100";
  std::vector<std::string> gpu_models;  // empty: the defaults
};

void RunShares(SharesWords& words) {
  if (words.of_switch) {
    words.moves.workers = words.colocation.workers;
    words.moves.seed = words.colocation.seed;
    words.moves.gpu = words.gpu;
    if (!words.gpu_models.empty()) words.moves.gpu_models = words.gpu_models;
    return RunSwitchWith(words.common, words.moves);
  }
  if (words.of_tune) {
    words.tune.seed = words.colocation.seed;
    words.tune.slo_factor = words.colocation.slo_factor;
    words.tune.gpu = words.gpu;
    if (!words.gpu_models.empty()) words.tune.models = words.gpu_models;
    return RunTuneWith(words.common, words.tune);
  }
  RunColocationWith(words.common, words.colocation);
}

void AddShares(CLI::App& parent) {
  auto words = std::make_shared<SharesWords>();
  const std::shared_ptr<BenchCommon> common(words, &words->common);
  CLI::App* command = AddColocation(parent, common, words->colocation);
  CLI::Option* of_switch =
      command->add_flag("--switch", words->of_switch,
                        "Instead: moves of shares under full load, on a simulated GPU and the CPU, "
                        "beside a restart of the model");
  command
      ->add_flag("--tune", words->of_tune,
                 "Instead: shares that follow loads which change, on a simulated GPU, beside fixed "
                 "equal shares and none")
      ->excludes(of_switch);
  command
      ->add_option("--workers", words->colocation.workers,
                   "Worker threads of device cpu (0: one per core; with --switch at least 4)")
      ->capture_default_str();
  AddSeed(*command, words->colocation.seed);
  AddSimulated(*command, words->gpu, words->gpu_models);
  AddSwitch(*command, words->moves);
  AddTune(*command, words->tune);
  command->callback([words] { RunShares(*words); });
}

struct SurfaceWords {
  std::string model, device, shares, json, plot, python = kPython;
  std::vector<std::int64_t> rows = {1};
};

Status RunSurface(const SurfaceWords& words) {
  constexpr std::string_view kPrefix = "sim:";
  const std::string name = words.device.substr(std::min(kPrefix.size(), words.device.size()));
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(name));
  const auto granule = static_cast<std::uint32_t>(gpu.constants.share_granule);
  LAGOON_ASSIGN_OR_RETURN(const SharePoints plan,
                          PlanShares(static_cast<std::uint32_t>(gpu.constants.units), granule,
                                     words.shares, words.rows));
  bench::ProgressBar progress("profile " + words.model,
                              static_cast<int>(plan.rows.size() * plan.measured.size()));
  std::vector<std::vector<double>> latency_ms;
  for (const std::int64_t rows : plan.rows) {
    LAGOON_ASSIGN_OR_RETURN(const SimModel model, bench::MakeSimRows(gpu, words.model, rows));
    std::vector<double>& times = latency_ms.emplace_back();
    for (const std::uint32_t units : plan.measured) {
      LAGOON_ASSIGN_OR_RETURN(times.emplace_back(), bench::SimShareMs(gpu, model, units));
      progress.Step(fmt::format("{} rows on {} units", rows, units));
    }
  }
  LAGOON_ASSIGN_OR_RETURN(Surface surface, SurfaceOf(plan, std::move(latency_ms)));
  const NamedSurface named{
      words.model, words.device,
      fmt::format("lagoon profile --shares, {}: simulated from a kernel list", Build()),
      std::move(surface)};
  std::fputs(ShareTable(plan, named).c_str(), stdout);
  if (words.json.empty()) return {};
  LAGOON_RETURN_IF_ERROR(WriteSurfaceFile(words.json, named));
  if (!words.plot.empty()) Draw(words.python, words.json, words.plot);
  return {};
}

void AddSurface(CLI::App& parent) {
  auto words = std::make_shared<SurfaceWords>();
  CLI::App* command = parent.add_subcommand(
      "surface", "What `lagoon profile --shares --device sim:GPU` does for a kernel list");
  command->add_option("MODEL", words->model, "Kernel list of the GPU")->required();
  command->add_option("--device", words->device, "sim:GPU")->required();
  command->add_option("--shares", words->shares, "Shares in percent (default: up to 8)");
  command->add_option("--rows", words->rows, "Rows of the batches")->delimiter(',');
  command->add_option("--json", words->json, "Write the surface to this file");
  command->add_option("--plot", words->plot, "Draw the surface of --json into this folder");
  AddPython(*command, words->python);
  command->callback([words] {
    if (const Status status = RunSurface(*words); !status) Die(status.error().message);
  });
}

}  // namespace

void AddSharesBenchmarks(CLI::App& bench) {
  AddShares(bench);
  AddSurface(bench);
}

}  // namespace lagoon
