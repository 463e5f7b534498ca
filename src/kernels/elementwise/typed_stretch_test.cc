// The longest time between two guard checks is below 20 us for the typed kernels too: indices,
// windows, sequences, and worst-case data.

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <string>

#include "kernels/ops.h"
#include "kernels/testing/stretch.h"
#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::ToBytes;
using F32 = std::vector<float>;
using F64 = std::vector<double>;
using I64 = std::vector<std::int64_t>;

void Check(const Result<Kernel>& kernel, const std::vector<Bytes>& inputs,
           const std::vector<std::size_t>& outputs) {
#ifdef LAGOON_TEST_SANITIZED
  GTEST_SKIP() << "a sanitizer slows the bodies down";
#endif
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
  testing::TypedRun run(*kernel, inputs, outputs);
  const double longest = testing::LongestStretchUs(run);
  SCOPED_TRACE(std::string(kernel->name) + ", " + std::to_string(kernel->blocks) + " blocks");
  testing::ExpectShort(longest);
  ::testing::Test::RecordProperty(kernel->name, std::to_string(longest) + " us");
}

IndexSpec Rows(std::int64_t entries, std::int64_t rows, std::int64_t run) {
  IndexSpec spec;
  spec.entries = {entries};
  spec.index_strides = {1};
  spec.base_strides = {0};
  spec.sizes = {rows};
  spec.strides = {run};
  spec.run = run;
  spec.tensor = rows * run;
  return spec;
}

I64 Mixed(std::int64_t count, std::int64_t below) {
  I64 indices(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<std::int64_t>(i * 2654435761U) % below;
  }
  return indices;
}

TEST(TypedStretch, Gather) {
  for (const auto& [entries, rows, run] : {std::tuple{100'000, 5000, 1}, {512, 5000, 768}}) {
    Check(MakeGather(Rows(entries, rows, run)),
          {ToBytes(F32(static_cast<std::size_t>(rows * run))), ToBytes(Mixed(entries, rows))},
          {static_cast<std::size_t>(entries * run) * 4});
  }
}

TEST(TypedStretch, Scatter) {
  for (const ScatterOp op : {ScatterOp::kAssign, ScatterOp::kAdd}) {
    for (const auto& [entries, rows, run] : {std::tuple{20'000, 20'000, 1}, {64, 4, 20'000}}) {
      const Bytes x = ToBytes(F32(static_cast<std::size_t>(rows * run)));
      const Bytes updates = ToBytes(F32(static_cast<std::size_t>(entries * run)));
      const IndexSpec spec = Rows(entries, rows, run);
      for (const Bytes& indices : {ToBytes(I64(entries, 1)), ToBytes(Mixed(entries, rows))}) {
        Check(MakeScatter(spec, op), testing::ScatterInputs(spec, x, indices, updates), {x.size()});
      }
    }
  }
  const std::size_t entries = 100'000, chunks = (entries + kScatterChunk - 1) / kScatterChunk;
  Check(MakeScatterTargets(Rows(entries, 5000, 1)), {ToBytes(Mixed(entries, 5000))},
        {entries * 8, chunks * 16});
}

TEST(TypedStretch, TopKOfAscendingNumbers) {
  for (const auto& [count, k] : {std::pair{20'000U, 10U}, {20'000U, 5000U}}) {
    F32 x(count);
    std::iota(x.begin(), x.end(), 0.0F);
    Check(MakeTopK({{1, count, 1, DataType::kFloat32}, k, true}), {ToBytes(x)}, {k * 4, k * 8});
  }
  constexpr std::size_t kAxis = 4000, kInner = 16, kRanks = 2000;
  F32 columns(kAxis * kInner);
  std::iota(columns.begin(), columns.end(), 0.0F);
  Check(MakeTopK({{1, kAxis, kInner, DataType::kFloat32}, kRanks, true}), {ToBytes(columns)},
        {kRanks * kInner * 4, kRanks * kInner * 8});
}

TEST(TypedStretch, ScanOverAnOuterAxis) {
  constexpr std::size_t kAxis = 600, kInner = 1000;
  Check(MakeScan({{1, kAxis, kInner, DataType::kFloat32}, false, false}),
        {ToBytes(F32(kAxis * kInner, 1))}, {kAxis * kInner * 4});
}

TEST(TypedStretch, FoldsAndArgsOfIntegers) {
  const Bytes x = ToBytes(std::vector<std::int8_t>(600'000, 3));
  Check(MakeFold({1, 600'000, 1, DataType::kInt8}, FoldOp::kL2), {x}, {1});
  Check(MakeFold({1, 600, 1000, DataType::kInt8}, FoldOp::kMean), {x}, {1000});
  Check(MakeArg({{600, 1000, 1, DataType::kInt8}, false, false}), {x}, {600 * 8});
}

TEST(TypedStretch, TakeByElements) {
  I64 reversed(300'000);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const auto line = MakeTake({{300'000}, {reversed}, 4, 0});
  ASSERT_TRUE(line.has_value());
  Check(line->kernel, {ToBytes(F32(300'000)), ToBytes(line->table)}, {300'000 * 4});
  const I64 pair{1, 0};
  const auto cube = MakeTake({I64(8, 2), std::vector<I64>(8, pair), 4, 0});
  ASSERT_TRUE(cube.has_value());
  Check(cube->kernel, {ToBytes(F32(256)), ToBytes(cube->table)}, {256 * 4});
  const I64 four{3, 2, 1, 0};
  const auto rows = MakeTake({I64(8, 4), std::vector<I64>(8, four), 4, 0});
  ASSERT_TRUE(rows.has_value());
  Check(rows->kernel, {ToBytes(F32(65'536)), ToBytes(rows->table)}, {65'536 * 4});
}

TEST(TypedStretch, WindowsLargerThanTheImage) {
  WindowPoolSpec spec;
  spec.window.in = {64, 64, 64};
  spec.window.kernel = {64, 64, 64};
  spec.kind = WindowPool::kLp;
  spec.p = 3;
  Check(MakeWindowPool(spec), {ToBytes(F32(64 * 64 * 64, 1.5F))}, {4});
  spec.window.in = {1, 1, 1};
  spec.window.kernel = {1, 1, std::size_t{1} << 30};
  spec.window.pad_begin = {0, 0, 1 << 29};
  spec.kind = WindowPool::kMax;
  Check(MakeWindowPool(spec), {ToBytes(F32(1, 1.5F))}, {4});
}

TEST(TypedStretch, DirectConvolutionOfLongRows) {
  DirectConvSpec spec;
  spec.window.in = {1, 1, 100'000};
  spec.window.out = {1, 1, 100'000};
  spec.window.kernel = {1, 1, 101};
  spec.window.pad_begin = {0, 0, 50};
  Check(MakeDirectConv(spec), {ToBytes(F32(100'000, 1)), ToBytes(F32(101, 1))}, {400'000});
}

TEST(TypedStretch, ProductsOfIntegers) {
  MatmulSpec spec;
  spec.m = 40;
  spec.n = 70;
  spec.k = 5000;
  spec.a_row_stride = spec.k;
  spec.a_k_stride = 1;
  spec.b_k_stride = spec.n;
  spec.b_column_stride = 1;
  spec.type = DataType::kInt64;
  Check(MakeMatmul(spec), {ToBytes(I64(spec.m * spec.k, 3)), ToBytes(I64(spec.k * spec.n, 5))},
        {spec.m * spec.n * 8});
}

TEST(TypedStretch, RestsAndPowersOfNumbersFarApart) {
  const std::int64_t count = 5000;
  const auto elements = static_cast<std::size_t>(count);
  const auto check = [&](BinaryOp op, DataType type, const Bytes& a, const Bytes& b) {
    BinarySpec spec;
    spec.op = op;
    spec.a = spec.b = spec.out = {count};
    spec.type = type;
    Check(MakeBinary(spec), {a, b}, {a.size()});
  };
  check(BinaryOp::kFmod, DataType::kFloat64, ToBytes(F64(elements, 1.7e308)),
        ToBytes(F64(elements, 1.5e-323)));
  check(BinaryOp::kFmod, DataType::kFloat32, ToBytes(F32(elements, 3e38F)),
        ToBytes(F32(elements, 4e-45F)));
  check(BinaryOp::kPow, DataType::kInt64, ToBytes(I64(elements, 3)),
        ToBytes(I64(elements, std::numeric_limits<std::int64_t>::max())));
}

TEST(TypedStretch, NormalizeAndInterpolate) {
  NormalizeSpec normalize;
  normalize.rows = 50;
  normalize.row = 3000;
  const Bytes parameter = ToBytes(F32(3000, 1));
  Check(MakeNormalize(normalize), {ToBytes(F32(150'000, 1)), parameter, parameter}, {600'000});
  constexpr std::size_t kIn = 300, kOut = 600, kInner = 500;
  std::vector<std::int32_t> taps(kOut * 2);
  for (std::size_t i = 0; i < taps.size(); ++i) taps[i] = static_cast<std::int32_t>(i / 4);
  Check(MakeInterpolate({1, kIn, kOut, kInner, 2, 0}),
        {ToBytes(F32(kIn * kInner)), ToBytes(taps), ToBytes(F32(kOut * 2, 0.5F))},
        {kOut * kInner * 4});
}

}  // namespace
}  // namespace lagoon
