#pragma once

// What the files of `lagoon bench` share: the options that every benchmark takes, and how one runs.

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/tracing.h"
#include "bench/onnxruntime.h"
#include "bench/report.h"
#include "device/sim/profile.h"
#include "program/open_device.h"

namespace lagoon {

// What every benchmark takes.
struct BenchCommon {
  std::string zoo = "models/zoo";
  std::string json;
  std::string python = ".venv/bin/python";
  std::string worker = "bench/comparators/onnxruntime_worker.py";
  std::string plot;
  bool no_onnxruntime = false;
  Tracing tracing;

  /// Ours runs on the CPU: beside a model on a GPU it would say nothing.
  bool BesideOnnxRuntime(const DeviceChoice& device) const {
    return !no_onnxruntime && device.name == "cpu";
  }
  bench::OnnxRuntimeOptions OnnxRuntime() const {
    bench::OnnxRuntimeOptions options;
    options.python = python;
    options.worker = worker;
    return options;
  }
};

/// Adds a benchmark with models to `bench`, with its options in `common`, which must live as long.
CLI::App* AddBenchmark(CLI::App& bench, const std::string& name, const std::string& description,
                       BenchCommon& common, bool has_comparator);

/// The same for one that needs neither a zoo nor a comparator: --json alone.
CLI::App* AddSimulation(CLI::App& bench, const std::string& name, const std::string& description,
                        BenchCommon& common);
/// --plot and the Python that draws.
void AddPlot(CLI::App& command, BenchCommon& common);

/// Runs the benchmark, writes its file and draws it. Dies of what fails: a file that is written
/// after half a run would hide why.
void Measure(const std::string& name, nlohmann::json configuration, const BenchCommon& common,
             const std::function<Status(bench::Report&)>& run);

/// What each scheduler's name stands for, printed into every report.
nlohmann::json Configurations(const std::vector<std::string>& schedulers);

/// The same for a simulated device.
nlohmann::json ProfileJson(const SimProfile& profile);

// The files' benchmarks.
void AddDisbBenchmark(CLI::App& bench);
void AddGpuBenchmarks(CLI::App& bench);
void AddSimBenchmarks(CLI::App& bench);

}  // namespace lagoon
