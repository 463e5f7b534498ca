#pragma once

// How long a model takes alone whose shapes depend on data, so that it runs in parts.

#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "device/device.h"
#include "local/plans/model_plans.h"

namespace lagoon {

/// A tensor of numbers between -1 and 1, or of ones (as strings too) if the type is no float, so
/// that a mask hides nothing.
std::vector<std::byte> MadeUpInput(const TensorSpec& spec, std::mt19937& random);

struct PartsAlone {
  std::size_t parts = 1;
  Nanoseconds time{0};  // of all of them
};

/// Most parts that are run: one more could be a step of a loop that made-up inputs never end.
inline constexpr std::size_t kMostPartsAlone = 32;

/// Runs the parts behind `first`, which is profiled, on made-up inputs on an idle device, and adds
/// their times to the first one's. Real inputs may take another time. kUnimplemented: more than
/// kMostPartsAlone. Other errors are those of compiling and running.
Result<PartsAlone> MeasurePartsAlone(ModelPlans& plans, std::shared_ptr<ServedPlan> first,
                                     Device& device);

}  // namespace lagoon
