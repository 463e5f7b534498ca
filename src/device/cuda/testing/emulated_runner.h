#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/check.h"
#include "device/cuda/launch_table.cuh"
#include "device/cuda/testing/fake_cuda.h"
#include "simt/machine.h"
#include "simt/thread.h"

namespace lagoon::cuda::fake {

/// The function that LAGOON_CUDA_ENTRY defines for a C++ compiler.
using EntryFunction = void (*)(const LaunchTable& table, unsigned char* shared);

/// Runs the fake driver's kernels on a simt::Machine.
class EmulatedRunner final : public Runner {
 public:
  EmulatedRunner(int multiprocessors, int occupancy, std::map<std::string, EntryFunction> entries)
      : entries_(std::move(entries)), machine_(OptionsFor(multiprocessors, occupancy)) {}

  void Submit(KernelLaunch launch) override {
    const auto entry = entries_.find(launch.entry);
    LAGOON_CHECK(entry != entries_.end());
    simt::Launch run;
    run.name = launch.entry;
    run.grid = {launch.grid, 1, 1};
    run.block = {launch.threads, 1, 1};
    run.shared_bytes = launch.shared_bytes;
    run.priority = launch.priority;
    run.kernel = [function = entry->second, parameter = launch.parameter] {
      function(*static_cast<const LaunchTable*>(parameter), simt::DynamicShared());
    };
    run.done = [done = std::move(launch.done)](const Status& status) {
      done(status ? std::string() : status.error().message);
    };
    machine_.Submit(std::move(run));
  }

  bool Step() override { return machine_.Step(); }

 private:
  static simt::MachineOptions OptionsFor(int multiprocessors, int occupancy) {
    simt::MachineOptions options;
    options.multiprocessors = static_cast<unsigned>(multiprocessors);
    options.blocks_per_multiprocessor = static_cast<unsigned>(occupancy);
    options.max_steps = ~std::uint64_t{0};  // bodies wait for the test
    return options;
  }

  const std::map<std::string, EntryFunction> entries_;
  simt::Machine machine_;
};

}  // namespace lagoon::cuda::fake
