// Ops on sequences and optionals. Where all positions are known, a sequence is a list of values
// while shapes are inferred, and nothing at run time.

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "graph/control/replacement.h"

namespace lagoon {
namespace {

Result<std::vector<ValueId>> Elements(const Replacement& r, std::size_t i) {
  const Value& value = r.context().input(i);
  if (value.kind == ValueKind::kSequence) return value.elements;
  return r.context().Invalid(fmt::format("input {} is not a sequence", Quoted(value.name)));
}

Status CheckTensor(const Replacement& r, std::size_t i) {
  if (!r.context().has_input(i)) {
    return r.context().Invalid(fmt::format("input {} is left out", i));
  }
  const Value& value = r.context().input(i);
  if (value.kind == ValueKind::kTensor) return {};
  return r.context().Invalid(fmt::format("input {} is not a tensor", Quoted(value.name)));
}

/// The position that input `i` names, from the front; `otherwise` if the input is left out.
Result<std::size_t> Position(const Replacement& r, std::size_t i, std::size_t count,
                             std::size_t otherwise) {
  if (!r.context().has_input(i)) return otherwise;
  LAGOON_ASSIGN_OR_RETURN(const Constant constant, r.context().OneConstant(i, "position"));
  const std::int64_t given = FirstAsInt64(constant);
  const auto size = static_cast<std::int64_t>(count);
  const std::int64_t position = given < 0 ? given + size : given;
  if (position >= 0 && position < size) return static_cast<std::size_t>(position);
  return r.context().Invalid(fmt::format("position {} is outside of {} places", given, count));
}

Status ReplaceEmpty(Replacement& r) {
  r.SetSequence(0, {});
  return {};
}

Status ReplaceConstruct(Replacement& r) {
  for (std::size_t i = 0; i < r.context().input_count(); ++i) {
    LAGOON_RETURN_IF_ERROR(CheckTensor(r, i));
  }
  r.SetSequence(0, r.node().inputs);
  return {};
}

Status ReplaceInsert(Replacement& r) {
  LAGOON_ASSIGN_OR_RETURN(std::vector<ValueId> elements, Elements(r, 0));
  LAGOON_RETURN_IF_ERROR(CheckTensor(r, 1));
  const std::size_t end = elements.size();
  // A new element may also come behind the last one; positions from the back do not count it.
  std::size_t at = end;
  if (r.context().has_input(2)) {
    LAGOON_ASSIGN_OR_RETURN(const Constant given, r.context().OneConstant(2, "position"));
    if (FirstAsInt64(given) != static_cast<std::int64_t>(end)) {
      LAGOON_ASSIGN_OR_RETURN(at, Position(r, 2, end, end));
    }
  }
  elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(at), r.In(1));
  r.SetSequence(0, std::move(elements));
  return {};
}

Status ReplaceErase(Replacement& r) {
  LAGOON_ASSIGN_OR_RETURN(std::vector<ValueId> elements, Elements(r, 0));
  if (elements.empty()) return r.context().Invalid("the sequence is empty");
  LAGOON_ASSIGN_OR_RETURN(const std::size_t at,
                          Position(r, 1, elements.size(), elements.size() - 1));
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
  r.SetSequence(0, std::move(elements));
  return {};
}

Status ReplaceAt(Replacement& r) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<ValueId> elements, Elements(r, 0));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t at, Position(r, 1, elements.size(), 0));
  r.SetOutput(0, elements[at]);
  return {};
}

Status ReplaceLength(Replacement& r) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<ValueId> elements, Elements(r, 0));
  r.SetOutput(0, r.Number(std::ssize(elements)));
  return {};
}

/// The sizes of the parts of a SplitToSequence.
Result<std::vector<std::int64_t>> PartSizes(const Replacement& r, std::int64_t length) {
  std::int64_t size = 1;
  if (r.context().has_input(1)) {
    const bool list = r.context().rank(1) == 1;
    if (list) return r.context().ConstantInts(1, "split");
    LAGOON_ASSIGN_OR_RETURN(const Constant given, r.context().OneConstant(1, "split"));
    size = FirstAsInt64(given);
  }
  if (size < 1) return r.context().Invalid(fmt::format("split is {}", size));
  if ((length - 1) / size >= static_cast<std::int64_t>(kMaxUnrolledNodes)) {
    return CannotUnroll(r.context(), fmt::format("{} parts of {} are more than {}", length, size,
                                                 kMaxUnrolledNodes));
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t left = length; left > 0; left -= sizes.back()) {
    sizes.push_back(std::min(size, left));
  }
  return sizes;
}

Status ReplaceSplit(Replacement& r) {
  LAGOON_RETURN_IF_ERROR(CheckTensor(r, 0));
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          r.context().Axis(r.node().Int("axis", 0), r.context().rank(0)));
  const std::int64_t length = r.context().dims(0)[static_cast<std::size_t>(axis)];
  LAGOON_ASSIGN_OR_RETURN(std::vector<std::int64_t> sizes, PartSizes(r, length));
  std::vector<ValueId> parts;
  if (!sizes.empty()) parts = r.Split(r.In(0), std::move(sizes), axis);
  if (!r.context().has_input(1) && r.node().Int("keepdims", 1) == 0) {
    for (ValueId& part : parts) part = r.Squeeze(part, axis);
  }
  r.SetSequence(0, std::move(parts));
  return {};
}

Status ReplaceConcat(Replacement& r) {
  LAGOON_ASSIGN_OR_RETURN(std::vector<ValueId> parts, Elements(r, 0));
  if (parts.empty()) {
    return r.context().Unimplemented("joins an empty sequence, whose shape is not known");
  }
  if (!r.context().has_attribute("axis")) return r.context().Invalid("has no axis");
  const std::int64_t axis = r.node().Int("axis", 0);
  if (r.node().Int("new_axis", 0) != 0) {
    for (ValueId& part : parts) part = r.Unsqueeze(part, axis);
  }
  r.Write("Concat", std::move(parts), {{"axis", axis}}, {r.node().outputs[0]});
  return {};
}

/// Also Identity.
Status ReplaceOptional(Replacement& r) {
  if (!r.context().has_input(0)) {
    r.SetNothing(0);
    return {};
  }
  const Value& value = r.context().input(0);
  switch (value.kind) {
    case ValueKind::kTensor:
      r.SetOutput(0, r.In(0));
      break;
    case ValueKind::kSequence:
      r.SetSequence(0, value.elements);
      break;
    case ValueKind::kNothing:
      r.SetNothing(0);
      break;
  }
  return {};
}

Status ReplaceHasElement(Replacement& r) {
  const bool has = r.context().has_input(0) && r.context().input(0).kind != ValueKind::kNothing;
  r.SetOutput(0, r.Flag(has));
  return {};
}

Status ReplaceGetElement(Replacement& r) {
  if (r.context().input(0).kind == ValueKind::kNothing) {
    return r.context().Invalid(
        fmt::format("the optional {} is empty", Quoted(r.context().input(0).name)));
  }
  return ReplaceOptional(r);
}

const ControlOp kSequenceOps[] = {
    {{"SequenceEmpty", 11, 0, 0, 1, "i:dtype"}, {}, ReplaceEmpty},
    {{"SequenceConstruct", 11, 1, kMaxGraphEdges, 1, ""}, {}, ReplaceConstruct},
    {{"SequenceInsert", 11, 2, 3, 1, ""}, {}, ReplaceInsert},
    {{"SequenceErase", 11, 1, 2, 1, ""}, {}, ReplaceErase},
    {{"SequenceAt", 11, 2, 2, 1, ""}, {}, ReplaceAt},
    {{"SequenceLength", 11, 1, 1, 1, ""}, {}, ReplaceLength},
    {{"SplitToSequence", 11, 1, 2, 1, "i:axis i:keepdims"}, {}, ReplaceSplit},
    // From 9 on, because a Scan of opset 9 ends in one.
    {{"ConcatFromSequence", 9, 1, 1, 1, "i:axis i:new_axis"}, {}, ReplaceConcat},
    {{"Optional", 15, 0, 1, 1, "i:type"}, {}, ReplaceOptional},
    {{"OptionalHasElement", 15, 0, 1, 1, ""}, {}, ReplaceHasElement},
    {{"OptionalGetElement", 15, 1, 1, 1, ""}, {}, ReplaceGetElement},
};

}  // namespace

std::span<const ControlOp> SequenceOps() { return kSequenceOps; }

const ControlOp* FindControlOp(std::string_view op) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const ControlOp*> all;
    for (const std::span<const ControlOp> family : {LoopOps(), SequenceOps()}) {
      for (const ControlOp& row : family) all.emplace(row.signature.op, &row);
    }
    return all;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lagoon
