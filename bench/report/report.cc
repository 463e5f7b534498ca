#include "bench/report/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string_view>
#include <thread>

#include "base/json.h"
#include "kernels/cpu_level.h"

namespace lagoon::bench {
namespace {

std::string ProcessorModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Report::Report(std::string benchmark, nlohmann::json configuration, std::string version) {
  utsname kernel{};
  uname(&kernel);
  json_["benchmark"] = std::move(benchmark);
  json_["version"] = std::move(version);
  json_["date"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  json_["machine"] = {{"processor", ProcessorModel()},
                      {"cores", std::thread::hardware_concurrency()},
                      {"kernel", kernel.release},
                      {"instruction_set", NameOf(ActiveCpuLevel())}};
  json_["configuration"] = std::move(configuration);
  json_["metrics"] = nlohmann::json::object();
}

std::string MetricName::Text() const {
  std::string text = metric;
  for (const std::string& part : {system.name, client}) {
    if (!part.empty()) text += "." + part;
  }
  return text;
}

void Report::Metric(const MetricName& name, double value) {
  if (std::isnan(value)) return;  // a percentile of too few samples is left out
  const std::string text = name.Text();
  json_["metrics"][text] = value;
  const auto [place, is_new] = row_of_.emplace(text, rows_.size());
  if (is_new) {
    rows_.push_back({name, value});
  } else {
    rows_[place->second].value = value;
  }
}

void Report::Samples(RequestSample sample, std::span<const double> latencies_ms) {
  if (!keeps_samples_) return;
  for (const double ms : latencies_ms) {
    sample.latency_ms = ms;
    samples_.push_back(sample);
  }
}

CsvTable Report::RowTable() const {
  CsvTable table({"metric", "scheduler", "clients", "workload", "client", "value"});
  for (const MetricRow& row : rows_) {
    const auto& [metric, system, client] = row.name;
    table.Add({metric, system.scheduler, system.clients, system.workload, client,
               fmt::format("{}", row.value)});
  }
  return table;
}

CsvTable Report::SampleTable() const {
  CsvTable table({"scheduler", "clients", "workload", "client", "class", "alone", "latency_ms"});
  for (const RequestSample& sample : samples_) {
    table.Add({sample.system.scheduler, sample.system.clients, sample.system.workload,
               sample.client, sample.job_class, sample.alone ? "1" : "0",
               fmt::format("{}", sample.latency_ms)});
  }
  return table;
}

Status Report::Write(const std::string& path) const {
  if (path.empty()) {
    std::cout << DumpJson(json_, 2) << std::endl;
    return {};
  }
  std::ofstream file(path);
  file << DumpJson(json_, 2) << '\n';
  file.close();
  if (!file) return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' cannot be written", path));
  std::fprintf(stderr, "wrote %s\n", path.c_str());
  return {};
}

ProgressBar::ProgressBar(std::string title, int steps)
    : title_(std::move(title)), steps_(steps), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::Step(const std::string& now) {
  const int tenths_before = done_ * 10 / steps_;
  done_ = std::min(done_ + 1, steps_);
  if (terminal_ || done_ * 10 / steps_ != tenths_before) Draw(now);
}

void ProgressBar::Draw(const std::string& now) const {
  constexpr int kWidth = 30;
  const int filled = done_ * kWidth / steps_;
  std::fprintf(stderr, "%s%s [%s%s] %3d%% %s%s", terminal_ ? "\r\033[K" : "", title_.c_str(),
               std::string(static_cast<std::size_t>(filled), '#').c_str(),
               std::string(static_cast<std::size_t>(kWidth - filled), '.').c_str(),
               done_ * 100 / steps_, now.c_str(), terminal_ ? "" : "\n");
}

namespace {

// A field of /proc/PID/status that is in KiB.
double StatusMib(int pid, std::string_view field) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field)) return std::stod(line.substr(field.size())) / 1024.0;
  }
  return 0;
}

}  // namespace

double PeakRssMib(int pid) { return StatusMib(pid, "VmHWM:"); }
double RssMib(int pid) { return StatusMib(pid, "VmRSS:"); }

}  // namespace lagoon::bench
