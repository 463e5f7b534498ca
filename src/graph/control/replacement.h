#pragma once

// Nodes that replace a node of control flow or a node on sequences.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "graph/budget.h"
#include "graph/graph.h"
#include "graph/ops/op_context.h"

namespace lagoon {

/// The constants of bodies, as values of the graph: by body, then by the body's own value. All
/// copies of a body share them.
using BodyConstants = std::unordered_map<const Graph*, std::unordered_map<ValueId, ValueId>>;

/// What came out of bodies into one graph.
struct Unrolled {
  std::size_t nodes = 0, edges = 0;
  std::size_t before = 0;  // nodes in earlier parts
  bool full = false;       // a loop did not go on, because its next step belongs to another part
};

/// What replaces one node. The new nodes are not yet inferred, and may need to be replaced in turn.
/// Their values are new ones, named after the replaced node.
class Replacement {
 public:
  using Attributes = std::map<std::string, Attribute>;

  /// `node`: the node to replace; it is not in graph.nodes. Borrows all.
  Replacement(Graph& graph, Node& node, ValueId* missing, ByteBudget& budget,
              BodyConstants& constants, Unrolled& unrolled)
      : graph_(graph),
        node_(node),
        context_(graph, node, missing),
        budget_(budget),
        constants_(constants),
        unrolled_(unrolled) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  const OpContext& context() const { return context_; }
  ValueId In(std::size_t i) const { return context_.has_input(i) ? node_.inputs[i] : kNoValue; }
  const Value& value(ValueId id) const { return graph_.value(id); }
  const Graph& body(const std::string& attribute) const { return *node_.bodies.at(attribute); }

  /// Appends a node that computes `outputs`.
  Node& Write(std::string_view op, std::vector<ValueId> inputs, Attributes attributes,
              std::vector<ValueId> outputs);
  /// Appends a node with one output.
  ValueId Write(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {});
  void Append(Node node) { nodes_.push_back(std::move(node)); }
  /// The spelling of the graph's opset.
  ValueId Unsqueeze(ValueId x, std::int64_t axis);
  ValueId Squeeze(ValueId x, std::int64_t axis);
  /// The parts of x of these sizes along `axis`.
  std::vector<ValueId> Split(ValueId x, std::vector<std::int64_t> sizes, std::int64_t axis);
  /// Element `index` along `axis`, without that axis.
  ValueId Pick(ValueId x, std::int64_t index, std::int64_t axis);

  ValueId NewValue();
  ValueId AddConstant(Constant constant);
  ValueId Number(std::int64_t value);  // INT64 []
  ValueId Flag(bool value);            // BOOL []
  ValueId Ints(const std::vector<std::int64_t>& values);
  ValueId Sequence(std::vector<ValueId> elements);
  /// Leaves `sequence` empty.
  std::vector<ValueId> TakeElements(ValueId sequence) {
    return std::move(graph_.value(sequence).elements);
  }

  /// Makes `value`, of any kind, the output `i` of the replaced node.
  void SetOutput(std::size_t i, ValueId value);
  void SetSequence(std::size_t i, std::vector<ValueId> elements);
  void SetNothing(std::size_t i);

  /// Appends a copy of the nodes of a body of the replaced node. `arguments`: for the body's
  /// inputs. `label`: for the names of the copies. Returns the body's outputs. kInvalidArgument:
  /// another number of arguments than the body takes. kResourceExhausted: too many nodes.
  Result<std::vector<ValueId>> Splice(const Graph& body, std::span<const ValueId> arguments,
                                      std::string_view label);

  /// Whether another step of `nodes` nodes belongs to this part (kMaxPartNodes). If not, the
  /// replacement must fail, and the node as it is becomes one of the next part.
  bool Fits(std::size_t nodes) {
    unrolled_.full = unrolled_.nodes > 0 && unrolled_.nodes + nodes > kMaxPartNodes;
    return !unrolled_.full;
  }

  /// An error if the values took too much memory.
  const Status& charged() const { return charged_; }
  std::vector<Node> TakeNodes() { return std::move(nodes_); }
  /// Values that the new nodes compute and that will be read, although no node reads them yet.
  const std::vector<ValueId>& awaited() const { return awaited_; }
  void Await(ValueId value) { awaited_.push_back(value); }

 private:
  void FillSequence(ValueId id, std::vector<ValueId> elements);
  ValueId CopyValue(const Graph& body, ValueId id, const std::string& prefix);
  std::string Name(std::string_view op);

  Graph& graph_;
  Node& node_;
  OpContext context_;
  ByteBudget& budget_;
  BodyConstants& constants_;
  Unrolled& unrolled_;
  std::vector<Node> nodes_;
  std::vector<ValueId> awaited_;
  std::size_t names_ = 0;
  Status charged_;
};

/// The error of every loop that is not unrolled.
tl::unexpected<Error> CannotUnroll(const OpContext& context, std::string_view why);

/// An op that is replaced: its row, the attributes that must hold graphs, and the function.
struct ControlOp {
  OpSpec signature;
  std::vector<std::string> bodies;
  Status (*replace)(Replacement& replacement);
};

/// Null for all other ops.
const ControlOp* FindControlOp(std::string_view op);

std::span<const ControlOp> LoopOps();      // If, Loop, Scan, SequenceMap
std::span<const ControlOp> SequenceOps();  // ops on sequences and optionals

}  // namespace lagoon
