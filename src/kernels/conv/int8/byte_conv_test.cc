// Convolutions of bytes: every result equals that of a plain loop, on every unit.

#include "kernels/conv/int8/byte_conv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "kernels/conv/int8/byte_conv_args.h"
#include "kernels/conv/int8/byte_depthwise.h"
#include "kernels/testing/leave_at.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using testing::LeaveAt;

constexpr std::uint8_t kNotWritten = 0xA5;

/// A convolution with its operands, and its kernel bound to them.
class ByteProblem {
 public:
  ByteProblem(const ByteConvSpec& s, std::uint32_t seed, bool extremes = false,
              bool is_depthwise = false)
      : spec(s),
        depthwise(is_depthwise),
        depth(WindowTaps(s.window) * (is_depthwise ? 1 : s.in_channels / s.groups)) {
    std::minstd_rand random(seed);
    x.resize(InputPixels(s.window) * s.in_channels);
    for (auto& v : x) v = static_cast<std::uint8_t>(extremes ? 255 : random() >> 8);
    weights.resize(depth * s.out_channels);
    for (auto& v : weights) v = static_cast<std::int8_t>(extremes ? 127 : random() >> 8);
    if (!extremes && random() % 3 == 0) {  // the weights of 7 bits that AVX2 sums by pairs
      for (auto& v : weights) v = static_cast<std::int8_t>(v / 2);
    }
    const double spread = 40 / (std::sqrt(static_cast<double>(depth)) * 5000);
    for (std::uint32_t c = 0; c < s.out_channels; ++c) {
      bias.push_back(static_cast<std::int32_t>(random() % 20001) - 10000);
      scale.push_back(static_cast<float>(spread * (1 + random() % 100 / 100.0)));
    }
    y.resize(OutputPixels(s.window) * s.out_channels * (s.floats ? 4 : 1));
    residual.resize(y.size());
    for (auto& v : residual) v = static_cast<std::uint8_t>(random() >> 8);
  }

  /// For the first of `units` that suits it.
  void Bind(std::span<const ByteUnit* const> units) {
    Pack(units);
    kernel = *(depthwise ? MakeByteDepthwise : MakeByteConv)(spec, units);
    scratch = hwy::AllocateAligned<std::byte>(kernel.scratch_bytes);
    const void* inputs[] = {x.data(), packed.get(), residual.data(), &scales};
    void* output = y.data();
    for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
      std::memcpy(kernel.args.data() + kernel.inputs[i], &inputs[i], sizeof(void*));
    }
    std::memcpy(kernel.args.data() + kernel.outputs[0], &output, sizeof(void*));
    std::ranges::fill(y, kNotWritten);
  }
  void Pack(std::span<const ByteUnit* const> units) {
    const ByteConvWeights from{weights, bias, scale};
    packed = hwy::AllocateAligned<std::byte>(depthwise ? PackedByteDepthwiseBytes(spec)
                                                       : ByteConvPackingOf(spec, units).bytes);
    depthwise ? PackByteDepthwise(spec, from, packed.get())
              : PackByteConv(spec, from, packed.get(), units);
  }
  bool RunBlock(std::uint32_t block, CheckProbe* probe = nullptr) {
    std::memset(scratch.get(), 0x5A, kernel.scratch_bytes);
    BlockContext ctx({}, {scratch.get(), kernel.scratch_bytes}, probe);
    return kernel.body(kernel.args.data(), block, ctx);
  }
  std::vector<std::uint8_t> RunAll() {
    for (std::uint32_t block = 0; block < kernel.blocks; ++block) EXPECT_TRUE(RunBlock(block));
    return y;
  }

  /// The sum of the window at an output pixel.
  std::int64_t Sum(std::size_t pixel, std::size_t c) const {
    const ImageWindow& w = spec.window;
    const std::int64_t row = static_cast<std::int64_t>(pixel / w.out_width % w.out_height);
    const std::int64_t image = static_cast<std::int64_t>(pixel / w.out_width / w.out_height);
    const std::int64_t column = static_cast<std::int64_t>(pixel % w.out_width);
    std::int64_t sum = bias[c];
    for (std::int64_t r = 0; r < w.kernel_h; ++r) {
      for (std::int64_t s = 0; s < w.kernel_w; ++s) {
        const std::int64_t iy = row * w.stride_h + r * w.dilation_h - w.pad_top;
        const std::int64_t ix = column * w.stride_w + s * w.dilation_w - w.pad_left;
        if (iy < 0 || iy >= w.height || ix < 0 || ix >= w.width) continue;
        const std::size_t at = static_cast<std::size_t>((image * w.height + iy) * w.width + ix);
        for (std::size_t i = 0; i < depth / WindowTaps(w); ++i) {
          const std::size_t tap = static_cast<std::size_t>(r * w.kernel_w + s);
          const std::int64_t by = weights[c * depth + i * WindowTaps(w) + tap];
          const std::size_t part = c / (spec.out_channels / spec.groups);
          const std::size_t channel = depthwise ? c : part * (spec.in_channels / spec.groups) + i;
          sum += (x[at * spec.in_channels + channel] - std::int64_t{spec.x_zero}) * by;
        }
      }
    }
    return sum;
  }
  float Added(float a, float b) const {
    // In two statements, so that no compiler joins a product and the sum.
    const float left = (a - scales.a_zero) * scales.a_scale;
    const float right = (b - scales.b_zero) * scales.b_scale;
    const float level = std::nearbyint((left + right) / scales.y_scale) + scales.y_zero;
    return std::clamp(level, scales.y_low, scales.y_high);
  }
  std::vector<std::uint8_t> Expected() const {
    std::vector<std::uint8_t> expected(y.size());
    for (std::size_t i = 0; i < y.size() / (spec.floats ? 4 : 1); ++i) {
      const std::size_t c = i % spec.out_channels;
      float value = static_cast<float>(Sum(i / spec.out_channels, c)) * scale[c];
      if (spec.limits) value = std::min(std::max(value, spec.low), spec.high);
      if (spec.grid != 0) value = (std::nearbyint(value) + 0.0F) * spec.grid;
      if (spec.floats) {
        std::memcpy(expected.data() + 4 * i, &value, 4);
        continue;
      }
      const float level = std::nearbyint(value) + static_cast<float>(spec.y_zero);
      const float byte = std::clamp(level, 0.0F, 255.0F);
      expected[i] = static_cast<std::uint8_t>(spec.residual ? Added(byte, residual[i]) : byte);
    }
    return expected;
  }

  ByteConvSpec spec;
  bool depthwise;
  std::size_t depth;
  std::vector<std::uint8_t> x, y, residual;
  ByteAddScales scales{0.02F, 131, 0.03F, 7, 0.04F, 90, 100, 240};
  std::vector<std::int8_t> weights;
  std::vector<std::int32_t> bias;
  std::vector<float> scale;
  hwy::AlignedFreeUniquePtr<std::byte[]> packed, scratch;
  Kernel kernel;
};

ByteConvSpec RandomSpec(std::minstd_rand& random) {
  const auto up_to = [&random](std::uint32_t most) {
    return static_cast<std::uint32_t>(1 + (random() >> 8) % most);
  };
  ByteConvSpec spec;
  ImageWindow& w = spec.window;
  w.kernel_h = up_to(4);
  w.kernel_w = up_to(4);
  w.dilation_h = up_to(2);
  w.dilation_w = up_to(3);
  w.stride_h = up_to(2);
  w.stride_w = up_to(2);
  w.pad_top = up_to(3) - 1;
  w.pad_left = up_to(3) - 1;
  w.batch = up_to(2);
  w.out_height = up_to(7);
  w.out_width = up_to(9);
  w.height = (w.out_height - 1) * w.stride_h + up_to(4);
  w.width = (w.out_width - 1) * w.stride_w + up_to(4);
  spec.in_channels = random() % 2 == 0 ? up_to(20) : 4 * up_to(24);
  spec.out_channels = up_to(70);
  spec.x_zero = static_cast<std::uint8_t>(random() >> 8);
  spec.y_zero = static_cast<std::uint8_t>(random() >> 8);
  spec.floats = random() % 4 == 0;
  spec.residual = !spec.floats && random() % 3 == 0;
  spec.limits = random() % 2 == 0;
  spec.low = -static_cast<float>(up_to(40));
  spec.high = static_cast<float>(up_to(40));
  if (spec.floats && spec.limits) spec.grid = random() % 2 == 0 ? 0.03F : 0;
  return spec;
}

void ExpectAsPlain(ByteProblem& problem) {
  const std::vector<std::uint8_t> expected = problem.Expected();
  for (std::span units = ByteUnits(); !units.empty(); units = units.subspan(1)) {
    problem.Bind(units);
    const ByteUnit* const unit = units.front();
    ASSERT_EQ(problem.RunAll(), expected) << unit->name;
  }
}

TEST(ByteConv, EveryResultOfRandomShapesEqualsAPlainLoops) {
  std::minstd_rand random(1);
  for (std::uint32_t i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    ByteProblem problem(RandomSpec(random), i + 1);
    ASSERT_NO_FATAL_FAILURE(ExpectAsPlain(problem));
  }
}

// Rows of y that are long enough for strips, of one or several images, in one or several pieces;
// some with steps that are not full, and some with parts of several groups.
TEST(ByteConv, ResultsOfLongRowsEqualAPlainLoops) {
  constexpr std::uint32_t kShapes[][2] = {{1, 64}, {2, 32}, {2, 96}, {3, 64},
                                          {4, 16}, {3, 48}, {3, 24}};
  std::minstd_rand random(11);
  for (std::uint32_t i = 0; i < 180; ++i) {
    SCOPED_TRACE(i);
    ByteConvSpec spec = RandomSpec(random);
    ImageWindow& w = spec.window;
    const auto& [kernel_w, channels] = kShapes[random() % std::size(kShapes)];
    w.kernel_w = kernel_w;
    spec.in_channels = channels;
    if (i % 5 != 0) w.dilation_w = 1;
    w.batch = 1 + random() % 3;
    w.out_width = 12 + random() % 30;
    w.width = (w.out_width - 1) * w.stride_w + 1 + random() % 4;
    spec.out_channels = 1 + random() % 70;
    if (i % 3 == 0) {
      spec.groups = 1 << random() % 5;
      spec.in_channels = spec.groups * 4 * (1 + random() % 5);
      spec.out_channels = spec.groups * (1 + random() % 20);
    }
    if (i % 4 == 0) {  // along the height
      std::swap(w.height, w.width);
      std::swap(w.out_height, w.out_width);
      std::swap(w.kernel_h, w.kernel_w);
      w.width = w.out_width = w.kernel_w = 1;
      w.pad_left = 0;
      w.dilation_h = 1;
    }
    ByteProblem problem(spec, i + 1);
    ASSERT_NO_FATAL_FAILURE(ExpectAsPlain(problem));
  }
}

TEST(ByteConv, ResultsInGroupsOfRandomShapesEqualAPlainLoops) {
  std::minstd_rand random(7);
  for (std::uint32_t i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    ByteConvSpec spec = RandomSpec(random);
    spec.groups = 2 + random() % 5;
    spec.in_channels = spec.groups * 4 * (1 + random() % 6);
    spec.out_channels = spec.groups * (1 + random() % 70);
    ByteProblem problem(spec, i + 1);
    ASSERT_NO_FATAL_FAILURE(ExpectAsPlain(problem));
  }
}

/// With a result of bytes, as depthwise convolutions have.
void ExpectDepthwiseAsPlain(ByteConvSpec spec, std::uint32_t seed) {
  spec.floats = spec.residual = false;
  spec.grid = 0;
  ByteProblem problem(spec, seed, /*extremes=*/false, /*is_depthwise=*/true);
  ExpectAsPlain(problem);
}

TEST(ByteConv, DepthwiseResultsOfRandomShapesEqualAPlainLoops) {
  std::minstd_rand random(4);
  for (std::uint32_t i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    ByteConvSpec spec = RandomSpec(random);
    // Neighbours of few channels are computed together.
    spec.in_channels = spec.out_channels = 1 + (random() >> 8) % (i % 2 == 0 ? 150 : 32);
    ASSERT_NO_FATAL_FAILURE(ExpectDepthwiseAsPlain(spec, i + 1));
  }
}

// A unit may read each column of the image once for several output pixels, if the filter has 3 or 5
// columns. The rows have any length; the padding of some is longer than the scratch memory for it.
TEST(ByteConv, DepthwiseNeighboursMayShareColumns) {
  std::minstd_rand random(5);
  for (std::uint32_t i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    ByteConvSpec spec = RandomSpec(random);
    ImageWindow& w = spec.window;
    w.kernel_h = 1 + (random() >> 8) % 7;
    w.kernel_w = i % 2 == 0 ? 3 : 5;
    w.dilation_w = i % 5 == 0 ? 2 : 1;
    w.pad_left = static_cast<std::uint32_t>((random() >> 8) % w.kernel_w);
    w.pad_top = static_cast<std::uint32_t>((random() >> 8) % w.kernel_h);
    w.out_width = i % 20 == 7 ? 600 : 1 + (random() >> 8) % 23;
    w.width = w.out_width * w.stride_w;
    w.height = w.out_height * w.stride_h;
    spec.in_channels = spec.out_channels = 20 + (random() >> 8) % 130;
    ASSERT_NO_FATAL_FAILURE(ExpectDepthwiseAsPlain(spec, i + 1));
  }
}

TEST(ByteConv, ProductsOfMatricesOfAnyDepth) {
  std::minstd_rand random(2);
  for (const std::uint32_t depth : {1U, 3U, 4U, 17U, 64U, 147U, 1000U, 4999U, 25088U, 32768U}) {
    ByteConvSpec spec;
    spec.window.height = spec.window.out_height = depth > 5000 ? 1 : 1 + random() % 30;
    spec.in_channels = depth;
    spec.out_channels = depth > 5000 ? 40 : 1 + random() % 100;
    spec.x_zero = 131;
    spec.y_zero = 120;
    SCOPED_TRACE(depth);
    ByteProblem problem(spec, depth);
    ASSERT_NO_FATAL_FAILURE(ExpectAsPlain(problem));
  }
}

// A pair is two products with bytes up to 255.
TEST(ByteConv, PanelsWhosePairsMayExceed16BitsAreMarked) {
  const auto is_wide = [](std::int8_t a, std::int8_t b) {
    ByteConvSpec spec;
    spec.in_channels = 2;
    spec.out_channels = 40;
    std::vector<std::int8_t> weights(80, 0);
    weights[78] = a;
    weights[79] = b;
    const std::vector<std::int32_t> bias(40);
    const std::vector<float> scale(40, 1);
    std::vector<std::byte> packed(ByteConvPackingOf(spec).bytes);
    PackByteConv(spec, {weights, bias, scale}, packed.data());
    const std::size_t wide = PackedByteConv::OfMatrix(2, 40).wide;
    EXPECT_EQ(packed.at(wide), std::byte{0});
    return packed.at(wide + 1) != std::byte{0};
  };
  EXPECT_FALSE(is_wide(64, 64));
  EXPECT_TRUE(is_wide(64, 65));
  EXPECT_FALSE(is_wide(-64, -64));
  EXPECT_TRUE(is_wide(-64, -65));
  EXPECT_FALSE(is_wide(127, -128));
}

// Two products of 255 * 127 are beyond 16 bits, which must not saturate.
TEST(ByteConv, TheLargestProductsAreExact) {
  for (const std::uint32_t depth : {2U, 64U, 32768U}) {
    ByteConvSpec spec;
    spec.in_channels = depth;
    spec.out_channels = 33;
    ByteProblem problem(spec, 3, true);
    for (std::uint32_t c = 0; c < 33; ++c) {
      problem.scale[c] = 200.0F / (255.0F * 127.0F * static_cast<float>(depth));
    }
    std::ranges::fill(problem.weights, std::int8_t{-128});
    problem.spec.y_zero = 210;
    for (const std::int8_t w : {std::int8_t{127}, std::int8_t{-128}}) {
      std::ranges::fill(problem.weights, w);
      ASSERT_NO_FATAL_FAILURE(ExpectAsPlain(problem));
    }
  }
}

void ExpectLeavesUnseen(const ByteConvSpec& spec) {
  ByteProblem problem(spec, 5);
  for (std::span units = ByteUnits(); !units.empty(); units = units.subspan(1)) {
    problem.Bind(units);
    const ByteUnit* const unit = units.front();
    const std::vector<std::uint8_t> whole = problem.RunAll();
    const std::uint32_t last = problem.kernel.blocks - 1;
    LeaveAt never;
    ASSERT_TRUE(problem.RunBlock(last, &never));
    for (int check = 1; check <= never.checks(); check += check < 4 ? 1 : never.checks() / 9 + 1) {
      std::ranges::fill(problem.y, kNotWritten);
      LeaveAt probe(check);
      ASSERT_FALSE(problem.RunBlock(last, &probe)) << unit->name << " check " << check;
      ASSERT_EQ(std::ranges::count(problem.y, kNotWritten), std::ssize(problem.y));
    }
    ASSERT_EQ(problem.RunAll(), whole) << unit->name;
  }
}

TEST(ByteConv, LeavesUnseenAtEveryCheckAndComputesTheSameAgain) {
  ByteConvSpec spec;
  spec.window = {.height = 14,
                 .width = 14,
                 .out_height = 14,
                 .out_width = 14,
                 .kernel_h = 3,
                 .kernel_w = 3,
                 .pad_top = 1,
                 .pad_left = 1};
  spec.in_channels = 96;
  spec.out_channels = 80;
  spec.x_zero = 7;
  spec.residual = true;
  ExpectLeavesUnseen(spec);
  spec.in_channels = 64;  // in strips
  ExpectLeavesUnseen(spec);
  spec.groups = 4;
  ExpectLeavesUnseen(spec);
}

TEST(ByteConv, RefusesWhatItCannotSum) {
  ByteConvSpec spec;
  spec.in_channels = 32769;
  const Result<Kernel> deep = MakeByteConv(spec);
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(deep.error().message, HasSubstr("a sum has 32769 products, more than 32768"));
  spec.in_channels = 0;
  const Result<Kernel> none = MakeByteConv(spec);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("in_channels"));
  spec.groups = 2;
  spec.in_channels = 12;
  spec.out_channels = 66;
  const Result<Kernel> ragged = MakeByteConv(spec);
  ASSERT_FALSE(ragged);
  EXPECT_THAT(ragged.error().message, HasSubstr("2 groups of 12 input and 66 output channels"));
  spec.groups = 1;
  spec.in_channels = 1;
  spec.limits = true;
  spec.low = 1;
  const Result<Kernel> crossed = MakeByteConv(spec);
  ASSERT_FALSE(crossed);
  EXPECT_THAT(crossed.error().message, HasSubstr("limits"));
  spec.limits = false;
  spec.grid = 1;
  const Result<Kernel> endless = MakeByteConv(spec);
  ASSERT_FALSE(endless);
  EXPECT_THAT(endless.error().message, HasSubstr("a grid of 1 needs limited floats"));
  spec.grid = 0;
  spec.floats = spec.residual = true;
  const Result<Kernel> mixed = MakeByteConv(spec);
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message, HasSubstr("a residual is added to bytes"));
}

}  // namespace
}  // namespace lagoon
