#pragma once

// Changes to graphs that several passes share.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/budget.h"
#include "graph/graph.h"

namespace lagoon {

/// Drops nodes that no output needs, node outputs without a reader, and values that nothing names.
/// A node that computes a constant is dropped too. Graph inputs stay. Renumbers values.
void Compact(Graph& graph);

/// Drops the outputs at the end that are left out. Those of a Split stay, because their number says
/// how the axis is divided.
void DropLastOutputs(Node& node);

/// A graph while a pass merges nodes: the producer and the number of readers of each value.
class GraphEditor {
 public:
  explicit GraphEditor(Graph& graph);

  std::size_t size() const { return graph_.nodes.size(); }
  Node& node(std::size_t i) { return graph_.nodes[i]; }
  const Node& node(std::size_t i) const { return graph_.nodes[i]; }
  bool removed(std::size_t i) const { return removed_[i]; }
  const Value& value(ValueId id) const { return graph_.value(id); }

  /// Index of the node that computes `value`; nothing for inputs and constants.
  std::optional<std::size_t> Producer(ValueId value) const;

  /// Index of the node that computes `value`, if `value` is read exactly once and is not a graph
  /// output: its reader may then be merged into the node.
  std::optional<std::size_t> SoleProducer(ValueId value) const;

  /// Merges node `reader` into node `into`: `into` takes over the outputs of `reader`, which is
  /// removed. `reader` must be the only reader of `into`.
  void Absorb(std::size_t into, std::size_t reader);

  /// As Absorb, but the merged node takes `reader`'s place in the order.
  void AbsorbAtReader(std::size_t into, std::size_t reader);

  /// Adds a new fp32 constant named after `node`.
  ValueId AddConstant(const Node& node, std::string_view suffix, Dims dims,
                      const std::vector<float>& values);
  ValueId AddConstant(const Node& node, std::string_view suffix, Constant constant);

  /// Ends the pass: drops removed nodes and all that only they used.
  void Finish();

 private:
  Graph& graph_;
  std::vector<std::optional<std::size_t>> producers_;  // by value
  std::vector<std::size_t> uses_;  // by value; a graph output counts as two uses
  std::vector<bool> removed_;      // by node
};

/// Charges the bytes of all values of the graph to `budget`: constants, which are in memory
/// together, and activations, which take turns in it.
Status ChargeValues(const Graph& graph, ByteBudget& budget);

/// Adds a new constant to `graph`.
ValueId AddConstant(Graph& graph, std::string name, Constant constant);

/// The same of fp32.
ValueId AddFloatConstant(Graph& graph, std::string name, Dims dims,
                         const std::vector<float>& values);

}  // namespace lagoon
