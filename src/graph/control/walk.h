#pragma once

// The order in which the nodes of a graph are inferred, and the nodes that replace control flow.

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "graph/budget.h"
#include "graph/control/replacement.h"
#include "graph/graph.h"

namespace lagoon {

/// Infers the nodes of a graph one after the other, in topological order. A node with bodies, or
/// one that reads or makes a sequence, is replaced by plain nodes (replacement.h), which come next.
///
/// A node that only branches of an If need waits until a node of the branch that is taken reads
/// it. So the other branch, and what only that branch reads, is never looked at.
class GraphWalk {
 public:
  /// Brings a plain node into normal form, and appends the node to graph.nodes.
  using Infer = std::function<Status(Node)>;

  /// Borrows all. `missing` as for InferShapes; may be null.
  GraphWalk(Graph& graph, ByteBudget& budget, ValueId* missing, Infer infer)
      : graph_(graph), budget_(budget), missing_(missing), infer_(std::move(infer)) {}

  /// Walks all nodes. If it fails, graph.nodes has the inferred nodes and then, as they were, the
  /// node that failed and all others. `inferred`: null, or gets the number of inferred nodes.
  Status Run(std::size_t* inferred);

 private:
  Status Step(Node node);
  /// Lets the engine run a node that failed with `status`; false if it cannot, so that the error
  /// counts.
  bool TakeOpaque(const Node& node, const Status& status);
  Status Replace(Node& node, const ControlOp& op);
  void Push(std::vector<Node> nodes);
  void Demand(ValueId id);
  bool Demanded(ValueId id) const;
  /// Demands the outputs of nodes of which nothing is read.
  void DemandUnread(const std::vector<Node>& nodes);
  /// Demands what the nodes need to compute those of their outputs that are demanded.
  void DemandInputs(const std::vector<Node>& nodes);
  void Wait(Node node);
  /// The waiting nodes that compute what `node` reads, and what these nodes read.
  std::vector<Node> TakeAwaited(const Node& node);
  Status CheckOutputs() const;
  void KeepRest(Node failed);

  Graph& graph_;
  ByteBudget& budget_;
  ValueId* missing_;
  Infer infer_;
  std::vector<Node> todo_;      // the next one is the last
  std::vector<bool> demanded_;  // by value
  std::vector<Node> waiting_;   // in topological order; without outputs: taken
  std::unordered_map<ValueId, std::size_t> waits_for_;  // index in waiting_, by output
  Unrolled unrolled_;
  BodyConstants constants_;
};

}  // namespace lagoon
