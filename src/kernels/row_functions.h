#pragma once

// What elementwise ops compute along a row, by op and element type.

#include "kernels/elementwise.h"
#include "kernels/rows.h"
#include "plan/tensor.h"

namespace lagoon {

/// Null: the op is not defined on the type.
RowFunction FindUnaryRow(UnaryOp op, DataType type);
RowFunction FindBinaryRow(BinaryOp op, DataType type);

/// From any type to any but kString.
RowFunction FindCastRow(DataType from, DataType to);
/// Operands: condition, a, b. By size of an element: 1, 2, 4 or 8 bytes.
RowFunction FindWhereRow(std::size_t element_bytes);
RowFunction FindCopyRow(std::size_t element_bytes);
/// Operands: x, scale, zero point. Null: `quantized` is none of the types.
RowFunction FindQuantizeRow(DataType quantized);
RowFunction FindDequantizeRow(DataType quantized);

}  // namespace lagoon
