// Activation functions, with or without a bias before them.

#include <fmt/format.h>

#include "base/text.h"
#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {

ValueId Activated(Writer& w, ValueId x, const ActivationOf& activation) {
  const auto parameter = [&](std::size_t i, float otherwise) {
    return i < activation.parameters.size() ? activation.parameters[i] : otherwise;
  };
  const std::string& op = activation.op;
  if (op.empty()) return x;
  if (op == "Relu" || op == "Tanh" || op == "Sigmoid") return w.Op(op, {x});
  if (op == "LeakyRelu") return w.Op(op, {x}, {{"alpha", parameter(0, 0.01f)}});
  if (op == "HardSigmoid") {
    return w.Op(op, {x}, {{"alpha", parameter(0, 0.2f)}, {"beta", parameter(1, 0.5f)}});
  }
  if (op == "Clip" && activation.parameters.size() == 2) {
    const DataType type = w.TypeOf(x);
    return w.Op(op, {x, w.Number(parameter(0, 0), type), w.Number(parameter(1, 0), type)});
  }
  w.Refuse(
      w.context().Unimplemented(fmt::format("activation {} with {} parameters is not supported",
                                            Quoted(op), activation.parameters.size())));
  return kNoValue;
}

ValueId Gelu(Writer& w, ValueId x, const char* approximate) {
  return w.Op("Gelu", {x}, {{"approximate", std::string(approximate)}});
}

namespace {

void ExpandGelu(Writer& w) { w.SetOutput(0, Gelu(w, w.In(0), "none")); }

void ExpandBiasGelu(Writer& w) { w.SetOutput(0, Gelu(w, w.AddIfAny(w.In(0), w.In(1)), "none")); }

void ExpandFastGelu(Writer& w) { w.SetOutput(0, Gelu(w, w.AddIfAny(w.In(0), w.In(1)), "tanh")); }

// x * sigmoid(alpha * x)
ValueId Swish(Writer& w, ValueId x, float otherwise) {
  return w.Mul(x, w.Op("Sigmoid", {w.Scaled(x, w.node().Float("alpha", otherwise))}));
}

void ExpandQuickGelu(Writer& w) { w.SetOutput(0, Swish(w, w.In(0), 1.702f)); }

void ExpandSwish(Writer& w) { w.SetOutput(0, Swish(w, w.In(0), 1)); }

void ExpandSwiGlu(Writer& w) {
  if (w.DimsOf(w.In(0)) != w.DimsOf(w.In(1))) {
    w.Refuse(
        w.context().Invalid(fmt::format("has inputs of shapes {} and {}, takes equal ones",
                                        ToString(w.DimsOf(w.In(0))), ToString(w.DimsOf(w.In(1))))));
  }
  w.SetOutput(0, w.Mul(Swish(w, w.In(0), 1), w.In(1)));
}

void ExpandBiasAdd(Writer& w) { w.SetOutput(0, w.Add(w.Add(w.In(0), w.In(1)), w.In(2))); }

void ExpandBiasSplitGelu(Writer& w) {
  const ValueId x = w.Add(w.In(0), w.In(1));
  const std::int64_t width = w.Dim(x, -1);
  if (width % 2 != 0) {
    w.Refuse(w.context().Invalid(fmt::format("splits {} columns into halves", width)));
  }
  const std::vector<ValueId> halves = w.Split(x, {width / 2, width / 2}, -1);
  w.SetOutput(0, w.Mul(halves[0], Gelu(w, halves[1], "none")));
}

constexpr Expansion kActivationExpansions[] = {
    {"", {"Swish", 24, 1, 1, 1, "f:alpha"}, ExpandSwish},
    {"", {"SwiGLU", 28, 2, 2, 1, "f:alpha"}, ExpandSwiGlu},
    {kMicrosoft, {"Gelu", 1, 1, 1, 1, ""}, ExpandGelu},
    {kMicrosoft, {"BiasGelu", 1, 2, 2, 1, ""}, ExpandBiasGelu},
    {kMicrosoft, {"FastGelu", 1, 1, 2, 1, ""}, ExpandFastGelu},
    {kMicrosoft, {"QuickGelu", 1, 1, 1, 1, "f:alpha"}, ExpandQuickGelu},
    {kMicrosoft, {"BiasAdd", 1, 3, 3, 1, ""}, ExpandBiasAdd},
    {kMicrosoft, {"BiasSplitGelu", 1, 2, 2, 1, ""}, ExpandBiasSplitGelu},
};

}  // namespace

std::span<const Expansion> ActivationExpansions() { return kActivationExpansions; }

}  // namespace lagoon
