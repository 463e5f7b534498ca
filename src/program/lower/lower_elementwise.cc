#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "kernels/ops.h"
#include "plan/elementwise_ops.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

/// The function that a node of one input computes.
struct Function {
  UnaryOp op = UnaryOp::kCopy;
  float alpha = 0, beta = 0;
};

float ValueOf(const elementwise::Parameter& parameter, const Node& node) {
  if (parameter.attribute == nullptr) return 0;
  if (parameter.kind == 'f') return node.Float(parameter.attribute, parameter.otherwise);
  const auto otherwise = static_cast<std::int64_t>(parameter.otherwise);
  return static_cast<float>(node.Int(parameter.attribute, otherwise));
}

Function FunctionOf(const Node& node) {
  const bool tanh = node.op == "Gelu" && node.String("approximate", "none") == "tanh";
  const elementwise::UnaryRow* row = elementwise::FindUnary(tanh ? "GeluTanh" : node.op);
  LAGOON_CHECK(row != nullptr);
  return {row->op, ValueOf(row->alpha, node), ValueOf(row->beta, node)};
}

BinaryOp BinaryOpOf(const Node& node) {
  if (node.op == "Sum" || node.op == "Mean") return BinaryOp::kAdd;
  if (node.op == "Mod") return node.Int("fmod", 0) != 0 ? BinaryOp::kFmod : BinaryOp::kMod;
  if (node.op == "BitShift") {
    return node.String("direction", "") == "LEFT" ? BinaryOp::kShiftLeft : BinaryOp::kShiftRight;
  }
  const elementwise::BinaryRow* row = elementwise::FindBinary(node.op);
  LAGOON_CHECK(row != nullptr);
  return row->op;
}

/// The inputs of a broadcasting node. Those of the output's rank are in the cheapest layout.
Result<std::vector<Tensor>> UseAll(ProgramBuilder& builder, const Node& node) {
  const std::size_t rank = builder.dims(node.outputs[0]).size();
  const bool image = rank == 3 || rank == 4;
  const Layout layout = image ? builder.CheapestLayout(node.inputs) : Layout::kPlain;
  std::vector<Tensor> inputs;
  for (const ValueId id : node.inputs) {
    const bool full = builder.dims(id).size() == rank;
    LAGOON_ASSIGN_OR_RETURN(inputs.emplace_back(), builder.Use(id, full ? layout : Layout::kPlain));
  }
  return inputs;
}

/// Lowers a Clip with bounds that are inputs.
Status LowerBounds(ProgramBuilder& builder, const Node& node) {
  const Layout layout = builder.CheapestLayout(std::span(node.inputs).first(1));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, builder.Use(node.inputs[0], layout));
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    LAGOON_ASSIGN_OR_RETURN(Tensor bound, builder.Use(node.inputs[i], Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(bound, builder.Reshape(bound, {}));
    LAGOON_ASSIGN_OR_RETURN(
        y, EmitBinary(builder, node.name, i == 1 ? BinaryOp::kMax : BinaryOp::kMin, y, bound));
  }
  builder.Define(node.outputs[0], y);
  return {};
}

}  // namespace

void SetFunction(const Fused& fused, Epilogue& epilogue) {
  Node node;
  node.op = fused.op;
  node.attributes = fused.attributes;
  const Function function = FunctionOf(node);
  epilogue.activation = Activation::kUnary;
  epilogue.unary = function.op;
  epilogue.alpha = function.alpha;
  epilogue.beta = function.beta;
}

Status LowerUnary(ProgramBuilder& builder, const Node& node) {
  if (node.inputs.size() > 1) return LowerBounds(builder, node);
  const Function function = FunctionOf(node);
  const Layout layout = builder.CheapestLayout(node.inputs);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  LAGOON_ASSIGN_OR_RETURN(
      const Tensor y, EmitUnary(builder, node.name, function.op, x, function.alpha, function.beta));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerBinary(ProgramBuilder& builder, const Node& node) {
  if (node.fused.residual != kNoValue) {
    return Fail(ErrorCode::kInternal, "a residual is fused into an elementwise op");
  }
  LAGOON_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, UseAll(builder, node));
  Tensor y = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const bool last = i + 1 == inputs.size();
    const std::string name = last ? node.name : fmt::format("{}.{}", node.name, i);
    LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, name, BinaryOpOf(node), y, inputs[i],
                                          last ? EpilogueOf(node.fused) : Epilogue()));
  }
  if (node.op == "Mean" && inputs.size() > 1) {
    const Tensor count = ConstantNumber(builder, y.type, static_cast<double>(inputs.size()));
    LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kDiv, y, count));
  }
  builder.Define(node.outputs[0], y);
  return {};
}

namespace {

/// Whether the node squares floats and keeps their shape.
bool IsSquare(const ProgramBuilder& builder, const Node& node) {
  const Constant* const exponent = builder.constant(node.inputs[1]);
  if (exponent == nullptr || ElementCount(exponent->dims) != 1 ||
      !IsFloat(builder.type(node.inputs[0])) ||
      builder.dims(node.inputs[0]) != builder.dims(node.outputs[0])) {
    return false;
  }
  if (exponent->type == DataType::kFloat32) return exponent->floats()[0] == 2;
  const bool integer = exponent->type == DataType::kInt32 || exponent->type == DataType::kInt64;
  return integer && exponent->ToInt64()[0] == 2;
}

/// A product: a power took 80 times as long.
Status LowerSquare(ProgramBuilder& builder, const Node& node) {
  const std::array<ValueId, 1> one{node.inputs[0]};
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(one[0], builder.CheapestLayout(one)));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitBinary(builder, node.name, BinaryOp::kMul, x, x));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerPow(ProgramBuilder& builder, const Node& node) {
  if (IsSquare(builder, node)) return LowerSquare(builder, node);
  LAGOON_ASSIGN_OR_RETURN(std::vector<Tensor> inputs, UseAll(builder, node));
  const DataType type = inputs[0].type;
  // A fractional power of integers is computed in fp64.
  const bool fraction = !IsFloat(type) && IsFloat(inputs[1].type);
  for (Tensor& input : inputs) {
    LAGOON_ASSIGN_OR_RETURN(
        input, EmitCast(builder, node.name, input, fraction ? DataType::kFloat64 : type));
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor y,
                          EmitBinary(builder, node.name, BinaryOp::kPow, inputs[0], inputs[1]));
  LAGOON_ASSIGN_OR_RETURN(y, EmitCast(builder, node.name, y, type));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerCast(ProgramBuilder& builder, const Node& node) {
  const Layout layout = builder.CheapestLayout(node.inputs);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          EmitCast(builder, node.name, x, builder.type(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerWhere(ProgramBuilder& builder, const Node& node) {
  std::vector<Tensor> x;
  for (const ValueId id : node.inputs) {
    LAGOON_ASSIGN_OR_RETURN(x.emplace_back(), builder.Use(id, Layout::kPlain));
  }
  const Tensor y =
      builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kPlain, x[1].type);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name,
                      [&](auto& make) {
                        return make.Where({x[0].dims, x[1].dims, x[2].dims, y.dims, y.type});
                      },
                      {builder.All(x[0]), builder.All(x[1]), builder.All(x[2])}, {builder.All(y)});
}

constexpr Lowering kElementwiseLowerings[] = {
    {"Add", LowerBinary, Lowering::kWide, true},
    {"Sub", LowerBinary, Lowering::kWide, true},
    {"Mul", LowerBinary, Lowering::kWide, true},
    {"Div", LowerBinary, Lowering::kWide, true},
    {"Sum", LowerBinary, Lowering::kWide},
    {"Mean", LowerBinary, Lowering::kWide},
    {"BitShift", LowerBinary},
    {"Pow", LowerPow, Lowering::kWide},
    {"Where", LowerWhere, Lowering::kMoves},
    {"Cast", LowerCast},
};

}  // namespace

std::span<const Lowering> ElementwiseLowerings() { return kElementwiseLowerings; }

}  // namespace lagoon
