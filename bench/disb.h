#pragma once

#include <string>

#include "bench/disb_run.h"
#include "bench/onnxruntime.h"
#include "program/open_device.h"
#include "trace/recorder.h"

namespace lagoon::bench {

struct DisbOptions : DisbRunOptions {
  DisbOptions() {
    closed_loop_slowdown = 1.2;
    windows = 10;
  }
  std::string zoo;
  DeviceChoice device;
  bool against_onnxruntime = true;
  OnnxRuntimeOptions onnxruntime;
  TraceRecorder* trace = nullptr;  // sees all windows; null: nobody does
};

/// One DISB workload under every scheduler, and as one ONNX Runtime session a client. A trial of a
/// system has two windows: real-time clients alone, and all; MeasureWindows() chooses the order and
/// repeats what the host disturbed. The arrivals of a round are the same for every system. A client
/// has an instance and a queue of its own; nothing is dropped, lateness shows as latency, which
/// counts from the intended arrival (of a closed loop: from the post). Metrics, for a system S (a
/// scheduler, or onnxruntime-SETTING), over all its real-time requests:
///   realtime_latency_normalized_mean.S, _p50.S, _p99.S (from 1,000 requests on, else _p90), _p99.9
///                                   (from 10,000 on): over the model's standalone latency
///   realtime_latency_vs_alone_mean.S, _p50.S, _p99.S (from 100 requests a window on, else _p90):
///                                   over the same of the window with real-time clients alone, as
///                                   a median over trials with its interval (bench/evidence.h)
///   best_effort_throughput_normalized.S, throughput_normalized.S   sum over clients of throughput
///                                   over standalone maximum (REEF 6.1)
///   idle_while_ready_fraction.S, revocations.S, padded_launches.S  schedulers only
///   realtime_requests.S; latency_ms_mean.S.CLIENT, latency_ms_p50.S.CLIENT, per_second.S.CLIENT
///   standalone_ms.MODEL
/// Targets, of `lagoon`: realtime_latency_vs_alone_p99 at most 1.10, idle while ready at most 0.02.
/// The field "clients" has the workload: bench/comparators/torch_disb.py plays it in PyTorch.
Status RunDisb(const DisbOptions& options, Report& report);

}  // namespace lagoon::bench
