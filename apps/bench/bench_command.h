#pragma once

// What the files of `lagoon bench` share: the options that every benchmark takes, and Measure(),
// which runs a benchmark.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command.h"
#include "apps/tracing.h"
#include "bench/client/comparator.h"
#include "bench/report/report.h"
#include "program/open_device.h"
#include "sim/device/gpu_model.h"

namespace lagoon {

inline constexpr const char* kPython = ".venv/bin/python";  // default of --python

// The options that benchmarks share.
struct BenchCommon {
  std::string zoo = "models/zoo";
  std::string json;
  std::string python = kPython;
  std::string worker = "bench/comparators/comparator_worker.py";
  std::string plot;
  std::string csv, samples;
  bool no_onnxruntime = false;
  Tracing tracing;
  const CLI::App* command = nullptr;

  /// Whether to measure ONNX Runtime too. Its build here runs on the CPU, so that a comparison with
  /// a model on a GPU would mean nothing.
  bool BesideOnnxRuntime(const DeviceChoice& device) const {
    return !no_onnxruntime && device.name == "cpu";
  }
  bench::ComparatorOptions OnnxRuntime() const {
    bench::ComparatorOptions options;
    options.python = python;
    options.worker = worker;
    return options;
  }
};

/// Adds a benchmark of models to `bench`. Its options go to `common`, which must live as long.
CLI::App* AddBenchmark(CLI::App& bench, const std::string& name, const std::string& description,
                       BenchCommon& common, bool has_comparator);

/// The same for a benchmark that needs neither a zoo nor a comparator: adds only --json and --csv.
CLI::App* AddSimulation(CLI::App& bench, const std::string& name, const std::string& description,
                        BenchCommon& common);
/// Adds --samples.
void AddSamples(CLI::App& command, BenchCommon& common);
/// Adds --plot and --python.
void AddPlot(CLI::App& command, BenchCommon& common);

// One function per option that several benchmarks take. The default is the variable's value.

/// Adds --models.
void AddModelNames(CLI::App& command, std::vector<std::string>& models);
/// Adds --schedulers: SplitSchedulers() of each word. The default is the schedulers that
/// docs/results/benchmarks.md compares.
void AddSchedulers(CLI::App& command, std::vector<std::string>& schedulers);
/// Adds --rounds, which must be at least `least`.
void AddRounds(CLI::App& command, int& rounds, int least = 1);
/// Adds --seconds: the length of a measurement. (`contention` and `disb` have a --seconds of their
/// own: a limit of all measurements together.)
void AddSeconds(CLI::App& command, double& seconds);
/// Adds --windows.
CLI::Option* AddWindows(CLI::App& command, int& windows);
/// Adds --requests.
void AddRequests(CLI::App& command, int& requests);
/// Adds --python.
void AddPython(CLI::App& command, std::string& python);
/// Adds --seed.
template <typename Seed>
void AddSeed(CLI::App& command, Seed& seed) {
  command.add_option("--seed", seed, "Seed of all that is random")->capture_default_str();
}

/// Dies if the device cannot be opened, before RequireModels() names models to make for it.
void RequireDevice(const DeviceChoice& choice);

/// Dies if a model is not in the zoo of `common`, naming all that are missing (CheckZoo()).
void RequireModels(const BenchCommon& common, const std::vector<std::string>& models);

/// FOLDER/NAME.onnx, a file of the corpus. A name that ends with ".onnx" is a file itself.
std::string FileOf(const std::string& folder, const std::string& name);

/// Dies if the FileOf() a name is missing. Names all that are, and the command that makes
/// those of the corpus.
void RequireFiles(const std::string& folder, const std::vector<std::string>& names);

/// Dies if a word of an option is there twice: its metrics would have one name.
template <typename Word>
void RefuseTwice(std::string_view option, std::vector<Word> words) {
  std::ranges::sort(words);
  const auto twice = std::ranges::adjacent_find(words);
  if (twice != words.end()) Die(fmt::format("{} has '{}' twice", option, *twice));
}

/// Runs the benchmark, writes its report and draws the plot. Dies if one of these fails; then it
/// writes no report, which would be incomplete. Dies before the run if a file of the options cannot
/// be written, or two options name the same file.
void Measure(const std::string& name, nlohmann::json configuration, const BenchCommon& common,
             const std::function<Status(bench::Report&)>& run);

/// The configuration behind each scheduler (MakeScheduler()), with its parameters, for a report.
nlohmann::json Configurations(const std::vector<std::string>& schedulers);

/// The name and constants of a simulated device, for a report.
nlohmann::json GpuModelJson(const GpuModel& gpu);

/// Adds the subcommands of `lagoon bench`.
void AddBenchmarks(CLI::App& app);
/// Adds `train`.
void AddTraining(CLI::App& app);

// Each of these adds the benchmarks of one file.
void AddBatchingBenchmark(CLI::App& bench);
void AddDisbBenchmark(CLI::App& bench);
void AddFleetBenchmark(CLI::App& bench);
void AddGenerateBenchmark(CLI::App& bench);
void AddGpuBenchmarks(CLI::App& bench);
void AddLoadBenchmarks(CLI::App& bench);  // and `depth`, `block-events`
void AddInProcessBenchmark(CLI::App& bench);
void AddPlacementBenchmark(CLI::App& bench);  // and `interference`
void AddRobotBenchmark(CLI::App& bench);
void AddSharesBenchmarks(CLI::App& bench);
void AddSimBenchmarks(CLI::App& bench);
void AddSplitBenchmark(CLI::App& bench);

}  // namespace lagoon
