#include "graph/fuse/formula.h"

#include <cmath>

namespace lagoon {

const Node* ComputedBy(const GraphEditor& editor, ValueId value, std::string_view op) {
  const std::optional<std::size_t> producer = editor.Producer(value);
  if (!producer) return nullptr;
  const Node& node = editor.node(*producer);
  const bool plain =
      node.fused.residual == kNoValue && node.fused.activation == ActivationKind::kNone;
  return node.op == op && node.outputs[0] == value && plain ? &node : nullptr;
}

std::optional<double> NumberOf(const GraphEditor& editor, ValueId value) {
  if (value == kNoValue) return std::nullopt;
  const Value& v = editor.value(value);
  if (!v.constant || v.type != DataType::kFloat32 || ElementCount(v.dims) != 1) return std::nullopt;
  return v.constant->floats()[0];
}

bool IsNumber(const GraphEditor& editor, ValueId value, double number) {
  constexpr double kPrecision = 1e-6;
  const std::optional<double> is = NumberOf(editor, value);
  return is && std::abs(*is - number) <= kPrecision * std::abs(number);
}

Scaled ScaledOf(const GraphEditor& editor, ValueId value) {
  const Scaled itself{value, 1};
  const Node* node = ComputedBy(editor, value, "Div");
  const bool divides = node != nullptr;
  if (!divides) node = ComputedBy(editor, value, "Mul");
  if (node == nullptr) return itself;
  for (std::size_t side = divides ? 1 : 0; side < 2; ++side) {
    const std::optional<double> number = NumberOf(editor, node->inputs[side]);
    const ValueId other = node->inputs[1 - side];
    // A number with axes may give the product more axes.
    if (!number || editor.value(other).dims != editor.value(value).dims) continue;
    return {other, divides ? 1 / *number : *number};
  }
  return itself;
}

std::optional<ValueId> OtherThan(const GraphEditor& editor, ValueId value, std::string_view op,
                                 double number) {
  const Node* const node = ComputedBy(editor, value, op);
  if (node == nullptr || node->inputs.size() != 2) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    const ValueId other = node->inputs[1 - side];
    if (IsNumber(editor, node->inputs[side], number) &&
        editor.value(other).dims == editor.value(value).dims) {
      return other;
    }
  }
  return std::nullopt;
}

}  // namespace lagoon
