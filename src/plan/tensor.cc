#include "plan/tensor.h"

#include <fmt/format.h>

#include <charconv>

#include "base/check.h"
#include "plan/element.h"
#include "plan/strings.h"

namespace lagoon {

std::size_t SizeOf(DataType type) {
  if (type == DataType::kString) return sizeof(StringElement);
  return WithElementType(type, []<typename T>(std::type_identity<T>) { return sizeof(T); });
}

bool IsFloat(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBFloat16 ||
         type == DataType::kFloat64;
}

bool IsInteger(DataType type) {
  return !IsFloat(type) && type != DataType::kBool && type != DataType::kString;
}

std::string_view OipName(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "FP32";
    case DataType::kFloat16:
      return "FP16";
    case DataType::kBFloat16:
      return "BF16";
    case DataType::kFloat64:
      return "FP64";
    case DataType::kInt8:
      return "INT8";
    case DataType::kInt16:
      return "INT16";
    case DataType::kInt32:
      return "INT32";
    case DataType::kInt64:
      return "INT64";
    case DataType::kUInt8:
      return "UINT8";
    case DataType::kUInt16:
      return "UINT16";
    case DataType::kUInt32:
      return "UINT32";
    case DataType::kUInt64:
      return "UINT64";
    case DataType::kBool:
      return "BOOL";
    case DataType::kString:
      return "BYTES";
  }
  CheckFailed("a known DataType", __FILE__, __LINE__);
}

std::string ToString(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

std::int64_t ElementCount(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

std::optional<Dims> ParseDims(std::string_view text) {
  Dims dims;
  while (!text.empty()) {
    if (!dims.empty()) {
      if (text.front() != 'x') return std::nullopt;
      text.remove_prefix(1);
    }
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc{} || size < 0) return std::nullopt;
    dims.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return dims;
}

}  // namespace lagoon
