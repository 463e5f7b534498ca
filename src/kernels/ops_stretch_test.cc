// The longest time between two guard checks, commit included, is below 20 us: for every op, over
// the shapes of MobileNetV2, ResNet, SqueezeNet and VGG, and for shapes that are too long for one
// block.

#include <string>
#include <vector>

#include "kernels/ops.h"
#include "kernels/testing/ops.h"
#include "kernels/testing/stretch.h"

namespace lagoon {
namespace {

using testing::BoundKernel;
using testing::Floats;
using testing::LongestStretchUs;

struct Case {
  std::string name;
  Result<Kernel> (*make)(std::size_t a, std::size_t b, std::size_t c);
  std::size_t a = 0, b = 0, c = 0;
  std::vector<std::size_t> inputs;  // elements
  std::size_t output = 0;
};

void Check(const Case& test) {
#ifdef LAGOON_TEST_SANITIZED
  GTEST_SKIP() << "a sanitizer slows the bodies down";
#endif
  for (const std::int64_t target : testing::Targets()) {
    if (target != HWY_AVX3 && target != HWY_AVX2) continue;  // blocks are sized for these
    const testing::ScopedTarget use(target);
    std::vector<Floats> inputs;
    for (const std::size_t count : test.inputs)
      inputs.push_back(testing::RandomFloats(count, 0.5, 2));
    Result<Kernel> kernel = test.make(test.a, test.b, test.c);
    ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
    BoundKernel bound(*std::move(kernel), std::move(inputs), test.output);
    const double longest = LongestStretchUs(bound);
    SCOPED_TRACE(test.name + " " + std::to_string(test.a) + " " + std::to_string(test.b) + " " +
                 std::to_string(test.c) + " on " + hwy::TargetName(target) + ", " +
                 std::to_string(bound.kernel().blocks) + " blocks");
    testing::ExpectShort(longest);
    ::testing::Test::RecordProperty(
        test.name + "_" + std::to_string(test.a) + "_" + std::to_string(test.b) + "_" +
            std::to_string(test.c) + "_" + hwy::TargetName(target),
        std::to_string(longest) + " us, " + std::to_string(bound.kernel().blocks) + " blocks");
  }
}

Result<Kernel> Depthwise(std::size_t size, std::size_t channels, std::size_t kernel,
                         std::size_t stride) {
  DepthwiseSpec s;
  const auto taps = static_cast<std::uint32_t>(kernel);
  s.window = testing::SquareWindow(static_cast<std::uint32_t>(size), taps,
                                   static_cast<std::uint32_t>(stride), taps / 2);
  s.channels = static_cast<std::uint32_t>(channels);
  return MakeDepthwise(s);
}

TEST(Stretch, Depthwise) {
  for (const auto& [size, channels, stride] : {std::tuple{112u, 32u, 1u},
                                               {112u, 96u, 2u},
                                               {56u, 144u, 1u},
                                               {56u, 144u, 2u},
                                               {28u, 192u, 1u},
                                               {28u, 192u, 2u},
                                               {14u, 384u, 1u},
                                               {14u, 576u, 1u},
                                               {14u, 576u, 2u},
                                               {7u, 960u, 1u},
                                               {40u, 33u, 3u}}) {
    const std::size_t out = (size - 1) / stride + 1;
    Check({"depthwise3",
           [](std::size_t a, std::size_t b, std::size_t c) { return Depthwise(a, b, 3, c); },
           size,
           channels,
           stride,
           {std::size_t{size} * size * channels, 9 * channels},
           out * out * channels});
  }
  for (const auto& [size, channels, kernel] :
       {std::tuple{28u, 96u, 5u}, {14u, 240u, 7u}, {50u, 32u, 45u}, {50u, 3u, 45u}}) {
    Check({"depthwise",
           [](std::size_t a, std::size_t b, std::size_t c) { return Depthwise(a, b, c, 1); },
           size,
           channels,
           kernel,
           {std::size_t{size} * size * channels, std::size_t{kernel} * kernel * channels},
           std::size_t{size} * size * channels});
  }
}

/// Kernels 3x3, stride 1.
Result<Kernel> GroupedConv(std::size_t size, std::size_t channels, std::size_t groups) {
  GroupedConvSpec s;
  s.window = testing::SquareWindow(static_cast<std::uint32_t>(size), 3, 1, 1);
  s.in_channels = s.out_channels = static_cast<std::uint32_t>(channels);
  s.groups = static_cast<std::uint32_t>(groups);
  return MakeGroupedConv(s);
}

TEST(Stretch, GroupedConv) {
  for (const auto& [size, channels, groups] : {std::tuple{56u, 128u, 32u},
                                               {28u, 256u, 32u},
                                               {14u, 512u, 32u},
                                               {7u, 1024u, 32u},
                                               {27u, 96u, 2u},
                                               {7u, 1024u, 2u}}) {
    const std::size_t count = std::size_t{size} * size * channels;
    // The vector of a panel may be wider than the panel's channels.
    const std::size_t weights = (std::size_t{channels} + 16 * groups) * 9 * (channels / groups);
    Check({"grouped", GroupedConv, size, channels, groups, {count, weights}, count});
  }
}

TEST(Stretch, ChannelAffine) {
  const auto join = [](std::size_t rows, std::size_t parts, std::size_t channels) {
    return MakeChannelAffine({rows, std::vector<std::size_t>(parts, channels)});
  };
  for (const auto& [rows, parts, channels] :
       {std::tuple{3136u, 3u, 64u}, {196u, 30u, 32u}, {100'000u, 2u, 1u}}) {
    const std::size_t row = std::size_t{parts} * channels;
    std::vector<std::size_t> inputs{row, row};
    inputs.resize(2 + parts, std::size_t{rows} * channels);
    Check({"affine", join, rows, parts, channels, inputs, rows * row});
  }
}

template <PoolSpec::Kind kKind, std::uint32_t kKernel, std::uint32_t kStride>
Result<Kernel> Pool(std::size_t size, std::size_t channels, std::size_t out) {
  PoolSpec s;
  s.kind = kKind;
  s.window = testing::SquareWindow(static_cast<std::uint32_t>(size), kKernel, kStride);
  s.window.out_height = s.window.out_width = static_cast<std::uint32_t>(out);
  s.channels = static_cast<std::uint32_t>(channels);
  return MakePool(s);
}

TEST(Stretch, Pool) {
  constexpr auto kMax = PoolSpec::Kind::kMax, kAverage = PoolSpec::Kind::kAverage;
  const auto check = [](auto make, std::size_t size, std::size_t channels, std::size_t out) {
    Check({"pool", make, size, channels, out, {size * size * channels}, out * out * channels});
  };
  check(&Pool<kMax, 3, 2>, 112, 64, 56);
  check(&Pool<kMax, 3, 2>, 111, 64, 55);
  check(&Pool<kMax, 3, 2>, 55, 128, 27);
  check(&Pool<kMax, 3, 2>, 27, 256, 13);
  check(&Pool<kMax, 2, 2>, 224, 64, 112);
  check(&Pool<kMax, 2, 2>, 112, 128, 56);
  check(&Pool<kMax, 2, 2>, 14, 512, 7);
  check(&Pool<kMax, 2, 2>, 8, 3, 4);
  check(&Pool<kAverage, 7, 1>, 7, 2048, 1);
  check(&Pool<kAverage, 13, 1>, 13, 1000, 1);
  check(&Pool<kAverage, 60, 4>, 224, 16, 42);
  check(&Pool<kAverage, 224, 1>, 224, 40, 1);
}

template <UnaryOp kOp>
Result<Kernel> Unary(std::size_t count, std::size_t, std::size_t) {
  return MakeUnary({.op = kOp, .count = count, .alpha = 0, .beta = 6});
}

TEST(Stretch, Unary) {
  const auto check = [](auto make, std::size_t count) {
    Check({"unary", make, count, 0, 0, {count}, count});
  };
  check(&Unary<UnaryOp::kRelu>, 802'816);
  check(&Unary<UnaryOp::kClip>, 1'204'224);
  check(&Unary<UnaryOp::kSigmoid>, 100'352);
  check(&Unary<UnaryOp::kTanh>, 100'352);
  check(&Unary<UnaryOp::kExp>, 100'352);
  check(&Unary<UnaryOp::kLog>, 100'352);
  check(&Unary<UnaryOp::kSqrt>, 100'352);
  check(&Unary<UnaryOp::kHardSwish>, 802'816);
  check(&Unary<UnaryOp::kCopy>, 3'211'264);
}

TEST(Stretch, Binary) {
  const auto same = [](std::size_t count, std::size_t, std::size_t) {
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(count)};
    return MakeBinary({.op = BinaryOp::kAdd, .a = shape, .b = shape, .out = shape});
  };
  for (const std::size_t count : {802'816u, 401'408u, 200'704u, 100'352u, 25'088u}) {
    Check({"add", same, count, 0, 0, {count, count}, count});
  }
  const auto channels = [](std::size_t pixels, std::size_t count, std::size_t) {
    const auto rows = static_cast<std::int64_t>(pixels), columns = static_cast<std::int64_t>(count);
    return MakeBinary(
        {.op = BinaryOp::kMul, .a = {rows, columns}, .b = {columns}, .out = {rows, columns}});
  };
  Check({"scale", channels, 3136, 256, 0, {3136 * 256, 256}, 3136 * 256});
  Check({"scale", channels, 50'176, 3, 0, {50'176 * 3, 3}, 50'176 * 3});
  const auto power = [](std::size_t count, std::size_t, std::size_t) {
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(count)};
    return MakeBinary({.op = BinaryOp::kPow, .a = shape, .b = shape, .out = shape});
  };
  Check({"pow", power, 20'000, 0, 0, {20'000, 20'000}, 20'000});
}

TEST(Stretch, Softmax) {
  const auto make = [](std::size_t outer, std::size_t axis, std::size_t inner) {
    return MakeSoftmax({.outer = outer, .axis = axis, .inner = inner});
  };
  for (const auto& [outer, axis, inner] : {std::tuple{1u, 1000u, 1u},
                                           {1000u, 64u, 1u},
                                           {4u, 200'000u, 1u},
                                           {1u, 21u, 50'000u},
                                           {1u, 20'000u, 20u},
                                           {50u, 3u, 1u}}) {
    const std::size_t count = std::size_t{outer} * axis * inner;
    Check({"softmax", make, outer, axis, inner, {count}, count});
  }
}

TEST(Stretch, Reduce) {
  const auto make = [](std::size_t outer, std::size_t axis, std::size_t inner) {
    return MakeReduce({.op = ReduceOp::kMean, .outer = outer, .axis = axis, .inner = inner});
  };
  for (const auto& [outer, axis, inner] : {std::tuple{1u, 49u, 512u},
                                           {1u, 49u, 2048u},
                                           {1u, 49u, 1280u},
                                           {1u, 169u, 1000u},
                                           {8u, 3136u, 64u},
                                           {1u, 1'000'000u, 1u},
                                           {1u, 100'000u, 16u},
                                           {50'000u, 20u, 1u}}) {
    Check({"reduce",
           make,
           outer,
           axis,
           inner,
           {std::size_t{outer} * axis * inner},
           std::size_t{outer} * inner});
  }
}

TEST(Stretch, ShapeOps) {
  const auto to_nhwc = [](std::size_t channels, std::size_t height, std::size_t width) {
    const std::int64_t dims[] = {1, static_cast<std::int64_t>(channels),
                                 static_cast<std::int64_t>(height),
                                 static_cast<std::int64_t>(width)};
    const std::int64_t permutation[] = {0, 2, 3, 1};
    return MakeTranspose(dims, permutation);
  };
  const auto swap = [](std::size_t outer, std::size_t middle, std::size_t inner) {
    const std::int64_t dims[] = {static_cast<std::int64_t>(outer),
                                 static_cast<std::int64_t>(middle),
                                 static_cast<std::int64_t>(inner)};
    const std::int64_t permutation[] = {1, 0, 2};
    return MakeTranspose(dims, permutation);
  };
  for (const auto& [a, b, c] : {std::tuple{3u, 224u, 224u},
                                {512u, 7u, 7u},
                                {64u, 56u, 56u},
                                {1000u, 64u, 64u},
                                {2u, 500u, 500u}}) {
    const std::size_t count = std::size_t{a} * b * c;
    Check({"nhwc", to_nhwc, a, b, c, {count}, count});
    Check({"swap", swap, a, b, c, {count}, count});
  }
  const auto bytes = [](std::size_t outer, std::size_t rows, std::size_t columns) {
    const std::int64_t dims[] = {static_cast<std::int64_t>(outer), static_cast<std::int64_t>(rows),
                                 static_cast<std::int64_t>(columns)};
    const std::int64_t permutation[] = {0, 2, 1};
    return MakeTranspose(dims, permutation, 1);
  };
  for (const auto& [outer, rows, columns] : {std::tuple{1u, 64u, 3136u},
                                             {1u, 3136u, 64u},
                                             {1u, 1000u, 4096u},
                                             {1u, 5u, 100'000u},
                                             {1u, 3u, 50'176u},
                                             {784u, 2u, 24u},
                                             {3136u, 8u, 30u},
                                             {10'000u, 5u, 4u}}) {
    // The operands are bound as floats.
    const std::size_t count = std::size_t{outer} * rows * columns / sizeof(float);
    Check({"bytes", bytes, outer, rows, columns, {count}, count});
  }
  const auto concat = [](std::size_t outer, std::size_t a, std::size_t b) {
    const std::size_t axes[] = {a, b};
    return MakeConcat(outer, axes, 1);
  };
  for (const auto& [outer, a, b] : {std::tuple{3025u, 64u, 64u},
                                    {729u, 128u, 128u},
                                    {100'000u, 1u, 2u},
                                    {1u, 500'000u, 500'000u}}) {
    const std::size_t first = std::size_t{outer} * a, second = std::size_t{outer} * b;
    Check({"concat", concat, outer, a, b, {first, second}, first + second});
  }
  const auto slice = [](std::size_t size, std::size_t channels, std::size_t step) {
    const auto n = static_cast<std::int64_t>(size), c = static_cast<std::int64_t>(channels);
    const auto s = static_cast<std::int64_t>(step);
    return MakeStridedCopy({{n, c / s}, {c, s}, 0, sizeof(float)});
  };
  Check({"slice", slice, 3136, 128, 2, {3136 * 128}, 3136 * 64});
  Check({"slice", slice, 100'000, 3, 3, {300'000}, 100'000});
  Check({"slice", slice, 1000, 512, 1, {512'000}, 512'000});
}

TEST(Stretch, Rows) {
  const auto erf = [](std::size_t count, std::size_t, std::size_t) {
    return MakeUnary({.op = UnaryOp::kAtan, .count = count});
  };
  Check({"library", erf, 100'000, 1, 1, {100'000}, 100'000});
  const auto where = [](std::size_t rows, std::size_t columns, std::size_t) {
    const auto r = static_cast<std::int64_t>(rows), c = static_cast<std::int64_t>(columns);
    return MakeWhere({{r, c}, {1}, {r, c}, {r, c}, DataType::kFloat32});
  };
  Check({"where", where, 1536, 128, 1, {1536 * 128, 1, 1536 * 128}, 1536 * 128});
  const auto cast = [](std::size_t count, std::size_t, std::size_t) {
    return MakeCast(count, DataType::kFloat32, DataType::kInt32);
  };
  Check({"cast", cast, 300'000, 1, 1, {300'000}, 300'000});
}

TEST(Stretch, FoldsAndScans) {
  const auto fold = [](std::size_t outer, std::size_t axis, std::size_t inner) {
    return MakeFold({outer, axis, inner, DataType::kFloat32}, FoldOp::kLogSumExp);
  };
  Check({"fold", fold, 128, 768, 1, {128 * 768}, 128});
  Check({"fold", fold, 1, 300'000, 1, {300'000}, 1});
  Check({"fold", fold, 1, 1000, 900, {900'000}, 900});
  const auto scan = [](std::size_t outer, std::size_t axis, std::size_t inner) {
    return MakeScan({{outer, axis, inner, DataType::kFloat32}, false, false});
  };
  Check({"scan", scan, 128, 768, 1, {128 * 768}, 128 * 768});
  Check({"scan", scan, 1, 100'000, 1, {100'000}, 100'000});
}

template <bool kBytes>
NbitsSpec Nbits(std::size_t rows, std::size_t depth, std::size_t columns) {
  return {.rows = rows, .depth = depth, .columns = columns, .bytes = kBytes};
}

template <bool kBytes>
void CheckNbits(std::size_t rows, std::size_t depth, std::size_t columns) {
  const NbitsSpec spec = Nbits<kBytes>(rows, depth, columns);
  const std::size_t form =
      NeedsNbitsX(spec) ? NbitsXBytes(spec) / sizeof(float) : spec.rows * spec.depth;
  Check({"nbits_x",
         [](std::size_t a, std::size_t b, std::size_t c) {
           return MakeNbitsX(Nbits<kBytes>(a, b, c));
         },
         rows,
         depth,
         columns,
         {rows * depth},
         NbitsXBytes(spec) / sizeof(float)});
  Check({"nbits",
         [](std::size_t a, std::size_t b, std::size_t c) {
           return MakeNbits(Nbits<kBytes>(a, b, c));
         },
         rows,
         depth,
         columns,
         {form, PackedNbitsBytes(spec) / sizeof(float)},
         rows * columns});
}

TEST(Stretch, Nbits) {
  for (const auto& [rows, depth, columns] : {std::tuple{1u, 896u, 151936u},
                                             {1u, 40000u, 700u},
                                             {7u, 4864u, 896u},
                                             {128u, 4864u, 896u},
                                             {30u, 11008u, 4096u}}) {
    CheckNbits<false>(rows, depth, columns);
    CheckNbits<true>(rows, depth, columns);
  }
}

}  // namespace
}  // namespace lagoon
