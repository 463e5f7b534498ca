// Elementwise ops, casts, choices and quantisation of types other than fp32.

#include "kernels/testing/typed.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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

TEST(Fold, EveryOpOnIntegers) {
  const Bytes x = ToBytes(I32{1, -2, 3, -4, 5, -6});  // [1, 3, 2]
  const AxisSpec spec{1, 3, 2, DataType::kInt32};
  ExpectTyped(MakeFold(spec, FoldOp::kSum), {x}, I32{9, -12});
  ExpectTyped(MakeFold(spec, FoldOp::kProd), {x}, I32{15, -48});
  ExpectTyped(MakeFold(spec, FoldOp::kMax), {x}, I32{5, -2});
  ExpectTyped(MakeFold(spec, FoldOp::kMin), {x}, I32{1, -6});
  ExpectTyped(MakeFold(spec, FoldOp::kMean), {x}, I32{3, -4});
  ExpectTyped(MakeFold(spec, FoldOp::kL1), {x}, I32{9, 12});
  ExpectTyped(MakeFold(spec, FoldOp::kSumSquare), {x}, I32{35, 56});
}

TEST(Fold, LogSumExpIsStable) {
  const float inf = std::numeric_limits<float>::infinity();
  const AxisSpec spec{2, 3, 1, DataType::kFloat32};
  testing::TypedRun run(*MakeFold(spec, FoldOp::kLogSumExp),
                        {ToBytes(F32{1000, 1000, -1000, 0, -inf, 1})}, {8});
  const F32 y = testing::FromBytes<float>(run.Run()[0]);
  EXPECT_NEAR(y[0], 1000 + std::log(2), 1e-3);
  EXPECT_NEAR(y[1], std::log(1 + std::exp(1)), 1e-6);
}

TEST(Fold, ManyColumnsAndBlocks) {
  const std::size_t axis = 50, inner = 3000;
  I64 x(axis * inner), expected(inner, 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<std::int64_t>(i % 97);
    expected[i % inner] += x[i];
  }
  ExpectTyped(MakeFold({1, axis, inner, DataType::kInt64}, FoldOp::kSum), {ToBytes(x)}, expected);
}

TEST(Arg, FirstAndLastOfEquals) {
  const Bytes x = ToBytes(F32{1, 3, 3, 0, 0, 2});  // [2, 3]
  ArgSpec spec{{2, 3, 1, DataType::kFloat32}, false, false};
  ExpectTyped(MakeArg(spec), {x}, I64{1, 2});
  spec.last = true;
  ExpectTyped(MakeArg(spec), {x}, I64{2, 2});
  spec.least = true;
  ExpectTyped(MakeArg(spec), {x}, I64{0, 1});
}

/// Small integers, so that many are equal, and some NaN and infinities.
F32 Coarse(std::size_t count) {
  F32 x;
  std::uint32_t state = 7;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    x.push_back(static_cast<float>(state >> 28));
    if (state >> 25 == 9) x.back() = std::numeric_limits<float>::quiet_NaN();
    if (state >> 25 == 21) x.back() = -std::numeric_limits<float>::infinity();
  }
  return x;
}

/// The index that numpy gives.
std::int64_t PlainArg(const F32& x, std::size_t first, const ArgSpec& spec) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < spec.axis.axis; ++i) {
    const float value = x[first + i * spec.axis.inner], other = x[first + best * spec.axis.inner];
    const bool equal = value == other || (std::isnan(value) && std::isnan(other));
    const bool greater = spec.least ? value < other : value > other;
    if (equal ? spec.last : greater || (std::isnan(value) && !std::isnan(other))) best = i;
  }
  return static_cast<std::int64_t>(best);
}

void CheckArg(const ArgSpec& spec) {
  SCOPED_TRACE(::testing::Message() << spec.axis.axis << " x " << spec.axis.inner << ", least "
                                    << spec.least << ", last " << spec.last);
  const std::size_t results = spec.axis.outer * spec.axis.inner;
  const F32 x = Coarse(results * spec.axis.axis);
  I64 expected;
  for (std::size_t i = 0; i < results; ++i) {
    const std::size_t outer = i / spec.axis.inner * spec.axis.inner;
    expected.push_back(PlainArg(x, outer * spec.axis.axis + i - outer, spec));
  }
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget scoped(target);
    ExpectTyped(MakeArg(spec), {ToBytes(x)}, expected);
  }
}

TEST(Arg, FloatsOnEveryTarget) {
  for (const std::size_t axis : {1u, 5u, 64u, 65u, 3000u}) {
    for (const std::size_t inner : {1u, 3u, 17u, 300u}) {
      for (const bool least : {false, true}) {
        for (const bool last : {false, true}) {
          CheckArg({{2, axis, inner, DataType::kFloat32}, least, last});
        }
      }
    }
  }
}

TEST(Scan, InBothDirectionsWithAndWithoutItself) {
  const Bytes x = ToBytes(I32{1, 2, 3, 4});
  const AxisSpec axis{1, 4, 1, DataType::kInt32};
  ExpectTyped(MakeScan({axis, false, false}), {x}, I32{1, 3, 6, 10});
  ExpectTyped(MakeScan({axis, true, false}), {x}, I32{0, 1, 3, 6});
  ExpectTyped(MakeScan({axis, false, true}), {x}, I32{10, 9, 7, 4});
  ExpectTyped(MakeScan({axis, true, true}), {x}, I32{9, 7, 4, 0});
  ExpectTyped(MakeScan({{2, 2, 1, DataType::kInt32}, false, false}), {x}, I32{1, 3, 3, 7});
  ExpectTyped(MakeScan({{1, 2, 2, DataType::kInt32}, false, false}), {x}, I32{1, 2, 4, 6});
}

TEST(Scan, Products) {
  const Bytes x = ToBytes(I32{2, 3, 4, 5});
  ScanSpec spec{{1, 4, 1, DataType::kInt32}, false, false};
  spec.product = true;
  ExpectTyped(MakeScan(spec), {x}, I32{2, 6, 24, 120});
  spec.exclusive = spec.reverse = true;
  ExpectTyped(MakeScan(spec), {x}, I32{60, 20, 5, 1});
}

TEST(Scan, LongLinesAreManyBlocks) {
  I64 x(10'000, 1), expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = static_cast<std::int64_t>(i + 1);
  ExpectTyped(MakeScan({{1, x.size(), 1, DataType::kInt64}, false, false}), {ToBytes(x)}, expected);
}

TEST(TopK, SortsAndKeepsTheFirstOfEquals) {
  const AxisSpec axis{1, 6, 1, DataType::kInt32};
  const Bytes x = ToBytes(I32{4, 9, 1, 9, 4, 0});
  testing::TypedRun largest(*MakeTopK({axis, 4, true}), {x}, {16, 32});
  largest.ExpectTiles();
  EXPECT_EQ(testing::FromBytes<std::int32_t>(largest.Run()[0]), (I32{9, 9, 4, 4}));
  EXPECT_EQ(testing::FromBytes<std::int64_t>(largest.Run()[1]), (I64{1, 3, 0, 4}));
  testing::TypedRun least(*MakeTopK({axis, 2, false}), {x}, {8, 16});
  EXPECT_EQ(testing::FromBytes<std::int32_t>(least.Run()[0]), (I32{0, 1}));
  EXPECT_EQ(testing::FromBytes<std::int64_t>(least.Run()[1]), (I64{5, 2}));
}

TEST(Fold, CountsAndSumsOfBytesDoNotWrapAround) {
  ExpectTyped(MakeFold({1, 2, 1, DataType::kInt8}, FoldOp::kMean), {ToBytes(I8{100, 100})},
              I8{100});
  ExpectTyped(MakeFold({1, 256, 1, DataType::kInt8}, FoldOp::kMean), {ToBytes(I8(256, -3))},
              I8{-3});
  const std::vector<std::int16_t> ones(65536, 1);
  ExpectTyped(MakeFold({1, ones.size(), 1, DataType::kInt16}, FoldOp::kMean), {ToBytes(ones)},
              std::vector<std::int16_t>{1});
  ExpectTyped(MakeFold({1, 2, 1, DataType::kInt32}, FoldOp::kL2), {ToBytes(I32{300'000, 400'000})},
              I32{500'000});
}

TEST(Fold, BoolsOfAnyByteAreTrue) {
  const Bytes x = ToBytes(U8{0, 7, 2, 3});  // [2, 2]
  ExpectTyped(MakeFold({2, 2, 1, DataType::kBool}, FoldOp::kMax), {x}, U8{1, 1});
  ExpectTyped(MakeFold({2, 2, 1, DataType::kBool}, FoldOp::kMin), {x}, U8{0, 1});
}

TEST(Scan, ColumnsOfLongAxesAreTiles) {
  constexpr std::size_t kAxis = 100, kInner = 130;
  I32 x(2 * kAxis * kInner), expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<std::int32_t>(i * 7 % 31);
    const bool first = i / kInner % kAxis == 0;
    expected[i] = x[i] + (first ? 0 : expected[i - kInner]);
  }
  ExpectTyped(MakeScan({{2, kAxis, kInner, DataType::kInt32}, false, false}), {ToBytes(x)},
              expected);
}

TEST(TopK, ManyRanksAreManyBlocks) {
  constexpr std::size_t kCount = 20'000, kK = 9000;
  I32 x(kCount), values(kK);
  I64 indices(kK);
  for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<std::int32_t>(i);  // ascending
  for (std::size_t i = 0; i < kK; ++i) {
    values[i] = static_cast<std::int32_t>(kCount - 1 - i);
    indices[i] = values[i];
  }
  Result<Kernel> kernel = MakeTopK({{1, kCount, 1, DataType::kInt32}, kK, true});
  ASSERT_TRUE(kernel.has_value());
  EXPECT_GT(kernel->blocks, 1u);
  testing::TypedRun run(*kernel, {ToBytes(x)}, {kK * 4, kK * 8});
  run.ExpectTiles();
  EXPECT_EQ(testing::FromBytes<std::int32_t>(run.Run()[0]), values);
  EXPECT_EQ(testing::FromBytes<std::int64_t>(run.Run()[1]), indices);
}

TEST(TopK, NotANumberIsTheGreatest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Bytes x = ToBytes(F32{1, nan, 3, nan, 2});
  const AxisSpec axis{1, 5, 1, DataType::kFloat32};
  testing::TypedRun largest(*MakeTopK({axis, 5, true}), {x}, {20, 40});
  EXPECT_EQ(testing::FromBytes<std::int64_t>(largest.Run()[1]), (I64{1, 3, 2, 4, 0}));
  testing::TypedRun least(*MakeTopK({axis, 5, false}), {x}, {20, 40});
  EXPECT_EQ(testing::FromBytes<std::int64_t>(least.Run()[1]), (I64{0, 4, 2, 1, 3}));
}

/// Compares the kernel, which keeps few ranks in a heap and sorts a line for many, with a stable
/// sort.
template <typename T>
void ExpectSorted(DataType type, const std::vector<T>& x, std::size_t inner, std::size_t k,
                  bool largest) {
  const std::size_t axis = x.size() / inner;
  std::vector<T> values(k * inner);
  I64 indices(k * inner);
  for (std::size_t column = 0; column < inner; ++column) {
    I64 order(axis);
    std::iota(order.begin(), order.end(), 0);
    const auto at = [&](std::int64_t i) { return x[static_cast<std::size_t>(i) * inner + column]; };
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return largest ? at(a) > at(b) : at(a) < at(b);
    });
    for (std::size_t rank = 0; rank < k; ++rank) {
      values[rank * inner + column] = at(order[rank]);
      indices[rank * inner + column] = order[rank];
    }
  }
  const AxisSpec spec{1, axis, inner, type};
  testing::TypedRun run(*MakeTopK({spec, k, largest}), {ToBytes(x)},
                        {values.size() * sizeof(T), indices.size() * sizeof(std::int64_t)});
  run.ExpectTiles();
  EXPECT_EQ(testing::FromBytes<T>(run.Run()[0]), values) << k;
  EXPECT_EQ(testing::FromBytes<std::int64_t>(run.Run()[1]), indices) << k;
}

template <typename T>
void ExpectAllSorted(DataType type, T scale) {
  std::vector<T> x;
  for (int i = 0; i < 6000; ++i) {
    const auto number = static_cast<T>(i * 7919 % 1009 - (std::is_signed_v<T> ? 500 : 0));
    x.push_back(static_cast<T>(number * scale));
  }
  for (const bool largest : {true, false}) {
    for (const std::size_t inner : {1U, 3U}) {
      for (const std::size_t k : {std::size_t{5}, x.size() / inner / 2, x.size() / inner}) {
        ExpectSorted(type, x, inner, k, largest);
      }
    }
  }
}

TEST(TopK, SortsEveryTypeAsAStableSort) {
  ExpectAllSorted<float>(DataType::kFloat32, 0.37F);
  ExpectAllSorted<double>(DataType::kFloat64, 1e300);
  ExpectAllSorted<std::int8_t>(DataType::kInt8, 1);
  ExpectAllSorted<std::uint8_t>(DataType::kUInt8, 1);
  ExpectAllSorted<std::int16_t>(DataType::kInt16, 60);
  ExpectAllSorted<std::int32_t>(DataType::kInt32, 2'000'003);
  ExpectAllSorted<std::int64_t>(DataType::kInt64, std::int64_t{1} << 50);
  ExpectAllSorted<std::uint64_t>(DataType::kUInt64, std::uint64_t{1} << 53);
}

TEST(TopK, ZerosOfBothSignsAreEqual) {
  const AxisSpec axis{1, 4, 1, DataType::kFloat32};
  testing::TypedRun run(*MakeTopK({axis, 4, true}), {ToBytes(F32{0.0F, -0.0F, 1, -0.0F})},
                        {16, 32});
  EXPECT_EQ(testing::FromBytes<std::int64_t>(run.Run()[1]), (I64{2, 0, 1, 3}));
  EXPECT_TRUE(std::signbit(testing::FromBytes<float>(run.Run()[0])[2]));
}

TEST(TopK, RefusesMoreRanksThanScratchMemoryIsFor) {
  const auto kernel = MakeTopK({{1, 1 << 20, 1, DataType::kFloat32}, 1 << 17, true});
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().code, ErrorCode::kUnimplemented);
}

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
