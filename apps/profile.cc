#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "apps/load.h"
#include "bench/report/report.h"
#include "cluster/share_points.h"
#include "cluster/stored_surface.h"
#include "plan/instance.h"
#include "program/link/host_tensors.h"
#include "program/profile/profile_file.h"
#include "program/profile/versions.h"
#include "program/run.h"

namespace lagoon {
namespace {

struct ProfileWords {
  std::string model;
  std::string folder = DefaultProfileFolder();
  std::string json;
  DeviceChoice device;
  std::vector<std::int64_t> batches = {1};
  int runs = 7;
  bool force = false;
  CompileWords compile;
};

// Reports every measured version. AddKept() reports which ones are left after pruning.
void AddVersions(const PlanOp& op, std::uint32_t units, bench::Report& report) {
  for (const OpVersion& version : op.versions) {
    const VersionTraits traits = TraitsOf(version, units);
    const std::string name = op.name + "." + version.name;
    report.Metric("kernel_us." + name, ToMicroseconds(traits.kernel));
    report.Metric("block_us." + name, ToMicroseconds(traits.block));
    report.Metric("occupancy." + name, traits.occupancy);
    report.Metric("scratch_bytes." + name, static_cast<double>(traits.scratch_bytes));
    report.Metric("blocks." + name, traits.blocks);
  }
}

Status Tune(LoadedPlan& loaded, Device& device, int runs, bench::Report& report) {
  std::optional<bench::ProgressBar> bar;
  VersionOptions options;
  options.runs = runs;
  options.progress = [&](int, int of) {
    if (!bar) bar.emplace("profile " + loaded.plan.model, of);
    bar->Step("versions");
  };
  options.measured = [&](const PlanOp& op) { AddVersions(op, device.info().units, report); };
  return ProfileVersions(loaded, device, options);
}

void AddKept(const Plan& plan, bench::Report& report) {
  report.Metric("standalone_us", ToMicroseconds(plan.standalone));
  for (const PlanOp& op : plan.ops) {
    for (std::size_t i = 0; i < op.versions.size(); ++i) {
      const std::string name = op.name + "." + op.versions[i].name;
      report.Metric("kept." + name, 1);
      if (i == op.version) report.Metric("used." + name, 1);
    }
  }
}

/// The inputs' shapes: "image [1,3,224,224], k []".
std::string ShapesOf(const Plan& plan) {
  std::vector<std::string> shapes;
  for (const PlanTensor& input : plan.inputs) {
    shapes.push_back(fmt::format("{} {}", input.spec.name, ToString(input.spec.dims)));
  }
  return fmt::format("{}", fmt::join(shapes, ", "));
}

void PrintTable(const Plan& plan) {
  std::printf("model %s, %s: %.1f us standalone\n%4s %-12s %8s %10s %9s %7s %11s %s\n",
              plan.model.c_str(), ShapesOf(plan).c_str(), ToMicroseconds(plan.standalone), "#",
              "version", "of", "kernel us", "block us", "blocks", "scratch KiB", "name");
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    const std::string version = op.versions.empty() ? "-" : op.versions[op.version].name;
    std::printf("%4zu %-12s %8zu %10.1f %9.1f %7u %11.1f %s\n", i, version.c_str(),
                std::max<std::size_t>(op.versions.size(), 1), ToMicroseconds(op.cost.kernel),
                ToMicroseconds(op.cost.block), op.blocks,
                static_cast<double>(op.scratch_bytes) / 1024, op.name.c_str());
  }
}

void ProfileShape(LoadedPlan& loaded, Device& device, const ProfileWords& words) {
  Plan& plan = loaded.plan;
  const ProfileStore store{words.folder, Build()};
  const std::string key = ProfileKey(plan, device.info(), store.build);
  bench::Report report("profile",
                       {{"model", plan.model},
                        {"inputs", ShapesOf(plan)},
                        {"device", words.device.name},
                        {"units", device.info().units},
                        {"precision", Name(words.compile.precision)}},
                       Build());
  // A stored profile has no figures of pruned versions: for --json the versions are measured again.
  if (words.force || !words.json.empty() || LoadProfile(store, key, plan) != ProfileFound::kTuned) {
    Status status = Tune(loaded, device, words.runs, report);
    if (status) status = SaveProfile(store, key, plan, /*tuned=*/true);
    if (!status) Die(status.error().message);
  }
  PrintTable(plan);
  if (words.json.empty()) return;
  AddKept(plan, report);
  if (const Status written = report.Write(words.json); !written) Die(written.error().message);
}

void RunProfile(ProfileWords words) {
  std::sort(words.batches.begin(), words.batches.end());
  words.batches.erase(std::unique(words.batches.begin(), words.batches.end()), words.batches.end());
  if (!words.json.empty() && words.batches.size() > 1) Die("--json holds one of --batches");
  const ComputeDevice on = Open(words.device);
  words.compile.many_shapes = true;  // as `lagoon serve` compiles it: the key of a profile says so
  for (const std::int64_t batch : words.batches) {
    if (words.batches.size() > 1 || batch > 1) words.compile.batch = batch;
    ProfileShape(*Compile(words.model, on, words.compile), *on.device, words);
  }
}

struct ProfileSharesWords {
  std::string shares;  // PlanShares(); empty: chosen
  std::vector<std::int64_t> rows = {1};
  std::string plot;  // folder; empty: none
  bool save = false;
  std::string python = ".venv/bin/python";
};

/// What the command's other options say.
struct ProfileOf {
  std::string model, json;
  std::string folder;  // of the profiles
  DeviceChoice device;
  int runs = 7;
  CompileWords compile;
};

template <typename T>
T OrDie(Result<T> result) {
  if (!result) Die(result.error().message);
  return *std::move(result);
}

// A model at one number of rows, with memory of its own.
struct RowsModel {
  std::int64_t rows = 1;
  std::unique_ptr<Instance> instance;
  std::unique_ptr<HostTensors> host;
};

class ShareMeter {
 public:
  ShareMeter(Device& device, int runs) : device_(device), runs_(runs) {
    share_ = OrDie(device.CreateShare("profile", {0, device.info().units}));
  }

  // Median times by index of plan.measured. Rounds go over all shares, so that what disturbs the
  // machine for a while disturbs all of them.
  std::vector<double> Measure(const RowsModel& model, const SharePoints& plan,
                              bench::ProgressBar& bar) {
    std::vector<std::vector<double>> ms(plan.measured.size());
    for (int run = -1; run < runs_; ++run) {  // the first round warms up
      for (std::size_t i = 0; i < plan.measured.size(); ++i) {
        const double took = RunOn(model, {0, plan.measured[i]});
        if (run >= 0) ms[i].push_back(took);
      }
      bar.Step(fmt::format("{} rows", model.rows));
    }
    std::vector<double> medians;
    for (std::vector<double>& one : ms) {
      std::nth_element(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(one.size() / 2),
                       one.end());
      medians.push_back(one[one.size() / 2]);
    }
    return medians;
  }

 private:
  double RunOn(const RowsModel& model, UnitRange units) {
    Status status = device_.PrepareUnits(units);
    if (status) status = device_.MoveShare(share_, units);
    RunOptions options;
    options.share = share_;
    const TimePoint begin = device_.Now();
    if (status) {
      status =
          RunPlan(*model.instance, device_, model.host->inputs(), model.host->outputs(), options);
    }
    if (!status) Die(status.error().message);
    return ToMilliseconds(device_.Now() - begin);
  }

  Device& device_;
  const int runs_;
  ShareId share_{};
};

RowsModel LoadRows(const ProfileOf& of, const ComputeDevice& on, std::int64_t rows) {
  CompileWords words = of.compile;
  if (words.shapes.empty() || rows > 1) words.batch = rows;
  RowsModel model;
  model.rows = rows;
  const std::shared_ptr<LoadedPlan> loaded = Compile(of.model, on, words);
  model.instance = OrDie(Instance::Create(loaded, *on.device));
  model.host = std::make_unique<HostTensors>(loaded->plan);
  return model;
}

void WarnOfFewUnits(const DeviceInfo& info) {
  if (info.units >= 10) return;
  std::fprintf(stderr,
               "device '%s' has %u units, so there are only %u shares. A weight is no share: it "
               "lets a model use what its neighbours leave, so its latency says more about them. "
               "Weights are not measured.\n",
               info.name.c_str(), info.units, info.units);
}

void MeasureHere(const ProfileOf& of, const ProfileSharesWords& words) {
  const ComputeDevice on = Open(of.device);
  const DeviceInfo& info = on.device->info();
  if (info.share_granule == 0) {
    OrDie(on.device->CreateShare("profile", {0, info.units}));  // says why there are none
  }
  const SharePoints plan =
      OrDie(PlanShares(info.units, info.share_granule, words.shares, words.rows));
  WarnOfFewUnits(info);
  std::vector<std::vector<double>> latency_ms;
  std::vector<RowsModel> models;  // all compile before any is measured: a bad --rows fails early
  for (const std::int64_t rows : plan.rows) models.push_back(LoadRows(of, on, rows));
  ShareMeter meter(*on.device, of.runs);
  {
    bench::ProgressBar bar("profile " + ModelName(of.model),
                           static_cast<int>(plan.rows.size()) * (of.runs + 1));
    for (const RowsModel& model : models) {
      latency_ms.push_back(meter.Measure(model, plan, bar));
    }
  }
  const NamedSurface surface{
      ModelName(of.model), SurfaceDevice(info.name, info.description, info.units),
      fmt::format("lagoon profile --shares, {}, median of {} runs, {} units, {}", Build(), of.runs,
                  info.units, Name(of.compile.precision)),
      OrDie(SurfaceOf(plan, std::move(latency_ms)))};
  std::fputs(ShareTable(plan, surface).c_str(), stdout);
  std::vector<std::string> paths;
  if (!of.json.empty()) paths.push_back(of.json);
  if (words.save) {
    paths.push_back(SurfacePath(of.folder, surface.model));
    std::error_code ignored;  // where there is no folder, the file cannot be written
    std::filesystem::create_directories(of.folder, ignored);
  }
  for (const std::string& path : paths) {
    if (const Status written = WriteSurfaceFile(path, surface); !written) {
      Die(written.error().message);
    }
  }
}

// Adds --shares, which it returns, --rows, --plot and --python.
CLI::Option* AddProfileShares(CLI::App& command, ProfileSharesWords& words) {
  CLI::Option* shares =
      command
          .add_option("--shares", words.shares,
                      "Measure latency and throughput over the share of the device instead. Shares "
                      "in percent, such as 25,50,100 (default: up to 8 shares). --json then writes "
                      "the surface. --device sim:GPU measures a kernel list of that name")
          ->expected(0, 1);
  command.add_option("--rows", words.rows, "Rows of the batches to measure with --shares")
      ->delimiter(',')
      ->capture_default_str();
  command.add_flag("--save", words.save, "Keep the surface of --shares with the profiles");
  command.add_option("--plot", words.plot, "Draw the surface of --json into this folder");
  command.add_option("--python", words.python, "Python with matplotlib, for --plot")
      ->capture_default_str();
  return shares;
}

// Measures the surface of a model, prints it, and writes it to `of.json`. For "sim:GPU",
// lagoon-bench measures a kernel list.
void RunProfileShares(const ProfileOf& of, const ProfileSharesWords& words) {
  if (!words.plot.empty() && of.json.empty()) {
    Die("--plot draws from the file of --json; name one");
  }
  if (words.save && of.folder.empty()) Die("--save needs a folder; --profiles names one");
  if (of.device.name.starts_with("sim:")) {
    if (words.save) Die(fmt::format("--save: device '{}' serves no models", of.device.name));
    std::vector<std::string> line = {
        ProgramBeside("lagoon-bench", "`./run build` or `./run bench`"),
        "surface",
        of.model,
        "--rows=" + fmt::format("{}", fmt::join(words.rows, ",")),
        "--device=" + of.device.name,
        "--python=" + words.python};
    // An empty value would take the word behind it.
    for (const auto& [option, value] :
         {std::pair{"--shares=", words.shares}, {"--json=", of.json}, {"--plot=", words.plot}}) {
      if (!value.empty()) line.push_back(option + value);
    }
    Become(std::move(line));
  }
  MeasureHere(of, words);
  if (!words.plot.empty()) Draw(words.python, of.json, words.plot);
}

}  // namespace

void AddProfile(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "profile", "Measure ways to cut each kernel into blocks and keep the best ones for `serve`");
  auto words = std::make_shared<ProfileWords>();
  command->add_option("MODEL", words->model, "An .onnx file or a model's folder in a repository")
      ->required();
  command->add_option("--profiles", words->folder, "Folder of the profiles")->capture_default_str();
  command->add_option(
      "--json", words->json,
      "Measure again, and write every version's numbers here (bench/plots/plot.py draws them)");
  command
      ->add_option("--batches", words->batches,
                   "Batch sizes, for a model that is served with a max_batch_size")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, kMostShareRows))
      ->capture_default_str();
  command->add_option("--runs", words->runs, "Runs of each version; their median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--force", words->force, "Measure even if there is a profile");
  command->add_option("--shape", words->compile.shapes,
                      "NAME=1x3x640x640: the shape of an input whose sizes the model leaves open");
  AddEngine(*command, words->compile.engine);
  AddPrecision(*command, words->compile.precision);
  AddDevice(*command, words->device);
  auto shares = std::make_shared<ProfileSharesWords>();
  CLI::Option* of_shares = AddProfileShares(*command, *shares);
  command->callback([words, shares, of_shares, command] {
    if (of_shares->count() == 0) {
      for (const char* option : {"--rows", "--plot", "--save"}) {
        if (command->count(option) > 0) Die(fmt::format("{} goes with --shares", option));
      }
      RunProfile(*words);
      return;
    }
    for (const char* option : {"--batches", "--force"}) {
      if (command->count(option) > 0) Die(fmt::format("{} does not go with --shares", option));
    }
    RunProfileShares(
        {words->model, words->json, words->folder, words->device, words->runs, words->compile},
        *shares);
  });
}

}  // namespace lagoon
