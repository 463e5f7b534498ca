#include "kernels/window/pool.h"

#include <algorithm>
#include <limits>

#include "kernels/testing/image_window.h"
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
  const ImageWindow& window = s.window;
  double sum = 0, max = -std::numeric_limits<double>::infinity();
  std::size_t inside = 0, padded = 0;
  for (std::size_t ky = 0; ky < window.kernel_h; ++ky) {
    for (std::size_t kx = 0; kx < window.kernel_w; ++kx) {
      const std::int64_t iy =
          std::int64_t(oy * window.stride_h + ky * window.dilation_h) - window.pad_top;
      const std::int64_t ix =
          std::int64_t(ox * window.stride_w + kx * window.dilation_w) - window.pad_left;
      if (iy < std::int64_t{window.height} + s.pad_bottom &&
          ix < std::int64_t{window.width} + s.pad_right)
        ++padded;
      if (iy < 0 || ix < 0 || iy >= window.height || ix >= window.width) continue;
      const double v =
          x[((image * window.height + std::size_t(iy)) * window.width + std::size_t(ix)) *
                s.channels +
            c];
      ++inside;
      sum += v;
      max = std::max(max, v);
    }
  }
  if (s.kind == Kind::kMax) return max;
  return sum / double(s.kind == Kind::kAverage ? inside : padded);
}

void Check(PoolSpec s) {
  const ImageWindow& window = s.window;
  const Floats x = testing::RandomFloats(InputPixels(window) * s.channels);
  for (const Kind kind : {Kind::kMax, Kind::kAverage, Kind::kAverageCountPadding}) {
    SCOPED_TRACE(::testing::Message()
                 << "kind " << int(kind) << " " << window.height << "x" << window.width << "x"
                 << s.channels << " kernel " << window.kernel_h << " stride " << window.stride_h);
    s.kind = kind;
    Doubles reference;
    for (std::size_t image = 0; image < window.batch; ++image) {
      for (std::size_t oy = 0; oy < window.out_height; ++oy) {
        for (std::size_t ox = 0; ox < window.out_width; ++ox) {
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
  s.window = testing::SquareWindow(size, kernel, stride, pad);
  s.channels = channels;
  s.pad_bottom = s.pad_right = pad;
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
  s.window.dilation_h = 2;
  s.window.dilation_w = 3;
  s.window.pad_top = 1;
  s.pad_bottom = 3;
  s.pad_right = 2;
  s.window.out_height = 11;
  s.window.out_width = 7;
  Check(s);
}

TEST(Pool, CeilModeWindowsReachBeyondThePadding) {
  PoolSpec s = Square(6, 20, 3, 2, 0);
  // ceil((6 - 3) / 2) + 1: the last window has one column outside.
  s.window.out_height = s.window.out_width = 3;
  Check(s);
  s = Square(6, 20, 4, 3, 1);
  s.window.out_height = s.window.out_width = 3;
  Check(s);
}

TEST(Pool, BatchOfUnequalSides) {
  PoolSpec s = Square(9, 24, 3, 1, 1);
  s.window.batch = 3;
  s.window.width = 14;
  s.window.kernel_w = 2;
  s.window.out_width = (14 + 2 - 2) + 1;
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
  s.window.dilation_w = 0;
  testing::ExpectInvalid(MakePool(s), {"pool", "dilation_w", "0"});
  s = Square(6, 18, 3, 1, 1);
  s.window.out_width = 0;
  testing::ExpectInvalid(MakePool(s), {"pool", "out_width", "0"});
  s = Square(6, 18, 3, 1, 1);
  s.window.pad_top = 3;
  testing::ExpectInvalid(MakePool(s), {"window 0", "height", "padding before 3"});
  s = Square(6, 18, 3, 1, 1);
  s.window.out_width = 9;
  testing::ExpectInvalid(MakePool(s), {"window 7 of 9", "width"});
}

}  // namespace
}  // namespace lagoon
