#pragma once

// Element types of constants as C++ types.

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "plan/tensor.h"

namespace lagoon {

/// IEEE half precision; only read.
struct Float16 {
  std::uint16_t bits;
  explicit operator float() const;
};

/// The upper half of a float; only read.
struct BFloat16 {
  std::uint16_t bits;
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

inline Float16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24, exact in a float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

/// Calls `f(std::type_identity<T>{})` with the C++ type of `type`. Not for kString.
template <typename F>
auto WithElementType(DataType type, F&& f) {
  switch (type) {
    case DataType::kFloat32:
      return f(std::type_identity<float>{});
    case DataType::kFloat16:
      return f(std::type_identity<Float16>{});
    case DataType::kBFloat16:
      return f(std::type_identity<BFloat16>{});
    case DataType::kFloat64:
      return f(std::type_identity<double>{});
    case DataType::kInt8:
      return f(std::type_identity<std::int8_t>{});
    case DataType::kInt16:
      return f(std::type_identity<std::int16_t>{});
    case DataType::kInt32:
      return f(std::type_identity<std::int32_t>{});
    case DataType::kInt64:
      return f(std::type_identity<std::int64_t>{});
    case DataType::kUInt8:
      return f(std::type_identity<std::uint8_t>{});
    case DataType::kUInt16:
      return f(std::type_identity<std::uint16_t>{});
    case DataType::kUInt32:
      return f(std::type_identity<std::uint32_t>{});
    case DataType::kUInt64:
      return f(std::type_identity<std::uint64_t>{});
    case DataType::kBool:
      return f(std::type_identity<bool>{});
    case DataType::kString:
      break;
  }
  CheckFailed("a numeric DataType", __FILE__, __LINE__);
}

}  // namespace lagoon
