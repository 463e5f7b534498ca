// The typed elementwise ops; fp32 ops with a vector body are in unary.cc and binary.cc.

#include "kernels/elementwise/elementwise.h"

#include <fmt/format.h>

#include "kernels/checks.h"
#include "kernels/elementwise/element_rows.h"
#include "kernels/elementwise/row_functions.h"

namespace lagoon {
namespace {

using Shape = std::vector<std::int64_t>;

// Measured on a Xeon at 2 GHz, one thread: functions of the C library, and loops over narrow types.
constexpr double kNsPerLibraryCall = 20;
constexpr double kNsPerElement = 2.5;

/// Worst case, because some ops take longer for some numbers. Measured as above, on numbers far
/// apart.
double NsPerElement(BinaryOp op, DataType type) {
  constexpr double kNsPerFmod = 350, kNsPerFmod64 = 1800, kNsPerIntegerPower = 70;
  switch (op) {
    case BinaryOp::kMod:
    case BinaryOp::kFmod:
      if (!IsFloat(type)) return kNsPerLibraryCall;
      return type == DataType::kFloat64 ? kNsPerFmod64 : kNsPerFmod;
    case BinaryOp::kPow:
      return IsFloat(type) ? kNsPerLibraryCall : kNsPerIntegerPower;
    default:
      return kNsPerElement;
  }
}

bool IsLibraryCall(UnaryOp op) {
  switch (op) {
    case UnaryOp::kRelu:
    case UnaryOp::kClip:
    case UnaryOp::kSqrt:
    case UnaryOp::kAbs:
    case UnaryOp::kNeg:
    case UnaryOp::kLeakyRelu:
    case UnaryOp::kHardSwish:
    case UnaryOp::kHardSigmoid:
    case UnaryOp::kCopy:
    case UnaryOp::kReciprocal:
    case UnaryOp::kSign:
    case UnaryOp::kSoftsign:
    case UnaryOp::kThresholdedRelu:
    case UnaryOp::kShrink:
    case UnaryOp::kNot:
    case UnaryOp::kBitwiseNot:
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
      return false;
    default:
      return true;
  }
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

tl::unexpected<Error> NotOf(const char* name, int op, DataType type) {
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("{}: op {} is not defined on {}", name, op, OipName(type)));
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

Result<RowsSpec> PerAxis(const char* name, const QuantizeSpec& q) {
  LAGOON_RETURN_IF_ERROR(
      CheckElements(name, "x", {{"outer", q.outer}, {"axis", q.axis}, {"inner", q.inner}}));
  RowsSpec spec;
  spec.name = name;
  spec.ns_per_element = kNsPerElement;
  spec.out = {static_cast<std::int64_t>(q.outer), static_cast<std::int64_t>(q.axis),
              static_cast<std::int64_t>(q.inner)};
  return spec;
}

}  // namespace

DataType ResultType(UnaryOp op, DataType type) {
  return op == UnaryOp::kIsNan || op == UnaryOp::kIsInf ? DataType::kBool : type;
}

DataType ResultType(BinaryOp op, DataType type) {
  return op >= BinaryOp::kEqual ? DataType::kBool : type;
}

Result<Kernel> MakeUnaryRows(const UnarySpec& spec) {
  static constexpr char kName[] = "unary_rows";
  LAGOON_RETURN_IF_ERROR(CheckPositive(kName, {{"count", spec.count}}));
  RowsSpec rows;
  rows.name = kName;
  rows.row = FindUnaryRow(spec.op, spec.type);
  if (rows.row == nullptr) return NotOf(kName, static_cast<int>(spec.op), spec.type);
  rows.params = {spec.alpha, spec.beta};
  rows.out = {static_cast<std::int64_t>(spec.count)};
  rows.out_bytes = SizeOf(ResultType(spec.op, spec.type));
  rows.inputs = {{{1}, 0, SizeOf(spec.type)}};
  rows.ns_per_element = IsLibraryCall(spec.op) ? kNsPerLibraryCall : kNsPerElement;
  return MakeRows(rows);
}

Result<Kernel> MakeBinaryRows(const BinarySpec& spec) {
  static constexpr char kName[] = "binary_rows";
  RowsSpec rows;
  rows.name = kName;
  rows.row = FindBinaryRow(spec.op, spec.type);
  if (rows.row == nullptr) return NotOf(kName, static_cast<int>(spec.op), spec.type);
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
  rows.ns_per_element = kNsPerElement;
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
  rows.ns_per_element = kNsPerElement;
  return MakeRows(rows);
}

Result<Kernel> MakeQuantize(const QuantizeSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(RowsSpec rows, PerAxis("quantize", spec));
  rows.row = FindQuantizeRow(spec.quantized);
  if (rows.row == nullptr) return NotOf("quantize", 0, spec.quantized);
  rows.out_bytes = SizeOf(spec.quantized);
  const Shape per_axis{static_cast<std::int64_t>(spec.axis), 1};
  const Shape out = rows.out;
  return MakeBroadcast(std::move(rows),
                       {{out, 4}, {per_axis, 4}, {per_axis, SizeOf(spec.quantized)}});
}

Result<Kernel> MakeDequantize(const QuantizeSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(RowsSpec rows, PerAxis("dequantize", spec));
  rows.row = FindDequantizeRow(spec.quantized);
  if (rows.row == nullptr) return NotOf("dequantize", 0, spec.quantized);
  const Shape per_axis{static_cast<std::int64_t>(spec.axis), 1};
  const Shape out = rows.out;
  const std::size_t bytes = SizeOf(spec.quantized);
  return MakeBroadcast(std::move(rows), {{out, bytes}, {per_axis, 4}, {per_axis, bytes}});
}

}  // namespace lagoon
