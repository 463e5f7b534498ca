#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/sim/kernel_lists.h"
#include "sim/device/gpu_model.h"

namespace lagoon::bench {

/// Where the kernels of models on a simulated device come from.
struct SimKernels {
  /// Lists of a user, by the names of models. They go before those of `of`.
  std::map<std::string, SimModel> own = {};
  /// Models that are not in `own` have the kernels that this built-in device lists for them. Empty:
  /// those of the device that is simulated.
  std::string of = {};
};

/// The kernels of each of `models`. kNotFound names all models without a list, those that have
/// lists, and the options that give others.
Result<std::map<std::string, SimModel>> FindKernels(const SimKernels& kernels, const GpuModel& gpu,
                                                    const std::vector<std::string>& models);

/// The names of all models that FindKernels() finds for `gpu`.
std::vector<std::string> ModelsWithKernels(const SimKernels& kernels, const GpuModel& gpu);

}  // namespace lagoon::bench
