// Folds, ArgMax, running sums and TopK.

#include "kernels/lines/reduce_rows.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/testing/target.h"
#include "kernels/testing/typed.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::ExpectTyped;
using testing::ToBytes;
using I64 = std::vector<std::int64_t>;
using I32 = std::vector<std::int32_t>;
using U8 = std::vector<std::uint8_t>;
using I8 = std::vector<std::int8_t>;
using F32 = std::vector<float>;
using F64 = std::vector<double>;

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

}  // namespace
}  // namespace lagoon
