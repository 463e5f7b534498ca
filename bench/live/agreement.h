#pragma once

#include "base/status.h"
#include "bench/client/bound_model.h"
#include "device/device.h"

namespace lagoon::bench {

/// How near the first outputs of two compilations of a model are, over some inputs.
struct Agreement {
  /// How often both agree on the largest value. A row is the output's values along its last axis
  /// (the scores of one image). top1 is the share of rows in which both outputs have their largest
  /// value at the same index.
  double top1 = 0;
  /// How similar the outputs are as a whole. Each input gives one output of each model. The two
  /// outputs are taken as two vectors, and their cosine similarity is computed (1: same direction).
  /// cosine is the smallest one over all inputs.
  double cosine = 0;
};

/// Runs both models on the same `inputs` seeded inputs. Floats are normally distributed, integers
/// are ids below 100; integer tensors with "mask" in their name are ones, with "type" zeros. The
/// device must be idle.
Result<Agreement> Compare(BoundModel& a, BoundModel& b, Device& device, int inputs);

}  // namespace lagoon::bench
