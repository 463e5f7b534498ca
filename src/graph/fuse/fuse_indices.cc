#include <algorithm>
#include <cstring>
#include <optional>

#include "graph/fuse/formula.h"
#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

/// A part of a tensor: for each axis the first element and the number of elements.
struct Box {
  Dims first, size;
};

/// The elements that a Slice takes; nothing if it leaves out some between them.
std::optional<Box> BoxOfSlice(const GraphEditor& editor, const Node& slice) {
  const std::vector<std::int64_t> starts = slice.Ints("starts", {}),
                                  steps = slice.Ints("steps", {});
  const std::vector<std::int64_t> axes = slice.Ints("axes", {});
  Box box{Dims(axes.size(), 0), editor.value(slice.outputs[0]).dims};
  if (box.size.size() != axes.size() || starts.size() != axes.size() ||
      steps.size() != axes.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] != 1) return std::nullopt;
    box.first[static_cast<std::size_t>(axes[i])] = starts[i];
  }
  return box;
}

/// Whether constant indices name all elements of `box`, one each, in row-major order.
bool NamesBox(const Value& indices, const Box& box) {
  const std::size_t rank = box.first.size();
  if (!indices.constant || indices.type != DataType::kInt64 || rank == 0) return false;
  if (indices.dims.empty() || indices.dims.back() != static_cast<std::int64_t>(rank)) return false;
  if (ElementCount(indices.dims) != ElementCount(box.size) * static_cast<std::int64_t>(rank)) {
    return false;
  }
  const std::byte* next = indices.constant->bytes->data();
  Dims at(rank, 0);
  for (std::int64_t left = ElementCount(box.size); left > 0; --left) {
    for (std::size_t axis = 0; axis < rank; ++axis, next += sizeof(std::int64_t)) {
      std::int64_t index = 0;
      std::memcpy(&index, next, sizeof(index));
      if (index != box.first[axis] + at[axis]) return false;
    }
    for (std::size_t axis = rank; axis-- > 0;) {
      if (++at[axis] < box.size[axis]) break;
      at[axis] = 0;
    }
  }
  return true;
}

}  // namespace

void FuseExpandedIndices(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    Node& node = editor.node(i);
    if (node.op != "GatherElements" && node.op != "ScatterElements") continue;
    const auto producer = editor.Producer(node.inputs[1]);
    if (!producer || editor.node(*producer).op != "Expand") continue;
    const ValueId indices = editor.node(*producer).inputs[0];
    if (editor.value(indices).dims.size() != editor.value(node.inputs[1]).dims.size()) continue;
    node.inputs[1] = indices;
  }
  editor.Finish();
}

void FuseScatteredSlices(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    Node& slice = editor.node(i);
    if (slice.op != "Slice" || editor.value(slice.outputs[0]).sizes != kNoValue) continue;
    const Node* const scatter = ComputedBy(editor, slice.inputs[0], "ScatterND");
    if (scatter == nullptr || scatter->String("reduction", "none") != "none") continue;
    const std::optional<Box> box = BoxOfSlice(editor, slice);
    if (!box || !NamesBox(editor.value(scatter->inputs[1]), *box)) continue;
    slice.op = "Reshape";
    slice.inputs = {scatter->inputs[2]};
    slice.attributes.clear();
  }
  editor.Finish();
}

}  // namespace lagoon
