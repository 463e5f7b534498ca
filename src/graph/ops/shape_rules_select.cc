// Ops whose output shape depends on data: they choose elements.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "graph/fold/evaluate.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

// The capacity is that of a condition that takes every element it names.
Status InferComputedCompress(OpContext& context, std::int64_t axis, Dims out) {
  std::int64_t& length = out[static_cast<std::size_t>(axis)];
  length = std::min(length, context.dims(1)[0]);
  context.SetAttribute("axis", context.has_attribute("axis") ? axis : std::int64_t{-1});
  context.SetOutput(std::move(out));
  context.SetCapacity({0});
  return {};
}

Status InferCompress(OpContext& context) {
  if (context.input(1).type != DataType::kBool || context.rank(1) != 1) {
    return context.Invalid("condition is not a list of BOOL");
  }
  const Constant* condition = context.constant(1);
  Dims out = context.dims(0);
  std::int64_t axis = 0;
  if (context.has_attribute("axis")) {
    LAGOON_ASSIGN_OR_RETURN(axis, context.Axis(context.node().Int("axis", 0), out.size()));
  } else {
    out = {ElementCount(out)};
  }
  if (condition == nullptr) return InferComputedCompress(context, axis, std::move(out));
  std::vector<std::int64_t> taken;
  const auto at = static_cast<std::size_t>(axis);
  for (std::size_t i = 0; i < condition->bytes->size(); ++i) {
    if ((*condition->bytes)[i] == std::byte{0}) continue;
    if (static_cast<std::int64_t>(i) >= out[at]) {
      return context.Invalid(fmt::format("condition takes element {} of {}", i, out[at]));
    }
    taken.push_back(static_cast<std::int64_t>(i));
  }
  out[at] = static_cast<std::int64_t>(taken.size());
  context.KeepInputs(1);
  context.SetAttribute("axis", context.has_attribute("axis") ? axis : std::int64_t{-1});
  context.SetAttribute("taken", std::move(taken));
  context.SetOutput(std::move(out));
  return {};
}

Status InferNonZero(OpContext& context) {
  const Dims& x = context.dims(0);
  // As ONNX Runtime does, a scalar counts as a list of one element.
  const auto rank = static_cast<std::int64_t>(std::max<std::size_t>(x.size(), 1));
  if (const Constant* constant = context.constant(0)) {
    context.SetOutput(0, DataType::kInt64, {rank, CountNonZero(*constant)});
    return {};
  }
  LAGOON_RETURN_IF_ERROR(context.Bytes(x, DataType::kInt64));
  context.SetOutput(0, DataType::kInt64, {rank, ElementCount(x)});
  context.SetCapacity({0});
  return {};
}

Status InferUnique(OpContext& context) {
  const Dims& x = context.dims(0);
  const bool flat = !context.has_attribute("axis");
  std::int64_t axis = 0;
  Dims out{ElementCount(x)};
  if (!flat) {
    LAGOON_ASSIGN_OR_RETURN(axis, context.Axis(context.node().Int("axis", 0), x.size()));
    out = x;
  }
  const std::int64_t count = out[static_cast<std::size_t>(axis)];
  context.SetAttribute("axis", flat ? std::int64_t{-1} : axis);
  context.SetAttribute("sorted", context.node().Int("sorted", 1));
  context.SetOutput(std::move(out));
  context.SetOutput(1, DataType::kInt64, {count});
  context.SetOutput(2, DataType::kInt64, {count});  // "inverse_indices": always one per element
  context.SetOutput(3, DataType::kInt64, {count});
  context.SetCapacity({0});
  context.SetCapacity({1, 3});
  return {};
}

Status CheckNumber(const OpContext& context, std::size_t i, DataType type, std::string_view what) {
  if (!context.has_input(i)) return {};
  if (context.input(i).type == type && ElementCount(context.dims(i)) == 1) return {};
  return context.Invalid(fmt::format("{} {} is {} {}, must be one {}", what,
                                     Quoted(context.input(i).name), OipName(context.input(i).type),
                                     ToString(context.dims(i)), OipName(type)));
}

// The most boxes that are selected for one class of one image.
std::int64_t MostBoxes(const OpContext& context, std::int64_t boxes) {
  if (!context.has_input(2)) return 0;
  const Constant* most = context.constant(2);
  return most == nullptr ? boxes : std::clamp<std::int64_t>(FirstAsInt64(*most), 0, boxes);
}

Status InferNonMaxSuppression(OpContext& context) {
  const Dims& boxes = context.dims(0);
  const Dims& scores = context.dims(1);
  LAGOON_RETURN_IF_ERROR(context.Float32(0));
  LAGOON_RETURN_IF_ERROR(context.Float32(1));
  LAGOON_RETURN_IF_ERROR(CheckNumber(context, 2, DataType::kInt64, "max_output_boxes_per_class"));
  LAGOON_RETURN_IF_ERROR(CheckNumber(context, 3, DataType::kFloat32, "iou_threshold"));
  LAGOON_RETURN_IF_ERROR(CheckNumber(context, 4, DataType::kFloat32, "score_threshold"));
  if (boxes.size() != 3 || scores.size() != 3 || boxes[2] != 4 || boxes[0] != scores[0] ||
      boxes[1] != scores[2]) {
    return context.Invalid(
        fmt::format("boxes {} and scores {} do not fit: must be [batch,boxes,4] and "
                    "[batch,classes,boxes]",
                    ToString(boxes), ToString(scores)));
  }
  const std::int64_t center = context.node().Int("center_point_box", 0);
  if (center != 0 && center != 1) {
    return context.Invalid(fmt::format("center_point_box is {}, must be 0 or 1", center));
  }
  const std::int64_t most = MostBoxes(context, boxes[1]);
  LAGOON_RETURN_IF_ERROR(context.Bytes({scores[0], scores[1], most, 3}, DataType::kInt64));
  context.SetAttribute("center_point_box", center);
  context.SetAttribute("most", most);
  context.SetOutput(0, DataType::kInt64, {scores[0] * scores[1] * most, 3});
  context.SetCapacity({0});
  return {};
}

constexpr OpSpec kSelectOps[] = {
    {"Compress", 9, 2, 2, 1, "i:axis", InferCompress, EvaluateCompress, RunTime::kYes, true},
    {"NonZero", 9, 1, 1, 1, "", InferNonZero, EvaluateNonZero, RunTime::kYes, true},
    {"Unique", 11, 1, 1, 4, "i:axis i:sorted", InferUnique, nullptr, RunTime::kYes, true},
    {"NonMaxSuppression", 10, 2, 5, 1, "i:center_point_box", InferNonMaxSuppression, nullptr,
     RunTime::kYes, true},
};

}  // namespace

std::span<const OpSpec> SelectOps() { return kSelectOps; }

}  // namespace lagoon
