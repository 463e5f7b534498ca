#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "graph/budget.h"
#include "graph/control/walk.h"
#include "graph/graph.h"
#include "graph/ops/op_context.h"

namespace lagoon {

/// Checks every node, brings it into normal form and computes the shapes of its outputs. Evaluates
/// constant nodes, because shapes depend on constants. Replaces If by the branch that is taken,
/// loops by their steps, and ops on sequences by ops on tensors (graph/control). Inputs and
/// initialisers must have shapes.
///
/// `later`: null if all nodes must be inferred; else takes the nodes whose shapes depend on data.
/// If it fails, graph.nodes has only the inferred nodes.
Status InferShapes(Graph& graph, ByteBudget& budget, LaterNodes* later = nullptr);

/// Which nodes FindUnknownOps() looks at.
enum class Branches : std::uint8_t {
  kAll,
  kCertain,  // not those that only branches of an If need: these may never run
};

/// The error of the first node that computes `outputs`, or is in a body of such a node, and whose
/// op Lagoon does not have. Without an error: there is none.
Status FindUnknownOps(Graph& graph, std::span<const Node> nodes, std::span<const ValueId> outputs,
                      Branches branches);

/// kUnimplemented if the actual dims of the value depend on data. Plans have fixed shapes, so no
/// node of the same plan can read such a value. `reader`: for the message.
Status CheckDimsAreActual(const Graph& graph, ValueId id, std::string_view reader);

/// Checks numbers of inputs and outputs, and attributes, against the row of an op.
Status CheckSignature(const OpContext& context, const OpSpec& spec);

/// Evaluates a node in normal form whose inputs are all constant. True if the outputs are constants
/// now. False if no evaluator covers the op or its types: a kernel then computes it when the model
/// is loaded. Fails if there is no such kernel either (RunTime::kNever).
Result<bool> EvaluateIfConstant(Graph& graph, Node& node, ByteBudget& budget);

}  // namespace lagoon
