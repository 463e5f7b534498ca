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
constexpr int kFloat8E8M0 = 24, kUInt2 = 25, kInt2 = 26;

constexpr NarrowType kNarrowTypes[] = {
    {kFloat8E4M3Fn, DataType::kFloat16, 8}, {kFloat8E4M3FnUz, DataType::kFloat16, 8},
    {kFloat8E5M2, DataType::kFloat16, 8},   {kFloat8E5M2FnUz, DataType::kFloat16, 8},
    {kUInt4, DataType::kUInt8, 4},          {kInt4, DataType::kInt8, 4},
    {kFloat4E2M1, DataType::kFloat16, 4},   {kFloat8E8M0, DataType::kFloat32, 8},
    {kUInt2, DataType::kUInt8, 2},          {kInt2, DataType::kInt8, 2},
};

std::size_t PerByte(const NarrowType& type) { return 8U / static_cast<unsigned>(type.bits); }

unsigned ElementAt(const NarrowType& type, std::span<const std::byte> packed, std::size_t i) {
  const std::size_t shared = PerByte(type);
  const auto byte = static_cast<unsigned>(packed[i / shared]);
  const auto bits = static_cast<unsigned>(type.bits);
  return byte >> (i % shared * bits) & ((1U << bits) - 1);
}

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

// Powers of two, without a sign.
float DecodePower(unsigned bits) {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, static_cast<int>(bits) - 127);
}

float Decode(int onnx, unsigned bits) {
  if (onnx == kFloat8E8M0) return DecodePower(bits);
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

/// Writes floats as elements of T.
template <typename T>
void WidenFloats(const NarrowType& type, std::span<const std::byte> packed,
                 std::span<std::byte> to) {
  std::array<T, 256> table{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    table[bits] = ConvertElement<T>(Decode(type.onnx, bits));
  }
  for (std::size_t i = 0; i < to.size() / sizeof(T); ++i) {
    std::memcpy(&to[i * sizeof(T)], &table[ElementAt(type, packed, i)], sizeof(T));
  }
}

}  // namespace

std::optional<NarrowType> FindNarrowType(int onnx_type) {
  for (const NarrowType& type : kNarrowTypes) {
    if (type.onnx == onnx_type) return type;
  }
  return std::nullopt;
}

std::size_t PackedBytes(const NarrowType& type, std::size_t count) {
  const std::size_t shared = PerByte(type);
  return count / shared + (count % shared == 0 ? 0 : 1);
}

void Widen(const NarrowType& type, std::span<const std::byte> packed, std::span<std::byte> to) {
  const std::size_t count = to.size() / SizeOf(type.wide);
  LAGOON_CHECK(packed.size() >= PackedBytes(type, count));
  if (type.wide == DataType::kFloat16) return WidenFloats<Float16>(type, packed, to);
  if (type.wide == DataType::kFloat32) return WidenFloats<float>(type, packed, to);
  const unsigned sign = type.wide == DataType::kInt8 ? 1U << (type.bits - 1) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned element = ElementAt(type, packed, i);
    to[i] = static_cast<std::byte>((element ^ sign) - sign);
  }
}

}  // namespace lagoon
