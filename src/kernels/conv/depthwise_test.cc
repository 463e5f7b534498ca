#include "kernels/conv/depthwise.h"

#include <algorithm>

#include "kernels/testing/image_window.h"
#include "kernels/testing/ops.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

// Up to 2048 products per output, each rounded once in single precision.
constexpr double kTolerance = 2e-5;

double OneOutput(const DepthwiseSpec& s, const Floats& x, const Floats& w, std::size_t image,
                 std::size_t oy, std::size_t ox, std::size_t c) {
  double sum = 0;
  const ImageWindow& window = s.window;
  for (std::size_t ky = 0; ky < window.kernel_h; ++ky) {
    for (std::size_t kx = 0; kx < window.kernel_w; ++kx) {
      const auto pixel = testing::InputPixelOf(window, image, oy, ox, ky, kx);
      if (!pixel) continue;
      sum += double(x[*pixel * s.channels + c]) *
             double(w[(c * window.kernel_h + ky) * window.kernel_w + kx]);
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

void Check(const DepthwiseSpec& s) {
  const ImageWindow& window = s.window;
  SCOPED_TRACE(::testing::Message()
               << window.height << "x" << window.width << "x" << s.channels << " kernel "
               << window.kernel_h << "x" << window.kernel_w << " stride " << window.stride_w
               << " dilation " << window.dilation_w << " pad " << window.pad_left);
  const Floats x = testing::RandomFloats(InputPixels(window) * s.channels);
  const Floats w = testing::RandomFloats(WindowTaps(window) * s.channels, -1, 1, 2);
  const Floats bias = testing::RandomFloats(s.channels, -1, 1, 3);
  Floats packed(PackedDepthwiseWeightBytes(s) / sizeof(float));
  PackDepthwiseWeights(s, w.data(), packed.data());
  Doubles reference;
  for (std::size_t image = 0; image < window.batch; ++image) {
    for (std::size_t oy = 0; oy < window.out_height; ++oy) {
      for (std::size_t ox = 0; ox < window.out_width; ++ox) {
        for (std::size_t c = 0; c < s.channels; ++c) {
          const double sum = OneOutput(s, x, w, image, oy, ox, c) + (s.bias ? bias[c] : 0);
          reference.push_back(Activate(s.epilogue, sum));
        }
      }
    }
  }
  std::vector<Floats> inputs = {x, packed};
  if (s.bias) inputs.push_back(bias);
  testing::ExpectKernel([&] { return MakeDepthwise(s); }, inputs, reference, kTolerance);
}

DepthwiseSpec Square(std::uint32_t size, std::uint32_t channels, std::uint32_t kernel,
                     std::uint32_t stride, std::uint32_t pad) {
  DepthwiseSpec s;
  s.window = testing::SquareWindow(size, kernel, stride, pad);
  s.channels = channels;
  return s;
}

TEST(Depthwise, MatchesReferenceOnShapesOfMobileNet) {
  for (const auto& [size, channels, stride] : {std::tuple{28u, 32u, 1u},
                                               {28u, 48u, 2u},
                                               {14u, 144u, 1u},
                                               {14u, 144u, 2u},
                                               {7u, 960u, 1u},
                                               {56u, 96u, 2u}}) {
    DepthwiseSpec s = Square(size, channels, 3, stride, 1);
    s.bias = true;
    s.epilogue = {.activation = Activation::kClip, .low = 0, .high = 6};
    Check(s);
  }
}

TEST(Depthwise, EveryWidthMeetsItsEdges) {
  for (std::uint32_t width = 1; width <= 11; ++width) {
    for (std::uint32_t stride = 1; stride <= 3; ++stride) {
      DepthwiseSpec s = Square(width, 5, 3, stride, 1);
      s.bias = width % 2 == 0;
      Check(s);
    }
  }
}

TEST(Depthwise, EveryWidthMeetsTheEdgesOfWideFilters) {
  for (const std::uint32_t kernel : {5u, 7u}) {
    for (std::uint32_t width = 1; width <= 14; ++width) {
      for (std::uint32_t stride = 1; stride <= 2; ++stride) {
        for (const std::uint32_t pad : {kernel / 2, kernel - 1}) {
          DepthwiseSpec s = Square(width, 51, kernel, stride, pad);
          s.bias = width % 2 == 0;
          Check(s);
        }
      }
    }
  }
}

TEST(Depthwise, WideFiltersMayLieInThePaddingOrPassTheEnd) {
  for (const std::uint32_t kernel : {5u, 7u}) {
    Check(Square(5, 40, kernel, 1, kernel + 2));  // the first windows cover only padding
    DepthwiseSpec s = Square(12, 40, kernel, 2, 0);
    s.window.pad_top = 1;
    s.window.out_height = s.window.out_width = 6;
    Check(s);
  }
}

TEST(Depthwise, AnyChannelCount) {
  for (const std::uint32_t channels :
       {1u, 3u, 7u, 8u, 9u, 15u, 16u, 17u, 24u, 31u, 33u, 65u, 100u}) {
    Check(Square(6, channels, 3, 1, 1));
    Check(Square(6, channels, 5, 1, 2));
  }
}

TEST(Depthwise, AnyFilter) {
  Check(Square(9, 20, 1, 1, 0));
  Check(Square(9, 20, 1, 2, 0));
  Check(Square(12, 20, 5, 2, 2));
  Check(Square(12, 20, 7, 1, 3));
  Check(Square(9, 20, 9, 1, 0));
  DepthwiseSpec tall = Square(9, 20, 3, 1, 1);
  tall.window.kernel_h = 7;
  tall.window.pad_top = 3;
  Check(tall);
}

TEST(Depthwise, PaddingMayBeAsymmetricOrWiderThanTheFilter) {
  DepthwiseSpec s = Square(6, 18, 3, 2, 0);
  s.window.pad_top = 1;
  // The last window reaches one element beyond the right edge.
  s.window.out_height = s.window.out_width = 3;
  Check(s);
  s = Square(5, 18, 3, 1, 4);  // the first windows cover only padding
  s.bias = true;
  Check(s);
  s = Square(6, 18, 3, 1, 2);
  Check(s);
}

TEST(Depthwise, Dilation) {
  DepthwiseSpec s = Square(12, 20, 3, 1, 2);
  s.window.dilation_h = s.window.dilation_w = 2;
  s.window.out_height = s.window.out_width = 12;
  Check(s);
  s.window.dilation_w = 1;  // dilated rows, dense columns: uses the unrolled body
  s.window.pad_left = 1;
  Check(s);
}

TEST(Depthwise, BatchAndRelu) {
  DepthwiseSpec s = Square(13, 33, 3, 1, 1);
  s.window.batch = 3;
  s.bias = true;
  s.epilogue.activation = Activation::kRelu;
  Check(s);
}

TEST(Depthwise, OneWideRowIsCutAlongColumns) {
  DepthwiseSpec s = Square(3, 64, 3, 1, 1);
  s.window.height = s.window.out_height = 1;
  s.window.width = s.window.out_width = 3000;
  Check(s);
  EXPECT_GE(MakeDepthwise(s)->blocks, 4u);
}

TEST(Depthwise, LargestFilterStillFitsABlock) {
  DepthwiseSpec s = Square(44, 40, 44, 1, 0);
  s.window.kernel_w = 46;
  s.window.width = 46;
  Check(s);
}

TEST(Depthwise, FunctionsFollowTheStore) {
  for (const std::uint32_t channels : {24u, 100u}) {
    DepthwiseSpec s = Square(channels, 14, 3, 1, 1);
    s.epilogue.activation = Activation::kUnary;
    s.epilogue.unary = UnaryOp::kSwish;
    Check(s);
  }
}

TEST(Depthwise, NanPassesThroughTheActivation) {
  DepthwiseSpec s = Square(1, 1, 1, 1, 0);
  s.epilogue.activation = Activation::kRelu;
  testing::ExpectKernel([&] { return MakeDepthwise(s); }, {{NAN}, {1}}, {double{NAN}}, 0);
}

TEST(Depthwise, RefusesBadSpecsByName) {
  DepthwiseSpec s = Square(6, 18, 3, 1, 1);
  s.window.stride_h = 0;
  testing::ExpectInvalid(MakeDepthwise(s), {"depthwise", "stride_h", "0"});
  s = Square(6, 18, 3, 1, 1);
  s.channels = 0;
  testing::ExpectInvalid(MakeDepthwise(s), {"depthwise", "channels", "0"});
  s = Square(6, 18, 3, 1, 1);
  s.window.kernel_h = 1000;
  testing::ExpectInvalid(MakeDepthwise(s), {"kernel_h 1000", "kernel_w 3", "2048"});
  s = Square(6, 18, 3, 1, 1);
  s.window.height = s.window.width = 1u << 20;
  testing::ExpectInvalid(MakeDepthwise(s), {"x has", "height 1048576", "width 1048576"});
  s = Square(6, 18, 3, 1, 1);
  s.epilogue.residual = true;
  testing::ExpectInvalid(MakeDepthwise(s), {"residual"});
  s.epilogue = {.activation = Activation::kClip, .low = 2, .high = 1};
  testing::ExpectInvalid(MakeDepthwise(s), {"low 2", "high 1"});
  s.epilogue = {.activation = Activation::kUnary};
  s.epilogue.unary = UnaryOp::kSign;
  testing::ExpectInvalid(MakeDepthwise(s), {"function", "no vector body"});
}

}  // namespace
}  // namespace lagoon
