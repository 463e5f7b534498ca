#include "kernels/conv/depthwise.h"

#include <algorithm>

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
  for (std::size_t ky = 0; ky < s.kernel_h; ++ky) {
    for (std::size_t kx = 0; kx < s.kernel_w; ++kx) {
      const std::int64_t iy = std::int64_t(oy * s.stride_h + ky * s.dilation_h) - s.pad_top;
      const std::int64_t ix = std::int64_t(ox * s.stride_w + kx * s.dilation_w) - s.pad_left;
      if (iy < 0 || ix < 0 || iy >= s.height || ix >= s.width) continue;
      const std::size_t at =
          ((image * s.height + std::size_t(iy)) * s.width + std::size_t(ix)) * s.channels + c;
      sum += double(x[at]) * double(w[(c * s.kernel_h + ky) * s.kernel_w + kx]);
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
  SCOPED_TRACE(::testing::Message() << s.height << "x" << s.width << "x" << s.channels << " kernel "
                                    << s.kernel_h << "x" << s.kernel_w << " stride " << s.stride_w
                                    << " dilation " << s.dilation_w << " pad " << s.pad_left);
  const Floats x = testing::RandomFloats(std::size_t{s.batch} * s.height * s.width * s.channels);
  const Floats w =
      testing::RandomFloats(std::size_t{s.channels} * s.kernel_h * s.kernel_w, -1, 1, 2);
  const Floats bias = testing::RandomFloats(s.channels, -1, 1, 3);
  Floats packed(PackedDepthwiseWeightBytes(s) / sizeof(float));
  PackDepthwiseWeights(s, w.data(), packed.data());
  Doubles reference;
  for (std::size_t image = 0; image < s.batch; ++image) {
    for (std::size_t oy = 0; oy < s.out_height; ++oy) {
      for (std::size_t ox = 0; ox < s.out_width; ++ox) {
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
  s.height = s.width = size;
  s.channels = channels;
  s.kernel_h = s.kernel_w = kernel;
  s.stride_h = s.stride_w = stride;
  s.pad_top = s.pad_left = pad;
  s.out_height = s.out_width = (size + 2 * pad - kernel) / stride + 1;
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
  tall.kernel_h = 7;
  tall.pad_top = 3;
  Check(tall);
}

TEST(Depthwise, PaddingMayBeAsymmetricOrWiderThanTheFilter) {
  DepthwiseSpec s = Square(6, 18, 3, 2, 0);
  s.pad_top = 1;
  s.out_height = s.out_width = 3;  // the last window reaches one element beyond the right edge
  Check(s);
  s = Square(5, 18, 3, 1, 4);  // the first windows cover only padding
  s.bias = true;
  Check(s);
  s = Square(6, 18, 3, 1, 2);
  Check(s);
}

TEST(Depthwise, Dilation) {
  DepthwiseSpec s = Square(12, 20, 3, 1, 2);
  s.dilation_h = s.dilation_w = 2;
  s.out_height = s.out_width = 12;
  Check(s);
  s.dilation_w = 1;  // dilated rows, dense columns: uses the unrolled body
  s.pad_left = 1;
  Check(s);
}

TEST(Depthwise, BatchAndRelu) {
  DepthwiseSpec s = Square(13, 33, 3, 1, 1);
  s.batch = 3;
  s.bias = true;
  s.epilogue.activation = Activation::kRelu;
  Check(s);
}

TEST(Depthwise, OneWideRowIsCutAlongColumns) {
  DepthwiseSpec s = Square(3, 64, 3, 1, 1);
  s.height = s.out_height = 1;
  s.width = s.out_width = 3000;
  Check(s);
  EXPECT_GE(MakeDepthwise(s)->blocks, 4u);
}

TEST(Depthwise, LargestFilterStillFitsABlock) {
  DepthwiseSpec s = Square(44, 40, 44, 1, 0);
  s.kernel_w = 46;
  s.width = 46;
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
  s.stride_h = 0;
  testing::ExpectInvalid(MakeDepthwise(s), {"depthwise", "stride_h", "0"});
  s = Square(6, 18, 3, 1, 1);
  s.channels = 0;
  testing::ExpectInvalid(MakeDepthwise(s), {"depthwise", "channels", "0"});
  s = Square(6, 18, 3, 1, 1);
  s.kernel_h = 1000;
  testing::ExpectInvalid(MakeDepthwise(s), {"kernel_h 1000", "kernel_w 3", "2048"});
  s = Square(6, 18, 3, 1, 1);
  s.height = s.width = 1u << 20;
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
