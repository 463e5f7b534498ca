#pragma once

// Building blocks of lowerings: each emits one or a few kernels on tensors. Results are new tensors
// named `name`.

#include <string>
#include <vector>

#include "kernels/ops.h"
#include "program/lower/builder.h"

namespace lagoon {

/// A constant of one element; all `dims` are 1.
Tensor ConstantNumber(ProgramBuilder& builder, DataType type, double value, const Dims& dims = {});
/// A constant with the given bytes as elements of `type`.
Tensor ConstantTensor(ProgramBuilder& builder, const std::string& name, DataType type,
                      const Dims& dims, std::vector<std::byte> bytes);
/// The same from elements.
template <typename T>
Tensor ConstantTensor(ProgramBuilder& builder, const std::string& name, DataType type,
                      const Dims& dims, const std::vector<T>& elements) {
  const auto* const begin = reinterpret_cast<const std::byte*>(elements.data());
  return ConstantTensor(builder, name, type, dims,
                        std::vector<std::byte>(begin, begin + elements.size() * sizeof(T)));
}

/// kResourceExhausted if a table with one index per position along axes of `sizes` would be too
/// long. Call before making the table, because the sizes come from the model file.
Status CheckTable(const Dims& sizes);

Result<Tensor> EmitUnary(ProgramBuilder& builder, const std::string& name, UnaryOp op,
                         const Tensor& x, double alpha = 0, double beta = 0);

/// Broadcasts by numpy's rules. a and b must have the same type. y has the layout of the operand
/// with the higher rank (a's for equal ranks); the other operand is moved to that layout.
Result<Tensor> EmitBinary(ProgramBuilder& builder, const std::string& name, BinaryOp op, Tensor a,
                          Tensor b, const Epilogue& epilogue = {});

/// x converted to `type`; x itself if it has that type.
Result<Tensor> EmitCast(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                        DataType type);

/// y = the part of x of size `dims` that begins at `starts` with steps `steps` (by logical axis;
/// steps may be negative). `epilogue`: a function or nothing.
Result<Tensor> EmitSlice(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                         std::span<const std::int64_t> starts, const Dims& dims,
                         std::span<const std::int64_t> steps, const Epilogue& epilogue = {});

/// y[i, j, ...] = x[maps[0][i], maps[1][j], ...], or `fill` if one of these indices is negative. y
/// has x's layout.
Result<Tensor> EmitTake(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                        std::vector<std::vector<std::int64_t>> maps, std::uint64_t fill = 0);

/// x, which must be plain, with zeros along its axes: begins[i] before axis i and ends[i] behind
/// it. x itself if there are none.
Result<Tensor> EmitPadding(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                           std::span<const std::int64_t> begins,
                           std::span<const std::int64_t> ends);

/// x, which must be plain, broadcast to `dims`.
Result<Tensor> EmitExpand(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                          const Dims& dims);

/// Joins any number of tensors of one layout along a logical axis. `epilogue`: a function or
/// nothing.
Result<Tensor> EmitConcat(ProgramBuilder& builder, const std::string& name,
                          std::vector<Tensor> parts, std::size_t axis,
                          const Epilogue& epilogue = {});

/// Reduces the logical axes `axes` of x, which keep size 1.
Result<Tensor> EmitFold(ProgramBuilder& builder, const std::string& name, FoldOp op, Tensor x,
                        const std::vector<std::size_t>& axes);
/// The same for fp32.
Result<Tensor> EmitReduce(ProgramBuilder& builder, const std::string& name, ReduceOp op, Tensor x,
                          const std::vector<std::size_t>& axes);

/// Quantizes x (fp32) with the node's inputs `scale` and `zero`, one scale and one zero point.
Result<Tensor> EmitQuantize(ProgramBuilder& builder, const Node& node, const Tensor& x,
                            ValueId scale, ValueId zero);

/// The type in which the lowering multiplies differences of bytes: kInt16 where the device has that
/// product (its result is kInt32), otherwise kInt32.
DataType ByteDifferenceType(const ProgramBuilder& builder);
/// x - zero in that type. `x` has 8-bit integers; `zero` broadcasts to it by numpy's rules.
Result<Tensor> EmitCentered(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                            const Tensor* zero);

/// a [..., M, K] times b [..., K, N], both plain. The leading axes broadcast. Operands of
/// type kInt16 hold differences of bytes (ByteDifferenceType()); their product has type kInt32.
Result<Tensor> EmitMatMul(ProgramBuilder& builder, const std::string& name, Tensor a, Tensor b);
/// The same in the operands' type, whichever it is: small integers wrap.
Result<Tensor> EmitSameTypeMatMul(ProgramBuilder& builder, const std::string& name, Tensor a,
                                  Tensor b);

}  // namespace lagoon
