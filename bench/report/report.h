#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "bench/report/csv.h"

namespace lagoon::bench {

/// What was measured: a scheduler (or another engine) with clients that send each request (`queue`)
/// or the newest one (`newest`), in a workload.
struct MeasuredSystem {
  std::string name;  // in names of metrics
  std::string scheduler, clients, workload;
};

struct MetricRow {
  std::string metric;
  MeasuredSystem system;
  std::string client;  // empty: of all clients
  double value = 0;
};

/// One request.
struct RequestSample {
  MeasuredSystem system;
  std::string client, job_class;
  bool alone = false;  // in a window without best-effort clients
  double latency_ms = 0;
};

/// One benchmark's JSON file: what ran, on which machine, and "metrics", a flat map from names
/// (with their unit) to numbers.
class Report {
 public:
  /// `benchmark`: the word after `lagoon bench`. `configuration`: all its options, defaults
  /// included.
  Report(std::string benchmark, nlohmann::json configuration, std::string version);

  void Metric(const std::string& name, double value);
  /// The same for a metric of a system: its name is METRIC.SYSTEM, or METRIC.SYSTEM.CLIENT. It is
  /// also a row of rows().
  void Metric(const MetricRow& row);
  const std::vector<MetricRow>& rows() const { return rows_; }
  CsvTable RowTable() const;
  /// Whether single requests are wanted (samples()).
  void KeepSamples(bool keep) { keeps_samples_ = keep; }
  bool keeps_samples() const { return keeps_samples_; }
  void Sample(RequestSample sample) { samples_.push_back(std::move(sample)); }
  CsvTable SampleTable() const;

  /// Adds a field to the file, beside "metrics".
  void Field(const std::string& name, nlohmann::json value) { json_[name] = std::move(value); }
  const nlohmann::json& json() const { return json_; }

  /// Writes the file, or prints to stdout when `path` is empty.
  Status Write(const std::string& path) const;

 private:
  nlohmann::json json_;
  std::vector<MetricRow> rows_;
  bool keeps_samples_ = false;
  std::vector<RequestSample> samples_;
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
/// The same for what is resident now.
double RssMib(int pid);

}  // namespace lagoon::bench
