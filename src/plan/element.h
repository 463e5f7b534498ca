#pragma once

// Element types as C++ types, and the conversions between them.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "plan/tensor.h"

namespace lagoon {

/// IEEE half precision. Made from a float by rounding to the nearest, ties to even.
struct Float16 {
  std::uint16_t bits;
  static Float16 From(float value);
  explicit operator float() const;
};

/// The upper half of a float. Made from a float by rounding to the nearest, ties to even.
struct BFloat16 {
  std::uint16_t bits;
  static BFloat16 From(float value);
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// T as plain numbers in memory: halves as their bits, and a bool as a byte, which may hold any
/// number.
template <typename T>
using Stored = std::conditional_t<kIsHalf<T>, std::uint16_t,
                                  std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>;

/// The type in which elements of T are computed.
template <typename T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

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

inline Float16 Float16::From(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(all >> 16 & 0x8000u);
  const std::uint32_t magnitude = all & 0x7fffffffu;
  constexpr std::uint32_t kInfinityBits = 0x7f800000u;
  if (magnitude > kInfinityBits) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  if (magnitude < kSmallestNormal) {
    // Adding 1/2 leaves the rounded multiple of 2^-24 in the last bits of the fraction.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const std::uint32_t steps = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
    return {static_cast<std::uint16_t>(sign | steps)};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  const std::uint32_t half = (rounded >> 13) - (112u << 10);
  return {static_cast<std::uint16_t>(sign | (half > 0x7c00u ? 0x7c00u : half))};
}

inline BFloat16 BFloat16::From(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>(all >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((all + 0x7fffu + (all >> 16 & 1u)) >> 16)};
}

/// Converts as the hardware does on which models are exported, and also defines the cases that C++
/// leaves open: a float outside an integer's range becomes the nearest bound, "not a number"
/// becomes 0, integers wrap around. A bool is "not 0".
template <typename To, typename From>
To ConvertElement(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (kIsHalf<From>) {
    return ConvertElement<To>(static_cast<float>(from));
  } else if constexpr (kIsHalf<To>) {
    return To::From(static_cast<float>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return from != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(from)) return 0;
    const double value = static_cast<double>(from);
    if (value <= static_cast<double>(std::numeric_limits<To>::min())) {
      return std::numeric_limits<To>::min();
    }
    if (value >= static_cast<double>(std::numeric_limits<To>::max())) {
      return std::numeric_limits<To>::max();
    }
    return static_cast<To>(value);
  } else {
    return static_cast<To>(from);
  }
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

/// As WithElementType for the types `Ts`; `otherwise()` for every other type, also kString.
template <typename... Ts, typename F, typename Otherwise>
auto WithElementTypeAmong(DataType type, F&& f, Otherwise&& otherwise) -> decltype(otherwise()) {
  if (type == DataType::kString) return otherwise();
  return WithElementType(type,
                         [&]<typename T>(std::type_identity<T> element) -> decltype(otherwise()) {
                           if constexpr ((std::is_same_v<T, Ts> || ...)) {
                             return f(element);
                           } else {
                             return otherwise();
                           }
                         });
}

/// As WithElementType for the types that C++ has itself; `otherwise()` for 16-bit floats and
/// kString.
template <typename F, typename Otherwise>
auto WithNativeType(DataType type, F&& f, Otherwise&& otherwise) {
  return WithElementTypeAmong<float, double, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool>(
      type, f, otherwise);
}

/// Element `index` of a tensor, at any alignment.
inline double ElementAsDouble(DataType type, const std::byte* data, std::size_t index) {
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) {
    T element;
    std::memcpy(&element, data + index * sizeof(T), sizeof(T));
    return ConvertElement<double>(element);
  });
}

}  // namespace lagoon
