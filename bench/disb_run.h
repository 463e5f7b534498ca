#pragma once

// The parts of DISB that all devices and comparators share: windows of arrivals, the results of a
// system, and their report.

#include <map>
#include <random>
#include <string>
#include <vector>

#include "bench/disb_workload.h"
#include "bench/report/report.h"
#include "sched/config.h"

namespace lagoon::bench {

struct DisbRunOptions {
  DisbWorkload workload;
  std::vector<std::string> schedulers;
  int windows = 5;       // of each scheduler, interleaved
  int requests = 1000;   // real-time requests in all windows of a scheduler together, about
  double seconds = 120;  // most time of all windows of one kind together
  unsigned seed = 1;     // for the arrivals
  /// Windows are long enough for `requests` even if a real-time client in a closed loop is slower
  /// than alone by this factor.
  double closed_loop_slowdown = 1;
  /// Ends every system's name in the metrics: ".A" if a report has more than one workload.
  std::string suffix;
  /// What clients of open loops do with late requests: each way is measured, as a system of its
  /// own. A workload without open loops has kQueue only.
  std::vector<DisbLoad::Late> clients = {DisbLoad::Late::kQueue};
};

/// The ways of `options.clients` that differ for its workload, at least one.
std::vector<DisbLoad::Late> WaysOf(const DisbRunOptions& options);
/// The clients of a workload in one of these ways.
std::vector<DisbClient> ClientsOf(const DisbRunOptions& options, DisbLoad::Late late);
/// The name of a system in metrics: with clients that take the newest request it ends in ".newest".
std::string SystemName(const std::string& name, DisbLoad::Late late);

using StandaloneTimes = std::map<std::string, Nanoseconds>;  // standalone latency by model

inline bool IsRealTime(const DisbClient& client) { return client.job_class == JobClass::kRealTime; }
inline bool IsClosedLoop(const DisbClient& client) {
  return client.load.kind == DisbLoad::Kind::kContinuous;
}

/// One window's length, and when each client sends.
struct DisbWindow {
  Nanoseconds span{0};
  std::vector<std::vector<Nanoseconds>> arrivals;  // by client; empty: closed loop
};

/// A window long enough that `options.windows` of them have about `options.requests` real-time
/// requests, but not longer than `options.seconds` allows.
DisbWindow MakeWindow(const DisbRunOptions& options, const StandaloneTimes& standalone,
                      std::mt19937& random);

/// The results of one client under one system, over all windows.
struct ClientResult {
  std::vector<double> alone_ms, contended_ms;
  /// Late::kNewest: the requests of `contended_ms` from their intended arrivals.
  std::vector<double> from_arrival_ms;
  double completed = 0;     // requests that ended within the contended windows
  std::size_t dropped = 0;  // Late::kNewest: that a newer request took the place of

  void Add(const ClientResult& other);
};

struct SystemResult {
  std::vector<ClientResult> clients;
  double seconds = 0;                    // length of all contended windows together
  std::vector<double> idle_while_ready;  // fraction of the units' time, by window
  std::vector<double> units_busy;        // the same; empty if the device does not measure it
  DispatcherStats stats;

  explicit SystemResult(std::size_t count) : clients(count) {}
  /// Adds the windows of `other`.
  void Add(const SystemResult& other);
};

/// Adds the metrics of latency and throughput that RunDisb() lists.
void ReportSystem(const DisbRunOptions& options, const StandaloneTimes& standalone,
                  const std::string& system, const SystemResult& seen, Report& report);

/// Adds the metrics that only schedulers have: idle time, revocations, padded launches.
void ReportScheduler(const DisbRunOptions& options, const std::string& system,
                     const SystemResult& seen, Report& report);
/// A line for each system of the report, for a terminal: throughput, latency of real-time requests
/// over standalone (mean; p99, or p90 of few requests) and busy units.
std::string SystemTable(const Report& report);
void ReportStandalone(const StandaloneTimes& standalone, Report& report);

}  // namespace lagoon::bench
