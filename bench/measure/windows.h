#pragma once

// How benchmarks compare sides on a host that other programs use too: docs/results/benchmarks.md,
// "How evidence is gathered".

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/measure/host_probe.h"

namespace lagoon::bench {

/// Windows that are compared with each other belong to one group. A trial of a group measures each
/// of its windows once, one directly after the other.
struct WindowsPlan {
  std::vector<std::string> groups = {};   // names, for progress and reports
  std::vector<std::string> windows = {};  // names in every group: the sides that are compared
  int rounds = 10;                        // trials of each group
  double repeats = 0.5;                   // most repetitions of disturbed trials, of all trials
  /// Limit in all, repetitions included. No round begins that would end after 0.8 of this time: the
  /// rest is for repetitions. 0: no limit.
  double seconds = 0;
  std::uint32_t seed = 1;  // for the order
  /// Called with a group before each of its trials, outside of all windows. May be empty.
  std::function<Status(std::size_t)> prepare = {};
};

/// A window that is to be measured next.
struct WindowPlace {
  std::size_t group = 0;
  std::size_t window = 0;
  std::size_t trial = 0;  // number of the group's trial, from 0, in the order of time
  std::size_t round = 0;  // of the trial; a repetition keeps the round of the trial it replaces
};

/// Why a window does not count; kNone: it counts.
enum class Disturbance { kNone, kStolen, kForeign, kSlow, kLate };

/// Compares a reading with `usual`, the median of the readings of the same window in other trials.
/// Where `usual` holds NaN (fewer than three trials), only the absolute limits apply.
Disturbance Judge(const HostReading& reading, const HostReading& usual);

/// What happened to the windows of a benchmark, for its report.
struct WindowsSummary {
  int windows = 0;                                  // measured, repetitions included
  int disturbed = 0;                                // disturbed windows among these
  int stolen = 0, foreign = 0, slow = 0, late = 0;  // by reason
  int repeated = 0;                                 // trials measured again
  int thrown_out = 0;                               // trials that do not count
  double core_seconds = 0, stolen_s = 0, foreign_s = 0, probe_s = 0;
  std::vector<std::string> only_disturbed;  // groups without one undisturbed trial

  void Add(const WindowsSummary& other);
  nlohmann::json Json() const;
};

struct WindowsResult {
  /// By group: the trials that count, ascending. If all trials of a group are disturbed, all count.
  std::vector<std::vector<std::size_t>> trials;
  WindowsSummary summary;

  /// True if the counted trials of the group are undisturbed. Disturbed ones decide no target.
  bool Clean(std::size_t group) const { return clean[group]; }
  std::vector<bool> clean;
};

using MeasureWindow = std::function<Status(const WindowPlace&)>;

/// Measures `rounds` trials of every group. Groups, and the windows of a trial, are in random
/// order. `watch` reads the host during each window. If a window is disturbed, the whole trial is
/// measured again, as its windows are compared with each other, up to `repeats` of all trials.
/// Fails with the first error of `measure`. `now` is the clock for `seconds`.
Result<WindowsResult> MeasureWindows(const WindowsPlan& plan, HostWatch& watch,
                                     const std::function<TimePoint()>& now,
                                     const MeasureWindow& measure);

}  // namespace lagoon::bench
