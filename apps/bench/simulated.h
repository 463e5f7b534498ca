#pragma once

// What the benchmarks share that run a user's simulated device or kernels: the options, and traces.

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/bench/bench_command.h"
#include "bench/sim/sim_kernels.h"
#include "bench/sim/sim_stage.h"

namespace lagoon {

/// Where models on a simulated device have their kernels from, as a command line says it.
struct KernelWords {
  std::vector<std::string> files;  // MODEL=FILE
  std::string of;

  /// Adds what was given to a report's configuration.
  void AddTo(nlohmann::json& configuration) const;
};

/// Adds --kernels and --kernels-of.
void AddKernels(CLI::App& command, KernelWords& words);

/// Whether a word of --device names a simulated device. Dies if it names no kind of device.
bool IsSimulated(const std::string& device);
/// The device of "sim:NAME". Dies if there is none.
GpuModel SimulatedGpu(const std::string& device);

/// Reads the files of `words`. Dies if a file is wrong, or if its model is not one of `models`; an
/// empty list has all.
bench::SimKernels ReadKernels(const KernelWords& words, const GpuModel& gpu,
                              const std::vector<std::string>& models);

/// Records for --trace; with more than one system, in a file for each.
bench::SimWatch WatchOf(Tracing& tracing, std::size_t systems);

/// Dies if an option of `names` is given: on this device it would have no effect.
void RefuseOptions(const CLI::App& command, const std::vector<std::string>& names,
                   const std::string& device);
/// The same for --kernels and --kernels-of, where the device is a real one.
void RefuseKernels(const CLI::App& command, const std::string& device);

/// Options that AddBenchmark() and AddDevice() add and that simulated devices do not have.
extern const std::vector<std::string> kOfRealDevices;

}  // namespace lagoon
