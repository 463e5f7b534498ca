#include "program/testing/reference.h"

#include <gtest/gtest.h>

// Tests of the reference itself, with numbers computed by hand.

namespace lagoon::testing {
namespace {

TEST(Reference, ConvolvesWithPaddingStrideAndBias) {
  TestGraph g;
  const ValueId x = g.Constant({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const ValueId w = g.Constant({1, 1, 2, 2}, {1, 10, 100, 1000});
  const ValueId b = g.Constant({1}, {0.5F});
  const ValueId y = g.Op("Conv", {x, w, b},
                         {{"kernel_shape", std::vector<std::int64_t>{2, 2}},
                          {"strides", std::vector<std::int64_t>{2, 2}},
                          {"dilations", std::vector<std::int64_t>{1, 1}},
                          {"pads", std::vector<std::int64_t>{1, 1, 0, 0}},
                          {"group", std::int64_t{1}}});
  EXPECT_EQ(g.value(y).dims, (Dims{1, 1, 2, 2}));
  EXPECT_EQ(g.value(y).data, (std::vector<float>{1000.5F, 3200.5F, 7040.5F, 9865.5F}));
}

TEST(Reference, ConvolvesGroupsApart) {
  TestGraph g;
  const ValueId x = g.Constant({1, 4, 1, 1}, {1, 2, 3, 4});
  const ValueId w = g.Constant({2, 2, 1, 1}, {1, 10, 100, 1000});
  const ValueId y = g.Op("Conv", {x, w},
                         {{"kernel_shape", std::vector<std::int64_t>{1, 1}},
                          {"strides", std::vector<std::int64_t>{1, 1}},
                          {"dilations", std::vector<std::int64_t>{1, 1}},
                          {"pads", std::vector<std::int64_t>{0, 0, 0, 0}},
                          {"group", std::int64_t{2}}});
  EXPECT_EQ(g.value(y).data, (std::vector<float>{21, 4300}));
}

TEST(Reference, MultipliesMatricesEitherWay) {
  TestGraph g;
  const ValueId x = g.Constant({1, 2}, {1, 2});
  const ValueId w = g.Constant({2, 3}, {1, 2, 3, 10, 20, 30});
  const ValueId wt = g.Constant({3, 2}, {1, 10, 2, 20, 3, 30});
  const std::vector<float> expected{21, 42, 63};
  EXPECT_EQ(g.value(g.Op("MatMul", {x, w})).data, expected);
  EXPECT_EQ(g.value(g.Op("Gemm", {x, wt}, {{"transB", std::int64_t{1}}})).data, expected);
}

TEST(Reference, ReducesBroadcastsAndMoves) {
  TestGraph g;
  const ValueId x = g.Constant({2, 3}, {1, 2, 3, 4, 5, 6});
  const ValueId mean = g.Op(
      "ReduceMean", {x}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{0}}});
  EXPECT_EQ(g.value(mean).data, (std::vector<float>{2.5F, 3.5F, 4.5F}));
  EXPECT_EQ(g.value(g.Op("Sub", {x, mean})).data,
            (std::vector<float>{-1.5F, -1.5F, -1.5F, 1.5F, 1.5F, 1.5F}));
  const ValueId t = g.Op("Transpose", {x}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  EXPECT_EQ(g.value(t).data, (std::vector<float>{1, 4, 2, 5, 3, 6}));
  const ValueId c = g.Op("Concat", {x, x}, {{"axis", std::int64_t{1}}});
  EXPECT_EQ(g.value(c).data, (std::vector<float>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(g.value(g.Split(x, 1, {1, 2})[1]).data, (std::vector<float>{2, 3, 5, 6}));
}

}  // namespace
}  // namespace lagoon::testing
