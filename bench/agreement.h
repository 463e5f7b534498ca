#pragma once

#include "base/status.h"
#include "bench/bound_model.h"
#include "device/device.h"

namespace lagoon::bench {

/// How near the first outputs of two compilations of a model are, over some inputs.
struct Agreement {
  double top1 = 0;    // of all rows along the last axis, the share with the largest value in the
                      // same place
  double cosine = 0;  // of the outputs as vectors, the smallest of all inputs
};

/// Runs both on the same seeded inputs: normal numbers; ids below 100, where inputs are integers;
/// masks of ones and types of zeros, by their names. The device must be idle.
Result<Agreement> Compare(BoundModel& a, BoundModel& b, Device& device, int inputs);

}  // namespace lagoon::bench
