#pragma once

// Nodes on quantised values, computed on bytes (ByteFlow). Each Try function returns false, and
// does nothing, for a node that must be computed in fp32.

#include <span>
#include <string>

#include "program/lower/builder.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {

/// Whether the device computes on bytes, faster than in fp32.
bool ComputesOnBytes(const LowerOptions& options);

/// The sum of `terms` in fp32.
Result<Tensor> EmitFloats(ProgramBuilder& builder, const std::string& name,
                          std::span<const ByteTensor> terms, Layout layout);

/// x (fp32) rounded to a grid.
Result<ByteTensor> EmitBytes(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                             const ByteGrid& grid);
/// lower_table.cc: x rounded to another grid.
Result<ByteTensor> OnGrid(ProgramBuilder& builder, const std::string& name, const ByteTensor& x,
                          const ByteGrid& grid);
/// A value on a grid as bytes in `layout`.
Result<ByteTensor> UseBytes(ProgramBuilder& builder, ValueId value, Layout layout);

/// lower_table.cc: a node whose result is a table of bytes (ByteFlow::FunctionOf()). `lower` lowers
/// the nodes of the function for the 256 bytes.
Result<bool> TryLowerByteTable(ProgramBuilder& builder, const Node& node, LowerFunction lower);
/// Conv, Gemm and MatMul with constant weights.
Result<bool> TryLowerByteLinear(ProgramBuilder& builder, const Node& node);
/// lower_table.cc: DequantizeLinear of bytes that a node reads as bytes.
Result<bool> TryLowerByteDequantize(ProgramBuilder& builder, const Node& node);
/// FakeQuantize.
Result<bool> TryLowerByteFake(ProgramBuilder& builder, const Node& node);
/// Add, if its result is rounded.
Result<bool> TryLowerByteSum(ProgramBuilder& builder, const Node& node);
/// Relu and Clip between a sum and its FakeQuantize.
Result<bool> TryLowerByteLimit(ProgramBuilder& builder, const Node& node);
/// A node that moves elements, which `lower` does for elements of any type.
Result<bool> TryLowerByteMove(ProgramBuilder& builder, const Node& node, LowerFunction lower);

}  // namespace lagoon
