#pragma once

#include <fmt/format.h>

#include <string_view>

#include "base/status.h"

namespace lagoon {

struct Bounds {
  double least = 0, most = 0;
};

/// kInvalidArgument names `what` and the value: the value lies outside of the bounds or is NaN.
inline Status CheckBounds(std::string_view what, double value, Bounds bounds) {
  if (value >= bounds.least && value <= bounds.most) return {};
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is {}, must be from {} to {}", what,
                                                       value, bounds.least, bounds.most));
}

}  // namespace lagoon
