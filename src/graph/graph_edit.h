#pragma once

// Surgery on graphs, shared by the passes.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/budget.h"
#include "graph/graph.h"

namespace lagoon {

/// Drops nodes that no output needs, outputs of nodes that nobody reads, and values that nothing
/// names; a constant needs no node. Graph inputs stay. Renumbers values.
void Compact(Graph& graph);

/// A graph while a pass merges nodes: who produces and who reads each value.
class GraphEditor {
 public:
  explicit GraphEditor(Graph& graph);

  std::size_t size() const { return graph_.nodes.size(); }
  Node& node(std::size_t i) { return graph_.nodes[i]; }
  const Node& node(std::size_t i) const { return graph_.nodes[i]; }
  bool removed(std::size_t i) const { return removed_[i]; }
  const Value& value(ValueId id) const { return graph_.value(id); }

  /// The node that computes `value`; nothing for inputs and constants.
  std::optional<std::size_t> Producer(ValueId value) const;

  /// The node that computes `value`, if it is read exactly once and is no output of the graph: then
  /// the reader may be merged into it.
  std::optional<std::size_t> SoleProducer(ValueId value) const;

  /// Node `into` takes over the output of `reader`, the only reader of its own; `reader` goes.
  void Absorb(std::size_t into, std::size_t reader);

  /// The same, but the merged node stands where `reader` stood.
  void AbsorbAtReader(std::size_t into, std::size_t reader);

  /// A new fp32 constant named after `node`.
  ValueId AddConstant(const Node& node, std::string_view suffix, Dims dims,
                      const std::vector<float>& values);
  ValueId AddConstant(const Node& node, std::string_view suffix, Constant constant);

  /// Ends the pass: removed nodes and what only they used are gone.
  void Finish();

 private:
  Graph& graph_;
  std::vector<std::optional<std::size_t>> producers_;  // by value
  std::vector<std::size_t> uses_;                      // by value; an output of the graph is a use
  std::vector<bool> removed_;                          // by node
};

/// Takes the bytes of all values of the graph.
Status ChargeValues(const Graph& graph, ByteBudget& budget);

/// A new fp32 constant in `graph`.
ValueId AddFloatConstant(Graph& graph, std::string name, Dims dims,
                         const std::vector<float>& values);

}  // namespace lagoon
