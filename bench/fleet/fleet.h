#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/report/report.h"

namespace lagoon::bench {

struct FleetBenchOptions {
  std::string zoo;
  std::vector<std::string> files = {"mobilenet_v2", "resnet18"};  // of the zoo, in turns
  int models = 10;
  std::string devices = "cpu:1,cpu:1";  // ParseFleet()
  std::vector<std::string> placers;     // FleetBenchPlacers()
  std::string scheduler = "reset";
  std::vector<std::string> sides = {"none"};  // of kFleetBenchSides
  double load = 0.6;       // part of what the devices can do, of all models together
  double rate_per_s = 0;   // of all models together, in place of `load`; 0: by the models' times
  double slo_ms = 0;       // in place of `slo_factor`; 0: by the models' times
  double slo_factor = 10;  // SLO of a request: so many times the longest time of a model alone
  int phases = 3;
  double phase_seconds = 10;
  std::uint32_t seed = 1;  // of the first run
  int seeds = 1;           // runs of each placer on each side, with seeds that follow each other
};

/// What a placer decides besides the devices of models:
/// - none: nothing
/// - shares: their shares of the devices, too (lagoon.share "auto")
/// - limits: their shares, and the most rows of their batches
inline constexpr std::array<const char*, 3> kFleetBenchSides{"none", "shares", "limits"};

/// The placers that a server runs (FleetPlacers()), then the comparators of other papers.
std::vector<std::string> FleetBenchPlacers();

/// Models on a fleet, with Poisson arrivals (DrawArrivals), whose rates change over time. All have
/// batches of up to 8 rows and the same SLO. Placers and sides take turns within a seed, and get
/// the same arrivals. A request that is not answered within the SLO, or with an error, violates the
/// SLO. Metrics, with P a placer, and for sides other than "none" ".SIDE" behind it; medians over
/// the seeds:
///   fleet_failed_requests        answers that are errors, of all runs together. Goal: 0
///   violation_rate.P             part of the requests that violate their SLO
///   failed_requests.P, requests.P, moves.P     numbers
///   latency_ms_p50.P, latency_ms_p99.P         from the arrival to the answer
///   violation_rate_low.P, violation_rate_high.P    of the seeds, if there are several
///   seeds_not_worse.P.SIDE       seeds with a violation rate of at most that of the side "none"
///   fleet_prediction_error_median    of the times of batches, once a second: expected over
///                                measured, less 1, without its sign. Goal: below 0.1
///   slo_ms, rate_per_s           as they follow from the models' times
Status RunFleet(const FleetBenchOptions& options, Report& report);

}  // namespace lagoon::bench
