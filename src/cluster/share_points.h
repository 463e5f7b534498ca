#pragma once

// What `lagoon profile --shares` does on every device: which shares to measure, and what follows
// from the times. One thread.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/surface_file.h"

namespace lagoon {

/// Most points (row counts times shares) of a surface.
inline constexpr std::size_t kMostSharePoints = 256;
/// Most rows of a batch to measure.
inline constexpr std::int64_t kMostShareRows = 4096;

struct SharePoints {
  std::uint32_t units = 0;              // of the device
  std::uint32_t granule = 1;            // DeviceInfo::share_granule
  std::vector<std::int64_t> rows;       // ascending
  std::vector<std::uint32_t> measured;  // ascending numbers of units
};

/// What to measure on a device of `units` units. `percents`: shares in percent of the device,
/// separated by commas; each is rounded up to granules. Empty: about a tenth, a fifth, and so on,
/// each number of units once.
///
/// kInvalidArgument names the value: a share that is not above 0 or above 100, rows below 1 or
/// above kMostShareRows, and more points than kMostSharePoints.
Result<SharePoints> PlanShares(std::uint32_t units, std::uint32_t granule,
                               const std::string& percents, std::vector<std::int64_t> rows);

/// The points of `plan` as a surface. `latency_ms`: [index of rows][index of measured].
Result<Surface> SurfaceOf(const SharePoints& plan, std::vector<std::vector<double>> latency_ms);

/// A table for people: for each number of rows the latency and the throughput of shares, and the
/// knee. Says which shares are interpolated, and which smoothed: more units or fewer rows were
/// slower there.
std::string ShareTable(const SharePoints& plan, const NamedSurface& surface);

}  // namespace lagoon
