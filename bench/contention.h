#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/onnxruntime.h"
#include "bench/report.h"
#include "program/open_device.h"
#include "trace/recorder.h"

namespace lagoon::bench {

struct ContentionOptions {
  std::string zoo;
  std::string real_time = "resnet18";
  std::string best_effort = "resnet50";
  std::vector<std::string> schedulers;
  DeviceChoice device;
  double load = 0.5;       // of the real-time model's standalone maximum
  int windows = 10;        // of each kind, interleaved
  int requests = 1000;     // real-time ones of all windows of a kind together
  double seconds = 0;      // no round of windows begins that would end later; 0: no limit
  std::uint32_t seed = 1;  // of the order of windows, of the phase of the arrivals
  bool against_onnxruntime = true;
  OnnxRuntimeOptions onnxruntime;
  TraceRecorder* trace = nullptr;  // sees all windows; null: nobody does
};

/// A real-time model with evenly spaced arrivals beside a best-effort model in a closed loop, under
/// every scheduler and beside what a user does today: two ONNX Runtime sessions in two processes,
/// at several settings. A trial of a system has three windows: real-time alone, best-effort alone,
/// both; MeasureWindows() chooses the order and repeats what the host disturbed. Latency counts
/// from the intended arrival. Metrics, for a system S (a scheduler, or onnxruntime-SETTING), ratios
/// as medians over trials with their intervals (bench/evidence.h):
///
///   realtime_latency_normalized_p50.S, _p99.S     both over alone, same percentile of a window
///                                                 (p99 from 100 requests a window on, else p90)
///
///   best_effort_share_of_leftover.S               bench/leftover.h; the field "no_leftover" names
///                                                 the systems where nothing was left
///
///   preemption_us_p50.S, _p99.S                   Post() to the first real-time block; schedulers
///
///   idle_while_ready_fraction.S                   unit time idle while work was held back;
///                                                 schedulers
///
///   realtime_latency_ms_p50.S.alone, .contended   and p99, of all trials together
///
///   best_effort_per_s.S.alone, .contended, realtime_busy_fraction.S, realtime_requests.S,
///   revocations.S, resumed_blocks.S
///
/// "Alone" of every setting of ONNX Runtime is that of its default setting, which is what a user
/// gives up. Targets, of `reset` and `lagoon`: p99 at most 1.10, share at least 0.90, idle while
/// ready at most 0.02.
Status RunContention(const ContentionOptions& options, Report& report);

}  // namespace lagoon::bench
