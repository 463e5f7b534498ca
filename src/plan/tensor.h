#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lagoon {

/// Element types that a model may name. A kBool is a byte: Lagoon writes 0 or 1, and reads every
/// other value than 0 as true. An element of a kString is a StringElement (plan/strings.h).
enum class DataType : std::uint8_t {
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kBool,
  kString,
};

/// Bytes of one element.
std::size_t SizeOf(DataType type);
bool IsFloat(DataType type);    // of 16, 32 or 64 bits
bool IsInteger(DataType type);  // signed or unsigned; not kBool
/// The Open Inference Protocol's name: "FP32", "INT64", "BYTES", ...
std::string_view OipName(DataType type);

using Dims = std::vector<std::int64_t>;

/// "[1,3,224,224]", as messages print it.
std::string ToString(const Dims& dims);

/// Reads "1x3x224x224"; nothing if `text` is no list of sizes from 0 on. A scalar is "".
std::optional<Dims> ParseDims(std::string_view text);
/// Product of the dims; 1 for a scalar. Every dim must be >= 0 and the product must fit (the
/// importer checks both).
std::int64_t ElementCount(const Dims& dims);

struct TensorSpec {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;  // all known; a tensor with a dim of 0 has no elements

  std::size_t bytes() const { return static_cast<std::size_t>(ElementCount(dims)) * SizeOf(type); }
};

}  // namespace lagoon
