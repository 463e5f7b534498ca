#pragma once

#include "base/status.h"
#include "graph/budget.h"
#include "graph/graph.h"
#include "graph/ops/op_context.h"

namespace lagoon {

/// Checks every node, brings it into normal form and computes the shapes of its outputs. Evaluates
/// constant nodes, because shapes depend on constants. Inputs and initialisers must have shapes.
Status InferShapes(Graph& graph, ByteBudget& budget);

/// Evaluates a node in normal form whose inputs are all constant. True if the outputs are constants
/// now. False if no evaluator covers the op or its types: a kernel then computes it when the model
/// is loaded. Fails if there is no such kernel either (RunTime::kNever).
Result<bool> EvaluateIfConstant(Graph& graph, Node& node, ByteBudget& budget);

}  // namespace lagoon
