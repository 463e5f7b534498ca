#pragma once

#include "kernels/kernel_maker.h"

namespace lagoon {

/// The CPU's bodies: what every device's load ops run, too. Lives for ever.
const KernelMaker& CpuKernels();

}  // namespace lagoon
