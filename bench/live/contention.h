#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/report/report.h"
#include "program/open_device.h"
#include "trace/recorder.h"

namespace lagoon::bench {

struct ContentionOptions {
  std::string zoo;
  std::string real_time = "resnet18";
  std::string best_effort = "resnet50";
  std::vector<std::string> schedulers;
  DeviceChoice device;
  double load = 0.5;       // arrivals, as a part of the real-time model's standalone maximum
  int windows = 10;        // of each kind, interleaved
  int requests = 1000;     // real-time requests in all windows of one kind together
  double seconds = 0;      // limit of all windows (WindowsPlan::seconds); 0: no limit
  std::uint32_t seed = 1;  // for the order of windows and the phase of the arrivals
  bool against_onnxruntime = true;
  ComparatorOptions onnxruntime;
  TraceRecorder* trace = nullptr;  // records all windows; null: no trace
};

/// Measures a real-time model with evenly spaced arrivals beside a best-effort model in a closed
/// loop. Systems: every scheduler, and what a user does today, two ONNX Runtime sessions in two
/// processes, at several settings. A trial of a system has three windows: real-time alone,
/// best-effort alone, both; MeasureWindows() chooses their order and repeats trials that the host
/// disturbed. Latency counts from the intended arrival. Ratios are medians over trials with their
/// intervals (bench/measure/evidence.h). Metrics, for a system S (a scheduler, or
/// onnxruntime-SETTING):
///   realtime_latency_normalized_p50.S, _p99.S     the window "both" over the window "alone", same
///                                                 percentile (p99 if a window has at least 100
///                                                 requests, else p90)
///   best_effort_share_of_leftover.S               bench/live/leftover.h; the field "no_leftover"
///                                                 names the systems where too little time was left
///   preemption_us_p50.S, _p99.S                   from Post() to the first real-time block;
///                                                 schedulers only
///   idle_while_ready_fraction.S                   part of the units' time that they were idle
///                                                 while work was held back; schedulers only
///   realtime_latency_ms_p50.S.alone, .contended   and p99, over all trials together
///   best_effort_per_s.S.alone, .contended         completions a second
///   realtime_busy_fraction.S, realtime_requests.S
///   revocations.S, resumed_blocks.S               schedulers only
/// "Alone" for every setting of ONNX Runtime is the window "alone" of its default setting: that is
/// what a user gives up. Targets for `reset` and `lagoon`: p99 at most 1.10, share at least 0.90,
/// idle while ready at most 0.02.
Status RunContention(const ContentionOptions& options, Report& report);

}  // namespace lagoon::bench
