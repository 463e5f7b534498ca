#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "graph/fold/evaluate.h"
#include "graph/ops/shape_rules.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
ConstantBytes ToBytes(const std::vector<T>& values) {
  auto bytes = std::make_shared<Bytes>(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
  return bytes;
}

template <typename T>
std::vector<T> RangeOf(const OpContext& context, std::int64_t count) {
  const auto at = [&](std::size_t i) {
    T element;
    std::memcpy(&element, context.constant(i)->bytes->data(), sizeof(T));
    return element;
  };
  // Unsigned, so that a product beyond the last element wraps around instead of overflowing.
  using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, Wide<T>>;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Sum sum = static_cast<Sum>(at(0)) + static_cast<Sum>(i) * static_cast<Sum>(at(2));
    values[i] = ConvertElement<T>(sum);
  }
  return values;
}

template <typename To>
ConstantBytes CastTo(const Constant& constant) {
  return WithElementType(constant.type, [&]<typename From>(std::type_identity<From>) {
    const std::size_t count = constant.bytes->size() / sizeof(From);
    auto bytes = std::make_shared<Bytes>(count * sizeof(To));
    for (std::size_t i = 0; i < count; ++i) {
      From from;
      std::memcpy(&from, constant.bytes->data() + i * sizeof(From), sizeof(From));
      const To to = ConvertElement<To>(from);
      std::memcpy(bytes->data() + i * sizeof(To), &to, sizeof(To));
    }
    return ConstantBytes(std::move(bytes));
  });
}

}  // namespace

Result<ConstantBytes> EvaluateShape(const OpContext& context, std::size_t) {
  const Dims& x = context.dims(0);
  const std::int64_t start = context.node().Int("start", 0);
  const std::int64_t end = std::max(context.node().Int("end", 0), start);
  return ToBytes(Dims(x.begin() + start, x.begin() + end));
}

Result<ConstantBytes> EvaluateSize(const OpContext& context, std::size_t) {
  return ToBytes(Dims{ElementCount(context.dims(0))});
}

Result<ConstantBytes> EvaluateConstant(const OpContext& context, std::size_t) {
  LAGOON_ASSIGN_OR_RETURN(const Constant value, ConstantNodeValue(context));
  return value.bytes;
}

Result<ConstantBytes> EvaluateConstantOfShape(const OpContext& context, std::size_t output) {
  const Value& out = context.output(output);
  const std::size_t width = SizeOf(out.type);
  auto bytes = std::make_shared<Bytes>(static_cast<std::size_t>(ElementCount(out.dims)) * width);
  const auto value = context.node().attributes.find("value");
  if (value == context.node().attributes.end()) return bytes;
  const std::byte* fill = std::get<Constant>(value->second).bytes->data();
  for (std::size_t at = 0; at < bytes->size(); at += width) {
    std::memcpy(bytes->data() + at, fill, width);
  }
  return bytes;
}

Result<ConstantBytes> EvaluateRange(const OpContext& context, std::size_t output) {
  const std::int64_t count = context.output(output).dims[0];
  return WithElementTypeAmong<std::int16_t, std::int32_t, std::int64_t, float, double, Float16,
                              BFloat16>(
      context.output(output).type,
      [&]<typename T>(std::type_identity<T>) { return ToBytes(RangeOf<T>(context, count)); },
      [&]() -> Result<ConstantBytes> { return context.Unimplemented("of this type"); });
}

Result<ConstantBytes> EvaluateCast(const OpContext& context, std::size_t output) {
  const DataType to = context.output(output).type;
  if (to == context.input(0).type) return context.constant(0)->bytes;
  return WithElementType(to, [&]<typename To>(std::type_identity<To>) -> Result<ConstantBytes> {
    return CastTo<To>(*context.constant(0));
  });
}

}  // namespace lagoon
