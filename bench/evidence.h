#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "bench/interval.h"
#include "bench/report.h"
#include "bench/windows.h"

namespace lagoon::bench {

/// What a benchmark knows about its figures, for its report. Fields besides the metrics:
///
///   intervals   name of a metric: {"median", "low", "high", "pairs"}; the metric is the median,
///               unless the benchmark says otherwise
///
///   targets     [{"metric", "bound", "target", "outcome": met, missed or undecided, ...}]
///
///   host        windows that the host disturbed (WindowsSummary::Json())
class Evidence {
 public:
  Evidence(Report& report, std::uint32_t seed);

  /// The metric `name` as the median of `values`, one a window pair, with its interval.
  Interval Add(const std::string& name, std::span<const double> values);
  void AddInterval(const std::string& name, const Interval& interval);
  /// `clean`: the pairs are of undisturbed windows; else nothing is decided.
  void Target(const std::string& name, const Interval& interval, Bound bound, double target,
              bool clean);
  void AddWindows(const WindowsSummary& summary) { host_.Add(summary); }

  /// Adds to the fields, and prints a line for every target and one about the host to stderr. The
  /// field "host" gets `suffix`, where a report has more workloads than one.
  void Finish(const std::string& suffix = "");

 private:
  Report& report_;
  const std::uint32_t seed_;
  nlohmann::json intervals_, targets_;
  std::string lines_;
  WindowsSummary host_;
};

}  // namespace lagoon::bench
