#include "graph/import/narrow_types.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "plan/element.h"

namespace lagoon {
namespace {

// ONNX's numbers. libonnx 1.12 has no names for them.
constexpr int kFloat8E4M3Fn = 17, kFloat8E4M3FnUz = 18, kFloat8E5M2 = 19, kFloat8E5M2FnUz = 20;
constexpr int kUInt4 = 21, kInt4 = 22, kFloat4E2M1 = 23;

constexpr NarrowType kNarrowTypes[] = {
    {kFloat8E4M3Fn, DataType::kFloat16, 8}, {kFloat8E4M3FnUz, DataType::kFloat16, 8},
    {kFloat8E5M2, DataType::kFloat16, 8},   {kFloat8E5M2FnUz, DataType::kFloat16, 8},
    {kUInt4, DataType::kUInt8, 4},          {kInt4, DataType::kInt8, 4},
    {kFloat4E2M1, DataType::kFloat16, 4},
};

/// How the bits of a small float are read.
struct SmallFloat {
  int fraction_bits = 0, exponent_bits = 0, bias = 0;
  bool negative_zero_is_nan = false;  // instead of a NaN among the largest numbers
};

SmallFloat FormatOf(int onnx) {
  switch (onnx) {
    case kFloat8E4M3Fn:
      return {3, 4, 7, false};
    case kFloat8E4M3FnUz:
      return {3, 4, 8, true};
    case kFloat8E5M2:
      return {2, 5, 15, false};
    case kFloat8E5M2FnUz:
      return {2, 5, 16, true};
    default:
      return {1, 2, 1, false};
  }
}

// The special numbers with the largest exponent.
float Special(int onnx, unsigned fraction, float otherwise) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (onnx == kFloat8E4M3Fn) return fraction == 7 ? kNan : otherwise;
  if (onnx == kFloat8E5M2) return fraction == 0 ? std::numeric_limits<float>::infinity() : kNan;
  return otherwise;
}

float Decode(int onnx, unsigned bits) {
  const SmallFloat format = FormatOf(onnx);
  const int width = format.fraction_bits + format.exponent_bits;
  const bool negative = (bits >> width & 1U) != 0;
  const unsigned fraction = bits & ((1U << format.fraction_bits) - 1);
  const unsigned largest = (1U << format.exponent_bits) - 1;
  const unsigned exponent = bits >> format.fraction_bits & largest;
  if (format.negative_zero_is_nan && negative && fraction == 0 && exponent == 0) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const unsigned whole = exponent == 0 ? fraction : fraction | 1U << format.fraction_bits;
  const int power = (exponent == 0 ? 1 : static_cast<int>(exponent)) - format.bias;
  float value = std::ldexp(static_cast<float>(whole), power - format.fraction_bits);
  if (exponent == largest) value = Special(onnx, fraction, value);
  return negative ? -value : value;
}

std::array<std::uint16_t, 256> FloatTable(int onnx) {
  std::array<std::uint16_t, 256> table{};
  for (unsigned bits = 0; bits < 256; ++bits) table[bits] = Float16::From(Decode(onnx, bits)).bits;
  return table;
}

unsigned ElementAt(const NarrowType& type, std::span<const std::byte> packed, std::size_t i) {
  if (type.bits == 8) return static_cast<unsigned>(packed[i]);
  const auto both = static_cast<unsigned>(packed[i / 2]);
  return i % 2 == 0 ? both & 15U : both >> 4;
}

}  // namespace

std::optional<NarrowType> FindNarrowType(int onnx_type) {
  for (const NarrowType& type : kNarrowTypes) {
    if (type.onnx == onnx_type) return type;
  }
  return std::nullopt;
}

std::size_t PackedBytes(const NarrowType& type, std::size_t count) {
  return type.bits == 8 ? count : count / 2 + count % 2;
}

void Widen(const NarrowType& type, std::span<const std::byte> packed, std::span<std::byte> to) {
  const std::size_t count = to.size() / SizeOf(type.wide);
  LAGOON_CHECK(packed.size() >= PackedBytes(type, count));
  if (type.wide != DataType::kFloat16) {
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned element = ElementAt(type, packed, i);
      const bool negative = type.onnx == kInt4 && element > 7;
      to[i] = static_cast<std::byte>(negative ? element | 0xf0U : element);
    }
    return;
  }
  const std::array<std::uint16_t, 256> table = FloatTable(type.onnx);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(&to[2 * i], &table[ElementAt(type, packed, i)], 2);
  }
}

}  // namespace lagoon
