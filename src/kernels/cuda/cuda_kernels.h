#pragma once

#include <cstdint>
#include <memory>

#include "device/cuda/program.h"
#include "kernels/kernel_maker.h"

namespace lagoon::cuda {

/// The CUDA bodies as kernels of a GPU with so many multiprocessors, for which they are cut.
/// Convolutions and products with weights: in true fp32, or on tensor cores with operands of bf16,
/// x rounded before. `program` has the entries of kernels/cuda/entries.cu (OpProgram) and is
/// borrowed. What is returned outlives all that is compiled with it, and the device.
std::unique_ptr<const KernelMaker> CudaKernels(const Program& program,
                                               std::uint32_t multiprocessors);

}  // namespace lagoon::cuda
