#pragma once

// Vector bodies of the conversions that quantised models spend their time on. They compute the same
// bits as the row functions of row_cast.cc.

#include "kernels/elementwise/rows.h"
#include "plan/tensor.h"

namespace lagoon {

/// The row functions without vectors (row_cast.cc), which the functions below call for short rows
/// and for operands other than a dense one with single elements.
RowFunction FindPlainQuantizeRow(DataType quantized);
RowFunction FindPlainDequantizeRow(DataType quantized);
RowFunction FindPlainCastRow(DataType from, DataType to);

/// Null for types, or a level, without a vector body.
RowFunction FindVectorQuantizeRow(DataType quantized);
RowFunction FindVectorDequantizeRow(DataType quantized);
/// From 8-bit integers to INT16 and FP32, from INT32 to FP32.
RowFunction FindVectorCastRow(DataType from, DataType to);

}  // namespace lagoon
