#pragma once

#include <string>

#include "bench/client/comparator.h"
#include "bench/disb_run.h"
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
  std::vector<std::string> settings = {"plain", "nice19", "idle", "cgroup"};  // of kOsSettings
  ComparatorOptions onnxruntime;
  TraceRecorder* trace = nullptr;  // records all windows; null: no trace
};

/// Measures one DISB workload under every scheduler, and with ONNX Runtime in a process for each
/// client, under every one of `settings` of the operating system.
/// A trial of a system has two windows: real-time clients alone, and all clients; MeasureWindows()
/// chooses their order and repeats trials that the host disturbed. The arrivals of a round are the
/// same for every system, at rates that follow from Lagoon's standalone latencies. Each client has
/// an instance and a queue of its own. Latency counts from the intended arrival (in a closed loop:
/// from the post), and no request is dropped. With clients that take the newest request
/// (DisbLoad::Late::kNewest, as DISB's do) latency counts from the post, and S ends in ".newest".
/// Requests count in the throughput if they end within the window. Metrics, for a system S (a
/// scheduler, onnxruntime, or onnxruntime-SETTING), over all its real-time requests:
///   realtime_latency_normalized_mean.S, _p50.S, _p99.S (with 1,000 requests or more, else _p90),
///   _p99.9.S (with 10,000 or more)
///                                   latency over the model's standalone latency; the tail also
///                                   as _low and _high, the interval of its median over trials
///   realtime_latency_vs_alone_mean.S, _p50.S, _p99.S (with 1,000 requests in all and 100 in every
///   window, else _p90)
///                                   normalized latency with all clients over the same statistic
///                                   of the window "real-time clients alone"; median over trials
///                                   with its interval (bench/measure/evidence.h)
///   best_effort_throughput_normalized.S, throughput_normalized.S
///                                   sum over clients of throughput over standalone maximum
///                                   (REEF 6.1)
///   realtime_from_arrival_normalized_mean.S, realtime_dropped.S
///                                   clients that take the newest request: latency from the
///                                   intended arrival; requests that were dropped
///   throughput_vs_best_os.WORKLOAD of `lagoon`, throughput_vs_best_os.WORKLOAD.S of the others
///                                   requests a second of all clients, each over ONNX Runtime's
///                                   maximum alone, against those under the setting that
///                                   BestSetting() takes, of either client (field "best_os")
///   idle_while_ready_fraction.S, revocations.S, padded_launches.S
///                                   schedulers only
///   realtime_requests.S; latency_ms_mean.S.CLIENT, latency_ms_p50.S.CLIENT, per_second.S.CLIENT
///   standalone_ms.MODEL
/// Targets for `lagoon`: realtime_latency_vs_alone_p99 at most 1.10, throughput_vs_best_os at least
/// 1, idle while ready at most 0.02.
/// The field "clients" describes the workload: bench/comparators/torch_disb.py plays it in PyTorch.
Status RunDisb(const DisbOptions& options, Report& report);

}  // namespace lagoon::bench
