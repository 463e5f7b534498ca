#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "bench/measure/interval.h"
#include "bench/measure/windows.h"
#include "bench/report/report.h"

namespace lagoon::bench {

/// How sure a benchmark is of its metrics, for its report. Adds fields to the report:
///   intervals   name of a metric: {"median", "low", "high", "pairs"}; the metric is the median,
///               unless the benchmark says otherwise
///   targets     [{"metric", "bound", "target", "outcome": met, missed or undecided, ...}]
///   host        windows that the host disturbed (WindowsSummary::Json())
class Evidence {
 public:
  Evidence(Report& report, std::uint32_t seed);

  /// Reports the metric `name` as the median of `values` (one value per window pair) with its
  /// interval.
  Interval Add(const MetricName& name, std::span<const double> values);
  void AddInterval(const MetricName& name, const Interval& interval);
  /// Judges a target. `clean`: the host disturbed none of the windows; if false, the outcome is
  /// undecided. Returns the outcome.
  Verdict Target(const std::string& name, const Interval& interval, Bound bound, double target,
                 bool clean);
  void AddWindows(const WindowsSummary& summary) { host_.Add(summary); }

  /// Writes the fields, and prints a line for every target and one about the host to stderr. The
  /// name of the field "host" gets `suffix` (for a report with more than one workload).
  void Finish(const std::string& suffix = "");

 private:
  Report& report_;
  const std::uint32_t seed_;
  nlohmann::json intervals_, targets_;
  std::string lines_;
  WindowsSummary host_;
};

}  // namespace lagoon::bench
