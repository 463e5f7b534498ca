#pragma once

// An activation as limits: y = min(high, max(low, value)).

#include <string_view>

#include "kernels/kernel.h"

namespace lagoon {

struct Limits {
  float low = 0, high = 0;
};

/// kInvalidArgument naming `op` when the epilogue has a residual, or kClip's low is not at most its
/// high.
Result<Limits> LimitsOf(std::string_view op, const Epilogue& epilogue);

}  // namespace lagoon
