// The typed elementwise ops; fp32 ops with a vector body are in unary.cc and binary.cc.

#include "kernels/elementwise/elementwise.h"

#include <fmt/format.h>

#include "kernels/checks.h"
#include "kernels/elementwise/element_rows.h"
#include "kernels/elementwise/row_functions.h"
#include "kernels/elementwise/vector_rows.h"
#include "plan/elementwise_ops.h"

namespace lagoon {
namespace {

using Shape = std::vector<std::int64_t>;

double NsPerElement(BinaryOp op, DataType type) {
  const elementwise::BinaryNs& ns = elementwise::RowOf(op).row_ns;
  if (!IsFloat(type)) return ns.integer;
  return type == DataType::kFloat64 ? ns.fp64 : ns.fp32;
}

/// True if `dims` broadcasts to `out` by numpy's rules.
bool Broadcasts(const Shape& dims, const Shape& out) {
  if (dims.size() > out.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t size = dims[dims.size() - 1 - i];
    if (size != 1 && size != out[out.size() - 1 - i]) return false;
  }
  return true;
}

tl::unexpected<Error> NotOf(const char* name, std::string_view op, DataType type) {
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("{}: {} is not defined on {}", name, op, OipName(type)));
}

struct Operand {
  const Shape& dims;
  std::size_t element_bytes;
};

Result<Kernel> MakeBroadcast(RowsSpec spec, std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands) {
    if (!Broadcasts(operand.dims, spec.out)) {
      return Invalid(spec.name, fmt::format("{} does not broadcast to {}", ShapeText(operand.dims),
                                            ShapeText(spec.out)));
    }
    LAGOON_RETURN_IF_ERROR(CheckElements(spec.name, "an operand", operand.dims));
    spec.inputs.push_back(BroadcastView(operand.dims, spec.out, operand.element_bytes));
  }
  return MakeRows(spec);
}

/// `vectors`: whether there is a row function of vectors, which takes one scale.
Result<RowsSpec> PerAxis(const char* name, const QuantizeSpec& q, bool vectors) {
  LAGOON_RETURN_IF_ERROR(
      CheckElements(name, "x", {{"outer", q.outer}, {"axis", q.axis}, {"inner", q.inner}}));
  RowsSpec spec;
  spec.name = name;
  constexpr double kVectorNs = 0.25;
  spec.ns_per_element = vectors && q.axis == 1 ? kVectorNs : elementwise::kShortNs;
  spec.out = {static_cast<std::int64_t>(q.outer), static_cast<std::int64_t>(q.axis),
              static_cast<std::int64_t>(q.inner)};
  return spec;
}

}  // namespace

DataType ResultType(UnaryOp op, DataType type) {
  return elementwise::RowOf(op).gives_flags ? DataType::kBool : type;
}

DataType ResultType(BinaryOp op, DataType type) {
  return elementwise::RowOf(op).gives_flags ? DataType::kBool : type;
}

Result<Kernel> MakeUnaryRows(const UnarySpec& spec) {
  static constexpr char kName[] = "unary_rows";
  LAGOON_RETURN_IF_ERROR(CheckPositive(kName, {{"count", spec.count}}));
  RowsSpec rows;
  rows.name = kName;
  rows.row = FindUnaryRow(spec.op, spec.type);
  if (rows.row == nullptr) return NotOf(kName, elementwise::RowOf(spec.op).name, spec.type);
  rows.params = {spec.alpha, spec.beta};
  rows.out = {static_cast<std::int64_t>(spec.count)};
  rows.out_bytes = SizeOf(ResultType(spec.op, spec.type));
  rows.inputs = {{{1}, 0, SizeOf(spec.type)}};
  rows.ns_per_element = elementwise::RowOf(spec.op).row_ns;
  return MakeRows(rows);
}

Result<Kernel> MakeBinaryRows(const BinarySpec& spec) {
  static constexpr char kName[] = "binary_rows";
  RowsSpec rows;
  rows.name = kName;
  rows.row = FindBinaryRow(spec.op, spec.type);
  if (rows.row == nullptr) return NotOf(kName, elementwise::RowOf(spec.op).name, spec.type);
  if (spec.epilogue.activation != Activation::kNone) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{}: an activation behind an op on {}", kName, OipName(spec.type)));
  }
  rows.out = spec.out;
  rows.out_bytes = SizeOf(ResultType(spec.op, spec.type));
  rows.ns_per_element = NsPerElement(spec.op, spec.type);
  const std::size_t bytes = SizeOf(spec.type);
  return MakeBroadcast(std::move(rows), {{spec.a, bytes}, {spec.b, bytes}});
}

Result<Kernel> MakeWhere(const WhereSpec& spec) {
  const std::size_t bytes = SizeOf(spec.type);
  RowsSpec rows;
  rows.name = "where";
  rows.out = spec.out;
  rows.out_bytes = bytes;
  rows.row = FindWhereRow(bytes);
  rows.ns_per_element = elementwise::kShortNs;
  return MakeBroadcast(std::move(rows), {{spec.condition, 1}, {spec.a, bytes}, {spec.b, bytes}});
}

Result<Kernel> MakeCast(std::size_t count, DataType from, DataType to) {
  LAGOON_RETURN_IF_ERROR(CheckPositive("cast", {{"count", count}}));
  RowsSpec rows;
  rows.name = "cast";
  rows.row = FindCastRow(from, to);
  rows.out = {static_cast<std::int64_t>(count)};
  rows.out_bytes = SizeOf(to);
  rows.inputs = {{{1}, 0, SizeOf(from)}};
  rows.ns_per_element = elementwise::kShortNs;
  return MakeRows(rows);
}

Result<Kernel> MakeQuantize(const QuantizeSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(
      RowsSpec rows, PerAxis("quantize", spec, FindVectorQuantizeRow(spec.quantized) != nullptr));
  rows.row = FindQuantizeRow(spec.quantized);
  if (rows.row == nullptr) return NotOf("quantize", "the op", spec.quantized);
  rows.out_bytes = SizeOf(spec.quantized);
  const Shape per_axis{static_cast<std::int64_t>(spec.axis), 1};
  const Shape out = rows.out;
  return MakeBroadcast(std::move(rows),
                       {{out, 4}, {per_axis, 4}, {per_axis, SizeOf(spec.quantized)}});
}

Result<Kernel> MakeDequantize(const QuantizeSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(
      RowsSpec rows,
      PerAxis("dequantize", spec, FindVectorDequantizeRow(spec.quantized) != nullptr));
  rows.row = FindDequantizeRow(spec.quantized);
  if (rows.row == nullptr) return NotOf("dequantize", "the op", spec.quantized);
  const Shape per_axis{static_cast<std::int64_t>(spec.axis), 1};
  const Shape out = rows.out;
  const std::size_t bytes = SizeOf(spec.quantized);
  return MakeBroadcast(std::move(rows), {{out, bytes}, {per_axis, 4}, {per_axis, bytes}});
}

}  // namespace lagoon
