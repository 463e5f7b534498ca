#pragma once

// How much slower a model is beside others, fitted to measured slowdowns (InSS Eq. 1).

#include <span>

#include "cluster/interference/latency_model.h"

namespace lagoon {

/// A measured slowdown of a model, and the neighbours' loads as the models predict them.
struct SlowdownPoint {
  double slowdown = 0;  // measured / predicted alone - 1
  DeviceLoad load;
};

/// The constant and both coefficients that fit `points` best and are near those of `prior`; `ridge`
/// weighs their squared distance from it, as a point weighs its squared error.
SlowdownTerms FitSlowdownNear(std::span<const SlowdownPoint> points, const SlowdownTerms& prior,
                              double ridge);

}  // namespace lagoon
