#pragma once

// How benchmarks compare sides on a host that is not theirs alone: docs/results/benchmarks.md, "How
// evidence is gathered".

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/host_probe.h"

namespace lagoon::bench {

/// What is compared belongs to one group, and a trial of a group measures each of the group's
/// windows once, one directly after the other.
struct WindowsPlan {
  std::vector<std::string> groups = {};   // names, for progress and reports
  std::vector<std::string> windows = {};  // of every group: the sides that are compared
  int rounds = 10;                        // trials of each group
  double repeats = 0.5;                   // trials that replace disturbed ones, at most, of all
  /// In all, repetitions included: no round begins that would end after 0.8 of them. 0: no limit.
  double seconds = 0;
  std::uint32_t seed = 1;  // of the order
};

/// One window that is to be measured.
struct WindowPlace {
  std::size_t group = 0;
  std::size_t window = 0;
  std::size_t trial = 0;  // of the group, from 0, in the order of time
  std::size_t round = 0;  // of the trial; a repetition has the round of what it replaces
};

/// Why a window does not count.
enum class Disturbance { kNone, kStolen, kForeign, kSlow, kLate };

/// Compares a reading with `usual`, the median of the readings of the same window in other trials.
/// Where `usual` holds NaN (fewer than three trials), only the absolute limits apply.
Disturbance Judge(const HostReading& reading, const HostReading& usual);

/// What happened to the windows of a benchmark, for its report.
struct WindowsSummary {
  int windows = 0;                                  // measured, repetitions included
  int disturbed = 0;                                // of those
  int stolen = 0, foreign = 0, slow = 0, late = 0;  // by reason
  int repeated = 0;                                 // trials measured again
  int thrown_out = 0;                               // trials that do not count
  double core_seconds = 0, stolen_s = 0, foreign_s = 0, probe_s = 0;
  std::vector<std::string> only_disturbed;  // groups without one undisturbed trial

  void Add(const WindowsSummary& other);
  nlohmann::json Json() const;
};

struct WindowsResult {
  /// By group: the trials that count, ascending. All trials of a group without an undisturbed one.
  std::vector<std::vector<std::size_t>> trials;
  WindowsSummary summary;

  /// Whether the trials of the group are undisturbed. Disturbed trials do not decide on a target.
  bool Clean(std::size_t group) const { return clean[group]; }
  std::vector<bool> clean;
};

using MeasureWindow = std::function<Status(const WindowPlace&)>;

/// Measures `rounds` trials of every group, groups and the windows of a trial in random order.
/// `watch` reads the host during each window. A trial with a disturbed window is measured again,
/// whole, as its windows are compared with each other; at most `repeats` of all trials are. Ends
/// with the first error of `measure`. `now` is the clock of `seconds`.
Result<WindowsResult> MeasureWindows(const WindowsPlan& plan, HostWatch& watch,
                                     const std::function<TimePoint()>& now,
                                     const MeasureWindow& measure);

}  // namespace lagoon::bench
