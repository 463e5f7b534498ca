// Elementwise ops, casts, choices and quantisation of types other than fp32.

#include "kernels/testing/typed.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops.h"
#include "kernels/testing/target.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::ExpectTyped;
using testing::ToBytes;
using Shape = std::vector<std::int64_t>;
using I64 = std::vector<std::int64_t>;
using I32 = std::vector<std::int32_t>;
using U8 = std::vector<std::uint8_t>;
using I8 = std::vector<std::int8_t>;
using F32 = std::vector<float>;
using F64 = std::vector<double>;

std::vector<Float16> Halves(const F32& values) {
  std::vector<Float16> halves;
  for (const float value : values) halves.push_back(Float16::From(value));
  return halves;
}

Result<Kernel> UnaryOf(UnaryOp op, DataType type, std::size_t count, double alpha = 0,
                       double beta = 0) {
  return MakeUnary({.op = op, .count = count, .alpha = alpha, .beta = beta, .type = type});
}

TEST(TypedUnary, OfIntegers) {
  const I64 x{-5, 0, 7, std::numeric_limits<std::int64_t>::min()};
  ExpectTyped(UnaryOf(UnaryOp::kAbs, DataType::kInt64, 4), {ToBytes(x)},
              I64{5, 0, 7, std::numeric_limits<std::int64_t>::min()});
  ExpectTyped(UnaryOf(UnaryOp::kSign, DataType::kInt64, 4), {ToBytes(x)}, I64{-1, 0, 1, -1});
  ExpectTyped(UnaryOf(UnaryOp::kBitwiseNot, DataType::kUInt8, 2), {ToBytes(U8{0, 255})},
              U8{255, 0});
  ExpectTyped(UnaryOf(UnaryOp::kRelu, DataType::kInt8, 2), {ToBytes(I8{-3, 3})}, I8{0, 3});
}

TEST(TypedUnary, OfBoolsTakesAnyByteForTrue) {
  ExpectTyped(UnaryOf(UnaryOp::kNot, DataType::kBool, 3), {ToBytes(U8{0, 1, 200})}, U8{1, 0, 0});
}

TEST(TypedUnary, OfDoublesAndHalves) {
  ExpectTyped(UnaryOf(UnaryOp::kSqrt, DataType::kFloat64, 2), {ToBytes(F64{2, 9})},
              F64{std::sqrt(2.0), 3});
  Result<Kernel> half = UnaryOf(UnaryOp::kExp, DataType::kFloat16, 2);
  ASSERT_TRUE(half);
  testing::TypedRun run(*half, {ToBytes(Halves({0, 1}))}, {4});
  const auto y = testing::FromBytes<Float16>(run.Run()[0]);
  EXPECT_EQ(static_cast<float>(y[0]), 1);
  EXPECT_NEAR(static_cast<float>(y[1]), 2.71828, 2e-3);
}

TEST(TypedUnary, NumbersThatAreNone) {
  const float inf = std::numeric_limits<float>::infinity();
  const F32 x{0, NAN, inf, -inf};
  ExpectTyped(UnaryOf(UnaryOp::kIsNaN, DataType::kFloat32, 4), {ToBytes(x)}, U8{0, 1, 0, 0});
  ExpectTyped(UnaryOf(UnaryOp::kIsInf, DataType::kFloat32, 4, 1, 1), {ToBytes(x)}, U8{0, 0, 1, 1});
  ExpectTyped(UnaryOf(UnaryOp::kIsInf, DataType::kFloat32, 4, 0, 1), {ToBytes(x)}, U8{0, 0, 1, 0});
}

TEST(TypedUnary, RefusesTypesByName) {
  const Result<Kernel> kernel = UnaryOf(UnaryOp::kExp, DataType::kInt32, 4);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(kernel.error().message, ::testing::HasSubstr("INT32"));
}

template <typename T>
void CheckBinary(BinaryOp op, DataType type, const std::vector<T>& a, const std::vector<T>& b,
                 const std::vector<T>& expected) {
  const Shape shape{static_cast<std::int64_t>(a.size())};
  BinarySpec spec;
  spec.op = op;
  spec.a = shape;
  spec.b = {static_cast<std::int64_t>(b.size())};
  spec.out = shape;
  spec.type = type;
  ExpectTyped(MakeBinary(spec), {ToBytes(a), ToBytes(b)}, expected);
}

TEST(TypedBinary, IntegersWrapAroundAndNeverTrap) {
  constexpr auto kMin = std::numeric_limits<std::int32_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int32_t>::max();
  CheckBinary<std::int32_t>(BinaryOp::kAdd, DataType::kInt32, {kMax, 2}, {1}, {kMin, 3});
  CheckBinary<std::int32_t>(BinaryOp::kMul, DataType::kInt32, {kMin, -3}, {-1}, {kMin, 3});
  CheckBinary<std::int32_t>(BinaryOp::kDiv, DataType::kInt32, {7, -7, kMin, 1}, {2, 2, -1, 0},
                            {3, -3, kMin, 0});
  CheckBinary<std::int32_t>(BinaryOp::kMod, DataType::kInt32, {7, -7, 7, kMin}, {3, 3, -3, -1},
                            {1, 2, -2, 0});
  CheckBinary<std::int32_t>(BinaryOp::kFmod, DataType::kInt32, {7, -7, 7, 5}, {3, 3, -3, 0},
                            {1, -1, 1, 0});
  CheckBinary<std::int32_t>(BinaryOp::kPow, DataType::kInt32, {3, -2, 2, -1}, {4, 3, -1, -3},
                            {81, -8, 0, -1});
}

TEST(TypedBinary, Bits) {
  CheckBinary<std::uint8_t>(BinaryOp::kBitwiseXor, DataType::kUInt8, {0b1100}, {0b1010}, {0b0110});
  CheckBinary<std::uint8_t>(BinaryOp::kShiftLeft, DataType::kUInt8, {1, 255, 3}, {1, 4, 8},
                            {2, 240, 0});
  CheckBinary<std::uint8_t>(BinaryOp::kShiftRight, DataType::kUInt8, {16, 255, 3}, {2, 7, 200},
                            {4, 1, 0});
  // All bits behind the sign are those of the sign.
  CheckBinary<std::int8_t>(BinaryOp::kShiftRight, DataType::kInt8, {-16, -128, -3, 100, -5},
                           {2, 7, 8, 50, -1}, {-4, -1, -1, 0, -1});
  CheckBinary<std::int8_t>(BinaryOp::kShiftLeft, DataType::kInt8, {-1, 65, 1}, {4, 1, -2},
                           {-16, -126, 0});
}

TEST(TypedBinary, ModOfZeroHasTheSignOfTheDivisor) {
  BinarySpec spec;
  spec.op = BinaryOp::kMod;
  spec.a = spec.b = spec.out = {4};
  spec.type = DataType::kFloat64;
  testing::TypedRun run(*MakeBinary(spec),
                        {ToBytes(F64{0, -0.0, 6, -1}), ToBytes(F64{-3, 3, -3, INFINITY})}, {32});
  const auto y = testing::FromBytes<double>(run.Run()[0]);
  EXPECT_TRUE(y[0] == 0 && std::signbit(y[0]));
  EXPECT_TRUE(y[1] == 0 && !std::signbit(y[1]));
  EXPECT_TRUE(y[2] == 0 && std::signbit(y[2]));
  EXPECT_EQ(y[3], INFINITY);
}

TEST(TypedBinary, NanWinsInMinAndMaxOfDoubles) {
  BinarySpec spec;
  spec.op = BinaryOp::kMax;
  spec.a = spec.b = spec.out = {2};
  spec.type = DataType::kFloat64;
  testing::TypedRun run(*MakeBinary(spec), {ToBytes(F64{NAN, 1}), ToBytes(F64{1, NAN})}, {16});
  for (const double value : testing::FromBytes<double>(run.Run()[0]))
    EXPECT_TRUE(std::isnan(value));
}

TEST(TypedBinary, ComparisonsBroadcastAndGiveBools) {
  BinarySpec spec;
  spec.op = BinaryOp::kLess;
  spec.a = {2, 1};
  spec.b = {3};
  spec.out = {2, 3};
  spec.type = DataType::kInt64;
  ExpectTyped(MakeBinary(spec), {ToBytes(I64{1, 2}), ToBytes(I64{0, 2, 3})}, U8{0, 1, 1, 0, 0, 1});
  spec.op = BinaryOp::kEqual;
  spec.type = DataType::kBool;
  ExpectTyped(MakeBinary(spec), {ToBytes(U8{7, 0}), ToBytes(U8{0, 1, 9})}, U8{0, 1, 1, 1, 0, 0});
}

TEST(TypedBinary, ManyBlocksOfBytes) {
  U8 a(300'000), expected(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::uint8_t>(i * 7);
    expected[i] = static_cast<std::uint8_t>(a[i] + 3);
  }
  CheckBinary<std::uint8_t>(BinaryOp::kAdd, DataType::kUInt8, a, {3}, expected);
}

TEST(Cast, IsTotal) {
  const F32 x{1.9f, -1.9f, 300, -300, NAN, 1e30f};
  ExpectTyped(MakeCast(6, DataType::kFloat32, DataType::kInt8), {ToBytes(x)},
              I8{1, -1, 127, -128, 0, 127});
  ExpectTyped(MakeCast(3, DataType::kInt32, DataType::kUInt8), {ToBytes(I32{-1, 256, 5})},
              U8{255, 0, 5});
  ExpectTyped(MakeCast(4, DataType::kFloat32, DataType::kBool), {ToBytes(F32{0, -0.0f, 0.1f, NAN})},
              U8{0, 0, 1, 1});
  ExpectTyped(MakeCast(2, DataType::kBool, DataType::kFloat64), {ToBytes(U8{0, 77})}, F64{0, 1});
}

TEST(Cast, RoundsToHalvesAsIeeeSays) {
  const auto bits = [](float value) { return Float16::From(value).bits; };
  EXPECT_EQ(bits(1), 0x3c00);
  EXPECT_EQ(bits(1 + 0x1p-11f), 0x3c00);  // a tie, rounded to even
  EXPECT_EQ(bits(1 + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(bits(65504), 0x7bff);
  EXPECT_EQ(bits(65520), 0x7c00);  // infinity
  EXPECT_EQ(bits(0x1p-24f), 0x0001);
  EXPECT_EQ(bits(0x1p-26f), 0x0000);
  EXPECT_EQ(bits(-2), 0xc000);
  EXPECT_EQ(bits(NAN) & 0x7e00, 0x7e00);
  EXPECT_EQ(BFloat16::From(1 + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(BFloat16::From(1 + 0x1p-7f + 0x1p-8f).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16::From(NAN))));
}

TEST(Where, ChoosesElementsOfAnySize) {
  const Bytes condition = ToBytes(U8{1, 0});
  ExpectTyped(MakeWhere({{2, 1}, {3}, {}, {2, 3}, DataType::kInt64}),
              {condition, ToBytes(I64{1, 2, 3}), ToBytes(I64{9})}, I64{1, 2, 3, 9, 9, 9});
  ExpectTyped(MakeWhere({{2, 1}, {3}, {}, {2, 3}, DataType::kInt8}),
              {condition, ToBytes(I8{1, 2, 3}), ToBytes(I8{9})}, I8{1, 2, 3, 9, 9, 9});
}

TEST(Quantize, VectorsGiveTheBitsOfThePlainLoops) {
  constexpr std::size_t kCount = 37;
  std::vector<float> x;
  for (std::size_t i = 0; i < kCount; ++i) x.push_back(0.25F * float(i) - 3.125F);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  x[4] = std::numeric_limits<float>::infinity();
  x[20] = -std::numeric_limits<float>::infinity();
  x[21] = 1e20F;
  std::vector<std::vector<testing::Bytes>> made;
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget scoped(target);
    std::vector<testing::Bytes>& all = made.emplace_back();
    for (const DataType type : {DataType::kUInt8, DataType::kInt8}) {
      const QuantizeSpec spec{1, 1, kCount, type};
      const testing::Bytes scale = testing::ToBytes(std::vector<float>{0.25F}), zero{std::byte{9}};
      testing::TypedRun quantize(*MakeQuantize(spec), {testing::ToBytes(x), scale, zero}, {kCount});
      all.push_back(quantize.Run()[0]);
      testing::TypedRun back(*MakeDequantize(spec), {all.back(), scale, zero}, {kCount * 4});
      all.push_back(back.Run()[0]);
      for (const DataType to : {DataType::kFloat32, DataType::kInt16}) {
        testing::TypedRun cast(*MakeCast(kCount, type, to), {all[0]}, {kCount * SizeOf(to)});
        all.push_back(cast.Run()[0]);
      }
    }
  }
  for (const auto& one : made) EXPECT_EQ(one, made.back());
  EXPECT_EQ(made.back()[0][3], std::byte{0}) << "NaN is the lowest level, as in ONNX Runtime";
  EXPECT_EQ(made.back()[0][4], std::byte{255});
  EXPECT_EQ(made.back()[0][20], std::byte{0});
}

// Vectors multiply by the inverse of the scale where that cannot differ.
TEST(Quantize, HalvesAreThoseOfADivision) {
  for (const float scale : {0.0123F, 1 / 255.0F, -0.7F, 117.3F, 1e-36F, 1e-40F, 1e33F, 0.0F}) {
    SCOPED_TRACE(scale);
    std::vector<float> x;
    for (int level = -300; level < 300; ++level) {
      float at = (static_cast<float>(level) + 0.5F) * scale;
      for (int i = 0; i < 4; ++i) at = std::nextafter(at, -1e38F);
      for (int i = 0; i < 8; ++i) x.push_back(at = std::nextafter(at, 1e38F));
    }
    const QuantizeSpec spec{1, 1, x.size(), DataType::kUInt8};
    const testing::Bytes scales = testing::ToBytes(std::vector<float>{scale}), zero{std::byte{128}};
    testing::Bytes want;
    for (const float value : x) {
      const float level = std::nearbyint(value / scale) + 128;
      // NaN becomes the lowest level.
      want.push_back(static_cast<std::byte>(level >= 0 ? std::min(level, 255.0F) : 0.0F));
    }
    for (const std::int64_t target : testing::Targets()) {
      const testing::ScopedTarget scoped(target);
      testing::TypedRun quantize(*MakeQuantize(spec), {testing::ToBytes(x), scales, zero},
                                 {x.size()});
      EXPECT_EQ(quantize.Run()[0], want);
    }
  }
}

TEST(Compare, EveryTargetComparesAsC) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  F32 a, b;
  const F32 some{0.0F, -0.0F, 1, -1, kNan, kInfinity, -kInfinity};
  for (std::size_t i = 0; i < 49; ++i) {
    a.push_back(some[i % 7]);
    b.push_back(some[i / 7]);
  }
  const auto check = [&](BinaryOp op, auto holds) {
    U8 expected, with_one;
    for (std::size_t i = 0; i < a.size(); ++i) {
      expected.push_back(holds(a[i], b[i]));
      with_one.push_back(holds(1.0F, b[i]));
    }
    for (const std::int64_t target : testing::Targets()) {
      const testing::ScopedTarget scoped(target);
      const BinarySpec both{.op = op, .a = {49}, .b = {49}, .out = {49}};
      ExpectTyped(MakeBinary(both), {ToBytes(a), ToBytes(b)}, expected);
      const BinarySpec one{.op = op, .a = {}, .b = {49}, .out = {49}};
      ExpectTyped(MakeBinary(one), {ToBytes(F32{1}), ToBytes(b)}, with_one);
    }
  };
  check(BinaryOp::kEqual, [](float x, float y) { return x == y; });
  check(BinaryOp::kLess, [](float x, float y) { return x < y; });
  check(BinaryOp::kLessOrEqual, [](float x, float y) { return x <= y; });
  check(BinaryOp::kGreater, [](float x, float y) { return x > y; });
  check(BinaryOp::kGreaterOrEqual, [](float x, float y) { return x >= y; });
}

TEST(Where, EveryTargetTakesAnyByteButZeroAsTrue) {
  U8 condition;
  F32 a, b, chosen, or_nine, ones;
  for (std::size_t i = 0; i < 37; ++i) {
    condition.push_back(static_cast<std::uint8_t>(i % 3 == 0 ? 0 : i * 7));
    a.push_back(static_cast<float>(i));
    b.push_back(-0.5F * static_cast<float>(i));
    chosen.push_back(condition[i] != 0 ? a[i] : b[i]);
    or_nine.push_back(condition[i] != 0 ? a[i] : 9);
    ones.push_back(condition[i] != 0 ? 1 : 0);
  }
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget scoped(target);
    ExpectTyped(MakeWhere({{37}, {37}, {37}, {37}, DataType::kFloat32}),
                {ToBytes(condition), ToBytes(a), ToBytes(b)}, chosen);
    ExpectTyped(MakeWhere({{37}, {37}, {}, {37}, DataType::kFloat32}),
                {ToBytes(condition), ToBytes(a), ToBytes(F32{9})}, or_nine);
    ExpectTyped(MakeCast(37, DataType::kBool, DataType::kFloat32), {ToBytes(condition)}, ones);
  }
}

/// Casts at every level, to `type`, the type of T.
template <typename T>
void ExpectPlainCasts(const F32& x, DataType type) {
  std::vector<T> expected;
  for (const float number : x) expected.push_back(ConvertElement<T>(number));
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget scoped(target);
    testing::TypedRun cast(*MakeCast(x.size(), DataType::kFloat32, type), {ToBytes(x)},
                           {x.size() * sizeof(T)});
    EXPECT_EQ(testing::FromBytes<T>(cast.Run()[0]), expected) << target;
  }
}

TEST(Cast, VectorsGiveTheBitsOfThePlainLoops) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  F32 x{kNan,   -kNan,  kInfinity, -kInfinity,   1e20F,          -1e20F,
        -0.0F,  -0.9F,  127.9F,    128,          -128.9F,        -129,
        255.5F, 256,    -1e-40F,   2147483520.F, 2147483648.F,   -2147483648.F,
        0.999F, -1.25F, 3e9F,      -3e9F,        16777217.0625F, -2147483520.F};
  for (std::size_t i = 0; i < 13; ++i) x.push_back(3.75F * static_cast<float>(i) - 20);
  ExpectPlainCasts<std::uint8_t>(x, DataType::kUInt8);
  ExpectPlainCasts<std::int8_t>(x, DataType::kInt8);
  ExpectPlainCasts<std::int32_t>(x, DataType::kInt32);
}

TEST(Quantize, RoundsHalvesToEvenAndSaturates) {
  const QuantizeSpec spec{1, 1, 5, DataType::kUInt8};
  ExpectTyped(MakeQuantize(spec),
              {ToBytes(F32{0, 1, 3, 1000, -1000}), ToBytes(F32{2}), ToBytes(U8{128})},
              U8{128, 128, 130, 255, 0});
  const QuantizeSpec per_axis{1, 2, 2, DataType::kInt8};
  ExpectTyped(MakeQuantize(per_axis),
              {ToBytes(F32{1, 2, 3, 4}), ToBytes(F32{1, 2}), ToBytes(I8{0, 10})}, I8{1, 2, 12, 12});
  ExpectTyped(MakeDequantize(per_axis),
              {ToBytes(I8{1, 2, 12, 12}), ToBytes(F32{1, 2}), ToBytes(I8{0, 10})}, F32{1, 2, 4, 4});
}

// Reductions and scans.

TEST(Shrink, OfIntegersIsExact) {
  UnarySpec spec;
  spec.op = UnaryOp::kShrink;
  spec.alpha = 0.5;
  spec.beta = 1;
  spec.count = 2;
  spec.type = DataType::kInt64;
  const std::int64_t odd = (std::int64_t{1} << 60) + 3;
  ExpectTyped(MakeUnary(spec), {ToBytes(I64{odd, -odd})}, I64{odd - 1, -odd + 1});
  spec.type = DataType::kInt8;
  spec.beta = -1000.5;
  ExpectTyped(MakeUnary(spec), {ToBytes(I8{127, -128})}, I8{127, -128});
}

}  // namespace
}  // namespace lagoon
