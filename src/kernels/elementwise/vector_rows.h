#pragma once

// Vector bodies of conversions that quantised models spend their time on, of comparisons and of
// choices. They compute the same bits as the row functions of row_cast.cc and row_binary.cc.

#include <cstddef>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/rows.h"
#include "plan/tensor.h"

namespace lagoon {

/// The row functions without vectors. Those below call them for short rows, and for operands that
/// are neither dense nor single elements.
RowFunction FindPlainQuantizeRow(DataType quantized);
RowFunction FindPlainDequantizeRow(DataType quantized);
RowFunction FindPlainCastRow(DataType from, DataType to);
RowFunction FindPlainBinaryRow(BinaryOp op, DataType type);
RowFunction FindPlainWhereRow(std::size_t element_bytes);

/// Null for types, or a level, without a vector body.
RowFunction FindVectorQuantizeRow(DataType quantized);
RowFunction FindVectorDequantizeRow(DataType quantized);
/// From 8-bit integers to INT16 and FP32, from INT32 and BOOL to FP32.
RowFunction FindVectorCastRow(DataType from, DataType to);
/// Of FP32.
RowFunction FindVectorCompareRow(BinaryOp op);
/// Of elements of 4 bytes.
RowFunction FindVectorWhereRow();

}  // namespace lagoon
