#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/check.h"
#include "device/cuda/gpu/grid_params.cuh"
#include "device/cuda/testing/fake_cuda.h"
#include "simt/emulator.h"
#include "simt/thread.h"

namespace lagoon::cuda::fake {

/// The function that LAGOON_CUDA_ENTRY defines for a C++ compiler.
using EntryFunction = void (*)(const GridParams& params, unsigned char* shared);

/// Runs the fake driver's kernels on a simt::Emulator.
class EmulatedRunner final : public Runner {
 public:
  EmulatedRunner(int multiprocessors, int occupancy, std::map<std::string, EntryFunction> entries)
      : entries_(std::move(entries)), emulator_(OptionsFor(multiprocessors, occupancy)) {}

  void Submit(KernelLaunch launch) override {
    const auto entry = entries_.find(launch.entry);
    LAGOON_CHECK(entry != entries_.end());
    simt::Grid run;
    run.name = launch.entry;
    run.grid = {launch.grid, 1, 1};
    run.block = {launch.threads, 1, 1};
    run.shared_bytes = launch.shared_bytes;
    run.priority = launch.priority;
    run.kernel = [function = entry->second, parameter = launch.parameter] {
      function(*static_cast<const GridParams*>(parameter), simt::DynamicShared());
    };
    run.done = [done = std::move(launch.done)](const Status& status) {
      done(status ? std::string() : status.error().message);
    };
    emulator_.Submit(std::move(run));
  }

  bool Step() override { return emulator_.Step(); }

 private:
  static simt::EmulatorOptions OptionsFor(int multiprocessors, int occupancy) {
    simt::EmulatorOptions options;
    options.multiprocessors = static_cast<unsigned>(multiprocessors);
    options.blocks_per_multiprocessor = static_cast<unsigned>(occupancy);
    options.max_steps = ~std::uint64_t{0};  // bodies wait for the test
    return options;
  }

  const std::map<std::string, EntryFunction> entries_;
  simt::Emulator emulator_;
};

}  // namespace lagoon::cuda::fake
