// What the ops on regions of images, and Einsum with diagonals, refuse.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/one_node.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using testing::ModelBuilder;
using testing::NodeRef;
using testing::OneNode;

constexpr std::int64_t kHuge = (1 << 30) - 1;

OneNode Col2Im(const std::vector<std::int64_t>& image, const std::vector<std::int64_t>& block) {
  return {.op = "Col2Im",
          .dims = {1, 12, 12},
          .parameters = {"image", "block"},
          .prepare = [=](ModelBuilder& m) { m.Ints("image", image).Ints("block", block); },
          .opset = 18};
}

TEST(RegionErrors, ColumnsFitTheImage) {
  EXPECT_THAT(Col2Im({5, 7}, {2, 3}).Invalid(), HasSubstr("takes batch, channels * 6 and 20"));
  EXPECT_THAT(Col2Im({5, 0}, {2, 3}).Unimplemented(), HasSubstr("image_shape is [5,0]"));
  EXPECT_FALSE(Col2Im({kHuge, kHuge, kHuge}, {1, 1, 1}).Import().has_value());
  EXPECT_FALSE(Col2Im({kHuge, kHuge, kHuge}, {kHuge, kHuge, kHuge}).Import().has_value());
}

OneNode AffineGrid(const std::vector<std::int64_t>& size) {
  return {.op = "AffineGrid",
          .dims = {2, 3, 4},
          .parameters = {"size"},
          .prepare = [=](ModelBuilder& m) { m.Ints("size", size); },
          .opset = 20};
}

TEST(RegionErrors, GridsFitTheirMatrices) {
  EXPECT_EQ(AffineGrid({2, 1, 4, 5, 6}).OutputDims(), (Dims{2, 4, 5, 6, 3}));
  EXPECT_THAT(AffineGrid({2, 1, 4, 5}).Invalid(), HasSubstr("theta has shape [2,3,4]"));
  EXPECT_FALSE(AffineGrid({2, 1, kHuge, kHuge, kHuge}).Import().has_value());
}

TEST(RegionErrors, UnpooledShapesFitMemory) {
  OneNode unpool{.op = "MaxUnpool",
                 .dims = {1, 1, 2, 2, 2},
                 .parameters = {"indices"},
                 .prepare =
                     [](ModelBuilder& m) {
                       m.Input("indices", {1, 1, 2, 2, 2}, 7);
                     },
                 .configure =
                     [](NodeRef n) {
                       n.Ints("kernel_shape", {kHuge, kHuge, kHuge});
                     }};
  EXPECT_FALSE(unpool.Import().has_value());
  unpool.configure = [](NodeRef n) { n.Ints("kernel_shape", {2}); };
  EXPECT_THAT(unpool.Invalid(), HasSubstr("kernel_shape is [2], takes 3 numbers"));
}

TEST(RegionErrors, DiagonalsAreOfEqualAxes) {
  const OneNode einsum{
      .op = "Einsum", .dims = {3, 4}, .configure = [](NodeRef n) { n.Text("equation", "ii->i"); }};
  EXPECT_THAT(einsum.Invalid(), HasSubstr("label 'i' is 3 and 4 in one term"));
}

}  // namespace
}  // namespace lagoon
