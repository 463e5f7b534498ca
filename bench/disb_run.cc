#include "bench/disb_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr std::size_t kSamplesForP999 = 10'000;
constexpr double kMargin = 1.02;  // makes up for arrivals that the edges of windows cut off

Nanoseconds SpanOf(const DisbRunOptions& options, const StandaloneTimes& standalone) {
  double per_second = 0;
  for (const DisbClient& client : options.workload.clients) {
    if (!IsRealTime(client)) continue;
    const Nanoseconds alone = standalone.at(client.model);
    const double rate = RateOf(client.load, alone);
    per_second += rate > 0 ? rate : 1 / (Seconds(alone).count() * options.closed_loop_slowdown);
  }
  const double seconds = per_second > 0
                             ? std::min(options.seconds, kMargin * options.requests / per_second)
                             : options.seconds;
  return std::chrono::duration_cast<Nanoseconds>(Seconds(seconds / options.windows));
}

// The system of this name in metrics: SCHEDULER[.newest][SUFFIX].
MeasuredSystem SystemOf(const DisbRunOptions& options, const std::string& name) {
  constexpr std::string_view kNewest = ".newest";
  std::string scheduler = name.substr(0, name.size() - options.suffix.size());
  const bool newest = scheduler.ends_with(kNewest);
  if (newest) scheduler.resize(scheduler.size() - kNewest.size());
  return {name, std::move(scheduler), newest ? "newest" : "queue", options.workload.name};
}

void ReportLatency(const MeasuredSystem& system, const std::vector<double>& normalized,
                   const std::vector<double>& alone, Report& report) {
  const auto add = [&](std::string metric, double value) {
    report.Metric({std::move(metric), system}, value);
  };
  add("realtime_latency_normalized_mean", Mean(normalized));
  add("realtime_latency_vs_alone_mean", Mean(normalized) / Mean(alone));
  const bool enough = std::min(normalized.size(), alone.size()) >= kSamplesForP99;
  for (const int percent : {50, enough ? 99 : 90}) {
    const double value = Percentile(normalized, percent);
    add(fmt::format("realtime_latency_normalized_p{}", percent), value);
    add(fmt::format("realtime_latency_vs_alone_p{}", percent), value / Percentile(alone, percent));
  }
  if (normalized.size() >= kSamplesForP999) {
    add("realtime_latency_normalized_p99.9", Percentile(normalized, 99.9));
  }
}

void AddSamples(const MeasuredSystem& system, const DisbClient& client, const ClientResult& seen,
                Report& report) {
  const std::string job_class(Name(client.job_class));
  report.Samples({system, client.name, job_class, true}, seen.alone_ms);
  report.Samples({system, client.name, job_class, false}, seen.contended_ms);
}

}  // namespace

DisbWindow MakeWindow(const DisbRunOptions& options, const StandaloneTimes& standalone,
                      std::mt19937& random) {
  DisbWindow window;
  window.span = SpanOf(options, standalone);
  for (const DisbClient& client : options.workload.clients) {
    window.arrivals.emplace_back();
    if (IsClosedLoop(client)) continue;
    window.arrivals.back() =
        Arrivals(client.load, standalone.at(client.model), window.span, random);
  }
  return window;
}

std::vector<DisbLoad::Late> WaysOf(const DisbRunOptions& options) {
  if (std::ranges::all_of(options.workload.clients, IsClosedLoop)) return {DisbLoad::Late::kQueue};
  return options.clients;
}

std::vector<DisbClient> ClientsOf(const DisbRunOptions& options, DisbLoad::Late late) {
  std::vector<DisbClient> clients = options.workload.clients;
  for (DisbClient& client : clients) {
    if (!IsClosedLoop(client)) client.load.late = late;
  }
  return clients;
}

std::string SystemName(const std::string& name, DisbLoad::Late late) {
  return late == DisbLoad::Late::kNewest ? name + ".newest" : name;
}

void ClientResult::Add(const ClientResult& other) {
  const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(alone_ms, other.alone_ms);
  append(contended_ms, other.contended_ms);
  append(from_arrival_ms, other.from_arrival_ms);
  completed += other.completed;
  dropped += other.dropped;
}

void ReportSystem(const DisbRunOptions& options, const StandaloneTimes& standalone,
                  const std::string& name, const SystemResult& seen, Report& report) {
  const MeasuredSystem system = SystemOf(options, name);
  const std::vector<DisbClient>& clients = options.workload.clients;
  std::vector<double> normalized, alone, from_arrival;
  double best_effort = 0, all = 0, dropped = 0;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const ClientResult& client = seen.clients[i];
    const double standalone_ms = ToMilliseconds(standalone.at(clients[i].model));
    const double share = client.completed / seen.seconds * standalone_ms / 1e3;
    all += share;
    report.Metric({"per_second", system, clients[i].name}, client.completed / seen.seconds);
    if (!client.contended_ms.empty()) {
      report.Metric({"latency_ms_mean", system, clients[i].name}, Mean(client.contended_ms));
      report.Metric({"latency_ms_p50", system, clients[i].name}, Median(client.contended_ms));
    }
    AddSamples(system, clients[i], client, report);
    if (!IsRealTime(clients[i])) {
      best_effort += share;
      continue;
    }
    for (const double ms : client.contended_ms) normalized.push_back(ms / standalone_ms);
    for (const double ms : client.alone_ms) alone.push_back(ms / standalone_ms);
    for (const double ms : client.from_arrival_ms) from_arrival.push_back(ms / standalone_ms);
    dropped += static_cast<double>(client.dropped);
  }
  report.Metric({"throughput_normalized", system}, all);
  report.Metric({"best_effort_throughput_normalized", system}, best_effort);
  report.Metric({"realtime_requests", system}, static_cast<double>(normalized.size()));
  if (!normalized.empty() && !alone.empty()) ReportLatency(system, normalized, alone, report);
  if (from_arrival.empty()) return;
  report.Metric({"realtime_from_arrival_normalized_mean", system}, Mean(from_arrival));
  report.Metric({"realtime_dropped", system}, dropped);
}

void SystemResult::Add(const SystemResult& other) {
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i].Add(other.clients[i]);
  }
  seconds += other.seconds;
  idle_while_ready.insert(idle_while_ready.end(), other.idle_while_ready.begin(),
                          other.idle_while_ready.end());
  units_busy.insert(units_busy.end(), other.units_busy.begin(), other.units_busy.end());
  stats.revocations += other.stats.revocations;
  stats.padded_launches += other.stats.padded_launches;
}

void ReportScheduler(const DisbRunOptions& options, const std::string& name,
                     const SystemResult& seen, Report& report) {
  const MeasuredSystem system = SystemOf(options, name);
  report.Metric({"idle_while_ready_fraction", system}, Median(seen.idle_while_ready));
  if (!seen.units_busy.empty()) {
    report.Metric({"units_busy_fraction", system}, Median(seen.units_busy));
  }
  report.Metric({"revocations", system}, static_cast<double>(seen.stats.revocations));
  report.Metric({"padded_launches", system}, static_cast<double>(seen.stats.padded_launches));
}

std::string SystemTable(const Report& report) {
  struct Column {
    std::string_view title, metric, or_metric;
  };
  static constexpr std::array kColumns{
      Column{"throughput", "throughput_normalized", ""},
      Column{"best effort", "best_effort_throughput_normalized", ""},
      Column{"latency", "realtime_latency_normalized_mean", ""},
      Column{"tail", "realtime_latency_normalized_p99", "realtime_latency_normalized_p90"},
      Column{"busy", "units_busy_fraction", ""}};
  std::vector<std::string> names;
  std::map<std::pair<std::string, std::string_view>, double> values;
  for (const MetricRow& row : report.rows()) {
    const auto& [metric, system, client] = row.name;
    if (!client.empty()) continue;
    for (const Column& column : kColumns) {
      if (metric != column.metric && metric != column.or_metric) continue;
      if (std::ranges::find(names, system.name) == names.end()) names.push_back(system.name);
      values[{system.name, column.title}] = row.value;
    }
  }
  std::string table = fmt::format("{:<40}", "system");
  for (const Column& column : kColumns) table += fmt::format(" {:>11}", column.title);
  for (const std::string& name : names) {
    table += fmt::format("\n{:<40}", name);
    for (const Column& column : kColumns) {
      const auto found = values.find({name, column.title});
      table += found == values.end() ? fmt::format(" {:>11}", "-")
                                     : fmt::format(" {:>11.3f}", found->second);
    }
  }
  return table + "\n";
}

void ReportStandalone(const StandaloneTimes& standalone, Report& report) {
  for (const auto& [model, time] : standalone) {
    report.Metric("standalone_ms." + model, ToMilliseconds(time));
  }
}

}  // namespace lagoon::bench
