// Ops that make constants: Shape, Size, Constant, ConstantOfShape, Range.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/fold/evaluate.h"
#include "graph/ops/shape_rules.h"
#include "plan/bytes_tensor.h"
#include "plan/element.h"

namespace lagoon {
namespace {

template <typename T>
Constant MakeConstant(DataType type, Dims dims, const T* values, std::size_t count) {
  auto bytes = std::make_shared<std::vector<std::byte>>(count * sizeof(T));
  if (count > 0) std::memcpy(bytes->data(), values, bytes->size());
  return {type, std::move(dims), std::move(bytes)};
}

// ceil((limit - start) / delta), or 0 if that is negative.
Result<std::int64_t> CountInts(const OpContext& context, std::int64_t start, std::int64_t limit,
                               std::int64_t delta) {
  if (delta == 0) return context.Invalid("has a delta of 0");
  if (delta > 0 ? limit <= start : limit >= start) return 0;
  // Differences of two 64-bit integers fit an unsigned one.
  const std::uint64_t span =
      delta > 0 ? static_cast<std::uint64_t>(limit) - static_cast<std::uint64_t>(start)
                : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(limit);
  const std::uint64_t step = delta > 0 ? static_cast<std::uint64_t>(delta)
                                       : std::uint64_t{0} - static_cast<std::uint64_t>(delta);
  return static_cast<std::int64_t>(std::min<std::uint64_t>((span - 1) / step + 1, INT64_MAX));
}

Result<std::int64_t> CountFloats(const OpContext& context, double start, double limit,
                                 double delta) {
  constexpr double kMaxCount = 0x1p62;
  const double count = std::ceil((limit - start) / delta);
  if (!(count < kMaxCount)) {  // also true for NaN
    return context.Invalid(fmt::format("from {} to {} by {} has no end", start, limit, delta));
  }
  return count <= 0 ? 0 : static_cast<std::int64_t>(count);
}

}  // namespace

Result<Constant> ConstantNodeValue(const OpContext& context) {
  const Node& node = context.node();
  if (node.attributes.size() != 1) {
    return context.Invalid(fmt::format("has {} values, takes one", node.attributes.size()));
  }
  const Attribute& value = node.attributes.begin()->second;
  if (const auto* tensor = std::get_if<Constant>(&value)) return *tensor;
  if (const auto* number = std::get_if<float>(&value)) {
    return MakeConstant(DataType::kFloat32, {}, number, 1);
  }
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    return MakeConstant(DataType::kInt64, {}, number, 1);
  }
  if (const auto* list = std::get_if<std::vector<float>>(&value)) {
    return MakeConstant(DataType::kFloat32, {static_cast<std::int64_t>(list->size())}, list->data(),
                        list->size());
  }
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    return MakeConstant(DataType::kInt64, {static_cast<std::int64_t>(list->size())}, list->data(),
                        list->size());
  }
  Dims dims;
  std::vector<std::string> texts;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    texts = *list;
    dims = {static_cast<std::int64_t>(list->size())};
  } else {
    texts = {std::get<std::string>(value)};
  }
  auto data = std::make_shared<ConstantData::Bytes>();
  for (const std::string& text : texts) AppendBytesElement(text, *data);
  return Constant{DataType::kString, std::move(dims), std::move(data)};
}

namespace {

Status InferShape(OpContext& context) {
  const auto rank = static_cast<std::int64_t>(context.rank(0));
  const auto clamp = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = clamp(context.node().Int("start", 0));
  const std::int64_t end = clamp(context.node().Int("end", rank));
  context.SetAttribute("start", start);
  context.SetAttribute("end", end);
  context.SetOutput(0, DataType::kInt64, {std::max<std::int64_t>(end - start, 0)});
  return {};
}

Status InferSize(OpContext& context) {
  context.SetOutput(0, DataType::kInt64, {});
  return {};
}

Status InferConstant(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const Constant value, ConstantNodeValue(context));
  context.SetOutput(0, value.type, value.dims);
  return {};
}

Status InferConstantOfShape(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(Dims out, context.ConstantInts(0, "shape"));
  DataType type = DataType::kFloat32;
  if (const auto value = context.node().attributes.find("value");
      value != context.node().attributes.end()) {
    const Constant& fill = std::get<Constant>(value->second);
    if (ElementCount(fill.dims) != 1) {
      return context.Invalid(fmt::format("value has shape {}, takes one", ToString(fill.dims)));
    }
    type = fill.type;
  }
  context.SetOutput(0, type, std::move(out));
  return {};
}

Status InferRange(OpContext& context) {
  const DataType type = context.input(0).type;
  const bool half = type == DataType::kFloat16 || type == DataType::kBFloat16;
  const std::int64_t stash = context.node().Int("stash_type", 1);
  if (half && stash != 1) {
    return context.Unimplemented(fmt::format("stash_type is {}, supported is 1 (FP32)", stash));
  }
  context.EraseAttribute("stash_type");
  for (std::size_t i = 0; i < 3; ++i) {
    if (context.input(i).type != type || ElementCount(context.dims(i)) != 1) {
      return context.Invalid("takes three numbers of one type");
    }
  }
  Result<std::int64_t> count = WithElementType(type, [&]<typename T>(std::type_identity<T>) {
    [[maybe_unused]] const auto at = [&](std::size_t i) {
      T element;
      std::memcpy(&element, context.constant(i)->bytes->data(), sizeof(T));
      return element;
    };
    if constexpr (std::is_same_v<T, std::int16_t> || std::is_same_v<T, std::int32_t> ||
                  std::is_same_v<T, std::int64_t>) {
      return CountInts(context, at(0), at(1), at(2));
    } else if constexpr (std::is_floating_point_v<T>) {
      return CountFloats(context, at(0), at(1), at(2));
    } else if constexpr (kIsHalf<T>) {
      const auto wide = [&](std::size_t i) { return double{static_cast<float>(at(i))}; };
      return CountFloats(context, wide(0), wide(1), wide(2));
    } else {
      return Result<std::int64_t>(context.Unimplemented(fmt::format("of {}", OipName(type))));
    }
  });
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t length, std::move(count));
  context.SetOutput(0, type, {length});
  return {};
}

constexpr std::string_view kConstantAttributes =
    "t:value f:value_float F:value_floats i:value_int I:value_ints s:value_string S:value_strings";

constexpr OpSpec kConstantOps[] = {
    {"Shape", 1, 1, 1, 1, "i:end i:start", InferShape, EvaluateShape, RunTime::kShapeOnly},
    {"Size", 1, 1, 1, 1, "", InferSize, EvaluateSize, RunTime::kShapeOnly},
    {"Constant", 1, 0, 0, 1, kConstantAttributes, InferConstant, EvaluateConstant},
    {"ConstantOfShape", 9, 1, 1, 1, "t:value", InferConstantOfShape, EvaluateConstantOfShape,
     RunTime::kNever},
    {"Range", 11, 3, 3, 1, "i:stash_type", InferRange, EvaluateRange, RunTime::kNever},
};

}  // namespace

std::span<const OpSpec> ConstantOps() { return kConstantOps; }

}  // namespace lagoon
