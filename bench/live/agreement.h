#pragma once

#include "base/status.h"
#include "bench/client/bound_model.h"
#include "device/device.h"

namespace lagoon::bench {

/// How near the first outputs of two compilations of a model are, over some inputs.
struct Agreement {
  /// Share of the rows (along the last axis) whose largest value is at the same index in both.
  double top1 = 0;
  /// The smallest cosine similarity over all inputs, with the whole output as one vector.
  double cosine = 0;
};

/// Runs both models on the same `inputs` seeded inputs. Floats are normally distributed, integers
/// are ids below 100; integer tensors with "mask" in their name are ones, with "type" zeros. The
/// device must be idle.
Result<Agreement> Compare(BoundModel& a, BoundModel& b, Device& device, int inputs);

}  // namespace lagoon::bench
