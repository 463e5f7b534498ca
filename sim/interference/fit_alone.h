#pragma once

// The time of a model alone on a share, fitted to measured times (InSS 4.1).

#include <span>

#include "base/status.h"
#include "cluster/surface.h"
#include "sim/interference/fit.h"
#include "sim/interference/local_regression.h"

namespace lagoon {

/// The surface through `points`, in ms. Where a number of rows was measured at a share, their mean;
/// where it was not, LocalRegression(). Then times rise with the rows and fall with the share
/// (Surface::FromPoints).
/// kKinked adds points between the measured ones: first over 1 / share for each number of rows,
/// then over the rows, each by a KinkedCurve. And shares below the measured ones take no less time
/// than the least one, and no more than in proportion.
/// kInvalidArgument: there are more than 64 numbers of rows. `points`: at least one.
Result<Surface> FitAlone(std::span<const TimedPoint> points, AloneKind kind);

}  // namespace lagoon
