#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/report/report.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct RandomLoadOptions {
  std::string zoo;
  std::vector<std::string> models;
  std::vector<std::string> schedulers;
  DeviceChoice device;
  bool by_size = false;  // a model's share of the jobs is in inverse proportion to its time alone
  /// Jobs a second, as parts of what the device does of this mix one job after the other.
  std::vector<double> loads = {0.3, 0.5, 0.7, 0.85, 1, 1.2, 1.4};
  std::vector<double> sigmas = {2, 1.5};  // of the lognormal gaps; 0: exponential ones
  int jobs = 1000;                        // of each window
  int windows = 3;                        // of each system at each load, interleaved
  std::uint32_t seed = 1;
  bool against_onnxruntime = true;
  ComparatorOptions onnxruntime;
};

/// Measures models under random load on a real device, as Paella 7 does (Figures 11 to 13). A
/// system is a scheduler, or ONNX Runtime with a process for each model. Each model has one
/// instance, so that it runs one job at a time; the others of its jobs wait. At each load all
/// systems get the same jobs. From the load on at which fewer than 0.7 of a system's jobs end
/// before the last one arrives, the system is saturated: larger loads are not measured.
/// Latency counts from the intended arrival. Metrics, for a system S, a sigma G and a load L:
///   latency_ms_mean.S.sigmaG.loadL, _p50, _p99 (with fewer than 1,000 jobs in all: _p90)
///   latency_ms_p99.S.sigmaG.loadL.MODEL       the same of one model (p90 with fewer than 1,000)
///   per_second.S.sigmaG.loadL                 jobs a second that ended before the last arrival
///   load_at_ten_times_alone.S.sigmaG          the load at which the tail of all jobs is ten times
///                                             the mean time alone, interpolated
///   jobs_per_second_at_load_1, standalone_ms.MODEL
/// The tail has an interval over windows that the host did not disturb (bench/measure/evidence.h).
/// The field "saturated" has the load for each system and sigma.
Status RunRandomLoad(const RandomLoadOptions& options, Report& report);

/// The share of each model in the jobs, with times alone: equal, or in inverse proportion to the
/// times. The sum is 1.
std::vector<double> SharesOf(const std::vector<Nanoseconds>& alone, bool by_size);

}  // namespace lagoon::bench
