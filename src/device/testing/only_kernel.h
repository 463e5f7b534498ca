#pragma once

#include "device/host/kernel_table.h"

namespace lagoon {

/// A table with one kernel.
inline KernelTable<Body> OnlyKernel(Body body) {
  KernelTable<Body> kernels;
  LAGOON_CHECK(kernels.FindOrAdd(body, body, "a test").has_value());
  return kernels;
}

}  // namespace lagoon
