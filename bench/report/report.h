#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/status.h"

namespace lagoon::bench {

/// One benchmark's JSON file: what ran, on which machine, and "metrics", a flat map from names
/// (with their unit) to numbers.
class Report {
 public:
  /// `benchmark`: the word after `lagoon bench`. `configuration`: all its options, defaults
  /// included.
  Report(std::string benchmark, nlohmann::json configuration, std::string version);

  void Metric(const std::string& name, double value);
  /// Adds a field to the file, beside "metrics".
  void Field(const std::string& name, nlohmann::json value) { json_[name] = std::move(value); }
  const nlohmann::json& json() const { return json_; }

  /// Writes the file, or prints to stdout when `path` is empty.
  Status Write(const std::string& path) const;

 private:
  nlohmann::json json_;
};

/// A progress bar on a terminal; elsewhere a line for each tenth of the steps.
class ProgressBar {
 public:
  ProgressBar(std::string title, int steps);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// One step is done; `now` names the next.
  void Step(const std::string& now);

 private:
  void Draw(const std::string& now) const;

  std::string title_;
  int steps_;
  int done_ = 0;
  bool terminal_;
};

/// Peak resident memory of a process in MiB, from /proc; 0 when it is gone.
double PeakRssMib(int pid);

}  // namespace lagoon::bench
