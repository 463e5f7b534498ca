// Losses of classification, which files have that were exported with their training graph.

#include <fmt/format.h>

#include "base/text.h"
#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

ValueId SumOfAll(Writer& w, ValueId x) {
  return w.Op("ReduceSum", {x}, {{"keepdims", std::int64_t{0}}});
}

void CheckTarget(Writer& w, ValueId logs, ValueId target) {
  if (!w.status()) return;
  Dims expected = w.DimsOf(logs);
  if (expected.size() < 2) {
    return w.Refuse(w.context().Invalid(
        fmt::format("input 0 has shape {}, takes batch and classes at least", ToString(expected))));
  }
  expected.erase(expected.begin() + 1);
  if (w.DimsOf(target) != expected) {
    w.Refuse(w.context().Invalid(fmt::format("the classes have shape {}, expected is {}",
                                             ToString(w.DimsOf(target)), ToString(expected))));
  }
}

// -weight[target] * logs[.., target, ..]. `logs`: [batch, classes, ..], `target`: [batch, ..],
// `weights`: [classes] or kNoValue. A target of ignore_index counts nothing.
ValueId Loss(Writer& w, ValueId logs, ValueId target, ValueId weights) {
  CheckTarget(w, logs, target);
  if (!w.status()) return kNoValue;
  const std::string reduction = w.node().String("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    w.Refuse(w.context().Invalid(
        fmt::format("reduction is {}, takes \"mean\", \"sum\" or \"none\"", Quoted(reduction))));
    return kNoValue;
  }
  const DataType type = w.TypeOf(logs);
  const ValueId zero = w.Number(0, type);
  ValueId keep = kNoValue;
  if (w.context().has_attribute("ignore_index")) {
    const ValueId ignored =
        w.Number(static_cast<double>(w.node().Int("ignore_index", 0)), w.TypeOf(target));
    keep = w.Op("Not", {w.Op("Equal", {target, ignored})});
    target = w.Op("Where", {keep, target, w.Number(0, w.TypeOf(target))});
  }
  const auto kept = [&](ValueId x) {
    return keep == kNoValue ? x : w.Op("Where", {keep, x, zero});
  };
  const ValueId picked =
      w.Op("GatherElements", {logs, w.Unsqueeze(target, {1})}, {{"axis", std::int64_t{1}}});
  ValueId loss = w.Op("Neg", {w.Op("Squeeze", {picked, w.Ints({1})})});
  ValueId weight = weights == kNoValue ? kNoValue : w.Op("Gather", {weights, target});
  if (weight != kNoValue) loss = w.Mul(loss, weight);
  loss = kept(loss);
  if (reduction == "none") return loss;
  if (reduction == "sum") return SumOfAll(w, loss);
  if (weight == kNoValue) {
    if (keep == kNoValue) return w.Op("ReduceMean", {loss}, {{"keepdims", std::int64_t{0}}});
    weight = w.Number(1, type);
  }
  return w.Div(SumOfAll(w, loss), SumOfAll(w, kept(weight)));
}

// logarithms of probabilities, target, [weights]
void ExpandNegativeLogLikelihood(Writer& w) { w.SetOutput(0, Loss(w, w.In(0), w.In(1), w.In(2))); }

// scores, target, [weights]
void ExpandSoftmaxCrossEntropy(Writer& w) {
  const ValueId logs = w.Op("LogSoftmax", {w.In(0)}, {{"axis", std::int64_t{1}}});
  w.SetOutput(0, Loss(w, logs, w.In(1), w.In(2)));
  w.SetOutput(1, logs);
}

constexpr Expansion kLossExpansions[] = {
    {"",
     {"NegativeLogLikelihoodLoss", 12, 2, 3, 1, "i:ignore_index s:reduction"},
     ExpandNegativeLogLikelihood},
    {"",
     {"SoftmaxCrossEntropyLoss", 12, 2, 3, 2, "i:ignore_index s:reduction"},
     ExpandSoftmaxCrossEntropy},
};

}  // namespace

std::span<const Expansion> LossExpansions() { return kLossExpansions; }

}  // namespace lagoon
