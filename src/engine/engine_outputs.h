#pragma once

// The shapes of what an engine computes, before it computes it.

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"

namespace lagoon {

/// Whether a plan may assume that an output has the shape that a run on made-up data gave it. Where
/// it may not, an output whose shape the engine does not know is unsized (Value::unsized).
enum class Assume : std::uint8_t { kAllowed, kNever };

/// What is known of the outputs of a model for an engine before it runs.
struct EngineOutputs {
  std::vector<EngineTensor> tensors;  // types and dims; `data` is null
  std::vector<bool> unsized;          // by output: the shape depends on data, `dims` are {0}
  bool assumed = false;               // other shapes may depend on data too
};

/// The outputs for inputs of these types and dims; `data` is ignored. Where the engine does not
/// know a shape, and `assume` allows it, runs the model on zeros, for 30 s at most, and then on
/// ones, if the first run was short: where the shapes differ, they depend on data.
Result<EngineOutputs> OutputsOf(EngineModel& model, std::vector<EngineTensor> inputs,
                                Assume assume);

}  // namespace lagoon
