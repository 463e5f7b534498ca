#pragma once

// Which is faster, Lagoon or ONNX Runtime.

#include <optional>
#include <vector>

#include "base/time.h"
#include "local/local_model.h"
#include "ort/ort_abi.h"
#include "plan/tensor.h"

namespace lagoon::plugin {

/// The median time of a run.
struct Comparison {
  Nanoseconds lagoon{0}, onnx_runtime{0};
};

/// Runs the graph LocalModelOptions::profile_runs times on `device`, and as often in a session of
/// ONNX Runtime with its own provider and one thread, in turns. `dims`: of the inputs, whose
/// numbers are made up. Nothing: one of the two cannot run it. Takes memory for two more copies of
/// the graph's constants meanwhile.
std::optional<Comparison> Compare(const Graph* graph, const std::vector<Dims>& dims,
                                  LocalModelOptions options, LocalDevice& device);

}  // namespace lagoon::plugin
