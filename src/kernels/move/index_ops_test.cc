#include "kernels/move/index_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::ExpectTyped;
using testing::ScatterInputs;
using testing::ToBytes;
using I64 = std::vector<std::int64_t>;
using I32 = std::vector<std::int32_t>;

IndexSpec Rows(std::int64_t rows, std::int64_t run, std::int64_t count, DataType type) {
  IndexSpec spec;
  spec.entries = {count};
  spec.index_strides = {1};
  spec.base_strides = {0};
  spec.sizes = {rows};
  spec.strides = {run};
  spec.run = run;
  spec.tensor = rows * run;
  spec.type = type;
  return spec;
}

TEST(Gather, TakesRowsFromBothEndsAndZerosFromOutside) {
  const I32 x{1, 2, 3, 4, 5, 6};
  ExpectTyped(MakeGather(Rows(3, 2, 5, DataType::kInt32)),
              {ToBytes(x), ToBytes(I64{2, 0, -1, 3, -4})}, I32{5, 6, 1, 2, 5, 6, 0, 0, 0, 0});
  IndexSpec narrow = Rows(3, 2, 2, DataType::kInt32);
  narrow.index_type = DataType::kInt32;
  ExpectTyped(MakeGather(narrow), {ToBytes(x), ToBytes(I32{1, -3})}, I32{3, 4, 1, 2});
}

/// GatherElements and ScatterElements have such entries: x is [3, 5, 11], y [3, 5, 700].
template <typename T, typename Index>
void CheckSingles(DataType type, DataType index_type) {
  IndexSpec spec;
  spec.entries = {3, 5, 700};
  spec.index_strides = {3500, 700, 1};
  spec.base_strides = {55, 11, 0};
  spec.sizes = {11};
  spec.strides = {1};
  spec.tensor = 165;
  spec.type = type;
  spec.index_type = index_type;
  std::vector<T> x, expected;
  std::vector<Index> indices;
  for (int i = 0; i < 165; ++i) x.push_back(static_cast<T>(i + 1));
  for (std::size_t i = 0; i < 10'500; ++i) {
    const int index = static_cast<int>(i * 7 % 26) - 13;  // -13, -12, 11 and 12 are outside
    indices.push_back(static_cast<Index>(index));
    const bool inside = index >= -11 && index < 11;
    const std::size_t at = i / 700 * 11 + static_cast<std::size_t>(index < 0 ? index + 11 : index);
    expected.push_back(inside ? x[at] : T{0});
  }
  ExpectTyped(MakeGather(spec), {ToBytes(x), ToBytes(indices)}, expected);
}

TEST(Gather, SingleElementsOfEverySizeByLines) {
  CheckSingles<std::uint8_t, std::int64_t>(DataType::kUInt8, DataType::kInt64);
  CheckSingles<std::int16_t, std::int32_t>(DataType::kInt16, DataType::kInt32);
  CheckSingles<float, std::int64_t>(DataType::kFloat32, DataType::kInt64);
  CheckSingles<float, std::int32_t>(DataType::kFloat32, DataType::kInt32);
  CheckSingles<double, std::int64_t>(DataType::kFloat64, DataType::kInt64);
}

TEST(Gather, LongRunsAreManyBlocks) {
  I32 x(2 * 100'003), expected;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int32_t>(i);
  for (const std::size_t row : {1u, 0u, 1u}) {
    expected.insert(expected.end(), x.begin() + static_cast<std::ptrdiff_t>(row * 100'003),
                    x.begin() + static_cast<std::ptrdiff_t>((row + 1) * 100'003));
  }
  ExpectTyped(MakeGather(Rows(2, 100'003, 3, DataType::kInt32)),
              {ToBytes(x), ToBytes(I64{1, 0, 1})}, expected);
}

TEST(Gather, RefusesWhatCouldLeaveTheTensor) {
  IndexSpec spec = Rows(3, 2, 5, DataType::kInt32);
  spec.tensor = 5;
  const Result<Kernel> kernel = MakeGather(spec);
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, ::testing::HasSubstr("element 6 of 5"));
}

TEST(Scatter, AppliesUpdatesInTheirOrder) {
  const Bytes x = ToBytes(I32{0, 10, 20, 30});
  const Bytes indices = ToBytes(I64{1, 1, -1, 9});
  const Bytes updates = ToBytes(I32{5, 6, 7, 8});
  const IndexSpec spec = Rows(4, 1, 4, DataType::kInt32);
  const std::vector<Bytes> inputs = ScatterInputs(spec, x, indices, updates);
  ExpectTyped(MakeScatter(spec, ScatterOp::kAssign), inputs, I32{0, 6, 20, 7});
  ExpectTyped(MakeScatter(spec, ScatterOp::kAdd), inputs, I32{0, 21, 20, 37});
  ExpectTyped(MakeScatter(spec, ScatterOp::kMax), inputs, I32{0, 10, 20, 30});
}

TEST(Scatter, RunsThatCrossBlocks) {
  const std::int64_t run = 40'000;
  I32 x(static_cast<std::size_t>(3 * run), 1), updates(static_cast<std::size_t>(run), 2);
  I32 expected = x;
  std::fill(expected.begin() + run, expected.begin() + 2 * run, 2);
  const IndexSpec spec = Rows(3, run, 1, DataType::kInt32);
  ExpectTyped(MakeScatter(spec, ScatterOp::kAssign),
              ScatterInputs(spec, ToBytes(x), ToBytes(I64{1}), ToBytes(updates)), expected);
}

// Blocks own ranges of y, and skip chunks of entries that do not reach them.
TEST(Scatter, ChunksOfEntriesReachEveryBlock) {
  constexpr std::int64_t kRows = 40, kColumns = 3001, kPerRow = 7;
  IndexSpec spec;
  spec.entries = {kRows, kPerRow};
  spec.index_strides = {kPerRow, 1};
  spec.base_strides = {kColumns, 0};
  spec.sizes = {kColumns};
  spec.strides = {1};
  spec.tensor = kRows * kColumns;
  spec.type = DataType::kInt32;
  I32 expected(static_cast<std::size_t>(spec.tensor), 1), updates;
  I64 indices;
  for (std::int64_t entry = 0; entry < kRows * kPerRow; ++entry) {
    const std::int64_t column = entry * 7919 % kColumns;
    indices.push_back(entry % 2 == 0 ? column : column - kColumns);
    updates.push_back(static_cast<std::int32_t>(entry));
    expected[static_cast<std::size_t>(entry / kPerRow * kColumns + column)] += updates.back();
  }
  indices[0] = kColumns - 1;  // the ends of the first and of the last row
  expected[0] -= updates[0];
  expected[kColumns - 1] += updates[0];
  ExpectTyped(
      MakeScatter(spec, ScatterOp::kAdd),
      ScatterInputs(spec, ToBytes(I32(expected.size(), 1)), ToBytes(indices), ToBytes(updates)),
      expected);
}

TEST(Scatter, EntriesInAnyOrderReachEveryBlock) {
  constexpr std::int64_t kElements = 70'001, kEntries = 1000;  // five blocks, the last one short
  const IndexSpec spec = Rows(kElements, 1, kEntries, DataType::kInt32);
  I32 expected(kElements, 1), updates;
  I64 indices;
  for (std::int64_t entry = 0; entry < kEntries; ++entry) {
    const bool outside = entry % 10 == 3 || entry / 64 == 5;  // of chunk 5 no entry is inside
    indices.push_back(outside ? kElements : entry * 38'177 % kElements);
    updates.push_back(static_cast<std::int32_t>(entry));
    if (!outside) expected[static_cast<std::size_t>(indices.back())] += updates.back();
  }
  ExpectTyped(
      MakeScatter(spec, ScatterOp::kAdd),
      ScatterInputs(spec, ToBytes(I32(expected.size(), 1)), ToBytes(indices), ToBytes(updates)),
      expected);
}

TEST(Scatter, LongRunsLeaveBetweenPieces) {
  constexpr std::int64_t kRun = 10'000;
  const IndexSpec spec = Rows(3, kRun, 2, DataType::kInt32);
  I32 expected(3 * kRun, 1);
  std::fill(expected.begin() + kRun, expected.begin() + 2 * kRun, 5);
  ExpectTyped(
      MakeScatter(spec, ScatterOp::kAdd),
      ScatterInputs(spec, ToBytes(I32(3 * kRun, 1)), ToBytes(I64{1, 1}), ToBytes(I32(2 * kRun, 2))),
      expected);
}

}  // namespace
}  // namespace lagoon
