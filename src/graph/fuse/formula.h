#pragma once

// Reads a graph backwards, from a value to the nodes that compute it. For passes that recognise a
// formula that an exporter wrote out as single ops. These functions skip nodes with a fused
// residual or activation, because such a node computes more than its op says.

#include <optional>
#include <string_view>

#include "graph/graph.h"
#include "graph/graph_edit.h"

namespace lagoon {

/// The node of type `op` whose first output is `value`, or null.
const Node* ComputedBy(const GraphEditor& editor, ValueId value, std::string_view op);

/// The value of an fp32 constant with one element; nothing for any other value.
std::optional<double> NumberOf(const GraphEditor& editor, ValueId value);
/// True if `value` is such a constant and equals `number` up to the precision of a float.
bool IsNumber(const GraphEditor& editor, ValueId value, double number);

struct Scaled {
  ValueId of = kNoValue;
  double factor = 1;
};
/// Looks through one Mul or Div by a number: value = factor * of. Without such a node `of` is
/// `value` itself.
Scaled ScaledOf(const GraphEditor& editor, ValueId value);

/// If `value` = `op`(number, other), with `op` Add or Mul and in either order: returns `other`.
std::optional<ValueId> OtherThan(const GraphEditor& editor, ValueId value, std::string_view op,
                                 double number);

}  // namespace lagoon
