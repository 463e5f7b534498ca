#include "bench/measure/host_probe.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <sstream>

#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

constexpr int kUnitSteps = 20'000;         // each waits for the step before: 4 or 5 cycles
constexpr std::size_t kLeastSamples = 20;  // with fewer in a window the probe's values are unknown
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double Seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }
double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// A chain of multiplications, which no compiler shortens.
void RunUnit() {
  std::uint64_t value = 1;
  for (int i = 0; i < kUnitSteps; ++i) {
    value = value * 6364136223846793005u + 1;
    asm volatile("" : "+r"(value));
  }
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double TicksPerSecond() { return static_cast<double>(sysconf(_SC_CLK_TCK)); }

// Core time of a process from the text of /proc/PID/stat: 0 if `parent` is not its parent. The
// name is in brackets. After it come the state, the parent, ..., and as the 12th and 13th field
// user and system time.
double ChildSeconds(const std::string& stat, pid_t parent) {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  const std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  if (words.size() < 13 || words[1] != std::to_string(parent)) return 0;
  return (std::stod(words[11]) + std::stod(words[12])) / TicksPerSecond();
}

// Core time of this process, of its running children and of those that have ended.
double OwnSeconds() {
  rusage self{}, ended{};
  getrusage(RUSAGE_SELF, &self);
  getrusage(RUSAGE_CHILDREN, &ended);
  double seconds = Seconds(self.ru_utime) + Seconds(self.ru_stime) + Seconds(ended.ru_utime) +
                   Seconds(ended.ru_stime);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    seconds += ChildSeconds(ReadAll(entry.path() / "stat"), getpid());
  }
  return seconds;
}

HostTimes ReadHostTimes() { return ParseHostTimes(ReadAll("/proc/stat"), TicksPerSecond()); }

}  // namespace

HostTimes ParseHostTimes(const std::string& proc_stat, double ticks_per_second) {
  enum Field { kUser, kNice, kSystem, kIdle, kWait, kInterrupt, kSoftInterrupt, kSteal, kFields };
  std::istringstream line(proc_stat);
  std::string word;
  line >> word;
  double ticks[kFields] = {};
  for (double& field : ticks) line >> field;
  if (word != "cpu" || !line) return {kUnknown, kUnknown};
  const double busy =
      ticks[kUser] + ticks[kNice] + ticks[kSystem] + ticks[kInterrupt] + ticks[kSoftInterrupt];
  return {busy / ticks_per_second, ticks[kSteal] / ticks_per_second};
}

HostProbe::HostProbe() : thread_([this](const std::stop_token& stop) { Loop(stop); }) {}
HostProbe::~HostProbe() = default;

void HostProbe::Loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const TimePoint due = Now() + kPeriod;
    std::this_thread::sleep_until(due);  // lateness of this wake-up is what is measured
    const double late_us = ToMicroseconds(Now() - due);
    const Nanoseconds before = ThreadCpuTime();
    RunUnit();
    const double unit_us = ToMicroseconds(ThreadCpuTime() - before);
    const MutexLock lock(mutex_);
    late_us_.push_back(late_us);
    unit_us_.push_back(unit_us);
  }
}

void HostProbe::Begin() {
  own_before_s_ = OwnSeconds();
  before_ = ReadHostTimes();
  begin_ = Now();
  const MutexLock lock(mutex_);
  unit_us_.clear();
  late_us_.clear();
}

HostReading HostProbe::End() {
  HostReading reading;
  reading.core_seconds = Seconds(Now() - begin_) * std::thread::hardware_concurrency();
  const HostTimes after = ReadHostTimes();
  reading.stolen_s = after.stolen_s - before_.stolen_s;
  reading.foreign_s = after.busy_s - before_.busy_s - (OwnSeconds() - own_before_s_);
  if (reading.foreign_s < 0) reading.foreign_s = 0;  // /proc/stat is only precise to a tick
  const MutexLock lock(mutex_);
  reading.probe_s = std::accumulate(unit_us_.begin(), unit_us_.end(), 0.0) / 1e6;
  const bool enough = unit_us_.size() >= kLeastSamples;
  reading.unit_us = enough ? Mean(unit_us_) : kUnknown;
  reading.late_us = enough ? Percentile(late_us_, 99) : kUnknown;
  return reading;
}

}  // namespace lagoon::bench
