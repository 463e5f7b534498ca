#pragma once

// Jobs of kernels that only take time, on a CPU device.

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"

namespace lagoon::bench {

inline constexpr std::uint32_t kSpinTensorBytes = 16;  // of the chain's input and its output

/// The kernel of SpinChain(): each of its blocks runs for the time that the plan sets.
Result<KernelHandle> LoadSpin(Device& device);

/// A plan of `kernels` kernels of LoadSpin(), each of one block of `time` and behind the one
/// before, with a small input and output. Blocks add the processor time of their thread to
/// `cpu_ns`, if it is not null; it must outlive the plan's jobs.
std::shared_ptr<const LoadedPlan> SpinChain(KernelHandle kernel, std::uint32_t kernels,
                                            Nanoseconds time,
                                            std::atomic<std::int64_t>* cpu_ns = nullptr);

}  // namespace lagoon::bench
