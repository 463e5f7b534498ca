#pragma once

#include <algorithm>
#include <limits>
#include <span>

namespace lagoon::bench {

/// The part of [0, span) in which at least one request is under way, from its arrival to its end.
/// `arrivals` ascend; all arguments are in the same unit. Time in which requests queue behind each
/// other counts once. (Mean latency over the mean distance of arrivals would count waiting, too,
/// and could exceed 1.)
inline double BusyFraction(std::span<const double> arrivals, std::span<const double> latencies,
                           double span) {
  double busy = 0, covered = 0;
  for (std::size_t i = 0; i < std::min(arrivals.size(), latencies.size()); ++i) {
    const double begin = std::max(arrivals[i], covered);
    const double end = std::min(arrivals[i] + latencies[i], span);
    if (end <= begin) continue;
    busy += end - begin;
    covered = end;
  }
  return busy / span;
}

/// Real-time work alone must leave at least this part of the time: a share of less time means
/// nothing.
inline constexpr double kLeastLeftover = 0.1;

/// Best-effort throughput beside real-time work, relative to what would fit into the time that
/// real-time work alone leaves idle: 1 if none of that time is lost. NaN if less than
/// kLeastLeftover is left, or if best-effort work alone completes nothing.
inline double LeftoverShare(double alone_per_s, double contended_per_s, double busy_fraction) {
  const double leftover = 1 - busy_fraction;
  if (!(leftover >= kLeastLeftover) || !(alone_per_s > 0)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return contended_per_s / (alone_per_s * leftover);
}

}  // namespace lagoon::bench
