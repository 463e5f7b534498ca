#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

constexpr std::array<std::string_view, 14> kOps{
    "Add",  "And",         "Cast", "Equal", "Expand",  "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Mul",  "Or",    "Reshape", "Sub",     "Unsqueeze"};
constexpr std::size_t kMostConstantBytes = 1 << 17;

bool IsWhole(DataType type) { return IsInteger(type) || type == DataType::kBool; }

/// Equal texts: the same type, shape and origin.
std::string TextOf(const Value& value) {
  return fmt::format("{} {} {}", OipName(value.type), ToString(value.dims), value.from_request);
}

/// Names the nodes and small constants of a graph by what they compute.
class EqualNodes {
 public:
  explicit EqualNodes(const Graph& graph) : graph_(graph) {}

  /// The output of an earlier node that computes the same; nothing if there is none.
  std::optional<ValueId> Earlier(const Node& node) {
    const std::optional<std::string> text = TextOfNode(node);
    if (!text) return std::nullopt;
    const auto [found, is_new] = known_.emplace(*text, node.outputs[0]);
    return is_new ? std::nullopt : std::optional(found->second);
  }

 private:
  std::optional<std::string> TextOfNode(const Node& node) {
    if (std::ranges::find(kOps, node.op) == kOps.end() || node.outputs.size() != 1) return {};
    const Value& output = graph_.value(node.outputs[0]);
    if (!IsWhole(output.type) || output.constant || output.sizes != kNoValue || output.unsized ||
        node.opaque != nullptr || node.fused.residual != kNoValue ||
        node.fused.activation != ActivationKind::kNone ||
        std::ranges::count(graph_.outputs, node.outputs[0]) > 0) {
      return {};
    }
    std::string text = fmt::format("{} {}", node.op, TextOf(output));
    for (const auto& [name, attribute] : node.attributes) {
      const auto* const number = std::get_if<std::int64_t>(&attribute);
      if (number == nullptr) return {};
      text += fmt::format(" {}={}", name, *number);
    }
    for (const ValueId input : node.inputs) text += fmt::format(" {}", NumberOf(input));
    return text;
  }

  /// Equal small constants of integers have one number.
  std::uint32_t NumberOf(ValueId id) {
    const auto number = static_cast<std::uint32_t>(id);
    if (id == kNoValue) return number;
    const Value& value = graph_.value(id);
    if (!value.constant || !IsWhole(value.type) ||
        value.constant->bytes.size() > kMostConstantBytes) {
      return number;
    }
    std::string text = TextOf(value) + ToString(IdentityOf(*value.constant->bytes));
    return constants_.emplace(std::move(text), number).first->second;
  }

  const Graph& graph_;
  std::map<std::string, ValueId> known_;
  std::map<std::string, std::uint32_t> constants_;
};

}  // namespace

void ShareEqualNodes(Graph& graph) {
  EqualNodes nodes(graph);
  std::map<ValueId, ValueId> earlier;
  const auto replace = [&](ValueId& id) {
    if (const auto found = earlier.find(id); found != earlier.end()) id = found->second;
  };
  for (Node& node : graph.nodes) {
    std::ranges::for_each(node.inputs, replace);
    replace(node.fused.residual);
    const std::optional<ValueId> same = nodes.Earlier(node);
    if (same) earlier.emplace(node.outputs[0], *same);
  }
  for (Value& value : graph.values) replace(value.sizes);
  Compact(graph);
}

}  // namespace lagoon
