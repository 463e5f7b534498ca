#include "server/tensors/classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "plan/bytes_tensor.h"
#include "plan/element.h"

namespace lagoon {
namespace {

/// An element as text: floats with six digits behind the point, as Triton writes them.
template <typename T>
std::string Text(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return fmt::format("{:f}", value);
  } else {
    return fmt::format("{}", value);
  }
}

/// The numbers of the `count` largest of `values`, the largest first.
template <typename T>
std::vector<std::size_t> Largest(const std::vector<T>& values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](std::size_t a, std::size_t b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(values[a]) != std::isnan(values[b])) return std::isnan(values[b]);
      if (std::isnan(values[a])) return a < b;
    }
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), larger);
  order.resize(count);
  return order;
}

/// The `count` classes of the row whose elements begin at `data`.
template <typename Element>
void AppendRow(const std::byte* data, std::size_t elements, std::size_t count, const Labels* labels,
               std::vector<std::byte>& out) {
  // A bool counts as 0 or 1, whatever its byte holds, and a half as the float that it is.
  using T = std::conditional_t<std::is_same_v<Element, bool>, std::uint8_t, Wide<Element>>;
  std::vector<T> values(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    std::conditional_t<std::is_same_v<Element, bool>, std::uint8_t, Element> value;
    std::memcpy(&value, data + i * sizeof(value), sizeof(value));
    if constexpr (std::is_same_v<Element, bool>) {
      values[i] = value != 0 ? 1 : 0;
    } else {
      values[i] = static_cast<T>(value);
    }
  }
  for (const std::size_t index : Largest(values, count)) {
    std::string text = fmt::format("{}:{}", Text(values[index]), index);
    if (labels != nullptr && index < labels->size()) text += ":" + (*labels)[index];
    AppendBytesElement(text, out);
  }
}

Status Render(OutputTensor& output) {
  const ClassView view = *std::exchange(output.classes, std::nullopt);
  const auto refuse = [&](std::string_view why) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("output {}: 'classification' {}", Quoted(output.name), why));
  };
  if (output.type == DataType::kString) return refuse("cannot sort BYTES");
  const std::size_t all = output.data.size() / SizeOf(output.type);
  const bool batched = view.batched && !output.dims.empty();
  const auto rows = batched ? static_cast<std::size_t>(output.dims.front()) : std::size_t{1};
  const std::size_t elements = rows == 0 ? 0 : all / rows;
  const std::size_t count = std::min<std::size_t>(view.count, elements);
  if (rows * count > kMaxClasses) {
    return refuse(fmt::format("asks for {} classes of each of {} rows; at most {} are given", count,
                              rows, kMaxClasses));
  }
  std::vector<std::byte> text;
  WithElementType(output.type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t row = 0; row < rows; ++row) {
      AppendRow<T>(output.data.data() + row * elements * sizeof(T), elements, count,
                   view.labels.get(), text);
    }
  });
  output.data.assign(text.begin(), text.end());
  output.type = DataType::kString;
  output.dims = {static_cast<std::int64_t>(count)};
  if (batched) output.dims.insert(output.dims.begin(), static_cast<std::int64_t>(rows));
  return {};
}

}  // namespace

Status RenderClasses(InferResponse& response) {
  for (OutputTensor& output : response.outputs) {
    if (!output.classes) continue;
    Status rendered = Render(output);
    if (!rendered) {
      return Annotate(fmt::format("model {}", Quoted(response.model)), std::move(rendered).error());
    }
  }
  return {};
}

}  // namespace lagoon
