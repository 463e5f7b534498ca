// Norms with something fused to them, and root-mean-square norms.

#include <numeric>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {

ValueId NormalizedRootMeanSquare(Writer& w, ValueId x, ValueId scale, const RootMeanSquare& norm,
                                 ValueId* inverse_deviation) {
  const Result<std::int64_t> first = w.context().Axis(norm.axis, w.RankOf(x));
  if (!first) {
    w.Refuse(tl::unexpected(first.error()));
    return kNoValue;
  }
  std::vector<std::int64_t> axes(w.RankOf(x) - static_cast<std::size_t>(*first));
  std::iota(axes.begin(), axes.end(), *first);
  const bool wide = w.TypeOf(x) == DataType::kFloat64;
  const ValueId exact = wide ? x : w.Cast(x, DataType::kFloat32);
  const ValueId mean = w.Op("ReduceMean", {w.Mul(exact, exact), w.Ints(axes)});
  const ValueId deviation = w.Op("Sqrt", {w.Shifted(mean, norm.epsilon)});
  if (inverse_deviation != nullptr) *inverse_deviation = w.Op("Reciprocal", {deviation});
  return w.Mul(w.Cast(w.Div(exact, deviation), w.TypeOf(scale)), scale);
}

namespace {

void ExpandRootMeanSquare(Writer& w) {
  ValueId inverse = kNoValue;
  const RootMeanSquare norm{w.node().Int("axis", -1), w.node().Float("epsilon", 1e-5f)};
  const ValueId y =
      NormalizedRootMeanSquare(w, w.In(0), w.In(1), norm, w.HasOutput(1) ? &inverse : nullptr);
  w.SetOutput(0, y);
  w.SetOutput(1, inverse);
}

constexpr float kSkipEpsilon = 1e-12f;

Writer::Attributes LayerNormAttributes(const Writer& w) {
  return {{"epsilon", w.node().Float("epsilon", kSkipEpsilon)}};
}

// input, skip, gamma, [beta], [bias]; the sum before the norm is output 3.
void ExpandSkipLayerNormalization(Writer& w) {
  const ValueId sum = w.AddIfAny(w.Add(w.In(0), w.In(1)), w.In(4));
  const std::size_t count = w.HasOutput(1) || w.HasOutput(2) ? 3 : 1;
  const std::vector<ValueId> y =
      w.Nodes("LayerNormalization", {sum, w.In(2), w.In(3)}, LayerNormAttributes(w), count);
  for (std::size_t i = 0; i < count; ++i) w.SetOutput(i, y[i]);
  w.SetOutput(3, sum);
}

// input, skip, gamma, [bias]
void ExpandSkipSimplifiedLayerNormalization(Writer& w) {
  const ValueId sum = w.AddIfAny(w.Add(w.In(0), w.In(1)), w.In(3));
  ValueId inverse = kNoValue;
  const RootMeanSquare norm{-1, w.node().Float("epsilon", kSkipEpsilon)};
  w.SetOutput(0,
              NormalizedRootMeanSquare(w, sum, w.In(2), norm, w.HasOutput(2) ? &inverse : nullptr));
  if (w.HasOutput(1)) w.Refuse(w.context().Unimplemented("output 1, the mean, is not supported"));
  w.SetOutput(2, inverse);
  w.SetOutput(3, sum);
}

// The number of ones in each row of the mask; 0 without a mask.
ValueId CountMask(Writer& w, ValueId mask) {
  if (mask == kNoValue) {
    return w.Op("Expand", {w.Number(0, DataType::kInt32), w.Ints({w.Dim(w.In(0), 0)})});
  }
  const ValueId one = w.Op("Equal", {mask, w.Number(1, w.TypeOf(mask))});
  return w.Op("ReduceSum", {w.Cast(one, DataType::kInt32), w.Ints({1})},
              {{"keepdims", std::int64_t{0}}});
}

// ids, [segments], words, positions, [segment words], gamma, beta, [mask], [position ids]
void ExpandEmbedLayerNormalization(Writer& w) {
  w.Need({2, 3, 5, 6});
  const std::int64_t length = w.Dim(w.In(0), 1);
  const ValueId words = w.Op("Gather", {w.In(2), w.In(0)});
  const ValueId position =
      w.In(8) == kNoValue ? w.Slice(w.In(3), 0, 0, length) : w.Op("Gather", {w.In(3), w.In(8)});
  ValueId sum = w.Add(words, position);
  if (w.In(1) != kNoValue && w.In(4) != kNoValue) {
    sum = w.Add(sum, w.Op("Gather", {w.In(4), w.In(1)}));
  }
  w.SetOutput(0, w.Op("LayerNormalization", {sum, w.In(5), w.In(6)}, LayerNormAttributes(w)));
  if (w.HasOutput(1)) w.SetOutput(1, CountMask(w, w.In(7)));
  w.SetOutput(2, sum);
}

// x with its channels last, gamma, beta, with a Swish behind the norm if `activation` is 1
void ExpandGroupNorm(Writer& w) {
  const bool channels_last = w.node().Int("channels_last", 1) != 0;
  ValueId x = w.In(0);
  if (channels_last) x = w.Transpose(x, {0, 3, 1, 2});
  const DataType type = w.TypeOf(x);
  ValueId y = w.Op(
      "GroupNormalization", {x, w.Cast(w.In(1), type), w.Cast(w.In(2), type)},
      {{"num_groups", w.node().Int("groups", 1)}, {"epsilon", w.node().Float("epsilon", 1e-5f)}});
  if (channels_last) y = w.Transpose(y, {0, 2, 3, 1});
  if (w.node().Int("activation", 0) == 1) y = w.Mul(y, w.Op("Sigmoid", {y}));
  w.SetOutput(0, y);
}

constexpr std::string_view kNormAttributes = "i:axis f:epsilon i:stash_type";

constexpr Expansion kNormalizationExpansions[] = {
    {"", {"RMSNormalization", 23, 2, 2, 1, kNormAttributes}, ExpandRootMeanSquare},
    {"", {"SimplifiedLayerNormalization", 1, 2, 2, 2, kNormAttributes}, ExpandRootMeanSquare},
    {kMicrosoft,
     {"SimplifiedLayerNormalization", 1, 2, 2, 2, kNormAttributes},
     ExpandRootMeanSquare},
    {kMicrosoft, {"SkipLayerNormalization", 1, 3, 5, 4, "f:epsilon"}, ExpandSkipLayerNormalization},
    {kMicrosoft,
     {"SkipSimplifiedLayerNormalization", 1, 3, 4, 4, "f:epsilon"},
     ExpandSkipSimplifiedLayerNormalization},
    {kMicrosoft,
     {"EmbedLayerNormalization", 1, 1, 9, 3, "f:epsilon i:mask_index_type"},
     ExpandEmbedLayerNormalization},
    {kMicrosoft,
     {"GroupNorm", 1, 3, 3, 1, "i:activation i:channels_last f:epsilon i:groups"},
     ExpandGroupNorm},
};

}  // namespace

std::span<const Expansion> NormalizationExpansions() { return kNormalizationExpansions; }

}  // namespace lagoon
