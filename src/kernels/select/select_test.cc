#include "kernels/select/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/elementwise/rows.h"
#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::FromBytes;
using testing::ToBytes;
using testing::TypedRun;
using I32 = std::vector<std::int32_t>;
using I64 = std::vector<std::int64_t>;
using U8 = std::vector<std::uint8_t>;

/// Runs the kernel twice on different memory: what it writes may not depend on what was there.
std::vector<Bytes> RunTwice(const Result<Kernel>& kernel, const std::vector<Bytes>& inputs,
                            const std::vector<std::size_t>& outputs) {
  EXPECT_TRUE(kernel.has_value()) << kernel.error().message;
  TypedRun run(*kernel, inputs, outputs);
  const std::vector<Bytes> first = run.Run();
  run.Run(std::byte{0x5a});
  return first;
}

/// Leaves at each of the first checks of each block, which must have written nothing.
void ExpectLeavesCleanly(const Kernel& kernel, const std::vector<Bytes>& inputs,
                         const std::vector<std::size_t>& outputs) {
  TypedRun run(kernel, inputs, outputs);
  const std::vector<Bytes> done = run.Run();
  for (std::uint32_t block = 0; block < kernel.blocks; ++block) {
    testing::LeaveAt count;
    ASSERT_TRUE(run.RunBlock(block, &count));
    ASSERT_GE(count.checks(), 1);
    for (const int check : {1, 2, count.checks() / 2, count.checks()}) {
      if (check < 1 || check > count.checks()) continue;
      testing::LeaveAt leave(check);
      ASSERT_FALSE(run.RunBlock(block, &leave)) << "block " << block << ", check " << check;
    }
  }
  EXPECT_EQ(run.Run(), done);
}

I64 Counts(const Bytes& x, std::size_t count, DataType type) {
  const auto pieces = (count + kCountPiece - 1) / kCountPiece;
  return FromBytes<std::int64_t>(RunTwice(MakeCountTrue({count, type}), {x}, {pieces * 8}).front());
}

template <typename T>
std::vector<T> Sparse(std::size_t count) {
  std::vector<T> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<T>(i * 7 % 5 == 0 ? i % 3 : 0);
  return x;
}

TEST(CountTrue, CountsEveryPieceOfEveryType) {
  constexpr std::size_t kCount = 2 * kCountPiece + 77;
  const std::vector<float> x = Sparse<float>(kCount);
  I64 expected(3);
  for (std::size_t i = 0; i < kCount; ++i) expected[i / kCountPiece] += x[i] != 0 ? 1 : 0;
  EXPECT_EQ(Counts(ToBytes(x), kCount, DataType::kFloat32), expected);
  EXPECT_EQ(Counts(ToBytes(Sparse<double>(kCount)), kCount, DataType::kFloat64), expected);
  EXPECT_EQ(Counts(ToBytes(Sparse<std::int8_t>(kCount)), kCount, DataType::kInt8), expected);
  EXPECT_EQ(Counts(ToBytes(Sparse<std::uint64_t>(kCount)), kCount, DataType::kUInt64), expected);
  EXPECT_EQ(Counts(ToBytes(U8{0, 1, 7, 0}), 4, DataType::kBool), I64{2});
  const std::vector<float> odd{-0.0F, std::nanf(""), 1e-40F};
  EXPECT_EQ(Counts(ToBytes(odd), 3, DataType::kFloat32), I64{2});
}

void ExpectNonZero(const I64& dims) {
  const auto count = static_cast<std::size_t>(ElementCount(dims));
  const std::vector<float> x = Sparse<float>(count);
  I64 places;
  for (std::size_t i = 0; i < count; ++i) {
    if (x[i] != 0) places.push_back(static_cast<std::int64_t>(i));
  }
  const std::size_t rank = std::max<std::size_t>(dims.size(), 1);
  I64 expected;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::int64_t stride = 1, size = 1;
    for (std::size_t i = axis + 1; i < dims.size(); ++i) stride *= dims[i];
    if (axis < dims.size()) size = dims[axis];
    for (const std::int64_t place : places) expected.push_back(place / stride % size);
  }
  const Bytes counts = ToBytes(Counts(ToBytes(x), count, DataType::kFloat32));
  const auto kernel = MakeNonZero({dims, DataType::kFloat32});
  const std::vector<std::size_t> sizes{rank * count * 8, 16};
  const std::vector<Bytes> y = RunTwice(kernel, {ToBytes(x), counts}, sizes);
  EXPECT_EQ(FromBytes<std::int64_t>(y[1]),
            (I64{static_cast<std::int64_t>(rank), static_cast<std::int64_t>(places.size())}));
  I64 found = FromBytes<std::int64_t>(y[0]);
  found.resize(expected.size());
  EXPECT_EQ(found, expected);
  ExpectLeavesCleanly(*kernel, {ToBytes(x), counts}, sizes);
}

TEST(NonZero, WritesTheIndicesOfEveryAxis) {
  ExpectNonZero({9});
  ExpectNonZero({3, 4});
  ExpectNonZero({3, 50, 2, 31});
  ExpectNonZero({1});
}

TEST(NonZero, AScalarIsAListOfOne) {
  const std::vector<Bytes> y =
      RunTwice(MakeNonZero({{}, DataType::kInt32}), {ToBytes(I32{4}), ToBytes(I64{1})}, {8, 16});
  EXPECT_EQ(FromBytes<std::int64_t>(y[0]), I64{0});
  EXPECT_EQ(FromBytes<std::int64_t>(y[1]), (I64{1, 1}));
}

TEST(NonZero, NothingFoundWritesOnlyTheSizes) {
  const std::vector<Bytes> y =
      RunTwice(MakeNonZero({{2, 2}, DataType::kFloat32}),
               {ToBytes(std::vector<float>(4)), ToBytes(I64{0})}, {64, 16});
  EXPECT_EQ(FromBytes<std::int64_t>(y[1]), (I64{2, 0}));
  EXPECT_EQ(y[0], Bytes(64, std::byte{0xa5}));
}

TEST(NonZero, RefusesWhatIsTooLarge) {
  const auto kernel = MakeNonZero({{1 << 20, 64}, DataType::kFloat32});
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().code, ErrorCode::kUnimplemented);
}

/// Compares with a loop over all elements.
void ExpectCompressed(const I64& dims, std::size_t axis, std::size_t length) {
  const auto count = static_cast<std::size_t>(ElementCount(dims));
  I32 x(count);
  std::iota(x.begin(), x.end(), 1);
  U8 condition(length);
  for (std::size_t i = 0; i < length; ++i) condition[i] = i * 5 % 3 == 1 ? 9 : 0;
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= static_cast<std::size_t>(dims[i]);
  I32 expected;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t item = i / inner % static_cast<std::size_t>(dims[axis]);
    if (item < length && condition[item] != 0) expected.push_back(x[i]);
  }
  I64 sizes = dims;
  sizes[axis] = std::count(condition.begin(), condition.end(), 9);
  const Bytes counts = ToBytes(Counts(ToBytes(condition), length, DataType::kBool));
  const auto kernel = MakeCompress({dims, axis, length, 4});
  const std::vector<Bytes> inputs{ToBytes(x), ToBytes(condition), counts};
  const std::vector<Bytes> y = RunTwice(kernel, inputs, {count * 4, dims.size() * 8});
  EXPECT_EQ(FromBytes<std::int64_t>(y[1]), sizes);
  I32 found = FromBytes<std::int32_t>(y[0]);
  found.resize(expected.size());
  EXPECT_EQ(found, expected);
  ExpectLeavesCleanly(*kernel, inputs, {count * 4, dims.size() * 8});
}

TEST(Compress, TakesTheEntriesOfAnyAxis) {
  ExpectCompressed({7}, 0, 7);
  ExpectCompressed({3, 5, 2}, 1, 4);
  ExpectCompressed({4, 6}, 1, 6);
  ExpectCompressed({3, 2500}, 1, 2500);
  ExpectCompressed({6000, 3}, 0, 5999);
  ExpectCompressed({6, 3000}, 0, 6);
}

TEST(Compress, RefusesALongerCondition) {
  EXPECT_FALSE(MakeCompress({{4}, 0, 5, 4}).has_value());
  EXPECT_FALSE(MakeCompress({{4}, 1, 4, 4}).has_value());
}

struct UniqueResult {
  Bytes y;
  I64 firsts, inverse, counts, sizes;
};

UniqueResult RunUnique(const UniqueSpec& spec, const Bytes& x) {
  const Bytes order = RunTwice(MakeUniqueOrder(spec), {x}, {spec.items * 4}).front();
  const std::size_t list = spec.items * 8;
  const auto groups = MakeUniqueGroups(spec);
  const std::vector<std::size_t> sizes{list, list, list, spec.dims.size() * 8, 8};
  const std::vector<Bytes> lists = RunTwice(groups, {x, order}, sizes);
  ExpectLeavesCleanly(*MakeUniqueOrder(spec), {x}, {spec.items * 4});
  ExpectLeavesCleanly(*groups, {x, order}, sizes);
  UniqueResult result;
  result.y = RunTwice(MakeUniqueTake(spec), {x, lists[0], lists[4]}, {x.size()}).front();
  const auto count = static_cast<std::size_t>(FromBytes<std::int64_t>(lists[4])[0]);
  result.y.resize(x.size() / spec.items * count);
  result.firsts = FromBytes<std::int64_t>(lists[0]);
  result.firsts.resize(count);
  result.inverse = FromBytes<std::int64_t>(lists[1]);
  result.counts = FromBytes<std::int64_t>(lists[2]);
  result.counts.resize(count);
  result.sizes = FromBytes<std::int64_t>(lists[3]);
  return result;
}

// The cases of the specification of Unique.
TEST(Unique, SortedAndInOrderOfOccurrence) {
  const Bytes x = ToBytes(std::vector<float>{2, 1, 1, 3, 4, 3});
  UniqueSpec spec{1, 6, 1, DataType::kFloat32, true, {6}, 0};
  UniqueResult result = RunUnique(spec, x);
  EXPECT_EQ(FromBytes<float>(result.y), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(result.firsts, (I64{1, 0, 3, 4}));
  EXPECT_EQ(result.inverse, (I64{1, 0, 0, 2, 3, 2}));
  EXPECT_EQ(result.counts, (I64{2, 1, 2, 1}));
  EXPECT_EQ(result.sizes, I64{4});
  spec.sorted = false;
  result = RunUnique(spec, x);
  EXPECT_EQ(FromBytes<float>(result.y), (std::vector<float>{2, 1, 3, 4}));
  EXPECT_EQ(result.firsts, (I64{0, 1, 3, 4}));
  EXPECT_EQ(result.inverse, (I64{0, 1, 1, 2, 3, 2}));
  EXPECT_EQ(result.counts, (I64{1, 2, 2, 1}));
}

TEST(Unique, AlongAnAxis) {
  // [2, 4, 2] along axis 1.
  const Bytes x = ToBytes(std::vector<float>{1, 1, 0, 1, 2, 1, 0, 1,  //
                                             1, 1, 0, 1, 2, 1, 0, 1});
  const UniqueResult result = RunUnique({2, 4, 2, DataType::kFloat32, true, {2, 4, 2}, 1}, x);
  EXPECT_EQ(FromBytes<float>(result.y), (std::vector<float>{0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1}));
  EXPECT_EQ(result.firsts, (I64{1, 0, 2}));
  EXPECT_EQ(result.inverse, (I64{1, 0, 2, 0}));
  EXPECT_EQ(result.counts, (I64{2, 1, 1}));
  EXPECT_EQ(result.sizes, (I64{2, 3, 2}));
}

TEST(Unique, NotANumberEqualsItselfAndComesLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const UniqueResult result = RunUnique({1, 5, 1, DataType::kFloat32, true, {5}, 0},
                                        ToBytes(std::vector<float>{nan, 0.0F, 3, nan, -0.0F}));
  EXPECT_EQ(result.inverse, (I64{2, 0, 1, 2, 0}));
}

TEST(Unique, ManyItemsOfManyTypes) {
  constexpr std::size_t kCount = 20'001;
  I64 x(kCount);
  for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<std::int64_t>(i * 7919 % 1013) - 500;
  const std::int64_t count = static_cast<std::int64_t>(kCount);
  const UniqueResult result =
      RunUnique({1, kCount, 1, DataType::kInt64, true, {count}, 0}, ToBytes(x));
  const I64 y = FromBytes<std::int64_t>(result.y);
  EXPECT_EQ(y.size(), 1013U);
  EXPECT_TRUE(std::is_sorted(y.begin(), y.end()));
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(y[static_cast<std::size_t>(result.inverse[i])], x[i]);
  }
  EXPECT_EQ(std::accumulate(result.counts.begin(), result.counts.end(), std::int64_t{0}), count);
  const UniqueResult flags =
      RunUnique({1, 3, 1, DataType::kBool, true, {3}, 0}, ToBytes(U8{1, 0, 1}));
  EXPECT_EQ(flags.inverse, (I64{1, 0, 1}));
}

TEST(Unique, RefusesTooManyItems) {
  const auto kernel =
      MakeUniqueOrder({1, kMaxUniqueItems + 1, 1, DataType::kFloat32, true, {1 << 20}, 0});
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().code, ErrorCode::kUnimplemented);
}

}  // namespace
}  // namespace lagoon
