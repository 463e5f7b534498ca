// Draws with probabilities that are computed.

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

Writer::Attributes SeedOf(const Writer& w) {
  if (!w.context().has_attribute("seed")) return {};
  return {{"seed", w.node().Float("seed", 0)}};
}

// 1 with the probability x, otherwise 0.
void ExpandBernoulli(Writer& w) {
  const Result<DataType> type = w.context().TypeAttribute("dtype", w.TypeOf(w.In(0)));
  if (!type) return w.Refuse(tl::unexpected(type.error()));
  const ValueId number = w.Op("RandomUniformLike", {w.In(0)}, SeedOf(w));
  w.SetOutput(0, w.Cast(w.Op("Less", {number, w.In(0)}), *type));
}

// Logarithms of probabilities [batch, classes] as classes [batch, sample_size]: the class with the
// greatest sum of its logarithm and a number of Gumbel's distribution.
void ExpandMultinomial(Writer& w) {
  const Result<DataType> type = w.context().TypeAttribute("dtype", DataType::kInt32);
  if (!type) return w.Refuse(tl::unexpected(type.error()));
  const std::int64_t draws = w.node().Int("sample_size", 1);
  if (w.RankOf(w.In(0)) != 2 || draws < 1) {
    return w.Refuse(w.context().Invalid(
        fmt::format("draws {} of shape {}; takes at least 1 of [batch, classes]", draws,
                    ToString(w.DimsOf(w.In(0))))));
  }
  Writer::Attributes attributes = SeedOf(w);
  attributes["shape"] = Dims{w.Dim(w.In(0), 0), draws, w.Dim(w.In(0), 1)};
  const ValueId uniform = w.Op("RandomUniform", {}, std::move(attributes));
  const auto negative_log = [&](ValueId x) { return w.Scaled(w.Op("Log", {x}), -1); };
  const ValueId gumbel = negative_log(negative_log(uniform));
  const ValueId sums = w.Add(w.Cast(w.Unsqueeze(w.In(0), {1}), DataType::kFloat32), gumbel);
  const ValueId best =
      w.Op("ArgMax", {sums}, {{"axis", std::int64_t{2}}, {"keepdims", std::int64_t{0}}});
  w.SetOutput(0, w.Cast(best, *type));
}

constexpr Expansion kRandomExpansions[] = {
    {"", {"Bernoulli", 15, 1, 1, 1, "i:dtype f:seed"}, ExpandBernoulli},
    {"", {"Multinomial", 7, 1, 1, 1, "i:dtype i:sample_size f:seed"}, ExpandMultinomial},
};

}  // namespace

std::span<const Expansion> RandomExpansions() { return kRandomExpansions; }

}  // namespace lagoon
