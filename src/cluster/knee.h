#pragma once

// The knee of a model: the share from which on more of the device gains little (GSLICE 2.1.3). The
// paper prints no algorithm. Here: Kneedle's point (Satopaa et al. 2011), which is the farthest
// from the chord, and then Gpulet's rule, because Kneedle's point is too low for models that use
// nearly the whole device.

#include <cstdint>
#include <span>

#include "base/status.h"
#include "cluster/surface.h"

namespace lagoon {

/// The demand of a model whose surface is not known (3.2.3).
inline constexpr double kUnknownDemand = 0.30;

/// The knee of measured throughput: one of `shares`.
/// - Throughput that falls with the share is noise, and is smoothed (Isotonic).
/// - If the whole device gains less than 5 % over the first share: the first share.
/// - Else from Kneedle's point on, the share rises while a share at most 10 points larger gains at
///   least 5 % for every 10 points.
/// `shares`: ascending strictly, above 0, at most 1. `throughput`: by the same index, above 0 and
/// finite, in any unit. kInvalidArgument: otherwise, or there are less than two.
Result<double> KneeOf(std::span<const double> shares, std::span<const double> throughput);

/// The knee of `surface` for batches of `rows` >= 1 rows, in granules of a device that has
/// `granules` of them (1 to 4096). The grid is that of the granules, made finer until it has 10
/// points; the result is rounded up.
std::uint32_t Knee(const Surface& surface, std::int64_t rows, std::uint32_t granules);

}  // namespace lagoon
