#pragma once

#include "base/status.h"
#include "graph/budget.h"
#include "graph/graph.h"
#include "graph/ops/op_context.h"

namespace lagoon {

/// Checks every node, brings it into normal form and computes the shapes of its outputs. Evaluates
/// constant nodes, because shapes depend on constants. Replaces If by the branch that is taken,
/// loops by their steps, and ops on sequences by ops on tensors (graph/control). Inputs and
/// initialisers must have shapes.
///
/// If it fails because a value must be constant, sets `missing` to that value. If it fails at all,
/// graph.nodes has first the inferred nodes and then, as they were, the node that failed and all
/// others, in topological order. `inferred`: null, or gets the number of inferred nodes.
Status InferShapes(Graph& graph, ByteBudget& budget, ValueId* missing = nullptr,
                   std::size_t* inferred = nullptr);

/// Checks numbers of inputs and outputs, and attributes, against the row of an op.
Status CheckSignature(const OpContext& context, const OpSpec& spec);

/// The inputs of `node` whose contents its shape rule must know (OpSpec::host_inputs) but that are
/// not constants. The node can be inferred and compiled once all of them are. Each value once.
std::vector<ValueId> MissingHostInputs(const Graph& graph, const Node& node);

/// Evaluates a node in normal form whose inputs are all constant. True if the outputs are constants
/// now. False if no evaluator covers the op or its types: a kernel then computes it when the model
/// is loaded. Fails if there is no such kernel either (RunTime::kNever).
Result<bool> EvaluateIfConstant(Graph& graph, Node& node, ByteBudget& budget);

}  // namespace lagoon
