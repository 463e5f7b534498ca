#include "program/lower/layout.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lagoon {
namespace {

std::vector<std::int64_t> Same(std::size_t rank) {
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(Layout, ChannelsLastPutsAxisOneAtTheEnd) {
  EXPECT_EQ(PhysicalDims({2, 3, 4, 5}, Layout::kChannelsLast), (Dims{2, 4, 5, 3}));
  EXPECT_EQ(PhysicalAxis(4, Layout::kChannelsLast, 1), 3U);
  EXPECT_EQ(PhysicalAxis(4, Layout::kChannelsLast, 2), 1U);
  EXPECT_EQ(PhysicalAxis(3, Layout::kPlain, 1), 1U);
}

TEST(Layout, MovingImagesMergesHeightAndWidth) {
  const Permutation p =
      MovePermutation({2, 3, 4, 5}, Layout::kPlain, Same(4), Layout::kChannelsLast);
  EXPECT_EQ(p.dims, (Dims{2, 3, 20}));
  EXPECT_EQ(p.order, (std::vector<std::int64_t>{0, 2, 1}));
  EXPECT_FALSE(p.IsFree());
}

TEST(Layout, MovingIsFreeWithOnePixelOrOneChannel) {
  for (const Dims& dims : {Dims{4, 512, 1, 1}, Dims{4, 1, 7, 7}}) {
    EXPECT_TRUE(MovePermutation(dims, Layout::kPlain, Same(4), Layout::kChannelsLast).IsFree());
    EXPECT_TRUE(MovePermutation(dims, Layout::kChannelsLast, Same(4), Layout::kPlain).IsFree());
  }
}

TEST(Layout, TransposingToTheOtherLayoutIsFree) {
  // ONNX Transpose from NHWC dims to NCHW dims: in kChannelsLast, y has the same bytes as x.
  const std::vector<std::int64_t> to_nchw{0, 3, 1, 2};
  EXPECT_TRUE(
      MovePermutation({1, 4, 5, 3}, Layout::kPlain, to_nchw, Layout::kChannelsLast).IsFree());
  EXPECT_FALSE(MovePermutation({1, 4, 5, 3}, Layout::kPlain, to_nchw, Layout::kPlain).IsFree());
}

TEST(Layout, SimplifyDropsUnitAxesAndMergesNeighbours) {
  const Permutation p = Simplify({{2, 1, 3, 4, 1, 5}, {3, 4, 5, 0, 1, 2}});
  EXPECT_EQ(p.dims, (Dims{6, 20}));
  EXPECT_EQ(p.order, (std::vector<std::int64_t>{1, 0}));
  EXPECT_TRUE(Simplify({{2, 1, 3}, {1, 0, 2}}).IsFree());
  EXPECT_TRUE(Simplify({{1, 1}, {1, 0}}).IsFree());
}

TEST(Layout, SplitAtMultipliesAroundTheAxes) {
  const AxisSplit split = SplitAt({2, 3, 4, 5}, 1, 2);
  EXPECT_EQ(split.outer, 2U);
  EXPECT_EQ(split.axis, 12U);
  EXPECT_EQ(split.inner, 5U);
}

}  // namespace
}  // namespace lagoon
