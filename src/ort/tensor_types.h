#pragma once

// Element types of ONNX as those of Lagoon.

#include <optional>

#include "plan/tensor.h"

namespace lagoon::plugin {

/// `element`: ONNX's number of an element type. Nothing: Lagoon does not have the type.
constexpr std::optional<DataType> TypeOfElement(int element) {
  switch (element) {
    case 1:
      return DataType::kFloat32;
    case 2:
      return DataType::kUInt8;
    case 3:
      return DataType::kInt8;
    case 4:
      return DataType::kUInt16;
    case 5:
      return DataType::kInt16;
    case 6:
      return DataType::kInt32;
    case 7:
      return DataType::kInt64;
    case 9:
      return DataType::kBool;
    case 10:
      return DataType::kFloat16;
    case 11:
      return DataType::kFloat64;
    case 12:
      return DataType::kUInt32;
    case 13:
      return DataType::kUInt64;
    case 16:
      return DataType::kBFloat16;
    default:
      return std::nullopt;
  }
}

/// The other way round.
constexpr int ElementOfType(DataType type) {
  int element = 1;
  while (element < 16 && TypeOfElement(element) != type) ++element;
  return element;
}

}  // namespace lagoon::plugin
