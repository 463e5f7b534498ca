// Micro-tiles of any pixels: dilation, narrow images, and taps outside the image.

#include "kernels/conv/conv2d_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "hwy/targets.h"
#include "kernels/conv/conv2d_tiling.h"
#include "kernels/testing/conv2d_cases.h"

namespace lagoon {
namespace {

using testing::ConvProblem;
using testing::ScopedTarget;

constexpr float kInfiniteWeight = std::numeric_limits<float>::infinity();

class ConvListTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  ConvListTest() : target_(GetParam()) {}

 private:
  ScopedTarget target_;
};

struct Axis {
  std::uint32_t size, kernel, stride, dilation;
};

// Padding is half the window's reach, rounded up. 16 channels are the least for lists.
Conv2dSpec SpecOf(const Axis& rows, const Axis& columns, std::uint32_t out_channels = 3) {
  const auto pad = [](const Axis& axis) { return ((axis.kernel - 1) * axis.dilation + 1) / 2; };
  const auto out = [&](const Axis& axis) {
    const std::uint32_t reach = (axis.kernel - 1) * axis.dilation;
    return (axis.size + 2 * pad(axis) - reach - 1) / axis.stride + 1;
  };
  Conv2dSpec s;
  s.window = {.height = rows.size,
              .width = columns.size,
              .out_height = out(rows),
              .out_width = out(columns),
              .kernel_h = rows.kernel,
              .kernel_w = columns.kernel,
              .stride_h = rows.stride,
              .stride_w = columns.stride,
              .dilation_h = rows.dilation,
              .dilation_w = columns.dilation,
              .pad_top = pad(rows),
              .pad_left = pad(columns)};
  s.in_channels = 16;
  s.out_channels = out_channels;
  s.bias = true;
  return s;
}

void ExpectRight(const Conv2dSpec& spec) {
  SCOPED_TRACE(::testing::Message()
               << spec.window.height << "x" << spec.window.width << " kernel "
               << spec.window.kernel_h << "x" << spec.window.kernel_w << " stride "
               << spec.window.stride_h << "x" << spec.window.stride_w << " dilation "
               << spec.window.dilation_h << "x" << spec.window.dilation_w);
  ConvProblem problem(spec);
  std::ranges::fill(problem.y.span(), testing::kUnwritten);
  ASSERT_TRUE(problem.RunAll());
  testing::ExpectReference(problem);
}

TEST_P(ConvListTest, AnyDilationOnFewColumnsOrRows) {
  for (std::uint32_t size = 1; size <= 15; ++size) {
    for (std::uint32_t dilation = 1; dilation <= 40; ++dilation) {
      const Axis dilated{size, 3, 1, dilation}, other{3, 1, 1, 1};
      ExpectRight(SpecOf(other, dilated));
      ExpectRight(SpecOf(dilated, other));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ConvListTest, NarrowImagesOfAnyKernelAndStride) {
  for (std::uint32_t size = 1; size <= 13; ++size) {
    for (const std::uint32_t kernel : {1u, 2u, 3u, 5u}) {
      for (std::uint32_t stride = 1; stride <= 3; ++stride) {
        const Axis narrow{size, kernel, stride, 1}, other{5, 3, 1, 2};
        ExpectRight(SpecOf(narrow, other));
        ExpectRight(SpecOf(other, narrow));
        ExpectRight(SpecOf(narrow, narrow, 40));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ConvListTest, ListsRunThroughAllImages) {
  for (const std::uint32_t dilation : {1u, 5u}) {
    Conv2dSpec spec = SpecOf({5, 3, 1, dilation}, {6, 3, 1, dilation}, 40);
    spec.window.batch = 5;
    spec.epilogue = {Activation::kRelu, 0, 0, true};
    ExpectRight(spec);
    ConvProblem problem(spec);
    testing::ExpectBlocksWriteTheirOwnTileOnly(problem);
  }
}

// A residual and a function after the store, for pixels that are no neighbours in y.
TEST_P(ConvListTest, ClassesReachEveryPixelOfY) {
  for (const bool last : {false, true}) {
    Conv2dSpec spec = SpecOf({14, 3, 1, 4}, {14, 3, 1, 6}, 70);
    spec.epilogue = {.activation = Activation::kRelu, .residual = true, .residual_last = last};
    ExpectRight(spec);
    ConvProblem problem(spec);
    testing::ExpectBlocksWriteTheirOwnTileOnly(problem);
  }
}

// Weights that are infinite tell whether a pixel is multiplied by zeros or not at all: that, too,
// must not depend on the blocks.
TEST_P(ConvListTest, AnyCutGivesTheSameBits) {
  for (const Conv2dSpec& spec :
       {SpecOf({14, 3, 1, 1}, {14, 3, 1, 1}, 70), SpecOf({14, 3, 1, 5}, {14, 3, 1, 5}, 70),
        SpecOf({20, 5, 2, 1}, {9, 5, 1, 1}, 33)}) {
    ConvProblem problem(spec);
    problem.weights.span()[0] = problem.weights.span()[17] = kInfiniteWeight;
    PackConv2dWeights(spec, problem.weights.data(), problem.packed.data());
    ASSERT_TRUE(problem.RunAll());
    const std::vector<float> first(problem.y.span().begin(), problem.y.span().end());
    ASSERT_GE(problem.kernel.versions.size(), 2u);
    for (const KernelVersion& version : problem.kernel.versions) {
      problem.Use(version);
      std::ranges::fill(problem.y.span(), testing::kUnwritten);
      ASSERT_TRUE(problem.RunAll());
      EXPECT_EQ(std::memcmp(first.data(), problem.y.data(), first.size() * sizeof(float)), 0)
          << version.name;
    }
  }
}

// Sets the weights of kernel column 0 to infinity, in all kernel rows.
void MakeFirstColumnInfinite(ConvProblem& problem) {
  const std::size_t columns = problem.spec.window.kernel_w;
  for (std::size_t i = 0; i < problem.weights.size(); i += columns) {
    problem.weights.span()[i] = kInfiniteWeight;
  }
  PackConv2dWeights(problem.spec, problem.weights.data(), problem.packed.data());
}

TEST_P(ConvListTest, TapsOutsideTheImageAreSkipped) {
  // The columns to the left and to the right are never inside.
  ConvProblem problem(SpecOf({14, 1, 1, 1}, {14, 3, 1, 14}, 40));
  MakeFirstColumnInfinite(problem);
  ASSERT_TRUE(problem.RunAll());
  testing::ExpectReference(problem);
}

TEST_P(ConvListTest, SegmentsHaveOneClass) {
  // The column to the left is inside for the last two output columns only.
  ConvProblem problem(SpecOf({14, 1, 1, 1}, {14, 3, 1, 12}, 40));
  MakeFirstColumnInfinite(problem);
  ASSERT_TRUE(problem.RunAll());
  for (std::size_t i = 0; i < problem.y.size(); ++i) {
    ASSERT_EQ(std::isfinite(problem.y.data()[i]), i / 40 % 14 < 12) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ConvListTest, ::testing::ValuesIn(testing::Targets()),
                         [](const auto& test) { return hwy::TargetName(test.param); });

TEST(InsideColumns, AreThoseWhoseTapIsInTheImage) {
  for (std::uint32_t width = 1; width <= 9; ++width) {
    for (std::uint32_t stride = 1; stride <= 3; ++stride) {
      const Conv2dSpec spec = SpecOf({1, 1, 1, 1}, {width, 3, stride, 4});
      for (std::uint32_t tap = 0; tap < 3; ++tap) {
        const ColumnRange range = InsideColumns(spec.window, tap);
        for (std::uint32_t column = 0; column < spec.window.out_width; ++column) {
          const bool inside = testing::InputPixelOf(spec.window, 0, 0, column, 0, tap).has_value();
          EXPECT_EQ(range.begin <= column && column < range.end, inside);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lagoon
