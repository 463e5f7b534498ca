#pragma once

#include "base/status.h"
#include "graph/budget.h"
#include "graph/graph.h"
#include "graph/op_context.h"

namespace lagoon {

/// Checks every node, brings it into normal form and computes its outputs' shapes; evaluates what
/// is constant, because shapes come from constants. Inputs and initialisers are known.
Status InferShapes(Graph& graph, ByteBudget& budget);

/// Evaluates a node in normal form whose inputs are all constant; true if its outputs are constants
/// now. An op that cannot be evaluated although its inputs are constant is an error: no kernel
/// takes a constant for data.
Result<bool> EvaluateIfConstant(Graph& graph, Node& node, ByteBudget& budget);

}  // namespace lagoon
