#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "bench/client/comparator.h"
#include "bench/report/report.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct OutputsOptions {
  std::string zoo;                  // folder of models
  std::vector<std::string> models;  // names in it
  DeviceChoice device = {.workers = 2};
  bool against_onnxruntime = true;  // false: against our own CPU device
  /// Least number of revocations of each model, at random moments, over as many runs as it takes.
  int revocations = 200;
  unsigned seed = 1;  // for the moments
  double most_error = 1e-3;
  ComparatorOptions onnxruntime;
};

/// Checks that every model computes the same outputs as the reference (ONNX Runtime or our CPU
/// device) from the same random inputs, also if the model is revoked again and again. Metrics for
/// model M:
///   output_error.M            the largest difference of an element, relative to the largest
///                             element of that output of the reference; the worst of all outputs
///   output_error_revoked.M    the same over all runs that were revoked
///   revocations.M             how often best-effort work was revoked
///   revoked_launches.M        launches that retired incomplete
///   revoked_runs_identical.M  share of the revoked runs with the same bits as a run without
///                             revocations
/// and output_error_max over the models. Fails if an error is above `most_error`, or if a revoked
/// run has other bits.
Status RunOutputs(const OutputsOptions& options, Report& report);

}  // namespace lagoon::bench
