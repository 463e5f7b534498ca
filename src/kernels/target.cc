#include <cstdint>

#include "hwy/highway.h"
#include "kernels/kernel.h"

namespace lagoon {

const char* TargetName() {
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & (~usable + 1));  // the lowest bit is the best target
}

}  // namespace lagoon
