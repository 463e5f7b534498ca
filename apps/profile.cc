#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "apps/command.h"
#include "apps/load.h"
#include "bench/report/report.h"
#include "program/profile/profile_file.h"
#include "program/profile/versions.h"

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

void PrintTable(const Plan& plan) {
  std::printf("model %s, batch %lld: %.1f us standalone\n%4s %-12s %8s %10s %9s %7s %11s %s\n",
              plan.model.c_str(), static_cast<long long>(plan.batch),
              ToMicroseconds(plan.standalone), "#", "version", "of", "kernel us", "block us",
              "blocks", "scratch KiB", "name");
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
                        {"batch", plan.batch},
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
  for (const std::int64_t batch : words.batches) {
    if (words.batches.size() > 1 || batch > 1) words.compile.batch = batch;
    ProfileShape(*Compile(words.model, on, words.compile), *on.device, words);
  }
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
      ->check(CLI::Range(1, 1024))
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
  command->callback([words] { RunProfile(*words); });
}

}  // namespace lagoon
