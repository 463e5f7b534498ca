#pragma once

// How much slower a model is beside others, fitted to measured slowdowns (InSS Eq. 1).

#include <limits>
#include <span>

#include "cluster/interference/slowdown.h"
#include "sim/interference/fit.h"

namespace lagoon {

/// The limits that kSaturating chooses from.
inline constexpr double kSlowdownLimits[] = {0.2, 0.4, 0.8,
                                             std::numeric_limits<double>::infinity()};

/// The terms that all models have in common. `all`: the points of all models, in a fixed order.
/// - kConstant: the mean slowdown
/// - kSaturating: x = cache C + dram D by least squares of x / (1 + x / limit), and the limit that
///   predicts best what the fit has not seen: each of eight groups of points (point i is in group
///   i mod 8) by a fit to the others. Of equal ones the largest.
/// - else: all three, by a ridge towards the mean slowdown
SlowdownTerms FitCommonSlowdown(std::span<const SlowdownPoint> all, InterferenceKind kind);

/// The terms of one model. `points`: its own. Without any: those in common.
SlowdownTerms FitSlowdown(std::span<const SlowdownPoint> points, const SlowdownTerms& common,
                          InterferenceKind kind);

}  // namespace lagoon
