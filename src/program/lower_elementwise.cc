#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kernels/ops.h"
#include "program/lower_nodes.h"

namespace lagoon {
namespace {

/// `alpha` and `beta` of UnarySpec: the node's attributes of these names, or the defaults.
struct UnaryLowering {
  std::string_view name;
  UnaryOp op;
  const char* alpha = nullptr;
  float alpha_default = 0;
  const char* beta = nullptr;
  float beta_default = 0;
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr UnaryLowering kUnary[] = {
    {"Relu", UnaryOp::kRelu},
    {"Clip", UnaryOp::kClip, "min", -kInfinity, "max", kInfinity},
    {"Sigmoid", UnaryOp::kSigmoid},
    {"Tanh", UnaryOp::kTanh},
    {"Exp", UnaryOp::kExp},
    {"Log", UnaryOp::kLog},
    {"Sqrt", UnaryOp::kSqrt},
    {"Abs", UnaryOp::kAbs},
    {"Neg", UnaryOp::kNeg},
    {"LeakyRelu", UnaryOp::kLeakyRelu, "alpha", 0.01F},
    {"HardSwish", UnaryOp::kHardSwish},
    {"HardSigmoid", UnaryOp::kHardSigmoid, "alpha", 0.2F, "beta", 0.5F},
};

struct BinaryLowering {
  std::string_view name;
  BinaryOp op;
};

constexpr BinaryLowering kBinary[] = {
    {"Add", BinaryOp::kAdd}, {"Sub", BinaryOp::kSub}, {"Mul", BinaryOp::kMul},
    {"Div", BinaryOp::kDiv}, {"Pow", BinaryOp::kPow}, {"Min", BinaryOp::kMin},
    {"Max", BinaryOp::kMax}, {"Sum", BinaryOp::kAdd},
};

template <typename Table>
const auto& Find(const Table& table, const Node& node) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const auto& row) { return row.name == node.op; });
  LAGOON_CHECK(found != std::end(table));
  return *found;
}

Dims Broadcast(const Dims& a, const Dims& b) {
  Dims out = a;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max(a[i], b[i]);
  return out;
}

/// An operand of a broadcast to `rank` axes: leading axes of one are added, then it is moved.
Result<Tensor> UseAtRank(ProgramBuilder& builder, ValueId value, std::size_t rank, Layout layout) {
  Dims dims = builder.dims(value);
  if (dims.size() == rank) return builder.Use(value, layout);
  if (dims.size() > rank) {
    return Fail(ErrorCode::kInternal,
                fmt::format("operand {} has more axes than the output's {}", ToString(dims), rank));
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor plain, builder.Use(value, Layout::kPlain));
  dims.insert(dims.begin(), rank - dims.size(), 1);
  LAGOON_ASSIGN_OR_RETURN(const Tensor padded, builder.Reshape(plain, dims));
  return builder.Convert(padded, layout);
}

}  // namespace

Status LowerUnary(ProgramBuilder& builder, const Node& node) {
  const UnaryLowering& lowering = Find(kUnary, node);
  UnarySpec spec;
  spec.op = lowering.op;
  spec.count = static_cast<std::size_t>(ElementCount(builder.dims(node.outputs[0])));
  if (lowering.alpha != nullptr) spec.alpha = node.Float(lowering.alpha, lowering.alpha_default);
  if (lowering.beta != nullptr) spec.beta = node.Float(lowering.beta, lowering.beta_default);
  const Layout layout = builder.CheapestLayout(std::span(node.inputs).first(1));
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  const Tensor y = builder.NewTensor(node.name, x.dims, layout);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, MakeUnary(spec), {builder.All(x)}, {builder.All(y)});
}

Status LowerBinary(ProgramBuilder& builder, const Node& node) {
  const BinaryLowering& lowering = Find(kBinary, node);
  if (node.fused.residual != kNoValue) {
    return Fail(ErrorCode::kInternal, "a residual is fused into an elementwise op");
  }
  const Dims out_dims = builder.dims(node.outputs[0]);
  const std::size_t rank = out_dims.size();
  const Layout layout = rank == 4 ? builder.CheapestLayout(node.inputs) : Layout::kPlain;
  LAGOON_ASSIGN_OR_RETURN(Tensor a, UseAtRank(builder, node.inputs[0], rank, layout));
  if (node.inputs.size() == 1) {  // Sum, Min and Max of one operand
    builder.Define(node.outputs[0], a);
    return {};
  }
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const bool last = i + 1 == node.inputs.size();
    LAGOON_ASSIGN_OR_RETURN(const Tensor b, UseAtRank(builder, node.inputs[i], rank, layout));
    const std::string name = last ? node.name : fmt::format("{}.{}", node.name, i);
    const Tensor y = builder.NewTensor(name, Broadcast(a.dims, b.dims), layout);
    BinarySpec spec;
    spec.op = lowering.op;
    spec.a = a.physical();
    spec.b = b.physical();
    spec.out = y.physical();
    if (last) spec.epilogue = EpilogueOf(node.fused);
    LAGOON_RETURN_IF_ERROR(
        builder.Emit(name, MakeBinary(spec), {builder.All(a), builder.All(b)}, {builder.All(y)}));
    a = y;
  }
  builder.Define(node.outputs[0], a);
  return {};
}

}  // namespace lagoon
