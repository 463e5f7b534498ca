#pragma once

// What bodies make of an Epilogue: limits, y = min(high, max(low, value)), and a function for what
// limits do not say.

#include <cstddef>
#include <string_view>

#include "kernels/kernel.h"

namespace lagoon {

struct Limits {
  float low = 0, high = 0;
};

/// Infinite where the activation is no limit. kInvalidArgument naming `op` when kClip's low is not
/// at most its high.
Result<Limits> LimitsOf(std::string_view op, const Epilogue& epilogue);

/// y = f(y) + residual, on values that a block has just written.
struct Finish {
  using Row = void (*)(const Finish& finish, float* y, const float* residual, std::size_t count);

  Row row = nullptr;  // null: there is nothing to do
  float alpha = 0, beta = 0;

  /// `residual`: null for none.
  void operator()(float* y, const float* residual, std::size_t count) const {
    row(*this, y, residual, count);
  }
};

/// kInvalidArgument naming `op` when the function has no vector body.
Result<Finish> FinishOf(std::string_view op, const Epilogue& epilogue);

/// What a Finish takes for one value.
double FinishNs(const Epilogue& epilogue);

/// kInvalidArgument naming `op` when there is a residual, or a function that is no limit.
Status CheckOnlyLimits(std::string_view op, const Epilogue& epilogue);

}  // namespace lagoon
