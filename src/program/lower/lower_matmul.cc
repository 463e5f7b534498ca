// Products of computed matrices, products of integers, and Einsum.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "graph/ops/einsum.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

/// Strides of the leading axes of x along `batch`; 0 where x broadcasts.
std::vector<std::int64_t> BatchStrides(const Dims& x, const Dims& batch) {
  const Dims leading(x.begin(), x.end() - 2);
  std::vector<std::int64_t> strides = BroadcastView(leading, batch, 1).strides;
  for (std::int64_t& stride : strides) stride *= x[x.size() - 2] * x.back();
  return strides;
}

Dims BroadcastLeading(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()) - 2, 1);
  for (const Dims* dims : {&a, &b}) {
    for (std::size_t i = 0; i + 2 < dims->size(); ++i) {
      std::int64_t& size = out[out.size() - (dims->size() - 2) + i];
      size = std::max(size, (*dims)[i]);
    }
  }
  return out;
}

/// How a matrix of two axes is read: as stored, or transposed.
struct Side {
  Tensor tensor;
  bool flipped = false;

  std::size_t rows() const { return Size(flipped ? 1 : 2); }
  std::size_t columns() const { return Size(flipped ? 2 : 1); }
  std::size_t row_stride() const { return flipped ? 1 : Size(1); }
  std::size_t column_stride() const { return flipped ? Size(1) : 1; }

 private:
  std::size_t Size(std::size_t from_back) const {
    return static_cast<std::size_t>(tensor.dims[tensor.dims.size() - from_back]);
  }
};

Result<Tensor> EmitProduct(ProgramBuilder& builder, const std::string& name, const Side& a,
                           const Side& b, float alpha) {
  if (a.tensor.type != b.tensor.type || a.columns() != b.rows()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("cannot multiply {} {} and {} {}", OipName(a.tensor.type),
                    ToString(a.tensor.dims), OipName(b.tensor.type), ToString(b.tensor.dims)));
  }
  MatmulSpec spec;
  spec.batch = BroadcastLeading(a.tensor.dims, b.tensor.dims);
  spec.a_batch_strides = BatchStrides(a.tensor.dims, spec.batch);
  spec.b_batch_strides = BatchStrides(b.tensor.dims, spec.batch);
  spec.m = a.rows();
  spec.k = a.columns();
  spec.n = b.columns();
  spec.a_row_stride = a.row_stride();
  spec.a_k_stride = a.column_stride();
  spec.b_k_stride = b.row_stride();
  spec.b_column_stride = b.column_stride();
  spec.alpha = alpha;
  spec.type = a.tensor.type;
  Dims dims = spec.batch;
  dims.push_back(static_cast<std::int64_t>(spec.m));
  dims.push_back(static_cast<std::int64_t>(spec.n));
  const Tensor y = builder.NewTensor(name, dims, Layout::kPlain, spec.type);
  LAGOON_RETURN_IF_ERROR(builder.Emit(name, [&](auto& make) { return make.Matmul(spec); },
                                      {builder.All(a.tensor), builder.All(b.tensor)},
                                      {builder.All(y)}));
  return y;
}

/// A vector becomes a row on the left or a column on the right, as in numpy.matmul.
Result<Tensor> AsMatrix(ProgramBuilder& builder, const Tensor& x, bool left) {
  if (x.dims.size() != 1) return x;
  return builder.Reshape(x, left ? Dims{1, x.dims[0]} : Dims{x.dims[0], 1});
}

/// One number per row becomes a column vector, which broadcasts along the rows of a product.
Result<Tensor> PerRow(ProgramBuilder& builder, const Tensor& x) {
  if (x.dims.size() != 1) return x;
  return builder.Reshape(x, {x.dims[0], 1});
}

/// The matrix x - zero point, as INT32. The zero point is one number, one per row on the left, or
/// one per column on the right.
Result<Tensor> Centered(ProgramBuilder& builder, const std::string& name, ValueId x, ValueId zero,
                        bool left) {
  LAGOON_ASSIGN_OR_RETURN(Tensor tensor, builder.Use(x, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(tensor, AsMatrix(builder, tensor, left));
  LAGOON_ASSIGN_OR_RETURN(tensor, EmitCast(builder, name, tensor, DataType::kInt32));
  if (zero == kNoValue) return tensor;
  LAGOON_ASSIGN_OR_RETURN(Tensor point, builder.Use(zero, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(point, EmitCast(builder, name, point, DataType::kInt32));
  if (left) {
    LAGOON_ASSIGN_OR_RETURN(point, PerRow(builder, point));
  }
  return EmitBinary(builder, name, BinaryOp::kSub, tensor, point);
}

ValueId InputOr(const Node& node, std::size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoValue;
}

/// The INT32 product of the inputs `a` and `b` with their zero points.
Result<Tensor> IntegerProduct(ProgramBuilder& builder, const Node& node,
                              std::array<std::size_t, 4> inputs) {
  Tensor operands[2];
  for (std::size_t i = 0; i < 2; ++i) {
    LAGOON_ASSIGN_OR_RETURN(operands[i], Centered(builder, node.name, node.inputs[inputs[i]],
                                                  InputOr(node, inputs[i + 2]), i == 0));
  }
  const auto& [a, b] = operands;
  return EmitMatMul(builder, node.name, a, b);
}

// An operand of Einsum, with a label per axis.
struct Labelled {
  std::string labels;
  Tensor tensor;
};

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

/// Sums over the labels that are not in `wanted`.
Result<Labelled> SumAway(ProgramBuilder& builder, const std::string& name, Labelled x,
                         const std::string& wanted) {
  std::vector<std::size_t> axes;
  Labelled kept;
  Dims dims;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (!Has(wanted, x.labels[i])) {
      axes.push_back(i);
      continue;
    }
    kept.labels.push_back(x.labels[i]);
    dims.push_back(x.tensor.dims[i]);
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor sum, EmitReduce(builder, name, ReduceOp::kSum, x.tensor, axes));
  LAGOON_ASSIGN_OR_RETURN(kept.tensor, builder.Reshape(sum, dims));
  return kept;
}

/// x with its axes in the order of `labels`.
Result<Tensor> Permuted(ProgramBuilder& builder, const Labelled& x, const std::string& labels) {
  std::vector<std::int64_t> order;
  for (const char label : labels) {
    order.push_back(static_cast<std::int64_t>(x.labels.find(label)));
  }
  return builder.Transpose(x.tensor, order, Layout::kPlain);
}

std::int64_t SizeOf(const Labelled& x, const std::string& labels) {
  std::int64_t size = 1;
  for (const char label : labels) size *= x.tensor.dims[x.labels.find(label)];
  return size;
}

/// Expands the axes of size one in x whose labels have a larger size in `other`, so that a product
/// of matrices needs no broadcasting.
Result<Labelled> Widened(ProgramBuilder& builder, const std::string& name, Labelled x,
                         const Labelled& other) {
  Dims dims = x.tensor.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t at = other.labels.find(x.labels[i]);
    if (at != std::string::npos) dims[i] = std::max(dims[i], other.tensor.dims[at]);
  }
  LAGOON_ASSIGN_OR_RETURN(x.tensor, EmitExpand(builder, name, x.tensor, dims));
  return x;
}

/// The product of two operands; keeps the labels in `wanted`.
Result<Labelled> Contract(ProgramBuilder& builder, const std::string& name, Labelled a, Labelled b,
                          const std::string& wanted) {
  LAGOON_ASSIGN_OR_RETURN(a, SumAway(builder, name, a, wanted + b.labels));
  LAGOON_ASSIGN_OR_RETURN(b, SumAway(builder, name, b, wanted + a.labels));
  LAGOON_ASSIGN_OR_RETURN(a, Widened(builder, name, a, b));
  LAGOON_ASSIGN_OR_RETURN(b, Widened(builder, name, b, a));
  std::string batch, rows, columns, summed;
  for (const char label : a.labels) {
    std::string& group = !Has(b.labels, label) ? rows : Has(wanted, label) ? batch : summed;
    group.push_back(label);
  }
  for (const char label : b.labels) {
    if (!Has(a.labels, label)) columns.push_back(label);
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor left, Permuted(builder, a, batch + rows + summed));
  LAGOON_ASSIGN_OR_RETURN(Tensor right, Permuted(builder, b, batch + summed + columns));
  const std::int64_t matrices = SizeOf(a, batch);
  LAGOON_ASSIGN_OR_RETURN(left,
                          builder.Reshape(left, {matrices, SizeOf(a, rows), SizeOf(a, summed)}));
  LAGOON_ASSIGN_OR_RETURN(
      right, builder.Reshape(right, {matrices, SizeOf(a, summed), SizeOf(b, columns)}));
  LAGOON_ASSIGN_OR_RETURN(Tensor product, EmitMatMul(builder, name, left, right));
  Dims dims;
  for (const char label : batch + rows) dims.push_back(a.tensor.dims[a.labels.find(label)]);
  for (const char label : columns) dims.push_back(b.tensor.dims[b.labels.find(label)]);
  LAGOON_ASSIGN_OR_RETURN(product, builder.Reshape(product, dims));
  return Labelled{batch + rows + columns, product};
}

}  // namespace

Result<Tensor> EmitMatMul(ProgramBuilder& builder, const std::string& name, Tensor a, Tensor b) {
  return EmitProduct(builder, name, {std::move(a), false}, {std::move(b), false}, 1);
}

Status LowerComputedMatMul(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(Tensor a, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(Tensor b, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(a, AsMatrix(builder, a, true));
  LAGOON_ASSIGN_OR_RETURN(b, AsMatrix(builder, b, false));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitMatMul(builder, node.name, a, b));
  LAGOON_ASSIGN_OR_RETURN(y, builder.Reshape(y, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerComputedGemm(ProgramBuilder& builder, const Node& node) {
  for (const char* factor : {"alpha", "beta"}) {
    const float value = node.Float(factor, 1);
    // Integers are multiplied as integers, so a fractional factor would be rounded.
    if (IsFloat(builder.type(node.inputs[0])) || std::nearbyint(value) == value) continue;
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{} is {} and the matrices are {}", factor, value,
                            OipName(builder.type(node.inputs[0]))));
  }
  Side a, b;
  LAGOON_ASSIGN_OR_RETURN(a.tensor, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(b.tensor, builder.Use(node.inputs[1], Layout::kPlain));
  a.flipped = node.Int("transA", 0) != 0;
  b.flipped = node.Int("transB", 0) != 0;
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitProduct(builder, node.name, a, b, node.Float("alpha", 1)));
  const float beta = node.Float("beta", 1);
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue && beta != 0) {
    LAGOON_ASSIGN_OR_RETURN(Tensor c, builder.Use(node.inputs[2], Layout::kPlain));
    if (beta != 1) {
      const Tensor factor = ConstantNumber(builder, c.type, beta);
      LAGOON_ASSIGN_OR_RETURN(c, EmitBinary(builder, node.name, BinaryOp::kMul, c, factor));
    }
    LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kAdd, y, c));
  }
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerMatMulInteger(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(Tensor y, IntegerProduct(builder, node, {0, 1, 2, 3}));
  LAGOON_ASSIGN_OR_RETURN(y, builder.Reshape(y, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerQLinearMatMul(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(Tensor y, IntegerProduct(builder, node, {0, 3, 2, 5}));
  LAGOON_ASSIGN_OR_RETURN(y, EmitCast(builder, node.name, y, DataType::kFloat32));
  LAGOON_ASSIGN_OR_RETURN(Tensor a_scale, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(a_scale, PerRow(builder, a_scale));
  LAGOON_ASSIGN_OR_RETURN(const Tensor b_scale, builder.Use(node.inputs[4], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor scale,
                          EmitBinary(builder, node.name, BinaryOp::kMul, a_scale, b_scale));
  LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kMul, y, scale));
  LAGOON_ASSIGN_OR_RETURN(y, EmitQuantize(builder, node, y, node.inputs[6], node.inputs[7]));
  LAGOON_ASSIGN_OR_RETURN(y, builder.Reshape(y, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerEinsum(ProgramBuilder& builder, const Node& node) {
  std::vector<Dims> shapes;
  for (const ValueId input : node.inputs) shapes.push_back(builder.dims(input));
  LAGOON_ASSIGN_OR_RETURN(const Einsum einsum, ParseEinsum(node.String("equation", ""), shapes));
  std::vector<Labelled> operands;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[i], Layout::kPlain));
    operands.push_back({einsum.inputs[i], x});
  }
  while (operands.size() > 1) {
    std::string wanted = einsum.output;
    for (std::size_t i = 2; i < operands.size(); ++i) wanted += operands[i].labels;
    LAGOON_ASSIGN_OR_RETURN(operands[1],
                            Contract(builder, node.name, operands[0], operands[1], wanted));
    operands.erase(operands.begin());
  }
  LAGOON_ASSIGN_OR_RETURN(const Labelled result,
                          SumAway(builder, node.name, operands[0], einsum.output));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, Permuted(builder, result, einsum.output));
  builder.Define(node.outputs[0], y);
  return {};
}

}  // namespace lagoon
