#include <optional>

#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

// The columns [begin, begin + count) of a matrix with rows of `width`.
std::vector<float> Columns(std::span<const float> matrix, std::size_t width, std::size_t begin,
                           std::size_t count) {
  std::vector<float> part;
  part.reserve(matrix.size() / width * count);
  for (std::size_t row = 0; row < matrix.size(); row += width) {
    const auto from = matrix.begin() + static_cast<std::ptrdiff_t>(row + begin);
    part.insert(part.end(), from, from + static_cast<std::ptrdiff_t>(count));
  }
  return part;
}

// The linear node whose output columns `split` divides; nothing if there is none.
std::optional<std::size_t> DividedLinear(const GraphEditor& editor, const Node& split) {
  if (split.op != "Split") return std::nullopt;
  const Dims& dims = editor.value(split.inputs[0]).dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t axis = split.Int("axis", 0);
  if (axis != rank - 1 && axis != -1) return std::nullopt;
  const std::optional<std::size_t> producer = editor.SoleProducer(split.inputs[0]);
  if (!producer) return std::nullopt;
  const Node& linear = editor.node(*producer);
  const bool columns = linear.op == "MatMul" || (linear.op == "Gemm" && !linear.Int("transB", 0));
  if (!IsLinear(linear) || !columns || linear.fused.residual != kNoValue ||
      linear.fused.activation != ActivationKind::kNone) {
    return std::nullopt;
  }
  for (const ValueId output : split.outputs) {
    if (output == kNoValue) return std::nullopt;
  }
  return producer;
}

// A node like `linear` for each output of `split`, with its columns of the weights and of the bias.
std::vector<Node> Divide(GraphEditor& editor, const Node& linear, const Node& split) {
  const auto width = static_cast<std::size_t>(Channels(editor, linear));
  const std::int64_t depth = editor.value(linear.inputs[1]).dims[0];
  std::vector<Node> parts;
  std::size_t begin = 0;
  for (const ValueId output : split.outputs) {
    const std::int64_t columns = editor.value(output).dims.back();
    const auto count = static_cast<std::size_t>(columns);
    const std::string suffix = "_part" + std::to_string(parts.size());
    Node part = linear;
    part.name += suffix;
    part.outputs = {output};
    part.inputs[1] = editor.AddConstant(
        linear, suffix, {depth, columns},
        Columns(editor.value(linear.inputs[1]).constant->floats(), width, begin, count));
    if (linear.inputs.size() > 2) {
      part.inputs[2] = editor.AddConstant(
          linear, suffix + "_bias", {columns},
          Columns(editor.value(linear.inputs[2]).constant->floats(), width, begin, count));
    }
    parts.push_back(std::move(part));
    begin += count;
  }
  return parts;
}

}  // namespace

void DivideSplitLinears(Graph& graph) {
  GraphEditor editor(graph);
  std::vector<Node> nodes;
  std::vector<std::vector<Node>> parts(editor.size());  // by node: the nodes that replace it
  std::vector<bool> gone(editor.size(), false);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    const std::optional<std::size_t> linear = DividedLinear(editor, editor.node(i));
    if (!linear) continue;
    parts[*linear] = Divide(editor, editor.node(*linear), editor.node(i));
    gone[*linear] = gone[i] = true;
  }
  for (std::size_t i = 0; i < editor.size(); ++i) {
    for (Node& part : parts[i]) nodes.push_back(std::move(part));
    if (!gone[i]) nodes.push_back(std::move(editor.node(i)));
  }
  graph.nodes = std::move(nodes);
  Compact(graph);
}

}  // namespace lagoon
