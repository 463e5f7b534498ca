#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "bench/onnxruntime.h"
#include "bench/report.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct OutputsOptions {
  std::string zoo;                  // folder of models
  std::vector<std::string> models;  // names in it
  DeviceChoice device = {.workers = 2};
  bool against_onnxruntime = true;  // false: against our own CPU device
  int revocations = 200;  // of each model, at random moments, at least; in as many runs as it takes
  unsigned seed = 1;      // of the moments
  double most_error = 1e-3;
  OnnxRuntimeOptions onnxruntime;
};

/// Whether every model computes what the reference, ONNX Runtime or our CPU device, computes from
/// the same random inputs, also when it is revoked again and again. Metrics of model M:
///   output_error.M          the largest difference of an element, relative to the largest element
///                           of that output of the reference's; the worst of all outputs
///   output_error_revoked.M  the same over all runs that were revoked
///   revocations.M, revoked_launches.M   launches: those that were incomplete when they left
///   revoked_runs_identical.M            share of the revoked runs with the same bits as the first
/// and output_error_max over the models. Fails when an error is above `most_error`.
Status RunOutputs(const OutputsOptions& options, Report& report);

}  // namespace lagoon::bench
