#pragma once

// Models of the zoo as lists of kernels for simulated CPUs.

#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench/sim/kernel_lists.h"

namespace lagoon {

/// Names of the models, in the order of their tables.
std::vector<std::string_view> CpuSimModels();

/// MakeSimModel() for a built-in simulated CPU. Numbers of blocks and dependencies are those of the
/// compiled model, which do not depend on the number of cores. A block takes as long as it did on
/// one worker: caches and memory are as if its core were alone.
Result<SimModel> MakeCpuSimModel(std::string_view device, std::string_view model);

}  // namespace lagoon
