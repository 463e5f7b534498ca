#include "cluster/interference/latency_model.h"

#include <gtest/gtest.h>

#include <limits>

namespace lagoon {
namespace {

// 2 ms and 1 ms for each row, on any share.
Surface Plain() {
  auto surface = Surface::FromFormula({.base_ms = 2, .row_ms = 1, .fixed = 1});
  EXPECT_TRUE(surface.has_value());
  return *std::move(surface);
}

LatencyModel With(const SlowdownTerms& terms, const Transfers& transfers = {}) {
  return {Plain(), {0, 0.001}, {0, 0.001}, terms, transfers};
}

TEST(LatencyModel, SlowdownIsLinearWithoutALimit) {
  const LatencyModel model = With({.constant = 0.1, .cache = 0.2, .dram = 0.4});
  EXPECT_DOUBLE_EQ(model.Slowdown({0.5, 0.25}, true), 1.3);
  EXPECT_DOUBLE_EQ(model.Slowdown({5, 2.5}, true), 3.1);
  EXPECT_EQ(model.Slowdown({0.5, 0.25}, false), 1);
}

TEST(LatencyModel, SlowdownApproachesItsLimit) {
  const LatencyModel model = With({.cache = 0.4, .dram = 0.4, .limit = 0.4});
  EXPECT_DOUBLE_EQ(model.Slowdown({0.5, 0.5}, true), 1.2);  // x is the limit: half is left
  EXPECT_DOUBLE_EQ(model.Slowdown({1.5, 1.5}, true), 1.3);
  EXPECT_LT(model.Slowdown({1e6, 1e6}, true), 1.4);
  EXPECT_EQ(model.Slowdown({0.5, 0.5}, false), 1);
}

TEST(LatencyModel, NeighboursNeverMakeFaster) {
  EXPECT_EQ(With({.cache = -0.4}).Slowdown({1, 0}, true), 1);
  // Where x / (1 + x / limit) has its pole, and beyond.
  EXPECT_EQ(With({.cache = -0.4, .limit = 0.4}).Slowdown({1, 0}, true), 1);
  EXPECT_EQ(With({.cache = -0.4, .limit = 0.4}).Slowdown({2, 0}, true), 1);
}

TEST(LatencyModel, NeighboursDoNotSlowCopiesDown) {
  const Transfers transfers = {.up = {0.5, 1}, .down = {0.25, 0.5}};
  const LatencyModel model = With({.constant = 0.5}, transfers);
  EXPECT_DOUBLE_EQ(transfers.At(4), 4.5);
  EXPECT_DOUBLE_EQ(model.AloneMs(4, 0.5), 6 + 4.5);
  EXPECT_DOUBLE_EQ(model.LatencyMs(4, 0.5, {}), 6 + 4.5);
  const Neighbour other{&model, 4, 0.5};
  EXPECT_DOUBLE_EQ(model.LatencyMs(4, 0.5, {&other, 1}), 6 * 1.5 + 4.5);
  EXPECT_EQ(model.transfers().up, (TransferLine{0.5, 1}));
}

// Load is that of the time on the device (InSS 4.1: b / o).
TEST(LatencyModel, CopiesAreNoLoad) {
  const Transfers transfers = {.up = {0.5, 1}, .down = {0.25, 0.5}};
  EXPECT_EQ(With({}, transfers).LoadOf(4, 0.5), With({}).LoadOf(4, 0.5));
}

}  // namespace
}  // namespace lagoon
