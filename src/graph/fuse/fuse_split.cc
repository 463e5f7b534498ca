#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

// The columns [begin, begin + count) of `matrix`, whose rows have `width` columns.
Constant Columns(const Constant& matrix, std::size_t width, std::size_t begin, std::size_t count) {
  const auto take = [width, begin, count](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> part;
    part.reserve(from.size() / width * count);
    for (std::size_t row = 0; row < from.size(); row += width) {
      const std::span<const float> columns = from.subspan(row + begin, count);
      part.insert(part.end(), columns.begin(), columns.end());
    }
    return BytesOf(part);
  };
  Dims dims = matrix.dims;
  dims.back() = static_cast<std::int64_t>(count);
  return DerivedConstant(DataType::kFloat32, dims, fmt::format("columns {} {}", begin, count),
                         {matrix}, take);
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
  if (split.Ints("split", {}).size() != split.outputs.size()) return std::nullopt;
  return producer;
}

// A node like `linear` for each output of `split` that is read, with its columns of the weights and
// of the bias.
std::vector<Node> Divide(GraphEditor& editor, const Node& linear, const Node& split) {
  const auto width = static_cast<std::size_t>(Channels(editor, linear));
  std::vector<Node> parts;
  std::size_t begin = 0, end = 0;
  const std::vector<std::int64_t> sizes = split.Ints("split", {});
  for (std::size_t i = 0; i < split.outputs.size(); ++i) {
    begin = std::exchange(end, end + static_cast<std::size_t>(sizes[i]));
    const ValueId output = split.outputs[i];
    if (output == kNoValue) continue;
    const std::size_t count = end - begin;
    const std::string suffix = "_part" + std::to_string(parts.size());
    Node part = linear;
    part.name += suffix;
    part.outputs = {output};
    part.inputs[1] = editor.AddConstant(
        linear, suffix, Columns(*editor.value(linear.inputs[1]).constant, width, begin, count));
    if (linear.inputs.size() > 2) {
      part.inputs[2] = editor.AddConstant(
          linear, suffix + "_bias",
          Columns(*editor.value(linear.inputs[2]).constant, width, begin, count));
    }
    parts.push_back(std::move(part));
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
