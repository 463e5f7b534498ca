#pragma once

// What of a graph Lagoon runs.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "graph/weight_source.h"
#include "ort/options.h"
#include "ort/ort_abi.h"
#include "plan/tensor.h"

namespace lagoon::plugin {

/// Nodes to claim, each list as one model, and why it is not all of them.
struct Claim {
  std::vector<std::vector<const Node*>> groups;
  std::size_t nodes = 0;    // of the graph
  std::size_t claimed = 0;  // in groups
  std::string missing;      // the first reason that a node is left out; empty: all are claimed
};

/// A run with shapes that are likely.
struct ExpectedRun {
  std::vector<Dims> dims;           // by input; none: see `time`
  std::optional<Nanoseconds> time;  // EstimateTime(); nothing: contents of tensors decide shapes
};

/// Whether Lagoon runs `model`, a serialised onnx::ModelProto with external data in `weights`, as
/// far as that can be known without the shapes of a run: what its ops and types are, and for shapes
/// that are likely. The error names the first node that stands against it. `expected`: null, or is
/// filled in. Then the error may also be that of a node without a kernel.
Status CanRun(const std::string& model, std::shared_ptr<const WeightSource> weights = nullptr,
              ExpectedRun* expected = nullptr);

/// The whole graph if Lagoon runs it, else parts if `settings` permit. Nothing for a body of an If,
/// Loop or Scan: bodies come with their node. With a profile, nothing that is slower on `device`
/// than in ONNX Runtime. Throws Failed.
Claim ChooseNodes(const Graph* graph, const SessionSettings& settings, LocalDevice& device);

}  // namespace lagoon::plugin
