#pragma once

// The parts of `bench load` that real and simulated devices share: which loads a system gets, and
// the report.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/disb_run.h"
#include "bench/load_window.h"
#include "bench/measure/evidence.h"
#include "bench/report/report.h"

namespace lagoon::bench {

struct LoadRunOptions {
  std::vector<std::string> models;
  std::vector<std::string> schedulers;
  bool by_size = false;  // a model's share of the jobs is in inverse proportion to its time alone
  /// Jobs a second, as parts of what the device does of this mix one job after the other.
  std::vector<double> loads = {0.3, 0.5, 0.7, 0.85, 1, 1.2, 1.4};
  std::vector<double> sigmas = {2, 1.5};  // of the lognormal gaps; 0: exponential ones
  int jobs = 1000;                        // of each window
  int windows = 3;                        // of each system at each load
  std::uint32_t seed = 1;
};

/// What systems do at one load.
struct LoadPlace {
  double sigma = 0, load = 0;
  std::string name = {};  // in names of metrics: sigmaG.loadL
  std::vector<std::string> systems = {};
  bool first = false;  // no load came before
};

/// The share of each model in the jobs, with times alone: equal, or in inverse proportion to the
/// times. The sum is 1.
std::vector<double> SharesOf(const std::vector<Nanoseconds>& alone, bool by_size);

/// A line for each system and sigma of the report, for a terminal: the load at which the tail is
/// ten times the time alone, and the load at which the system was saturated.
std::string LoadTable(const Report& report);

/// One run of `bench load`. At each load all systems get the same jobs. From the load on at which
/// fewer than 0.7 of a system's jobs end before the last one arrives, the system is saturated:
/// larger loads are not measured.
class LoadRun {
 public:
  /// The windows of a place that count, by system.
  using Trials = std::vector<std::vector<SystemResult>>;
  using Measure = std::function<Result<Trials>(const LoadPlace&)>;

  /// `options`, `report` and `evidence` must live as long.
  LoadRun(const LoadRunOptions& options, const StandaloneTimes& standalone, Report& report,
          Evidence& evidence);

  /// Measures `systems` at all loads, and reports the metrics of RunRandomLoad().
  Status Run(const std::vector<std::string>& systems, const Measure& measure);
  /// The jobs of a round at a place.
  DisbWindow WindowOf(const LoadPlace& place, std::size_t round) const;

 private:
  bool Write(const LoadPlace& place, const std::string& system,
             const std::vector<SystemResult>& trials);

  const LoadRunOptions& options_;
  Report& report_;
  Evidence& evidence_;
  std::vector<double> shares_;                            // by model
  double mean_alone_ms_ = 0;                              // of a job of the mix
  std::map<std::string, std::vector<LoadPoint>> curves_;  // by system: the tail, of one sigma
};

}  // namespace lagoon::bench
