// Products of quantised activations with constant quantised weights.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

constexpr std::size_t kWeights = 1, kBias = 2, kXScale = 3, kWScale = 4, kXZero = 5, kWZero = 6;

ValueId InputOr(const Node& node, std::size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoValue;
}

/// w - zero point as 16-bit integers [K,N], in the kernel's packed form. `zero`: null, one number
/// or one for each column.
std::function<void(std::byte*)> PackIntegers(const Constant& w, const Constant* zero) {
  std::optional<Constant> point;
  if (zero != nullptr) point = *zero;
  return [w, point](std::byte* to) {
    const std::vector<std::int64_t> levels = w.ToInt64();
    const std::vector<std::int64_t> zeros = point ? point->ToInt64() : std::vector<std::int64_t>{0};
    const auto depth = static_cast<std::size_t>(w.dims[0]);
    const auto columns = static_cast<std::size_t>(w.dims[1]);
    std::vector<std::int16_t> centered(levels.size());
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const std::int64_t by = zeros[zeros.size() == 1 ? 0 : i % columns];
      centered[i] = static_cast<std::int16_t>(levels[i] - by);
    }
    w.bytes.Release();
    PackIntegerWeights(depth, columns, centered.data(), to);
  };
}

/// True if the weights minus their zero point are signed bytes.
bool AreBytes(const Constant& w, const Constant* zero) {
  const std::int64_t centre = w.type == DataType::kUInt8 ? 128 : 0;
  if (zero == nullptr) return centre == 0;
  const std::vector<std::int64_t> zeros = zero->ToInt64();
  return std::ranges::all_of(zeros, [&](std::int64_t point) { return point == centre; });
}

/// The same weights as bytes [N,K], in the kernel's other packed form.
std::function<void(std::byte*)> PackBytes(const Constant& w) {
  return [w](std::byte* to) {
    const auto depth = static_cast<std::size_t>(w.dims[0]);
    const auto columns = static_cast<std::size_t>(w.dims[1]);
    const int flip = w.type == DataType::kUInt8 ? 0x80 : 0;
    std::vector<std::int8_t> levels(depth * columns);
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const auto byte = std::to_integer<int>((*w.bytes)[i % depth * columns + i / depth]);
      levels[i] = static_cast<std::int8_t>(byte ^ flip);
    }
    w.bytes.Release();
    PackIntegerByteWeights(depth, columns, levels.data(), to);
  };
}

/// The fp32 input `i` with one element for each of `columns` columns; `otherwise` without it.
Result<Tensor> PerColumn(ProgramBuilder& builder, const Node& node, std::size_t i,
                         std::int64_t columns, float otherwise) {
  if (InputOr(node, i) == kNoValue) {
    const std::vector<float> same(static_cast<std::size_t>(columns), otherwise);
    return ConstantTensor(builder, node.name + ".columns", DataType::kFloat32, {columns}, same);
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor x, builder.Use(node.inputs[i], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(x, builder.Reshape(x, {ElementCount(x.dims)}));
  return EmitExpand(builder, node.name + ".columns", x, {columns});
}

/// The one number in input `i`; `otherwise` if it is left out.
Result<Tensor> NumberOr(ProgramBuilder& builder, const Node& node, std::size_t i, DataType type,
                        float otherwise) {
  if (InputOr(node, i) == kNoValue) return ConstantNumber(builder, type, otherwise);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[i], Layout::kPlain));
  return builder.Reshape(x, {});
}

/// What both ways to compute the node read.
struct Operands {
  Tensor x, x_zero, x_scale, w_scale, bias;
  std::optional<Tensor> residual;
};

Result<Operands> OperandsOf(ProgramBuilder& builder, const Node& node, std::int64_t columns) {
  Operands from;
  LAGOON_ASSIGN_OR_RETURN(from.x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(from.x_zero, NumberOr(builder, node, kXZero, from.x.type, 0));
  LAGOON_ASSIGN_OR_RETURN(from.x_scale, NumberOr(builder, node, kXScale, DataType::kFloat32, 1));
  LAGOON_ASSIGN_OR_RETURN(from.w_scale, PerColumn(builder, node, kWScale, columns, 1));
  LAGOON_ASSIGN_OR_RETURN(from.bias, PerColumn(builder, node, kBias, columns, 0));
  if (node.fused.residual != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(from.residual, builder.Use(node.fused.residual, Layout::kPlain));
  }
  return from;
}

/// With kernels that every device has.
Status LowerAsSteps(ProgramBuilder& builder, const Node& node, const Operands& from) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, EmitCentered(builder, node.name, from.x, &from.x_zero));
  LAGOON_ASSIGN_OR_RETURN(Tensor w, builder.Use(node.inputs[kWeights], Layout::kPlain));
  std::optional<Tensor> w_zero;
  if (InputOr(node, kWZero) != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(w_zero, builder.Use(node.inputs[kWZero], Layout::kPlain));
  }
  LAGOON_ASSIGN_OR_RETURN(w, EmitCentered(builder, node.name, w, w_zero ? &*w_zero : nullptr));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitMatMul(builder, node.name, x, w));
  LAGOON_ASSIGN_OR_RETURN(y, EmitCast(builder, node.name, y, DataType::kFloat32));
  LAGOON_ASSIGN_OR_RETURN(const Tensor scale, EmitBinary(builder, node.name, BinaryOp::kMul,
                                                         from.x_scale, from.w_scale));
  LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kMul, y, scale));
  Epilogue epilogue = EpilogueOf(node.fused);
  const bool last = std::exchange(epilogue.residual_last, false);
  const bool now = !from.residual || last;
  LAGOON_ASSIGN_OR_RETURN(
      y, EmitBinary(builder, node.name, BinaryOp::kAdd, y, from.bias, now ? epilogue : Epilogue()));
  if (from.residual) {
    LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kAdd, y, *from.residual,
                                          now ? Epilogue() : epilogue));
  }
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerIntegerLinear(ProgramBuilder& builder, const Node& node) {
  const Constant* const w = builder.constant(node.inputs[kWeights]);
  if (w == nullptr) return Fail(ErrorCode::kInternal, "the weights are not constant");
  LAGOON_ASSIGN_OR_RETURN(const Operands from, OperandsOf(builder, node, w->dims[1]));
  if (!builder.options().on_cpu()) return LowerAsSteps(builder, node, from);
  IntegerLinearSpec spec;
  spec.depth = static_cast<std::size_t>(w->dims[0]);
  spec.columns = static_cast<std::size_t>(w->dims[1]);
  spec.rows = static_cast<std::size_t>(ElementCount(from.x.dims)) / spec.depth;
  spec.x_type = from.x.type;
  spec.epilogue = EpilogueOf(node.fused);
  spec.epilogue.residual = from.residual.has_value();
  const ValueId w_zero = InputOr(node, kWZero);
  const Constant* const zero = w_zero == kNoValue ? nullptr : builder.constant(w_zero);
  spec.byte_weights = TakesByteWeights(spec) && AreBytes(*w, zero);
  const BufferId weights = builder.AddConstant(
      node.name + ".weights",
      spec.byte_weights ? PackedIntegerByteWeightBytes(spec.depth, spec.columns)
                        : PackedIntegerWeightBytes(spec.depth, spec.columns),
      spec.byte_weights ? PackBytes(*w) : PackIntegers(*w, zero),
      fmt::format("{} - {} integer_linear {}", builder.KeyOf(node.inputs[kWeights]),
                  zero == nullptr ? "0" : builder.KeyOf(w_zero), spec.byte_weights));
  std::vector<Operand> inputs{builder.All(from.x),       builder.All(from.x_zero),
                              builder.All(weights),      builder.All(from.x_scale),
                              builder.All(from.w_scale), builder.All(from.bias)};
  if (from.residual) inputs.push_back(builder.All(*from.residual));
  const Tensor y = builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kPlain);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, [&](auto& make) { return make.IntegerLinear(spec); },
                      std::move(inputs), {builder.All(y)});
}

constexpr Lowering kIntegerLinearLowerings[] = {
    {"IntegerLinear", LowerIntegerLinear, Lowering::kAny, true},
};

}  // namespace

std::span<const Lowering> IntegerLinearLowerings() { return kIntegerLinearLowerings; }

}  // namespace lagoon
