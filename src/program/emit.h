#pragma once

// One kernel, or a few, on tensors: what lowerings compose. Results are new tensors named `name`.

#include <string>
#include <vector>

#include "kernels/ops.h"
#include "program/builder.h"

namespace lagoon {

/// A constant of one element; `dims` are ones.
Tensor ConstantNumber(ProgramBuilder& builder, DataType type, double value, const Dims& dims = {});
/// A constant of bytes that stand for elements of `type`.
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

/// Refuses indices along axes of `sizes`, one per position, that are more than a table may hold:
/// checked before the table is made, for sizes come from the model file.
Status CheckTable(const Dims& sizes);

Result<Tensor> EmitUnary(ProgramBuilder& builder, const std::string& name, UnaryOp op,
                         const Tensor& x, double alpha = 0, double beta = 0);

/// Broadcasts as numpy does; a and b have the same type. Layouts must be the same unless one has a
/// lower rank and is plain.
Result<Tensor> EmitBinary(ProgramBuilder& builder, const std::string& name, BinaryOp op, Tensor a,
                          Tensor b, const Epilogue& epilogue = {});

/// x itself if it is of the type already.
Result<Tensor> EmitCast(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                        DataType type);

/// y = the part of x from `starts` on in steps of `steps` (both by logical axis; steps may be
/// negative), of dims `dims`. `epilogue`: a function or nothing.
Result<Tensor> EmitSlice(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                         std::span<const std::int64_t> starts, const Dims& dims,
                         std::span<const std::int64_t> steps, const Epilogue& epilogue = {});

/// y[i, j, ...] = x[maps[0][i], maps[1][j], ...], `fill` where one of them is negative. y lies as
/// x.
Result<Tensor> EmitTake(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                        std::vector<std::vector<std::int64_t>> maps, std::uint64_t fill = 0);

/// x, plain, broadcast to `dims`.
Result<Tensor> EmitExpand(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                          const Dims& dims);

/// Joins tensors of one layout along a logical axis; any number of them.
Result<Tensor> EmitConcat(ProgramBuilder& builder, const std::string& name,
                          std::vector<Tensor> parts, std::size_t axis);

/// Reduces logical `axes` of x, which stay as axes of one.
Result<Tensor> EmitFold(ProgramBuilder& builder, const std::string& name, FoldOp op, Tensor x,
                        const std::vector<std::size_t>& axes);
/// The same of fp32.
Result<Tensor> EmitReduce(ProgramBuilder& builder, const std::string& name, ReduceOp op, Tensor x,
                          const std::vector<std::size_t>& axes);

/// x, fp32, with one scale and one zero point, the inputs `scale` and `zero` of a node.
Result<Tensor> EmitQuantize(ProgramBuilder& builder, const Node& node, const Tensor& x,
                            ValueId scale, ValueId zero);

/// a [..., M, K] times b [..., K, N], both plain, their leading axes broadcast.
Result<Tensor> EmitMatMul(ProgramBuilder& builder, const std::string& name, Tensor a, Tensor b);

}  // namespace lagoon
