// Products of matrices, and of integers.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

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

/// Matrices [..., rows, columns], and how many elements lie between neighbours along each axis.
struct Side {
  Tensor tensor;  // with the dims of the matrices
  std::vector<std::int64_t> strides;

  explicit Side(Tensor x) : tensor(std::move(x)), strides(tensor.dims.size()) {
    std::int64_t stride = 1;
    for (std::size_t i = strides.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= tensor.dims[i];
    }
  }
  /// With the axes in `order`.
  Side Turned(std::span<const std::int64_t> order) const {
    Side turned = *this;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto from = static_cast<std::size_t>(order[i]);
      turned.tensor.dims[i] = tensor.dims[from];
      turned.strides[i] = strides[from];
    }
    return turned;
  }

  std::size_t rows() const { return Size(2); }
  std::size_t columns() const { return Size(1); }
  std::size_t row_stride() const { return Stride(2); }
  std::size_t column_stride() const { return Stride(1); }
  /// Strides of the leading axes along `batch`; 0 where they broadcast.
  std::vector<std::int64_t> BatchStrides(const Dims& batch) const {
    std::vector<std::int64_t> along(batch.size(), 0);
    const std::size_t leading = tensor.dims.size() - 2;
    for (std::size_t i = 0; i < leading; ++i) {
      along[batch.size() - leading + i] = tensor.dims[i] == 1 ? 0 : strides[i];
    }
    return along;
  }

 private:
  std::size_t Size(std::size_t from_back) const {
    return static_cast<std::size_t>(tensor.dims[tensor.dims.size() - from_back]);
  }
  std::size_t Stride(std::size_t from_back) const {
    return static_cast<std::size_t>(strides[strides.size() - from_back]);
  }
};

/// The product in the operands' type, but INT32 of kInt16: differences of bytes
/// (ByteDifferenceType()).
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
  spec.a_batch_strides = a.BatchStrides(spec.batch);
  spec.b_batch_strides = b.BatchStrides(spec.batch);
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
  const DataType type = spec.type == DataType::kInt16 ? DataType::kInt32 : spec.type;
  const Tensor y = builder.NewTensor(name, dims, Layout::kPlain, type);
  LAGOON_RETURN_IF_ERROR(builder.Emit(name, [&](auto& make) { return make.Matmul(spec); },
                                      {builder.All(a.tensor), builder.All(b.tensor)},
                                      {builder.All(y)}));
  return y;
}

bool IsNarrowInteger(DataType type) { return IsInteger(type) && SizeOf(type) < sizeof(int); }

/// The product in the operands' type. Integers of 8 and 16 bits are multiplied as INT32: where the
/// result wraps, its lower bits are the same.
Result<Tensor> EmitSameTypeProduct(ProgramBuilder& builder, const std::string& name, Side a, Side b,
                                   float alpha) {
  const DataType type = a.tensor.type;
  if (type != b.tensor.type || !IsNarrowInteger(type)) {
    return EmitProduct(builder, name, a, b, alpha);
  }
  for (Side* side : {&a, &b}) {
    LAGOON_ASSIGN_OR_RETURN(side->tensor, EmitCast(builder, name, side->tensor, DataType::kInt32));
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor wide, EmitProduct(builder, name, a, b, alpha));
  return EmitCast(builder, name, wide, type);
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

/// The matrix x - zero point. The zero point is one number, one per row on the left, or one per
/// column on the right.
Result<Tensor> Centered(ProgramBuilder& builder, const std::string& name, ValueId x, ValueId zero,
                        bool left) {
  LAGOON_ASSIGN_OR_RETURN(Tensor tensor, builder.Use(x, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(tensor, AsMatrix(builder, tensor, left));
  if (zero == kNoValue) return EmitCentered(builder, name, tensor, nullptr);
  LAGOON_ASSIGN_OR_RETURN(Tensor point, builder.Use(zero, Layout::kPlain));
  if (left) {
    LAGOON_ASSIGN_OR_RETURN(point, PerRow(builder, point));
  }
  return EmitCentered(builder, name, tensor, &point);
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
  return EmitMatMul(builder, node.name, operands[0], operands[1]);
}

}  // namespace

DataType ByteDifferenceType(const ProgramBuilder& builder) {
  return builder.options().on_cpu() ? DataType::kInt16 : DataType::kInt32;
}

Result<Tensor> EmitCentered(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                            const Tensor* zero) {
  const DataType type = ByteDifferenceType(builder);
  LAGOON_ASSIGN_OR_RETURN(const Tensor wide, EmitCast(builder, name, x, type));
  if (zero == nullptr) return wide;
  LAGOON_ASSIGN_OR_RETURN(const Tensor point, EmitCast(builder, name, *zero, type));
  return EmitBinary(builder, name, BinaryOp::kSub, wide, point);
}

Result<Tensor> EmitMatMul(ProgramBuilder& builder, const std::string& name, Tensor a, Tensor b) {
  return EmitProduct(builder, name, Side(std::move(a)), Side(std::move(b)), 1);
}

Result<Tensor> EmitSameTypeMatMul(ProgramBuilder& builder, const std::string& name, Tensor a,
                                  Tensor b) {
  return EmitSameTypeProduct(builder, name, Side(std::move(a)), Side(std::move(b)), 1);
}

namespace {

/// The operand of a product. A Transpose before it moves nothing if the rows or the columns stay
/// dense: the kernel packs them anyway.
Result<Side> OperandOf(ProgramBuilder& builder, ValueId id, bool left) {
  if (const ProgramBuilder::Turned* const turned = builder.TurnedOf(id)) {
    Side side = Side(turned->x).Turned(turned->order);
    if (side.row_stride() == 1 || side.column_stride() == 1) return side;
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor x, builder.Use(id, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(x, AsMatrix(builder, x, left));
  return Side(std::move(x));
}

Status LowerComputedMatMul(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Side a, OperandOf(builder, node.inputs[0], true));
  LAGOON_ASSIGN_OR_RETURN(const Side b, OperandOf(builder, node.inputs[1], false));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitSameTypeProduct(builder, node.name, a, b, 1));
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
  const auto side = [&](ValueId id, const char* transposed) -> Result<Side> {
    LAGOON_ASSIGN_OR_RETURN(Tensor x, builder.Use(id, Layout::kPlain));
    const Side stored(std::move(x));
    return node.Int(transposed, 0) == 0 ? stored : stored.Turned(std::array<std::int64_t, 2>{1, 0});
  };
  LAGOON_ASSIGN_OR_RETURN(const Side a, side(node.inputs[0], "transA"));
  LAGOON_ASSIGN_OR_RETURN(const Side b, side(node.inputs[1], "transB"));
  LAGOON_ASSIGN_OR_RETURN(Tensor y,
                          EmitSameTypeProduct(builder, node.name, a, b, node.Float("alpha", 1)));
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

/// True if the right side and the bias are constants, so that kernels can pack them.
bool IsPacked(const ProgramBuilder& builder, const Node& node) {
  if (builder.dims(node.inputs[1]).size() != 2 || builder.dims(node.inputs[0]).size() < 2) {
    return false;
  }
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                     [&](ValueId id) { return id == kNoValue || builder.constant(id) != nullptr; });
}

/// True for a Gemm whose constants are in the normal form that fusion leaves.
bool IsNormalGemm(const ProgramBuilder& builder, const Node& node) {
  if (!IsPacked(builder, node) || node.Int("transA", 0) != 0) return false;
  if (node.Float("alpha", 1) != 1 || node.Float("beta", 1) != 1) return false;
  return node.inputs.size() < 3 || node.inputs[2] == kNoValue ||
         builder.dims(node.inputs[2]) == Dims{builder.dims(node.outputs[0]).back()};
}

bool Is(const ProgramBuilder& builder, const Node& node, DataType type) {
  return builder.type(node.inputs[0]) == type;
}

Status LowerMatMul(ProgramBuilder& builder, const Node& node) {
  if (Is(builder, node, DataType::kFloat32)) {
    if (IsPacked(builder, node)) return LowerPackedMatMul(builder, node);
  } else if (Is(builder, node, DataType::kFloat16) || Is(builder, node, DataType::kBFloat16)) {
    return LowerConverted(builder, node, LowerMatMul);
  }
  LAGOON_RETURN_IF_ERROR(CheckNotFused(node));
  return LowerComputedMatMul(builder, node);
}

Status LowerGemm(ProgramBuilder& builder, const Node& node) {
  if (!Is(builder, node, DataType::kFloat32)) {
    if (IsFloat(builder.type(node.inputs[0]))) return LowerConverted(builder, node, LowerGemm);
  } else if (IsNormalGemm(builder, node)) {
    return LowerPackedMatMul(builder, node);
  }
  LAGOON_RETURN_IF_ERROR(CheckNotFused(node));
  return LowerComputedGemm(builder, node);
}

constexpr Lowering kMatmulLowerings[] = {
    {"Gemm", LowerGemm, Lowering::kWide, true},
    {"MatMul", LowerMatMul, Lowering::kWide, true},
    {"MatMulInteger", LowerMatMulInteger},
    {"QLinearMatMul", LowerQLinearMatMul},
};

}  // namespace

std::span<const Lowering> MatmulLowerings() { return kMatmulLowerings; }

}  // namespace lagoon
