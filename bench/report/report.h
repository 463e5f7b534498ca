#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
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

/// The name of a metric: METRIC, METRIC.SYSTEM or METRIC.SYSTEM.CLIENT. A table has its parts in
/// columns of their own.
struct MetricName {
  MetricName(const char* name) : metric(name) {}
  MetricName(std::string name) : metric(std::move(name)) {}
  MetricName(std::string name, MeasuredSystem of, std::string of_client = "")
      : metric(std::move(name)), system(std::move(of)), client(std::move(of_client)) {}

  std::string Text() const;

  std::string metric;
  MeasuredSystem system = {};
  std::string client = {};  // empty: of all clients
};

struct MetricRow {
  MetricName name;
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

  /// A second value of the same name replaces the first. NaN is left out.
  void Metric(const MetricName& name, double value);
  /// All metrics, in the order in which they came.
  const std::vector<MetricRow>& rows() const { return rows_; }
  CsvTable RowTable() const;
  /// Whether single requests are wanted.
  void KeepSamples(bool keep) { keeps_samples_ = keep; }
  /// Adds requests that differ in their latency alone. Does nothing if they are not wanted.
  void Samples(RequestSample sample, std::span<const double> latencies_ms);
  CsvTable SampleTable() const;

  /// Adds a field to the file, beside "metrics".
  void Field(const std::string& name, nlohmann::json value) { json_[name] = std::move(value); }
  const nlohmann::json& json() const { return json_; }

  /// Writes the file, or prints to stdout when `path` is empty.
  Status Write(const std::string& path) const;

 private:
  nlohmann::json json_;
  std::vector<MetricRow> rows_;
  std::map<std::string, std::size_t> row_of_;  // by the whole name
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
