#pragma once

#include <string>

#include "bench/client/comparator.h"
#include "bench/load_run.h"
#include "program/open_device.h"
#include "trace/recorder.h"

namespace lagoon::bench {

struct RandomLoadOptions : LoadRunOptions {
  std::string zoo;
  DeviceChoice device;
  bool against_onnxruntime = true;
  ComparatorOptions onnxruntime;
  TraceRecorder* trace = nullptr;  // records all windows; null: no trace
};

/// Measures models under random load on a real device, as Paella 7 does (Figures 11 to 13). A
/// system is a scheduler, or ONNX Runtime with a process for each model. Each model has one
/// instance, so that it runs one job at a time; the others of its jobs wait. Which loads a system
/// gets: LoadRun. Latency counts from the intended arrival. Metrics, for a system S, a sigma G and
/// a load L:
///   latency_ms_mean.S.sigmaG.loadL, _p50, _p99 (with fewer than 1,000 jobs in all: _p90)
///   latency_ms_p99.S.sigmaG.loadL.MODEL       the same of one model (p90 with fewer than 1,000)
///   per_second.S.sigmaG.loadL                 jobs a second that ended before the last arrival
///   load_at_ten_times_alone.S.sigmaG          the load at which the tail of all jobs is ten times
///                                             the mean time alone, interpolated; the largest
///                                             load if the tail stays below
///   jobs_per_second_at_load_1, standalone_ms.MODEL
/// The tail has an interval over windows that the host did not disturb (bench/measure/evidence.h).
/// The field "saturated" has the load for each system and sigma.
Status RunRandomLoad(const RandomLoadOptions& options, Report& report);

}  // namespace lagoon::bench
