#pragma once

// How bodies apply an Epilogue: as limits, y = min(high, max(low, value)), and as a function where
// limits cannot express the activation.

#include <cstddef>
#include <string_view>

#include "kernels/kernel.h"

namespace lagoon {

struct Limits {
  float low = 0, high = 0;
};

/// The limits of an activation; infinite if the activation is not a limit. kInvalidArgument naming
/// `op` unless kClip has low <= high.
Result<Limits> LimitsOf(std::string_view op, const Epilogue& epilogue);

/// y = f(y) + residual, applied to values that a block has just written.
struct Finish {
  using Row = void (*)(const Finish& finish, float* y, const float* residual, std::size_t count);

  Row row = nullptr;  // null: nothing to do
  float alpha = 0, beta = 0;

  /// `residual`: may be null.
  void operator()(float* y, const float* residual, std::size_t count) const {
    row(*this, y, residual, count);
  }
};

/// kInvalidArgument naming `op` if the function has no vector body.
Result<Finish> FinishOf(std::string_view op, const Epilogue& epilogue);

/// Time that a Finish takes per value, in nanoseconds.
double FinishNs(const Epilogue& epilogue);

/// kInvalidArgument naming `op` if the epilogue has a residual, or a function that limits cannot
/// express.
Status CheckOnlyLimits(std::string_view op, const Epilogue& epilogue);
/// kInvalidArgument naming `op` if the epilogue has a residual or limits, or a function of elements
/// that are not fp32.
Status CheckOnlyFunction(std::string_view op, const Epilogue& epilogue, std::size_t element_bytes);

}  // namespace lagoon
