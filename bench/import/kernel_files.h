#pragma once

// Kernel lists of simulated devices from users' files: lists that they write, and traces of
// profilers.

#include <string>
#include <string_view>

#include "base/status.h"
#include "bench/sim/kernel_lists.h"
#include "sim/device/gpu_model.h"

namespace lagoon {

/// Most kernels of a list, most blocks of all its kernels together, and most bytes of a file.
inline constexpr std::size_t kMostListKernels = 100'000;
inline constexpr std::uint64_t kMostListBlocks = std::uint64_t{1} << 26;
inline constexpr std::size_t kMostListBytes = std::size_t{256} << 20;

/// Reads the kernels of one request of model `name` from `path`:
/// - CSV with a row for each kernel, in the order in which they run. The columns `blocks` and
///   `time_us` (the whole kernel, alone on the device) must be there. There may be `block_us` (one
///   block), `threads`, `registers_per_thread`, `shared_bytes` and `memory_bytes`, all of a block,
///   and `name`, which is not read. Any other column is an error.
/// - CSV of Nsight Systems: `nsys stats --report cuda_gpu_trace --format csv`.
/// - JSON of PyTorch's profiler: `export_chrome_trace()`.
///
/// All three may say what happens to a kernel that is revoked after it has begun: CSV in a column
/// `restart`, a trace of PyTorch in `args` of the event. The value is
/// - `claims`, or nothing: blocks that are done stay done (Restart::kByClaims);
/// - a number n: the last n kernels up to this one run again (kByGroup; 1: it is idempotent);
/// - `wait`: it runs to its end (kNever).
/// A kernel that restarts takes all kernels of its group along. So a group is an error if one of
/// its kernels is `wait`, or if the group of one of its kernels begins before it.
///
/// Kernels of a trace are put in the order of their starts, and each depends on the one before,
/// whatever its stream; they must be of one device. Copies and fills are left out. Without
/// `block_us` a kernel's blocks take equal parts of its time, in as many waves as `gpu` needs for
/// its blocks.
///
/// kNotFound: the file cannot be read. kInvalidArgument names file, row or event, field and value.
Result<SimModel> ReadKernelFile(const std::string& name, const std::string& path,
                                const GpuModel& gpu);

/// The same for the text of a file, which messages call `origin`.
Result<SimModel> ParseKernelFile(const std::string& name, std::string_view text,
                                 const std::string& origin, const GpuModel& gpu);

}  // namespace lagoon
