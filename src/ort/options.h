#pragma once

// The options of the plug-in as texts: of a session, of the process, of a run.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "local/local_model.h"

namespace lagoon::plugin {

/// A key without the provider's prefix, and its value.
using Entry = std::pair<std::string, std::string>;

/// ONNX Runtime writes this before the options that a program gives to add_provider_for_devices().
inline constexpr std::string_view kSessionPrefix = "ep.lagoonexecutionprovider.";

/// What a session says about its models.
struct SessionSettings {
  LocalModelOptions model;  // name is empty; max_pending is 4096
  bool partition = true;    // false: the whole graph, or nothing
  // Smaller parts of the graph stay with ONNX Runtime: of fewer nodes, or of less time
  // (EstimateTime).
  std::size_t min_nodes = 1;
  Nanoseconds min_time = std::chrono::microseconds(20);
  std::size_t max_parts = 8;  // of the graph: those of most time
  bool threads_spin = true;   // those of ONNX Runtime, for the nodes that stay there
};

/// What the first session decides for the process. Nothing: the session does not say it.
struct ProcessSettings {
  std::optional<std::uint32_t> workers;       // 0: one per core
  std::optional<std::vector<int>> cores;      // LocalDeviceOptions::cores; empty: of the process
  std::optional<int> worker_nice;             // LocalDeviceOptions::worker_nice
  std::optional<int> worker_fifo;             // LocalDeviceOptions::worker_fifo
  std::optional<std::string> scheduler;       // as MakeScheduler() reads it
  std::optional<std::uint32_t> spin_us;       // LocalDeviceOptions::spin
  std::optional<std::uint32_t> trace_events;  // LocalDeviceOptions::trace_events
};

struct Settings {
  SessionSettings session;
  ProcessSettings process;
};

/// kInvalidArgument names an unknown key and lists those that exist, or names key, value and what
/// is allowed.
Result<Settings> ReadSettings(std::span<const Entry> entries);

/// The defaults of the process: environment variables LAGOON_ORT_WORKERS and so on. `lookup` is
/// std::getenv.
Result<ProcessSettings> ReadEnvironment(const char* (*lookup)(const char* name));

/// `first`, with the values of `second` where it has none.
ProcessSettings Either(const ProcessSettings& first, const ProcessSettings& second);
/// kInvalidArgument if `wanted` has a value that differs from the one in `present`, which has all.
Status CheckAgree(const ProcessSettings& present, const ProcessSettings& wanted);

/// "real-time" or "best-effort".
Result<JobClass> ReadClass(std::string_view key, std::string_view text);
/// ORT's words for a session's workload: "Default", real-time, and "Efficient", best-effort.
Result<JobClass> ReadWorkloadType(std::string_view key, std::string_view text);
/// A whole number from `least` to `most`.
Result<std::int64_t> ReadNumber(std::string_view key, std::string_view text, std::int64_t most,
                                std::int64_t least = 0);
/// Cores, as the system writes them: "0-3,6".
Result<std::vector<int>> ReadCores(std::string_view key, std::string_view text);
/// A number above 0 and at most `most`.
Result<double> ReadPositive(std::string_view key, std::string_view text, double most);

/// What the options of one run say. Nothing: the session's value holds.
struct RunSettings {
  std::optional<JobClass> job_class;
  Nanoseconds deadline{0};       // after the start; 0: the session's
  std::optional<TimePoint> due;  // CLOCK_MONOTONIC; goes before `deadline`
  std::string tag;               // names the run for lagoon.cancel
};

/// `lookup`: the value of a key ("lagoon.class"), null if the run does not have it. Keys that do
/// not exist cannot be seen: ONNX Runtime has no list of a run's keys.
template <typename Lookup>
Result<RunSettings> ReadRunSettings(const Lookup& lookup);

/// Most microseconds of a deadline: an hour.
inline constexpr std::int64_t kMostDeadlineUs = 3'600'000'000;

template <typename Lookup>
Result<RunSettings> ReadRunSettings(const Lookup& lookup) {
  RunSettings settings;
  if (const char* text = lookup("lagoon.class")) {
    LAGOON_ASSIGN_OR_RETURN(settings.job_class, ReadClass("lagoon.class", text));
  }
  if (const char* text = lookup("lagoon.deadline_us")) {
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t us,
                            ReadNumber("lagoon.deadline_us", text, kMostDeadlineUs));
    settings.deadline = std::chrono::microseconds(us);
  }
  if (const char* text = lookup("lagoon.due_ns")) {
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t ns, ReadNumber("lagoon.due_ns", text, INT64_MAX));
    if (ns > 0) settings.due = TimePoint(Nanoseconds(ns));
  }
  if (const char* text = lookup("lagoon.tag")) settings.tag = text;
  return settings;
}

}  // namespace lagoon::plugin
