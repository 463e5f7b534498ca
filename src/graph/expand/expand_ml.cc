// Scaling, linear models and what else is arithmetic in ai.onnx.ml. ONNX Runtime is the reference.

#include "graph/expand/expand_ml.h"

#include <fmt/format.h>

#include <vector>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {

namespace {

constexpr DataType kFloat = DataType::kFloat32;

ValueId Vector(Writer& w, const std::vector<float>& numbers) {
  return TableOf(w, kFloat, {static_cast<std::int64_t>(numbers.size())}, [&](std::int64_t i) {
    return static_cast<double>(numbers[static_cast<std::size_t>(i)]);
  });
}

ValueId FloatInput(Writer& w) { return w.Cast(w.In(0), kFloat); }

/// Rows of numbers: [N,C], or one row [C].
ValueId Rows(Writer& w) {
  const ValueId x = FloatInput(w);
  if (w.status() && w.RankOf(x) != 1 && w.RankOf(x) != 2) {
    w.Refuse(w.context().Invalid(
        fmt::format("input 0 has shape {}, takes rows of numbers", ToString(w.DimsOf(x)))));
  }
  return w.RankOf(x) == 1 ? w.Unsqueeze(x, {0}) : x;
}

ValueId SoftmaxOfOthersThanZero(Writer& w, ValueId scores) {
  const ValueId last = w.Ints({-1});
  const ValueId shifted = w.Sub(scores, w.Op("ReduceMax", {scores, last}));
  const ValueId zero = w.Op("Equal", {scores, w.Number(0, kFloat)});
  const ValueId e = w.Op("Where", {zero, w.Number(0, kFloat), w.Op("Exp", {shifted})});
  const ValueId sum = w.Op("ReduceSum", {e, last});
  const ValueId none = w.Op("Equal", {sum, w.Number(0, kFloat)});
  return w.Div(e, w.Op("Where", {none, w.Number(1, kFloat), sum}));
}

std::string TransformOf(const Writer& w) { return w.node().String("post_transform", "NONE"); }

}  // namespace

std::int64_t ClassCount(Writer& w, const char* labels) {
  const std::vector<std::int64_t> integers = w.node().Ints(labels, {});
  if (w.status() && integers.empty()) {
    w.Refuse(w.context().Unimplemented(
        fmt::format("has no integers in {}: labels that are text are not supported", labels)));
  }
  return static_cast<std::int64_t>(integers.size());
}

ValueId LabelsAt(Writer& w, ValueId best, const char* labels) {
  return w.Op("Gather", {w.Ints(w.node().Ints(labels, {})), best});
}

ValueId PostTransformed(Writer& w, ValueId scores) {
  const std::string transform = TransformOf(w);
  if (transform == "NONE") return scores;
  // ONNX Runtime transforms rows of several scores only.
  if (w.status() && w.Dim(scores, 1) == 1) return scores;
  if (transform == "LOGISTIC") return w.Op("Sigmoid", {scores});
  if (transform == "SOFTMAX") return w.Op("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  if (transform == "SOFTMAX_ZERO") return SoftmaxOfOthersThanZero(w, scores);
  w.Refuse(w.context().Unimplemented(fmt::format("post_transform {} is not supported", transform)));
  return kNoValue;
}

ValueId BothScores(Writer& w, ValueId score, bool signs) {
  const ValueId negative = w.Scaled(score, -1);
  if (TransformOf(w) == "LOGISTIC") {
    return w.Op("Sigmoid", {w.Concat({negative, score}, 1)});
  }
  return w.Concat({signs ? negative : w.Shifted(negative, 1), score}, 1);
}

void SetClasses(Writer& w, ValueId scores, const char* labels) {
  const std::int64_t classes = ClassCount(w, labels);
  if (w.status() && w.Dim(scores, 1) != classes) {
    w.Refuse(w.context().Invalid(
        fmt::format("has scores of {} classes and {} labels", w.Dim(scores, 1), classes)));
  }
  const ValueId best =
      w.Op("ArgMax", {scores}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}});
  w.SetOutput(0, LabelsAt(w, best, labels));
  w.SetOutput(1, PostTransformed(w, scores));
}

void SetBinaryClasses(Writer& w, const BinaryScore& binary, const char* labels) {
  ClassCount(w, labels);
  const ValueId second = w.Op("Greater", {binary.score, w.Number(binary.threshold, kFloat)});
  const ValueId best = w.Op("Squeeze", {w.Cast(second, DataType::kInt64), w.Ints({1})});
  w.SetOutput(0, LabelsAt(w, best, labels));
  w.SetOutput(1, BothScores(w, binary.score, binary.signs));
}

namespace {

// (x - offset) * scale; each is one number or one for each column.
void ExpandScaler(Writer& w) {
  ValueId y = FloatInput(w);
  const std::vector<float> offset = FloatsOf(w, "offset"), scale = FloatsOf(w, "scale");
  for (const std::vector<float>* const numbers : {&offset, &scale}) {
    const auto count = static_cast<std::int64_t>(numbers->size());
    if (w.status() && count > 1 && count != w.Dim(y, -1)) {
      w.Refuse(
          w.context().Invalid(fmt::format("has {} numbers for {} columns", count, w.Dim(y, -1))));
    }
  }
  if (!offset.empty()) y = w.Sub(y, Vector(w, offset));
  if (!scale.empty()) y = w.Mul(y, Vector(w, scale));
  w.SetOutput(0, y);
}

// x by its greatest element, the sum of its sizes, or its length. Rows of zeros stay.
void ExpandNormalizer(Writer& w) {
  const ValueId x = FloatInput(w), last = w.Ints({-1});
  const std::string norm = w.node().String("norm", "MAX");
  ValueId by = kNoValue;
  if (norm == "MAX") {
    by = w.Op("ReduceMax", {x, last});
  } else if (norm == "L1" || norm == "L2") {
    by = w.Op("Reduce" + norm, {x, last});
  } else {
    return w.Refuse(w.context().Invalid(fmt::format("norm is {}, not MAX, L1 or L2", norm)));
  }
  const ValueId zero = w.Op("Equal", {by, w.Number(0, kFloat)});
  w.SetOutput(0, w.Div(x, w.Op("Where", {zero, w.Number(1, kFloat), by})));
}

// x [batch, features] * transposed coefficients + intercepts, of `targets` targets.
ValueId LinearScores(Writer& w, std::int64_t targets) {
  const ValueId x = Rows(w);
  const std::vector<float> coefficients = FloatsOf(w, "coefficients");
  const std::vector<float> intercepts = FloatsOf(w, "intercepts");
  const std::int64_t features = w.Dim(x, 1);
  const bool fits = static_cast<std::int64_t>(coefficients.size()) == targets * features &&
                    (intercepts.empty() || static_cast<std::int64_t>(intercepts.size()) == targets);
  if (w.status() && !fits) {
    w.Refuse(w.context().Invalid(
        fmt::format("has {} coefficients and {} intercepts for {} targets of {} features",
                    coefficients.size(), intercepts.size(), targets, features)));
  }
  const ValueId table = w.Reshape(Vector(w, coefficients), {targets, features});
  const ValueId scores = w.MatMul(x, w.SwapLastAxes(table));
  return intercepts.empty() ? scores : w.Add(scores, Vector(w, intercepts));
}

void ExpandLinearRegressor(Writer& w) {
  w.SetOutput(0, PostTransformed(w, LinearScores(w, w.node().Int("targets", 1))));
}

void ExpandLinearClassifier(Writer& w) {
  constexpr const char* kLabels = "classlabels_ints";
  const std::int64_t classes = ClassCount(w, kLabels);
  const std::int64_t features = w.Dim(Rows(w), 1);
  const auto coefficients = static_cast<std::int64_t>(FloatsOf(w, "coefficients").size());
  if (classes == 2 && coefficients == features) {
    return SetBinaryClasses(w, {LinearScores(w, 1)}, kLabels);
  }
  SetClasses(w, LinearScores(w, classes), kLabels);
}

void ExpandBinarizer(Writer& w) {
  const ValueId above =
      w.Op("Greater", {FloatInput(w), w.Number(w.node().Float("threshold", 0), kFloat)});
  w.SetOutput(0, w.Cast(above, kFloat));
}

constexpr Expansion kMlExpansions[] = {
    {kMl, {"Scaler", 1, 1, 1, 1, "F:offset F:scale"}, ExpandScaler},
    {kMl, {"Normalizer", 1, 1, 1, 1, "s:norm"}, ExpandNormalizer},
    {kMl,
     {"LinearRegressor", 1, 1, 1, 1, "F:coefficients F:intercepts s:post_transform i:targets"},
     ExpandLinearRegressor},
    {kMl,
     {"LinearClassifier", 1, 1, 1, 2,
      "I:classlabels_ints S:classlabels_strings F:coefficients F:intercepts i:multi_class "
      "s:post_transform"},
     ExpandLinearClassifier},
    {kMl, {"Binarizer", 1, 1, 1, 1, "f:threshold"}, ExpandBinarizer},
};

}  // namespace

std::span<const Expansion> MlExpansions() { return kMlExpansions; }

}  // namespace lagoon
