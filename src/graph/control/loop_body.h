#pragma once

// Loops that stay loops: their bodies as graphs, and the errors for them.

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/ops/op_context.h"

namespace lagoon {

/// The body of a Loop as a graph of its own, for a host that runs it step by step. Shapes are not
/// inferred yet: the types and dims of the inputs are those of the first step, and InferShapes
/// takes the graph for these or others.
struct LoopBody {
  /// Inputs: the step's number (INT64 []), the condition (BOOL []), the carried values, the
  /// captured values. Outputs: the condition, the carried values, the scan outputs. Outputs may be
  /// equal, and an output may be an input or a constant.
  Graph graph;
  std::size_t carried = 0;
  std::size_t scans = 0;
  /// What the last inputs stand for, in the graph around the loop. Without constants, which the
  /// body has itself.
  std::vector<ValueId> captured;
};

/// For a Loop of which no step is unrolled. The inputs of the node must have shapes.
/// kUnimplemented: one of them is no tensor. kInvalidArgument: the body does not fit the node.
Result<LoopBody> BodyOf(const Graph& graph, const Node& loop);

/// Whether the condition after a step depends on more than constants and shapes. Then a Loop cannot
/// be unrolled.
bool ConditionDependsOnData(const Graph& graph, const Node& loop);

/// The error of every loop that is not unrolled.
tl::unexpected<Error> CannotUnroll(const OpContext& context, std::string_view why);

}  // namespace lagoon
