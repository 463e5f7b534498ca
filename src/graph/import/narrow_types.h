#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "plan/tensor.h"

namespace lagoon {

/// An element type of ONNX that Lagoon knows as storage of weights only: integers of 2 and 4 bits,
/// and floats of 4 and 8 bits. Lagoon keeps the elements in a wider type with all their values.
struct NarrowType {
  int onnx = 0;     // ONNX's number of the type
  DataType wide{};  // INT8, UINT8, FP16 or FP32
  int bits = 8;     // in the file
};

/// Nothing for other types.
std::optional<NarrowType> FindNarrowType(int onnx_type);

/// The bytes in which a file has `count` elements.
std::size_t PackedBytes(const NarrowType& type, std::size_t count);

/// Fills `to`, which has whole elements of the wide type. Of elements that share a byte, the first
/// one has the lowest bits.
void Widen(const NarrowType& type, std::span<const std::byte> packed, std::span<std::byte> to);

}  // namespace lagoon
