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
#include "graph/opaque/opaque.h"

namespace lagoon {

/// Who can know the contents of a value that shapes depend on.
enum class Knows : std::uint8_t {
  kRequest,    // inputs of the graph, whose contents can be given
  kNeither,    // an input of the graph whose contents are not given, because it is too large
  kLaterPart,  // a part behind the one that computes the value
};

/// Nodes that cannot be inferred before other nodes have run, because shapes depend on the contents
/// of values.
struct LaterNodes {
  /// Who knows the node's input `missing`, which must be constant. Only if it is a later part, the
  /// node is taken out.
  std::function<Knows(const Node&, ValueId missing)> who_knows;
  /// For opaque nodes.
  Assume assume = Assume::kAllowed;
  /// As they were, in topological order; without those that no output of the graph needs.
  std::vector<Node> nodes;
  /// Why the first node was taken out. Without an error: none was.
  Status why;
  /// Nodes that bodies became: before the walk those of earlier parts, afterwards all.
  std::size_t unrolled = 0;
  /// Whether a shape of an opaque node is assumed.
  bool assumed = false;
  /// Why the engine does not run a node that Lagoon does not run either. Without an error: there is
  /// no such node.
  Status engine;
};

/// Infers the nodes of a graph one after the other, in topological order. A node with bodies, or
/// one that reads or makes a sequence, is replaced by plain nodes (replacement.h), which come next.
///
/// A node that only branches of an If need waits until a node of the branch that is taken reads
/// it. So the other branch, and what only that branch reads, is never looked at.
///
/// A node whose shape depends on data is taken out of the graph (LaterNodes), and with it all nodes
/// that read its outputs.
class GraphWalk {
 public:
  /// Brings a plain node into normal form, and appends the node to graph.nodes. If it fails because
  /// an input must be constant, sets the value.
  using Infer = std::function<Status(Node, ValueId& missing)>;

  /// Borrows all. `later`: null if all nodes must be inferred.
  GraphWalk(Graph& graph, ByteBudget& budget, LaterNodes* later, Infer infer)
      : graph_(graph), budget_(budget), later_(later), infer_(std::move(infer)) {}

  /// Walks all nodes. If it fails, graph.nodes has only the inferred nodes.
  Status Run();

 private:
  bool IsLater(ValueId id) const;
  bool ReadsLater(const Node& node) const;
  /// Takes the node out; false if it must be inferred, so that its error counts.
  bool Postpone(Node node, const Status& status);
  void TakeLaterNodes();
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

  Graph& graph_;
  ByteBudget& budget_;
  LaterNodes* later_;
  ValueId missing_ = kNoValue;  // of the last node that failed
  bool may_be_opaque_ = true;   // the last node that failed
  Infer infer_;
  std::vector<Node> todo_;      // the next one is the last
  std::vector<bool> demanded_;  // by value
  /// In topological order: nodes that wait, and nodes that are taken out. Without outputs: done.
  std::vector<Node> waiting_;
  std::vector<bool> is_later_;  // by value: a node that is taken out computes it
  std::unordered_map<ValueId, std::size_t> waits_for_;  // index in waiting_, by output
  Unrolled unrolled_;
  BodyConstants constants_;
};

}  // namespace lagoon
