#pragma once

// The functions that elementwise ops apply to a row, by op and element type.

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/rows.h"
#include "plan/tensor.h"

namespace lagoon {

/// Null if the op is not defined on the type.
RowFunction FindUnaryRow(UnaryOp op, DataType type);
RowFunction FindBinaryRow(BinaryOp op, DataType type);

/// From any type to any type except kString.
RowFunction FindCastRow(DataType from, DataType to);
/// Operands: condition, a, b. By element size: 1, 2, 4 or 8 bytes.
RowFunction FindWhereRow(std::size_t element_bytes);
RowFunction FindCopyRow(std::size_t element_bytes);
/// Operands: x, scale, zero point. Null if `quantized` is not supported.
RowFunction FindQuantizeRow(DataType quantized);
RowFunction FindDequantizeRow(DataType quantized);

}  // namespace lagoon
