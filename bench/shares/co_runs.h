#pragma once

// Models that run on shares of a CPU at the same time, to measure how much they slow each other
// down (InSS 4).

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/report/report.h"
#include "sim/interference/measured_points.h"

namespace lagoon::bench {

struct CoRunOptions {
  std::string zoo;
  std::vector<std::string> models = {"resnet18", "squeezenet1_1", "mobilenet_v2", "bert_tiny"};
  std::vector<std::int64_t> rows = {1, 2, 4, 8};
  std::uint32_t workers = 0;  // of the CPU; 0: one per core, at least 2
  int pairs = 4;              // measurements of each pair of models, with other rows and shares
  int rounds = 3;             // windows of each measurement, interleaved with all others
  double seconds = 0.4;       // length of a window
  std::uint32_t seed = 1;
};

/// Times of each model alone, for each number of rows, on one, on half and on all of the workers;
/// then of each two models (a model may run beside a copy of itself) on shares that add up to the
/// CPU, with rows drawn at random. Each model runs one batch after another under the scheduler
/// `shares`; a measurement is the median over the rounds of the windows' median batch times. Points
/// alone have the times of the copies of a batch too (TimeCopiesOf).
/// Errors: of BoundModel::Load; kInvalidArgument names the option.
Result<std::vector<MeasuredPoint>> MeasureCoRuns(const CoRunOptions& options);

}  // namespace lagoon::bench
