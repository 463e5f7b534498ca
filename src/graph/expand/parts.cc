#include "graph/expand/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/text.h"
#include "plan/element.h"

namespace lagoon {

std::vector<float> FloatsOf(const Writer& w, const std::string& attribute) {
  const auto found = w.node().attributes.find(attribute);
  if (found == w.node().attributes.end()) return {};
  const auto* const floats = std::get_if<std::vector<float>>(&found->second);
  return floats == nullptr ? std::vector<float>() : *floats;
}

Writer::Attributes AttributesWithout(const Writer& w, const std::vector<std::string>& without) {
  Writer::Attributes attributes = w.node().attributes;
  for (const std::string& name : without) attributes.erase(name);
  return attributes;
}

double NumberIn(Writer& w, std::size_t i, std::string_view what) {
  if (!w.status()) return 0;
  const Result<Constant> number = w.context().OneConstant(i, what);
  if (number) return ElementAsDouble(number->type, number->bytes->data(), 0);
  w.Refuse(tl::unexpected(number.error()));
  return 0;
}

std::int64_t IntegerIn(Writer& w, std::size_t i, std::string_view what) {
  if (!w.status()) return 0;
  const Result<std::vector<std::int64_t>> numbers = w.context().ConstantInts(i, what);
  if (numbers && numbers->size() == 1) return numbers->front();
  w.Refuse(numbers ? w.context().Invalid(
                         fmt::format("{} has {} numbers, takes one", what, numbers->size()))
                   : tl::unexpected(numbers.error()));
  return 0;
}

ValueId TableOf(Writer& w, DataType type, const Dims& dims,
                const std::function<double(std::int64_t)>& at) {
  auto bytes = w.Allocate(type, dims);
  if (bytes == nullptr) return kNoValue;
  WithElementType(type, [&]<typename T>(std::type_identity<T>) {
    const std::int64_t count = ElementCount(dims);
    for (std::int64_t i = 0; i < count; ++i) {
      const T element = ConvertElement<T>(at(i));
      std::memcpy(bytes->data() + static_cast<std::size_t>(i) * sizeof(T), &element, sizeof(T));
    }
    return true;
  });
  return w.AddConstant({type, dims, std::move(bytes)});
}

DataType WideType(Writer& w, ValueId x) {
  const DataType type = w.TypeOf(x);
  if (w.status() && !IsFloat(type)) {
    w.Refuse(w.context().Unimplemented(fmt::format("of {}, supported are floats", OipName(type))));
  }
  return type == DataType::kFloat64 ? type : DataType::kFloat32;
}

std::vector<std::int64_t> MovedAxis(std::size_t rank, std::size_t from, std::size_t to) {
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  const std::int64_t axis = order[from];
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), axis);
  return order;
}

}  // namespace lagoon
