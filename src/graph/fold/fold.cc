// Constant folding and removal of nodes that change nothing.

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/guard.h"
#include "graph/budget.h"
#include "graph/graph.h"
#include "graph/graph_edit.h"
#include "graph/ops/infer.h"

namespace lagoon {
namespace {

bool IsUnitWindow(const Node& node) {
  const auto all = [&](const char* attribute, std::int64_t value) {
    const std::vector<std::int64_t> values = node.Ints(attribute, {});
    return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == value; });
  };
  return all("kernel_shape", 1) && all("strides", 1) && all("pads", 0);
}

bool KeepsOrder(const Node& node) {
  const std::vector<std::int64_t> perm = node.Ints("perm", {});
  return std::is_sorted(perm.begin(), perm.end());
}

bool TakesForwards(const Node& node) {
  const std::vector<std::int64_t> steps = node.Ints("steps", {});
  return std::all_of(steps.begin(), steps.end(), [](std::int64_t step) { return step > 0; });
}

bool PadsNothing(const Node& node) {
  const std::vector<std::int64_t> pads = node.Ints("pads", {});
  return std::all_of(pads.begin(), pads.end(), [](std::int64_t pad) { return pad == 0; });
}

bool IsOneOf(const std::string& op, std::initializer_list<const char*> ops) {
  return std::any_of(ops.begin(), ops.end(), [&](const char* known) { return op == known; });
}

// True if the first output always equals the first input. The caller checks that their shapes are
// equal.
bool IsNoOp(const Node& node) {
  if (node.outputs.size() > 1) return false;
  if (IsOneOf(node.op, {"Identity", "Dropout", "Cast"})) return true;
  if (IsOneOf(node.op, {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile"})) {
    return true;
  }
  if (node.op == "Slice") return TakesForwards(node);
  if (node.op == "Pad") return PadsNothing(node);
  if (node.op == "Transpose") return KeepsOrder(node);
  if (IsOneOf(node.op, {"Concat", "Min", "Max", "Sum", "Mean"})) return node.inputs.size() == 1;
  if (IsOneOf(node.op, {"MaxPool", "AveragePool"})) return IsUnitWindow(node);
  if (IsOneOf(node.op, {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"})) {
    return node.Ints("axes", {}).empty();
  }
  return false;
}

class NoOpRemover {
 public:
  explicit NoOpRemover(Graph& graph)
      : graph_(graph),
        alias_(graph.values.size()),
        is_output_(graph.values.size(), false),
        producer_(graph.values.size()) {
    for (std::size_t i = 0; i < alias_.size(); ++i) alias_[i] = static_cast<ValueId>(i);
    for (const ValueId output : graph.outputs) is_output_[Index(output)] = true;
  }

  void Run() {
    std::vector<Node> kept;
    kept.reserve(graph_.nodes.size());
    for (Node& node : graph_.nodes) {
      Rename(node);
      if (IsNoOp(node) && SameShape(node) && Remove(node, kept)) continue;
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != kNoValue) producer_[Index(node.outputs[i])] = {kept.size(), i};
      }
      kept.push_back(std::move(node));
    }
    for (Node& node : kept) Rename(node);  // for nodes before one whose output was renamed
    graph_.nodes = std::move(kept);
  }

 private:
  struct Place {
    std::size_t node, output;
  };

  static std::size_t Index(ValueId id) { return static_cast<std::size_t>(id); }

  bool SameShape(const Node& node) const {
    const Value& x = graph_.value(node.inputs[0]);
    const Value& y = graph_.value(node.outputs[0]);
    return x.type == y.type && x.dims == y.dims && !y.constant;
  }

  // A graph output keeps its value, and so its name: the producer of `x` writes that value instead.
  bool Remove(Node& node, std::vector<Node>& kept) {
    const ValueId x = node.inputs[0];
    const ValueId y = node.outputs[0];
    if (!is_output_[Index(y)]) {
      alias_[Index(y)] = x;
      return true;
    }
    const std::optional<Place> place = producer_[Index(x)];
    if (!place || is_output_[Index(x)]) {
      node.op = "Identity";
      node.inputs.resize(1);
      node.outputs.resize(1);
      node.attributes.clear();
      return false;
    }
    kept[place->node].outputs[place->output] = y;
    producer_[Index(y)] = place;
    alias_[Index(x)] = y;
    return true;
  }

  ValueId Resolve(ValueId id) const {
    while (id != kNoValue && alias_[Index(id)] != id) id = alias_[Index(id)];
    return id;
  }

  void Rename(Node& node) {
    for (ValueId& input : node.inputs) input = Resolve(input);
    node.fused.residual = Resolve(node.fused.residual);
  }

  Graph& graph_;
  std::vector<ValueId> alias_;
  std::vector<bool> is_output_;
  std::vector<std::optional<Place>> producer_;
};

Status Fold(Graph& graph, const ImportOptions& options) {
  ByteBudget budget(options.max_bytes);
  LAGOON_RETURN_IF_ERROR(ChargeValues(graph, budget));
  for (Node& node : graph.nodes) {
    const bool done = std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      return id == kNoValue || graph.value(id).constant.has_value();
    });
    if (done) continue;
    LAGOON_RETURN_IF_ERROR(graph.work.CheckWanted());
    LAGOON_RETURN_IF_ERROR(EvaluateIfConstant(graph, node, budget));
  }
  Compact(graph);  // drops evaluated nodes and what only they read
  NoOpRemover(graph).Run();
  Compact(graph);
  return {};
}

}  // namespace

Status FoldConstants(Graph& graph, const ImportOptions& options) {
  return WithoutExceptions([&] { return Fold(graph, options); });
}

}  // namespace lagoon
