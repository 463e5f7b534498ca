#pragma once

// Models for tests of fusion, and a check that a fused graph computes what the imported one does.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/testing/model_builder.h"
#include "graph/testing/reference.h"

namespace lagoon::testing {

/// The fused graph. Expects the same outputs as from the imported graph.
inline Graph Fused(const ModelBuilder& model) {
  const Result<Graph> before = model.Import();
  Result<Graph> after = model.Load();
  EXPECT_TRUE(before.has_value()) << before.error().message;
  EXPECT_TRUE(after.has_value()) << after.error().message;
  if (!before || !after) return {};
  ExpectSameOutputs(*before, *after);
  return *std::move(after);
}

inline void AddConv(ModelBuilder& m, const std::string& x, const std::string& y, std::int64_t in,
                    std::int64_t out, std::int64_t group = 1) {
  m.Weights("w_" + y, {out, in / group, 3, 3});
  m.Add("Conv", {x, "w_" + y}, {y}).Name(y).Ints("pads", {1, 1, 1, 1}).Int("group", group);
}

inline void AddBatchNorm(ModelBuilder& m, const std::string& x, const std::string& y,
                         std::int64_t channels) {
  const auto count = static_cast<std::size_t>(channels);
  std::vector<float> gamma(count), beta(count), mean(count), variance(count);
  for (std::size_t c = 0; c < count; ++c) {
    const auto f = static_cast<float>(c);
    gamma[c] = 0.5f + 0.25f * f;
    beta[c] = 0.1f * f - 0.3f;
    mean[c] = 0.2f - 0.05f * f;
    variance[c] = 0.7f + 0.3f * f;
  }
  m.Floats(y + "_g", {channels}, gamma).Floats(y + "_b", {channels}, beta);
  m.Floats(y + "_m", {channels}, mean).Floats(y + "_v", {channels}, variance);
  m.Add("BatchNormalization", {x, y + "_g", y + "_b", y + "_m", y + "_v"}, {y})
      .Name(y)
      .Float("epsilon", 1e-3f);
}

}  // namespace lagoon::testing
