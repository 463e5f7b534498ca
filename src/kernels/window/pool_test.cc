#include "kernels/window/pool.h"

#include <algorithm>
#include <limits>

#include "kernels/testing/ops.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;
using Kind = PoolSpec::Kind;

// Sums of up to 10^5 elements of size one, averaged.
constexpr double kTolerance = 1e-5;

double OneOutput(const PoolSpec& s, const Floats& x, std::size_t image, std::size_t oy,
                 std::size_t ox, std::size_t c) {
  double sum = 0, max = -std::numeric_limits<double>::infinity();
  std::size_t inside = 0, padded = 0;
  for (std::size_t ky = 0; ky < s.kernel_h; ++ky) {
    for (std::size_t kx = 0; kx < s.kernel_w; ++kx) {
      const std::int64_t iy = std::int64_t(oy * s.stride_h + ky * s.dilation_h) - s.pad_top;
      const std::int64_t ix = std::int64_t(ox * s.stride_w + kx * s.dilation_w) - s.pad_left;
      if (iy < std::int64_t{s.height} + s.pad_bottom && ix < std::int64_t{s.width} + s.pad_right)
        ++padded;
      if (iy < 0 || ix < 0 || iy >= s.height || ix >= s.width) continue;
      const double v =
          x[((image * s.height + std::size_t(iy)) * s.width + std::size_t(ix)) * s.channels + c];
      ++inside;
      sum += v;
      max = std::max(max, v);
    }
  }
  if (s.kind == Kind::kMax) return max;
  return sum / double(s.kind == Kind::kAverage ? inside : padded);
}

void Check(PoolSpec s) {
  const Floats x = testing::RandomFloats(std::size_t{s.batch} * s.height * s.width * s.channels);
  for (const Kind kind : {Kind::kMax, Kind::kAverage, Kind::kAverageCountPadding}) {
    SCOPED_TRACE(::testing::Message()
                 << "kind " << int(kind) << " " << s.height << "x" << s.width << "x" << s.channels
                 << " kernel " << s.kernel_h << " stride " << s.stride_h);
    s.kind = kind;
    Doubles reference;
    for (std::size_t image = 0; image < s.batch; ++image) {
      for (std::size_t oy = 0; oy < s.out_height; ++oy) {
        for (std::size_t ox = 0; ox < s.out_width; ++ox) {
          for (std::size_t c = 0; c < s.channels; ++c)
            reference.push_back(OneOutput(s, x, image, oy, ox, c));
        }
      }
    }
    testing::ExpectKernel([&] { return MakePool(s); }, {x}, reference, kTolerance);
  }
}

PoolSpec Square(std::uint32_t size, std::uint32_t channels, std::uint32_t kernel,
                std::uint32_t stride, std::uint32_t pad) {
  PoolSpec s;
  s.height = s.width = size;
  s.channels = channels;
  s.kernel_h = s.kernel_w = kernel;
  s.stride_h = s.stride_w = stride;
  s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = pad;
  s.out_height = s.out_width = (size + 2 * pad - kernel) / stride + 1;
  return s;
}

TEST(Pool, MatchesReferenceOnShapesOfModels) {
  Check(Square(56, 64, 3, 2, 1));   // like ResNet's first pooling, smaller
  Check(Square(28, 128, 3, 2, 0));  // SqueezeNet
  Check(Square(56, 64, 2, 2, 0));   // VGG
  Check(Square(8, 512, 2, 2, 0));
  Check(Square(7, 512, 7, 1, 0));  // global
}

TEST(Pool, AnyChannelCount) {
  for (const std::uint32_t channels : {1u, 3u, 7u, 8u, 15u, 17u, 33u, 64u, 65u, 130u}) {
    Check(Square(6, channels, 3, 2, 1));
  }
}

TEST(Pool, DilationAndAsymmetricPadding) {
  PoolSpec s = Square(11, 20, 3, 1, 0);
  s.dilation_h = 2;
  s.dilation_w = 3;
  s.pad_top = 1;
  s.pad_bottom = 3;
  s.pad_right = 2;
  s.out_height = 11;
  s.out_width = 7;
  Check(s);
}

TEST(Pool, CeilModeWindowsReachBeyondThePadding) {
  PoolSpec s = Square(6, 20, 3, 2, 0);
  s.out_height = s.out_width = 3;  // ceil((6 - 3) / 2) + 1: the last window has one column outside
  Check(s);
  s = Square(6, 20, 4, 3, 1);
  s.out_height = s.out_width = 3;
  Check(s);
}

TEST(Pool, BatchOfUnequalSides) {
  PoolSpec s = Square(9, 24, 3, 1, 1);
  s.batch = 3;
  s.width = 14;
  s.kernel_w = 2;
  s.out_width = (14 + 2 - 2) + 1;
  Check(s);
}

TEST(Pool, LongWindowsLeaveBetweenTaps) {
  PoolSpec s = Square(130, 20, 130, 1, 0);
  Check(s);
  const Kernel kernel = *MakePool(s);
  testing::BoundKernel bound(kernel, {Floats(130 * 130 * 20)}, 20);
  testing::LeaveAt count;
  EXPECT_TRUE(bound.RunBlock(0, &count));
  EXPECT_GE(count.checks(), 130 * 130 / 1024);
}

TEST(Pool, MinusInfinityIsAMaximum) {
  PoolSpec s = Square(2, 1, 2, 2, 0);
  const float low = -std::numeric_limits<float>::infinity();
  testing::ExpectKernel([&] { return MakePool(s); }, {{low, low, low, low}}, {double{low}}, 0);
}

TEST(Pool, RefusesBadSpecsByName) {
  PoolSpec s = Square(6, 18, 3, 1, 1);
  s.dilation_w = 0;
  testing::ExpectInvalid(MakePool(s), {"pool", "dilation_w", "0"});
  s = Square(6, 18, 3, 1, 1);
  s.out_width = 0;
  testing::ExpectInvalid(MakePool(s), {"pool", "out_width", "0"});
  s = Square(6, 18, 3, 1, 1);
  s.pad_top = 3;
  testing::ExpectInvalid(MakePool(s), {"window 0", "height", "padding before 3"});
  s = Square(6, 18, 3, 1, 1);
  s.out_width = 9;
  testing::ExpectInvalid(MakePool(s), {"window 7 of 9", "width"});
}

}  // namespace
}  // namespace lagoon
