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
  int windows = 5;         // of each kind, interleaved
  int requests = 1000;     // real-time ones of all windows of a kind together
  std::uint32_t seed = 1;  // of the phase of the arrivals
  bool against_onnxruntime = true;
  OnnxRuntimeOptions onnxruntime;
  TraceRecorder* trace = nullptr;  // sees all windows; null: nobody does
};

/// A real-time model with evenly spaced arrivals beside a best-effort model in a closed loop, under
/// every scheduler and beside what a user does today: two ONNX Runtime sessions in two processes,
/// at several settings. Windows of "real-time alone", "best-effort alone" and "both" take turns.
/// Latency counts from the intended arrival. Metrics, for a system S (a scheduler, or
/// onnxruntime-SETTING):
///   realtime_latency_normalized_p50.S, _p99.S     contended over alone, same percentile
///   best_effort_share_of_leftover.S               its throughput over (its throughput alone x the
///   part of the time that
///                                                 real-time work alone leaves idle)
///   preemption_us_p50.S, _p99.S                   Post() to the first real-time block; schedulers
///   only idle_while_ready_fraction.S                   unit time idle while work was held back;
///   schedulers only realtime_latency_ms_p50.S.alone, .contended (and p99),
///   best_effort_per_s.S.alone, .contended, revocations.S, resumed_blocks.S
/// ONNX Runtime's settings are all normalised by its default setting alone, which is what a user
/// gives up.
Status RunContention(const ContentionOptions& options, Report& report);

}  // namespace lagoon::bench
