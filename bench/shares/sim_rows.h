#pragma once

// Batches of several rows on simulated devices, and how long they take on a share.

#include <cstdint>
#include <string>

#include "bench/sim/kernel_lists.h"
#include "sim/device/gpu_model.h"

namespace lagoon::bench {

/// The kernel list of a model for a batch of `rows` >= 1 rows: each kernel has `rows` times the
/// blocks. On the whole device it takes the time of one row, times what the published times say
/// (V100Surface). For models without published times of batches, a block takes as long as with one
/// row. Errors are those of MakeSimModel().
Result<SimModel> MakeSimRows(const GpuModel& gpu, const std::string& model, std::int64_t rows);

/// Milliseconds of one batch alone, on `units` units of a share, in the mean of some batches one
/// after another under `shares`.
Result<double> SimShareMs(const GpuModel& gpu, const SimModel& model, std::uint32_t units);

}  // namespace lagoon::bench
