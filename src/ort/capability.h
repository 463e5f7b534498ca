#pragma once

// What of a graph Lagoon runs.

#include <string>
#include <vector>

#include "base/status.h"
#include "ort/options.h"
#include "ort/ort_abi.h"

namespace lagoon::plugin {

/// Nodes to claim, each list as one model, and why it is not all of them.
struct Claim {
  std::vector<std::vector<const Node*>> groups;
  std::size_t nodes = 0;    // of the graph
  std::size_t claimed = 0;  // in groups
  std::string missing;      // the first reason that a node is left out; empty: all are claimed
};

/// Whether Lagoon runs `model`, a serialised onnx::ModelProto, as far as that can be known without
/// the shapes of a run: what its ops and types are, and for shapes that are likely. The error names
/// the first node that stands against it.
Status CanRun(const std::string& model);

/// The whole graph if Lagoon runs it, else parts if `settings` permit. Nothing for a body of an If,
/// Loop or Scan: bodies come with their node. Throws Failed.
Claim ChooseNodes(const Graph* graph, const SessionSettings& settings);

}  // namespace lagoon::plugin
