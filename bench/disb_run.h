#pragma once

// What DISB shares among devices and comparators: windows of arrivals, what a system showed, and
// how it is reported.

#include <map>
#include <random>
#include <string>
#include <vector>

#include "bench/disb_workload.h"
#include "bench/report.h"
#include "sched/config.h"

namespace lagoon::bench {

struct DisbRunOptions {
  DisbWorkload workload;
  std::vector<std::string> schedulers;
  int windows = 5;       // of each scheduler, interleaved
  int requests = 1000;   // real-time ones of all windows of a scheduler together, about
  double seconds = 120;  // at most, of all windows of a kind together
  unsigned seed = 1;     // of the arrivals
  /// How much slower than alone a real-time client in a closed loop may get before it makes fewer
  /// than `requests`.
  double closed_loop_slowdown = 1;
  /// Of every system's name in the metrics: ".A" where a report has more workloads than one.
  std::string suffix;
};

using StandaloneTimes = std::map<std::string, Nanoseconds>;  // latency alone, by model

inline bool IsRealTime(const DisbClient& client) { return client.job_class == JobClass::kRealTime; }
inline bool IsClosedLoop(const DisbClient& client) {
  return client.load.kind == DisbLoad::Kind::kContinuous;
}

/// One window's length, and when each client sends.
struct DisbWindow {
  Nanoseconds span{0};
  std::vector<std::vector<Nanoseconds>> arrivals;  // by client; empty: closed loop
};

/// Long enough, with all windows, for the wanted number of real-time requests.
DisbWindow MakeWindow(const DisbRunOptions& options, const StandaloneTimes& standalone,
                      std::mt19937& random);

/// What one system showed of one client, over its windows.
struct ClientResult {
  std::vector<double> alone_ms, contended_ms;
  double completed = 0;  // within the contended windows

  void Add(const std::vector<double>& alone, const std::vector<double>& contended, double done);
};

struct SystemResult {
  std::vector<ClientResult> clients;
  double seconds = 0;                    // of all contended windows
  std::vector<double> idle_while_ready;  // fractions of unit time, a window each
  std::vector<double> units_busy;        // where the device knows
  DispatcherStats stats;

  explicit SystemResult(std::size_t count) : clients(count) {}
  /// Adds the windows of `other`.
  void Add(const SystemResult& other);
};

/// Adds the metrics of `system` that RunDisb() lists, those of latency and throughput.
void ReportSystem(const DisbRunOptions& options, const StandaloneTimes& standalone,
                  const std::string& system, const SystemResult& seen, Report& report);

/// Adds those that only schedulers have: idle time, revocations, paddings.
void ReportScheduler(const std::string& system, const SystemResult& seen, Report& report);
void ReportStandalone(const StandaloneTimes& standalone, Report& report);

}  // namespace lagoon::bench
