#pragma once

// How long the copies of a batch between host and device take (InSS 4.1: the upload and the
// feedback, each a line in the rows).

#include <functional>
#include <span>

#include "base/status.h"
#include "device/device.h"
#include "plan/instance.h"
#include "sim/interference/measured_points.h"

namespace lagoon::bench {

/// The milliseconds until all of `copies` are done, which begin at once: the median of `runs` >= 1.
/// The device is idle. Ids, ranks and dependencies of the copies are not used. Their memory and
/// records are the caller's, who resets the records in `reset`, before each run. kUnavailable: the
/// device takes fewer copies at once, or was lost.
Result<double> TimeCopies(Device& device, std::span<const Copy> copies, int runs,
                          const std::function<void()>& reset);

/// The copies of all inputs of `instance` to the device, and of all its outputs back. Between jobs.
/// `inputs`, `outputs`: host memory of each, in the plan's order. Errors: of TimeCopies().
Result<MeasuredCopies> TimeCopiesOf(Instance& instance, Device& device,
                                    std::span<const void* const> inputs,
                                    std::span<void* const> outputs, int runs);

}  // namespace lagoon::bench
