#include "kernels/conv/grouped_conv.h"

#include <algorithm>
#include <set>

#include "kernels/testing/image_window.h"
#include "kernels/testing/ops.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

// Hundreds of products per output, each rounded once in single precision.
constexpr double kTolerance = 2e-5;

double OneOutput(const GroupedConvSpec& s, const Floats& x, const Floats& w, std::size_t pixel,
                 std::size_t c) {
  const ImageWindow& window = s.window;
  const std::size_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
  const std::size_t ox = pixel % window.out_width;
  const std::size_t oy = pixel / window.out_width % window.out_height;
  const std::size_t image = pixel / window.out_width / window.out_height;
  double sum = 0;
  for (std::size_t ky = 0; ky < window.kernel_h; ++ky) {
    for (std::size_t kx = 0; kx < window.kernel_w; ++kx) {
      const auto at = testing::InputPixelOf(window, image, oy, ox, ky, kx);
      if (!at) continue;
      for (std::size_t i = 0; i < in; ++i) {
        sum += double(x[*at * s.in_channels + c / out * in + i]) *
               double(w[((c * in + i) * window.kernel_h + ky) * window.kernel_w + kx]);
      }
    }
  }
  return sum;
}

double Activate(const Epilogue& e, double value) {
  if (e.activation == Activation::kRelu) return std::max(0.0, value);
  if (e.activation == Activation::kClip)
    return std::min<double>(e.high, std::max<double>(e.low, value));
  if (e.activation == Activation::kUnary) return value / (1 + std::exp(-value));  // kSwish
  return value;
}

struct Problem {
  std::vector<Floats> inputs;  // weights not packed
  Doubles reference;
};

Problem MakeProblem(const GroupedConvSpec& s) {
  const std::size_t weights = WindowTaps(s.window) * (s.in_channels / s.groups) * s.out_channels;
  Problem problem;
  problem.inputs = {testing::RandomFloats(InputPixels(s.window) * s.in_channels),
                    testing::RandomFloats(weights, -1, 1, 2)};
  const Floats bias = testing::RandomFloats(s.out_channels, -1, 1, 3);
  const std::size_t pixels = OutputPixels(s.window);
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::size_t c = 0; c < s.out_channels; ++c) {
      const double sum = OneOutput(s, problem.inputs[0], problem.inputs[1], pixel, c);
      problem.reference.push_back(Activate(s.epilogue, sum + (s.bias ? bias[c] : 0)));
    }
  }
  if (s.bias) problem.inputs.push_back(bias);
  return problem;
}

std::string NameOf(const GroupedConvSpec& s) {
  const ImageWindow& w = s.window;
  return std::to_string(w.height) + "x" + std::to_string(w.width) + "x" +
         std::to_string(s.in_channels) + " to " + std::to_string(s.out_channels) + " in " +
         std::to_string(s.groups) + " groups, kernel " + std::to_string(w.kernel_h) + "x" +
         std::to_string(w.kernel_w) + " stride " + std::to_string(w.stride_w) + " dilation " +
         std::to_string(w.dilation_w) + " pad " + std::to_string(w.pad_left);
}

/// Weights are packed for one instruction set, so each gets its own run of ExpectKernel's checks.
void Check(const GroupedConvSpec& s, double tolerance = kTolerance) {
  SCOPED_TRACE(NameOf(s));
  const Problem problem = MakeProblem(s);
  for (const std::int64_t target : testing::Targets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const testing::ScopedTarget use(target);
    std::vector<Floats> inputs = problem.inputs;
    inputs[1].assign(PackedGroupedConvWeightBytes(s) / sizeof(float), NAN);
    PackGroupedConvWeights(s, problem.inputs[1].data(), inputs[1].data());
    Result<Kernel> kernel = MakeGroupedConv(s);
    ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
    testing::BoundKernel bound(*std::move(kernel), inputs, problem.reference.size());
    testing::ExpectBlocksKeepTheirTiles(bound);
    testing::ExpectClose(bound.y(), problem.reference, tolerance);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// Kernels 3x3, padding 1.
GroupedConvSpec Three(std::uint32_t size, std::uint32_t channels, std::uint32_t groups,
                      std::uint32_t stride = 1) {
  GroupedConvSpec s;
  s.window = testing::SquareWindow(size, 3, stride, 1);
  s.in_channels = s.out_channels = channels;
  s.groups = groups;
  return s;
}

TEST(GroupedConv, MatchesReferenceOnShapesOfResNeXt) {
  for (const auto& [size, channels, stride] : {std::tuple{28u, 128u, 1u},
                                               {28u, 256u, 2u},
                                               {14u, 256u, 1u},
                                               {14u, 512u, 2u},
                                               {7u, 512u, 1u},
                                               {7u, 1024u, 1u}}) {
    GroupedConvSpec s = Three(size, channels, 32, stride);
    s.bias = true;
    s.epilogue.activation = Activation::kRelu;
    Check(s);
  }
}

TEST(GroupedConv, AnyChannelsOfAGroup) {
  for (const std::uint32_t groups : {2u, 3u, 5u, 17u}) {
    for (const std::uint32_t in : {1u, 2u, 3u, 4u, 7u, 8u, 9u, 20u}) {
      for (const std::uint32_t out : {1u, 2u, 3u, 5u, 8u, 16u, 21u}) {
        GroupedConvSpec s = Three(4, 1, 1);
        s.groups = groups;
        s.in_channels = groups * in;
        s.out_channels = groups * out;
        s.bias = out % 2 == 0;
        Check(s);
      }
    }
  }
}

TEST(GroupedConv, EveryWidthMeetsItsEdges) {
  for (std::uint32_t width = 1; width <= 30; ++width) {
    for (const std::uint32_t stride : {1u, 2u, 3u}) {
      Check(Three(width, 12, 3, stride));
      Check(Three(width, 40, 2, stride));
    }
  }
}

TEST(GroupedConv, AnyKernel) {
  GroupedConvSpec s = Three(9, 24, 6);
  s.window.kernel_h = s.window.kernel_w = 1;
  s.window.pad_top = s.window.pad_left = 0;
  Check(s);
  s = Three(12, 24, 6);
  s.window.kernel_h = 5;
  s.window.kernel_w = 7;
  s.window.out_height = 10;
  s.window.out_width = 8;
  Check(s);
  s = Three(12, 24, 6);
  s.window.dilation_h = 2;
  s.window.dilation_w = 3;
  s.window.pad_top = 2;
  s.window.pad_left = 3;
  Check(s);
}

TEST(GroupedConv, PaddingMayBeAsymmetricOrWiderThanTheKernel) {
  GroupedConvSpec s = Three(6, 20, 5, 2);
  s.window.pad_top = s.window.pad_left = 0;  // the last window reaches one element beyond the edges
  s.window.out_height = s.window.out_width = 3;
  Check(s);
  s = Three(5, 20, 5);
  s.window.pad_top = s.window.pad_left = 4;  // the first windows cover only padding
  s.window.out_height = s.window.out_width = 11;
  s.bias = true;
  Check(s);
}

TEST(GroupedConv, BatchAndActivations) {
  GroupedConvSpec s = Three(13, 36, 9);
  s.window.batch = 3;
  s.bias = true;
  s.epilogue = {.activation = Activation::kClip, .low = 0, .high = 6};
  Check(s);
  s.epilogue = {.activation = Activation::kUnary};
  s.epilogue.unary = UnaryOp::kSwish;
  Check(s);
}

TEST(GroupedConv, OneWideRowIsCutAlongColumns) {
  GroupedConvSpec s = Three(3, 64, 16);
  s.window.height = s.window.out_height = 1;
  s.window.width = s.window.out_width = 3000;
  Check(s);
}

TEST(GroupedConv, DeepGroupsLookAtTheirGuardsWithinASegment) {
  GroupedConvSpec s = Three(3, 2048, 2);
  s.out_channels = 34;
  Check(s, 1e-4);  // 9216 products
  const Result<Kernel> kernel = MakeGroupedConv(s);
  ASSERT_TRUE(kernel.has_value());
  testing::LeaveAt never;
  std::vector<Floats> inputs = MakeProblem(s).inputs;
  inputs[1].assign(PackedGroupedConvWeightBytes(s) / sizeof(float), 0);
  testing::BoundKernel bound(*kernel, inputs, std::size_t{9} * s.out_channels);
  ASSERT_TRUE(bound.RunBlock(0, &never));
  EXPECT_GE(never.checks(), 4);
}

void ExpectEveryVersionComputesTheSame(GroupedConvSpec s, double tolerance = kTolerance) {
  s.bias = true;
  Problem problem = MakeProblem(s);
  const Floats weights = problem.inputs[1];
  problem.inputs[1].assign(PackedGroupedConvWeightBytes(s) / sizeof(float), 0);
  PackGroupedConvWeights(s, weights.data(), problem.inputs[1].data());
  const Kernel kernel = *MakeGroupedConv(s);
  ASSERT_GE(kernel.versions.size(), 2u);  // their number depends on the lanes of a vector
  EXPECT_EQ(kernel.versions.front().args, kernel.args);
  std::set<std::string> names;
  Floats first;
  for (const KernelVersion& version : kernel.versions) {
    SCOPED_TRACE(version.name);
    EXPECT_TRUE(names.insert(version.name).second);
    Kernel cut = kernel;
    cut.args = version.args;
    cut.blocks = version.blocks;
    cut.scratch_bytes = version.scratch_bytes;
    testing::BoundKernel bound(std::move(cut), problem.inputs, problem.reference.size());
    testing::ExpectBlocksKeepTheirTiles(bound);
    const Floats y(bound.y(), bound.y() + bound.size());
    if (first.empty()) first = y;
    EXPECT_EQ(y, first);
  }
  testing::ExpectClose(first.data(), problem.reference, tolerance);
}

TEST(GroupedConv, EveryVersionComputesTheSame) {
  ExpectEveryVersionComputesTheSame(Three(28, 256, 32));
}

/// The versions cut a row into segments of other lengths.
TEST(GroupedConv, EveryVersionOfAWideRowComputesTheSame) {
  GroupedConvSpec s = Three(3, 64, 4);
  s.window.height = s.window.out_height = 1;
  s.window.width = s.window.out_width = 29;
  ExpectEveryVersionComputesTheSame(s);
  s.window.width = s.window.out_width = 3000;
  ExpectEveryVersionComputesTheSame(s);
}

/// Such a filter is added piece by piece. If it is wider than the image, most of its taps read
/// padding only.
TEST(GroupedConv, LongFiltersAreCutIntoPieces) {
  GroupedConvSpec s = Three(3, 36, 2);
  s.window.height = s.window.out_height = 1;
  s.window.kernel_h = 1;
  s.window.pad_top = 0;
  s.window.kernel_w = 128;
  s.window.pad_left = 64;
  for (const std::uint32_t width : {1u, 49u, 149u}) {
    s.window.width = width;
    s.window.out_width = width + 1;
    Check(s, 1e-4);
    ExpectEveryVersionComputesTheSame(s, 1e-4);
  }
  s.window.dilation_w = 3;
  s.window.stride_w = 2;
  s.window.pad_left = 200;
  s.window.width = 50;
  s.window.out_width = 40;
  Check(s, 1e-4);
  s.window.height = s.window.out_height = 5;
  s.window.kernel_h = 3;
  s.window.pad_top = 1;
  Check(s, 1e-4);
}

TEST(GroupedConv, OtherGroupsNeverMeet) {
  GroupedConvSpec s = Three(3, 16, 4);
  Problem problem = MakeProblem(s);
  Floats packed(PackedGroupedConvWeightBytes(s) / sizeof(float));
  PackGroupedConvWeights(s, problem.inputs[1].data(), packed.data());
  for (std::size_t i = 0; i < problem.inputs[0].size(); i += 16) problem.inputs[0][i] = NAN;
  testing::BoundKernel bound(*MakeGroupedConv(s), {problem.inputs[0], packed},
                             problem.reference.size());
  bound.RunAll();
  for (std::size_t i = 0; i < bound.size(); ++i) {
    EXPECT_EQ(std::isnan(bound.y()[i]), i % 16 < 4) << "element " << i;
  }
}

TEST(GroupedConv, RefusesBadSpecsByName) {
  GroupedConvSpec s = Three(6, 18, 3);
  s.window.stride_h = 0;
  testing::ExpectInvalid(MakeGroupedConv(s), {"grouped_conv", "stride_h", "0"});
  s = Three(6, 18, 3);
  s.groups = 0;
  testing::ExpectInvalid(MakeGroupedConv(s), {"groups", "0"});
  s.groups = 4;
  testing::ExpectInvalid(MakeGroupedConv(s), {"groups 4", "in_channels 18", "out_channels 18"});
  s = Three(6, 18, 3);
  s.window.height = s.window.width = 1u << 20;
  testing::ExpectInvalid(MakeGroupedConv(s), {"x has", "height 1048576", "width 1048576"});
  s = Three(6, 18, 3);
  s.window.dilation_w = 1u << 30;
  s.window.dilation_h = 1u << 31;
  EXPECT_FALSE(FitsGroupedConv(s));
  testing::ExpectInvalid(MakeGroupedConv(s), {"kernel of 3x3", "2147483648x1073741824"});
  s = Three(6, 18, 3);
  s.epilogue.residual = true;
  testing::ExpectInvalid(MakeGroupedConv(s), {"residual"});
  s.epilogue = {.activation = Activation::kClip, .low = 2, .high = 1};
  testing::ExpectInvalid(MakeGroupedConv(s), {"low 2", "high 1"});
}

}  // namespace
}  // namespace lagoon
