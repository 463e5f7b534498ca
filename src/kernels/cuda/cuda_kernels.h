#pragma once

#include <cstdint>
#include <memory>

#include "device/cuda/driver/program.h"
#include "kernels/kernel_maker.h"

namespace lagoon::cuda {

/// The CUDA bodies as kernels, cut for a GPU with this number of multiprocessors. Convolutions and
/// products with weights run in true fp32, or on tensor cores with bf16 operands, for which a
/// separate kernel first rounds x. `program` contains the entries of kernels/cuda/bodies/entries.cu
/// (OpProgram) and is borrowed. The result must outlive everything that is compiled with it, and
/// the device.
std::unique_ptr<const KernelMaker> CudaKernels(const Program& program,
                                               std::uint32_t multiprocessors);

}  // namespace lagoon::cuda
