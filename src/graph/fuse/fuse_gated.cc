// Activations that exporters write out: x times a function of x.

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "graph/fuse/formula.h"
#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

/// A Gelu of x, with its attribute `approximate`.
struct Gelu {
  ValueId x = kNoValue;
  const char* approximate = "";
};

/// A product of a number and values, in whatever order the exporter multiplied them.
struct Product {
  ValueId leaf = kNoValue;  // is a factor, whatever computes it
  double number = 1;
  std::vector<ValueId> factors = {};
  std::size_t nodes = 0;  // looked through
};

constexpr std::size_t kMostNodes = 4;

void Multiply(const GraphEditor& editor, ValueId value, Product& product) {
  if (const std::optional<double> number = NumberOf(editor, value)) {
    product.number *= *number;
    return;
  }
  const Node* const power = ComputedBy(editor, value, "Pow");
  if (power != nullptr && IsNumber(editor, power->inputs[1], 3)) {
    product.factors.insert(product.factors.end(), 3, power->inputs[0]);
    return;
  }
  const Node* const node = ComputedBy(editor, value, "Mul");
  if (node == nullptr || value == product.leaf || product.nodes == kMostNodes) {
    product.factors.push_back(value);
    return;
  }
  ++product.nodes;
  for (const ValueId input : node->inputs) Multiply(editor, input, product);
}

/// x, if `value` is x + 0.044715 x^3.
std::optional<ValueId> CubicOf(const GraphEditor& editor, ValueId value) {
  constexpr double kFactor = 0.044715, kPrecision = 1e-6;
  const Node* const sum = ComputedBy(editor, value, "Add");
  for (std::size_t side = 0; sum != nullptr && side < 2; ++side) {
    const ValueId x = sum->inputs[1 - side];
    Product cube{.leaf = x};
    if (const Node* const scaled = ComputedBy(editor, sum->inputs[side], "Mul")) {
      for (const ValueId input : scaled->inputs) Multiply(editor, input, cube);
    }
    if (std::abs(cube.number - kFactor) > kPrecision * kFactor) continue;
    if (cube.factors == std::vector<ValueId>(3, x)) return x;
  }
  return std::nullopt;
}

/// x, if `value` is 1 + erf(x / sqrt(2)), or its approximation with tanh.
std::optional<Gelu> GeluGateOf(const GraphEditor& editor, ValueId value) {
  const std::optional<ValueId> function = OtherThan(editor, value, "Add", 1);
  if (!function) return std::nullopt;
  constexpr double kPrecision = 1e-6;
  if (const Node* const erf = ComputedBy(editor, *function, "Erf")) {
    const Scaled scaled = ScaledOf(editor, erf->inputs[0]);
    if (std::abs(scaled.factor - std::sqrt(0.5)) > kPrecision) return std::nullopt;
    return Gelu{scaled.of, "none"};
  }
  if (const Node* const tanh = ComputedBy(editor, *function, "Tanh")) {
    const Scaled scaled = ScaledOf(editor, tanh->inputs[0]);
    if (std::abs(scaled.factor - std::sqrt(2 / std::acos(-1.0))) > kPrecision) return std::nullopt;
    const std::optional<ValueId> x = CubicOf(editor, scaled.of);
    if (x) return Gelu{*x, "tanh"};
  }
  return std::nullopt;
}

/// The factors of a product of three: a product of two, one of which is itself a product.
using Factors = std::array<ValueId, 3>;

std::optional<Gelu> GeluOf(const GraphEditor& editor, const Factors& factors) {
  for (std::size_t gate = 0; gate < 3; ++gate) {
    const std::optional<Gelu> gelu = GeluGateOf(editor, factors[gate]);
    if (!gelu) continue;
    const ValueId a = factors[(gate + 1) % 3], b = factors[(gate + 2) % 3];
    if ((a == gelu->x && IsNumber(editor, b, 0.5)) || (b == gelu->x && IsNumber(editor, a, 0.5))) {
      return gelu;
    }
  }
  return std::nullopt;
}

void TryGelu(GraphEditor& editor, std::size_t i) {
  Node& node = editor.node(i);
  for (std::size_t side = 0; side < 2; ++side) {
    const Node* const product = ComputedBy(editor, node.inputs[side], "Mul");
    if (product == nullptr) continue;
    const std::optional<Gelu> gelu =
        GeluOf(editor, {product->inputs[0], product->inputs[1], node.inputs[1 - side]});
    if (!gelu || editor.value(gelu->x).dims != editor.value(node.outputs[0]).dims) continue;
    node.op = "Gelu";
    node.inputs = {gelu->x};
    node.attributes = {{"approximate", std::string(gelu->approximate)}};
    return;
  }
}

void TrySwish(GraphEditor& editor, std::size_t i) {
  Node& node = editor.node(i);
  for (std::size_t side = 0; side < 2; ++side) {
    const Node* const sigmoid = ComputedBy(editor, node.inputs[side], "Sigmoid");
    const ValueId x = node.inputs[1 - side];
    if (sigmoid == nullptr || sigmoid->inputs[0] != x) continue;
    node.op = "Swish";
    node.inputs = {x};
    return;
  }
}

/// If `value` = factor * HardSigmoid(x) with HardSwish's slope, which is also
/// clip(x + 3, 0, 6) / 6: x and the factor.
std::optional<Scaled> HardGateOf(const GraphEditor& editor, ValueId value) {
  constexpr float kSlope = 1.0f / 6, kShift = 0.5f, kPrecision = 1e-6f;
  const Scaled scaled = ScaledOf(editor, value);
  if (const Node* const gate = ComputedBy(editor, scaled.of, "HardSigmoid")) {
    if (std::abs(gate->Float("alpha", 0) - kSlope) > kPrecision) return std::nullopt;
    if (std::abs(gate->Float("beta", 0) - kShift) > kPrecision) return std::nullopt;
    return Scaled{gate->inputs[0], scaled.factor};
  }
  const Node* const clip = ComputedBy(editor, scaled.of, "Clip");
  if (clip == nullptr || clip->inputs.size() != 1) return std::nullopt;
  if (clip->Float("min", -1) != 0 || clip->Float("max", -1) != 6) return std::nullopt;
  const std::optional<ValueId> x = OtherThan(editor, clip->inputs[0], "Add", 3);
  return x ? std::optional(Scaled{*x, 6 * scaled.factor}) : std::nullopt;
}

/// x * HardSigmoid(x), as ONNX Runtime writes a HardSwish, or x * clip(x + 3, 0, 6) / 6, as other
/// exporters do. The division may come before the product.
void TryHardSwish(GraphEditor& editor, std::size_t i) {
  constexpr double kPrecision = 1e-6;
  Node& node = editor.node(i);
  const Scaled scaled = ScaledOf(editor, node.outputs[0]);
  const Node* const product = ComputedBy(editor, scaled.of, "Mul");
  for (std::size_t side = 0; product != nullptr && side < 2; ++side) {
    const std::optional<Scaled> gate = HardGateOf(editor, product->inputs[side]);
    const ValueId x = product->inputs[1 - side];
    if (!gate || gate->of != x || std::abs(scaled.factor * gate->factor - 1) > kPrecision) continue;
    node.op = "HardSwish";
    node.inputs = {x};
    return;
  }
}

}  // namespace

void FuseGatedActivations(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    const Node& node = editor.node(i);
    if ((node.op != "Mul" && node.op != "Div") || node.inputs.size() != 2) continue;
    if (editor.value(node.outputs[0]).type != DataType::kFloat32) continue;
    if (node.op == "Mul") TryGelu(editor, i);
    if (node.op == "Mul") TrySwish(editor, i);
    if (node.op == "Mul" || node.op == "Div") TryHardSwish(editor, i);
  }
  editor.Finish();
}

}  // namespace lagoon
