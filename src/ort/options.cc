#include "ort/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

namespace lagoon::plugin {
namespace {

tl::unexpected<Error> BadValue(std::string_view key, std::string_view text,
                               std::string_view allowed) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("option '{}' is '{}', but takes {}", key, text, allowed));
}

template <typename T>
Status Number(const Entry& entry, std::int64_t most, T& to) {
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t value, ReadNumber(entry.first, entry.second, most));
  to = static_cast<T>(value);
  return {};
}

Status Switch(const Entry& entry, bool& to) {
  if (entry.second != "0" && entry.second != "1")
    return BadValue(entry.first, entry.second, "0 or 1");
  to = entry.second == "1";
  return {};
}

/// An option: its key, and what sets it.
struct Option {
  std::string_view key;
  Status (*set)(const Entry& entry, Settings& to);
};

constexpr std::int64_t kMostWorkers = 1024;
constexpr std::int64_t kMostSpinUs = 1'000'000;
constexpr std::int64_t kMostTraceEvents = 10'000'000;
constexpr std::int64_t kMostCore = 1023;
constexpr std::size_t kMostPending = 4096;

// The process has those from `workers` on.
constexpr Option kOptions[] = {
    {"class",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_ASSIGN_OR_RETURN(to.session.model.job_class, ReadClass(e.first, e.second));
       return {};
     }},
    {"deadline_us",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_ASSIGN_OR_RETURN(const std::int64_t us,
                               ReadNumber(e.first, e.second, kMostDeadlineUs));
       to.session.model.deadline = std::chrono::microseconds(us);
       return {};
     }},
    {"weight",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_ASSIGN_OR_RETURN(to.session.model.weight, ReadPositive(e.first, e.second, 1e6));
       return {};
     }},
    {"share",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_ASSIGN_OR_RETURN(to.session.model.share, ReadPositive(e.first, e.second, 1));
       return {};
     }},
    {"precision",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_ASSIGN_OR_RETURN(to.session.model.precision, ParsePrecision(e.second));
       return {};
     }},
    {"concurrency",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_RETURN_IF_ERROR(Number(e, 64, to.session.model.concurrency));
       if (to.session.model.concurrency == 0) return BadValue(e.first, e.second, "1 to 64");
       return {};
     }},
    {"max_pending",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_RETURN_IF_ERROR(Number(e, kMostPending, to.session.model.max_pending));
       if (to.session.model.max_pending == 0) return BadValue(e.first, e.second, "1 to 4096");
       return {};
     }},
    {"profile",
     [](const Entry& e, Settings& to) { return Number(e, 1000, to.session.model.profile_runs); }},
    {"partition", [](const Entry& e, Settings& to) { return Switch(e, to.session.partition); }},
    {"min_nodes",
     [](const Entry& e, Settings& to) { return Number(e, 100'000, to.session.min_nodes); }},
    {"min_us",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_ASSIGN_OR_RETURN(const std::int64_t us, ReadNumber(e.first, e.second, 1'000'000'000));
       to.session.min_time = std::chrono::microseconds(us);
       return {};
     }},
    {"max_parts",
     [](const Entry& e, Settings& to) { return Number(e, 1000, to.session.max_parts); }},
    {"workers", [](const Entry& e,
                   Settings& to) { return Number(e, kMostWorkers, to.process.workers.emplace()); }},
    {"cores",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_ASSIGN_OR_RETURN(to.process.cores, ReadCores(e.first, e.second));
       return {};
     }},
    {"worker_nice",
     [](const Entry& e, Settings& to) -> Status {
       LAGOON_ASSIGN_OR_RETURN(const std::int64_t nice,
                               ReadNumber(e.first, e.second, LocalDeviceOptions::kMostNice,
                                          -LocalDeviceOptions::kMostNice));
       to.process.worker_nice = static_cast<int>(nice);
       return {};
     }},
    {"worker_fifo",
     [](const Entry& e, Settings& to) { return Number(e, 99, to.process.worker_fifo.emplace()); }},
    {"scheduler",
     [](const Entry& e, Settings& to) -> Status {
       to.process.scheduler = e.second;
       return {};
     }},
    {"spin_us", [](const Entry& e,
                   Settings& to) { return Number(e, kMostSpinUs, to.process.spin_us.emplace()); }},
    {"trace_events",
     [](const Entry& e, Settings& to) {
       return Number(e, kMostTraceEvents, to.process.trace_events.emplace());
     }},
};
constexpr std::size_t kProcessOptions = 7;

std::string AllKeys() {
  std::string keys;
  for (const Option& option : kOptions) {
    if (!keys.empty()) keys += ", ";
    keys += option.key;
  }
  return keys;
}

template <typename T>
const T& Shown(const T& value) {
  return value;
}
std::string Shown(const std::vector<int>& cores) {
  return fmt::format("{}", fmt::join(cores, ","));
}

template <typename T>
Status Same(std::string_view key, const std::optional<T>& present, const std::optional<T>& wanted) {
  if (!wanted || present == wanted) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("option '{}' is '{}', but the first session of this process has decided "
                          "'{}' for all sessions",
                          key, Shown(*wanted), Shown(*present)));
}

}  // namespace

Result<Settings> ReadSettings(std::span<const Entry> entries) {
  Settings settings;
  // Each run that waits is in a thread of the program, so that the program bounds them.
  settings.session.model.max_pending = kMostPending;
  for (const Entry& entry : entries) {
    bool known = false;
    for (const Option& option : kOptions) {
      if (option.key != entry.first) continue;
      known = true;
      LAGOON_RETURN_IF_ERROR(option.set(entry, settings));
    }
    if (!known) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("there is no option '{}'; the options are {}", entry.first, AllKeys()));
    }
  }
  return settings;
}

Result<ProcessSettings> ReadEnvironment(const char* (*lookup)(const char* name)) {
  Settings settings;
  for (const Option& option : std::span(kOptions).last(kProcessOptions)) {
    std::string name = "LAGOON_ORT_";
    for (const char c : option.key) name += c == '_' ? '_' : static_cast<char>(c - 'a' + 'A');
    const char* value = lookup(name.c_str());
    if (value == nullptr) continue;
    LAGOON_RETURN_IF_ERROR(option.set({name, value}, settings));
  }
  return settings.process;
}

ProcessSettings Either(const ProcessSettings& first, const ProcessSettings& second) {
  ProcessSettings both = first;
  if (!both.workers) both.workers = second.workers;
  if (!both.cores) both.cores = second.cores;
  if (!both.worker_nice) both.worker_nice = second.worker_nice;
  if (!both.worker_fifo) both.worker_fifo = second.worker_fifo;
  if (!both.scheduler) both.scheduler = second.scheduler;
  if (!both.spin_us) both.spin_us = second.spin_us;
  if (!both.trace_events) both.trace_events = second.trace_events;
  return both;
}

Status CheckAgree(const ProcessSettings& present, const ProcessSettings& wanted) {
  LAGOON_RETURN_IF_ERROR(Same("workers", present.workers, wanted.workers));
  LAGOON_RETURN_IF_ERROR(Same("cores", present.cores, wanted.cores));
  LAGOON_RETURN_IF_ERROR(Same("worker_nice", present.worker_nice, wanted.worker_nice));
  LAGOON_RETURN_IF_ERROR(Same("worker_fifo", present.worker_fifo, wanted.worker_fifo));
  LAGOON_RETURN_IF_ERROR(Same("scheduler", present.scheduler, wanted.scheduler));
  LAGOON_RETURN_IF_ERROR(Same("spin_us", present.spin_us, wanted.spin_us));
  return Same("trace_events", present.trace_events, wanted.trace_events);
}

Result<JobClass> ReadClass(std::string_view key, std::string_view text) {
  if (text == "real-time") return JobClass::kRealTime;
  if (text == "best-effort") return JobClass::kBestEffort;
  return BadValue(key, text, "real-time or best-effort");
}

Result<JobClass> ReadWorkloadType(std::string_view key, std::string_view text) {
  if (text == "Default") return JobClass::kRealTime;
  if (text == "Efficient") return JobClass::kBestEffort;
  return BadValue(key, text, "Default (real-time) or Efficient (best-effort)");
}

Result<std::int64_t> ReadNumber(std::string_view key, std::string_view text, std::int64_t most,
                                std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least ||
      value > most) {
    return BadValue(key, text, fmt::format("a whole number from {} to {}", least, most));
  }
  return value;
}

Result<std::vector<int>> ReadCores(std::string_view key, std::string_view text) {
  const auto bad = [&] { return BadValue(key, text, "cores, such as 0-3,6"); };
  std::vector<int> cores;
  for (std::string_view rest = text;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = std::min(part.find('-'), part.size());
    const auto first = ReadNumber(key, part.substr(0, dash), kMostCore);
    const auto last =
        dash == part.size() ? first : ReadNumber(key, part.substr(dash + 1), kMostCore);
    if (!first || !last || *last < *first) return bad();
    for (std::int64_t core = *first; core <= *last; ++core) cores.push_back(static_cast<int>(core));
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  std::ranges::sort(cores);
  if (std::ranges::adjacent_find(cores) != cores.end()) return bad();
  return cores;
}

Result<double> ReadPositive(std::string_view key, std::string_view text, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !(value > 0) ||
      !(value <= most)) {
    return BadValue(key, text, fmt::format("a number above 0 and at most {}", most));
  }
  return value;
}

}  // namespace lagoon::plugin
