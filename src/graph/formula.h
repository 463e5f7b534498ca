#pragma once

// Reading a graph backwards: what a value is computed by. For passes that recognise a formula that
// an exporter wrote out. A node that something is fused into computes more than its op says: it is
// never found.

#include <optional>
#include <string_view>

#include "graph/graph.h"
#include "graph/graph_edit.h"

namespace lagoon {

/// The node of op `op` that computes `value` as its first output, or null.
const Node* ComputedBy(const GraphEditor& editor, ValueId value, std::string_view op);

/// The number that a constant of fp32 with one element is.
std::optional<double> NumberOf(const GraphEditor& editor, ValueId value);
/// Whether it is `number`, to the precision of a float.
bool IsNumber(const GraphEditor& editor, ValueId value, double number);

struct Scaled {
  ValueId of = kNoValue;
  double factor = 1;
};
/// What `value` is a multiple of: through one Mul or Div by a number, otherwise itself.
Scaled ScaledOf(const GraphEditor& editor, ValueId value);

/// The other input of the Add or Mul `op` that computes `value` from `number` and it.
std::optional<ValueId> OtherThan(const GraphEditor& editor, ValueId value, std::string_view op,
                                 double number);

}  // namespace lagoon
