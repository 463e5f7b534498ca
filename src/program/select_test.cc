// Ops whose output shape depends on data, as plans: the capacity's memory and the actual sizes.

#include <gtest/gtest.h>

#include "program/testing/typed_graph.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::FromBytes;
using testing::ToBytes;
using testing::TypedGraph;
using I64 = std::vector<std::int64_t>;
using U8 = std::vector<std::uint8_t>;
using F32 = std::vector<float>;

template <typename T>
std::vector<T> First(const Bytes& bytes, std::size_t count) {
  std::vector<T> values = FromBytes<T>(bytes);
  EXPECT_LE(count, values.size());
  values.resize(count);
  return values;
}

TEST(DataDependentPlans, NonZero) {
  TypedGraph g;
  const ValueId x = g.Input(DataType::kBool, {2, 3});
  const ValueId y = g.Add(DataType::kInt64, {2, 6});
  const ValueId sizes = g.SizesOf(y);
  g.Op("NonZero", {x}, {y, sizes});
  g.Output(y);
  g.Output(sizes);
  const std::vector<Bytes> results = g.Run({ToBytes(U8{0, 1, 0, 1, 1, 0})});
  EXPECT_EQ(FromBytes<std::int64_t>(results[1]), (I64{2, 3}));
  EXPECT_EQ(First<std::int64_t>(results[0], 6), (I64{0, 1, 1, 1, 0, 1}));
}

TEST(DataDependentPlans, CompressWithAComputedCondition) {
  for (const std::int64_t axis : {-1, 1}) {
    TypedGraph g;
    const ValueId x = g.Input(DataType::kFloat32, {2, 3});
    const ValueId condition = g.Input(DataType::kBool, {3});
    const ValueId y = g.Add(DataType::kFloat32, axis < 0 ? Dims{3} : Dims{2, 3});
    const ValueId sizes = g.SizesOf(y);
    g.Op("Compress", {x, condition}, {y, sizes}, {{"axis", axis}});
    g.Output(y);
    g.Output(sizes);
    const auto results = g.Run({ToBytes(F32{1, 2, 3, 4, 5, 6}), ToBytes(U8{1, 0, 1})});
    EXPECT_EQ(FromBytes<std::int64_t>(results[1]), axis < 0 ? I64{2} : (I64{2, 2}));
    EXPECT_EQ(First<float>(results[0], axis < 0 ? 2 : 4),
              axis < 0 ? (F32{1, 3}) : (F32{1, 3, 4, 6}));
  }
}

TEST(DataDependentPlans, UniqueOfAllElements) {
  TypedGraph g;
  const ValueId x = g.Input(DataType::kInt64, {2, 3});
  const ValueId y = g.Add(DataType::kInt64, {6});
  const ValueId inverse = g.Add(DataType::kInt64, {6});
  const ValueId counts = g.Add(DataType::kInt64, {6});
  const ValueId sizes = g.SizesOf(y), count = g.SizesOf(counts);
  g.Op("Unique", {x}, {y, kNoValue, inverse, counts, sizes, count},
       {{"axis", std::int64_t{-1}}, {"sorted", std::int64_t{0}}});
  for (const ValueId id : {y, inverse, counts, sizes, count}) g.Output(id);
  const std::vector<Bytes> results = g.Run({ToBytes(I64{7, 5, 7, 9, 5, 7})});
  EXPECT_EQ(First<std::int64_t>(results[0], 3), (I64{7, 5, 9}));
  EXPECT_EQ(FromBytes<std::int64_t>(results[1]), (I64{0, 1, 0, 2, 1, 0}));
  EXPECT_EQ(First<std::int64_t>(results[2], 3), (I64{3, 2, 1}));
  EXPECT_EQ(FromBytes<std::int64_t>(results[3]), I64{3});
  EXPECT_EQ(FromBytes<std::int64_t>(results[4]), I64{3});
}

TEST(DataDependentPlans, TopKWithAComputedK) {
  TypedGraph g;
  const ValueId x = g.Input(DataType::kFloat32, {2, 4});
  const ValueId k = g.Input(DataType::kInt64, {1});
  const ValueId y = g.Add(DataType::kFloat32, {2, 4});
  const ValueId indices = g.Add(DataType::kInt64, {2, 4});
  const ValueId sizes = g.SizesOf(y);
  g.Op("TopK", {x, k}, {y, indices, sizes},
       {{"axis", std::int64_t{1}}, {"largest", std::int64_t{1}}});
  for (const ValueId id : {y, indices, sizes}) g.Output(id);
  const Bytes in = ToBytes(F32{3, 1, 4, 1, 5, 9, 2, 6});
  std::vector<Bytes> results = g.Run({in, ToBytes(I64{2})});
  EXPECT_EQ(First<float>(results[0], 4), (F32{4, 3, 9, 6}));
  EXPECT_EQ(First<std::int64_t>(results[1], 4), (I64{2, 0, 1, 3}));
  EXPECT_EQ(FromBytes<std::int64_t>(results[2]), (I64{2, 2}));
  results = g.Run({in, ToBytes(I64{99})});  // more than there are
  EXPECT_EQ(FromBytes<std::int64_t>(results[2]), (I64{2, 4}));
  EXPECT_EQ(FromBytes<float>(results[0]), (F32{4, 3, 1, 1, 9, 6, 5, 2}));
  results = g.Run({in, ToBytes(I64{-1})});
  EXPECT_EQ(FromBytes<std::int64_t>(results[2]), (I64{2, 0}));
}

TEST(DataDependentPlans, NonMaxSuppressionWithoutThresholds) {
  TypedGraph g;
  const ValueId boxes = g.Input(DataType::kFloat32, {1, 3, 4});
  const ValueId scores = g.Input(DataType::kFloat32, {1, 1, 3});
  const ValueId most = g.Known(DataType::kInt64, {1}, I64{2});
  const ValueId y = g.Add(DataType::kInt64, {2, 3});
  const ValueId sizes = g.SizesOf(y);
  g.Op("NonMaxSuppression", {boxes, scores, most}, {y, sizes},
       {{"most", std::int64_t{2}}, {"center_point_box", std::int64_t{0}}});
  g.Output(y);
  g.Output(sizes);
  const auto results =
      g.Run({ToBytes(F32{0, 0, 1, 1, 0, 0, 1, 1, 5, 5, 6, 6}), ToBytes(F32{0.3F, 0.9F, 0.1F})});
  EXPECT_EQ(FromBytes<std::int64_t>(results[1]), (I64{2, 3}));
  EXPECT_EQ(FromBytes<std::int64_t>(results[0]), (I64{0, 0, 1, 0, 0, 2}));
}

}  // namespace
}  // namespace lagoon
