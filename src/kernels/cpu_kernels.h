#pragma once

#include "kernels/kernel_maker.h"

namespace lagoon {

/// The maker of the CPU's bodies, which also run the load ops of every device. Static lifetime.
const KernelMaker& CpuKernels();

}  // namespace lagoon
