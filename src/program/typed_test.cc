// Graphs whose values are not all fp32, from ONNX to outputs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "graph/graph.h"
#include "kernels/elementwise/row_functions.h"
#include "plan/element.h"
#include "plan/elementwise_ops.h"
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

TEST(TypedGraph, InputIdsChooseRowsAndMasks) {
  TypedGraph g;
  const ValueId ids = g.Input(DataType::kInt64, {3});
  const ValueId table = g.Known(DataType::kFloat32, {4, 2}, F32{0, 1, 2, 3, 4, 5, 6, 7});
  const ValueId padding = g.Known(DataType::kInt64, {}, I64{0});
  g.Output(g.Op("Gather", {table, ids}, DataType::kFloat32, {3, 2}, {{"axis", std::int64_t{0}}}));
  const ValueId mask = g.Op("Equal", {ids, padding}, DataType::kBool, {3});
  g.Output(mask);
  g.Output(g.Op("Cast", {mask}, DataType::kInt8, {3}));
  const std::vector<Bytes> results = g.Run({ToBytes(I64{3, 0, 9})});
  EXPECT_EQ(FromBytes<float>(results[0]), (F32{6, 7, 0, 1, 0, 0}));
  EXPECT_EQ(FromBytes<std::uint8_t>(results[1]), (U8{0, 1, 0}));
  EXPECT_EQ(FromBytes<std::int8_t>(results[2]), (std::vector<std::int8_t>{0, 1, 0}));
}

/// Coordinates of element `i` of a tensor.
I64 At(const Dims& dims, std::int64_t i) {
  I64 at(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    at[axis] = i % dims[axis];
    i /= dims[axis];
  }
  return at;
}

std::size_t Index(const Dims& dims, const I64& at) {
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    index = index * dims[axis] + (dims[axis] == 1 ? 0 : at[axis]);
  }
  return static_cast<std::size_t>(index);
}

// FuseExpandedIndices leaves such indices.
TEST(TypedGraph, OneIndexMovesAWholeRow) {
  const Dims x_dims{3, 4, 2};
  struct Case {
    std::int64_t axis;
    Dims indices, moved;
  };
  for (const Case& c : {Case{0, {2, 1, 1}, {2, 4, 2}}, Case{0, {2, 4, 1}, {2, 4, 2}},
                        Case{1, {3, 5, 1}, {3, 5, 2}}, Case{1, {1, 5, 1}, {3, 5, 2}},
                        Case{1, {1, 2, 1}, {2, 2, 1}}, Case{2, {1, 1, 3}, {3, 4, 3}}}) {
    SCOPED_TRACE(ToString(c.indices));
    F32 x(24), updates(static_cast<std::size_t>(ElementCount(c.moved)));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < updates.size(); ++i) updates[i] = 100 + static_cast<float>(i);
    const auto axis = static_cast<std::size_t>(c.axis);
    I64 indices(static_cast<std::size_t>(ElementCount(c.indices)));
    for (std::size_t i = 0; i < indices.size(); ++i) {
      indices[i] =
          static_cast<std::int64_t>(i * 5 + 2) % x_dims[axis] - (i % 2 == 0 ? x_dims[axis] : 0);
    }
    F32 gathered(updates.size()), scattered = x;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      I64 at = At(c.moved, static_cast<std::int64_t>(i));
      const std::int64_t index = indices[Index(c.indices, at)];
      at[axis] = index < 0 ? index + x_dims[axis] : index;
      gathered[i] = x[Index(x_dims, at)];
      scattered[Index(x_dims, at)] = updates[i];
    }
    TypedGraph g;
    const ValueId data = g.Input(DataType::kFloat32, x_dims);
    const ValueId which = g.Input(DataType::kInt64, c.indices);
    const ValueId what = g.Input(DataType::kFloat32, c.moved);
    const std::map<std::string, Attribute> attributes{{"axis", c.axis}};
    g.Output(g.Op("GatherElements", {data, which}, DataType::kFloat32, c.moved, attributes));
    g.Output(g.Op("ScatterElements", {data, which, what}, DataType::kFloat32, x_dims, attributes));
    const std::vector<Bytes> results = g.Run({ToBytes(x), ToBytes(indices), ToBytes(updates)});
    EXPECT_EQ(FromBytes<float>(results[0]), gathered);
    EXPECT_EQ(FromBytes<float>(results[1]), scattered);
  }
}

/// The first of a few types on which there is a function.
template <typename Find>
DataType TypeOf(Find find) {
  for (const DataType type : {DataType::kFloat32, DataType::kInt32}) {
    if (find(type) != nullptr) return type;
  }
  return DataType::kBool;
}

// What the functions compute is in the tests of the kernels.
TEST(TypedGraph, EveryElementwiseFunctionIsLowered) {
  for (const elementwise::UnaryRow& row : elementwise::kUnaryRows) {
    if (row.since == 0) continue;
    SCOPED_TRACE(row.name);
    const DataType type = TypeOf([&](DataType t) { return FindUnaryRow(row.op, t); });
    TypedGraph g;
    const ValueId x = g.Input(type, {2});
    g.Output(g.Op(std::string(row.name), {x}, ResultType(row.op, type), {2}));
    EXPECT_EQ(g.Run({Bytes(2 * SizeOf(type))}).at(0).size(), 2 * SizeOf(ResultType(row.op, type)));
  }
  for (const elementwise::BinaryRow& row : elementwise::kBinaryRows) {
    if (row.since == 0) continue;
    SCOPED_TRACE(row.name);
    const DataType type = TypeOf([&](DataType t) { return FindBinaryRow(row.op, t); });
    TypedGraph g;
    const ValueId a = g.Input(type, {2}), b = g.Input(type, {2});
    g.Output(g.Op(std::string(row.name), {a, b}, ResultType(row.op, type), {2}));
    const Bytes zeros(2 * SizeOf(type));
    EXPECT_EQ(g.Run({zeros, zeros}).at(0).size(), 2 * SizeOf(ResultType(row.op, type)));
  }
}

TEST(TypedGraph, OutputsMayBeInputsAndConstants) {
  TypedGraph g;
  const ValueId x = g.Input(DataType::kInt64, {2});
  g.Output(x);
  g.Output(g.Known(DataType::kBool, {2}, U8{1, 0}));
  g.Output(g.Op("Neg", {g.Known(DataType::kInt64, {1}, I64{5})}, DataType::kInt64, {1}));
  const std::vector<Bytes> results = g.Run({ToBytes(I64{7, -8})});
  EXPECT_EQ(FromBytes<std::int64_t>(results[0]), (I64{7, -8}));
  EXPECT_EQ(FromBytes<std::uint8_t>(results[1]), (U8{1, 0}));
  EXPECT_EQ(FromBytes<std::int64_t>(results[2]), I64{-5});
}

TEST(TypedGraph, HalvesAreConvertedAroundFloatOps) {
  TypedGraph g;
  const ValueId x = g.Input(DataType::kFloat16, {1, 2});
  g.Output(g.Op("Softmax", {x}, DataType::kFloat16, {1, 2}, {{"axis", std::int64_t{1}}}));
  const std::vector<Float16> in{Float16::From(1), Float16::From(1)};
  const auto y = FromBytes<Float16>(g.Run({ToBytes(in)})[0]);
  EXPECT_EQ(static_cast<float>(y[0]), 0.5f);
  EXPECT_EQ(static_cast<float>(y[1]), 0.5f);
}

TEST(TypedGraph, MovesOfEverySizeOfElement) {
  TypedGraph g;
  const std::vector<std::int64_t> perm{1, 0};
  for (const DataType type : {DataType::kUInt8, DataType::kInt16, DataType::kInt64}) {
    const ValueId x = g.Input(type, {2, 3});
    g.Output(g.Op("Transpose", {x}, type, {3, 2}, {{"perm", perm}}));
    g.Output(g.Op("Concat", {x, x}, type, {2, 6}, {{"axis", std::int64_t{1}}}));
  }
  const std::vector<Bytes> results =
      g.Run({ToBytes(U8{1, 2, 3, 4, 5, 6}), ToBytes(std::vector<std::int16_t>{1, 2, 3, 4, 5, 6}),
             ToBytes(I64{1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(FromBytes<std::uint8_t>(results[0]), (U8{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(FromBytes<std::uint8_t>(results[1]), (U8{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(FromBytes<std::int16_t>(results[2]), (std::vector<std::int16_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(FromBytes<std::int64_t>(results[4]), (I64{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(FromBytes<std::int64_t>(results[5]), (I64{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
}

TEST(TypedGraph, BackwardsSlicesReadOnlyTheirPart) {
  TypedGraph g;
  const ValueId x = g.Input(DataType::kInt64, {6});
  g.Output(g.Op("Slice", {x}, DataType::kInt64, {2},
                {{"axes", I64{0}}, {"starts", I64{4}}, {"ends", I64{0}}, {"steps", I64{-2}}}));
  EXPECT_EQ(FromBytes<std::int64_t>(g.Run({ToBytes(I64{0, 1, 2, 3, 4, 5})})[0]), (I64{4, 2}));
}

TEST(TypedGraph, IntegersOverAxesApartAreReducedAtOnce) {
  TypedGraph g;
  const std::vector<std::int32_t> ones(12, 1), numbers{0, 3, 0, 1};
  const ValueId x = g.Input(DataType::kInt32, {2, 3, 2});
  g.Output(g.Op("ReduceL2", {x}, DataType::kInt32, {3}, {{"axes", I64{0, 2}}}));
  const ValueId m = g.Input(DataType::kInt32, {2, 1, 2});
  g.Output(g.Op("ReduceMean", {m}, DataType::kInt32, {1}, {{"axes", I64{0, 2}}}));
  const ValueId wide = g.Input(DataType::kInt32, {2, 2, 2});
  g.Output(g.Op("ReduceMean", {wide}, DataType::kInt32, {2, 1, 1},
                {{"axes", I64{1, 2}}, {"keepdims", std::int64_t{1}}}));
  const auto results = g.Run({ToBytes(ones), ToBytes(numbers),
                              ToBytes(std::vector<std::int32_t>{0, 3, 0, 1, 5, 5, 5, 6})});
  EXPECT_EQ(FromBytes<std::int32_t>(results[0]), (std::vector<std::int32_t>{2, 2, 2}));
  EXPECT_EQ(FromBytes<std::int32_t>(results[1]), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(FromBytes<std::int32_t>(results[2]), (std::vector<std::int32_t>{1, 5}));
}

TEST(TypedGraph, IntegersOverAxesApartInTheImageLayout) {
  TypedGraph g;
  const ValueId x = g.Input(DataType::kInt32, {1, 2, 1, 2});
  g.Output(g.Op("ReduceMean", {x}, DataType::kInt32, {1, 1, 1, 1},
                {{"axes", I64{1, 3}}, {"keepdims", std::int64_t{1}}}));
  EXPECT_EQ(FromBytes<std::int32_t>(g.Run({ToBytes(std::vector<std::int32_t>{0, 3, 0, 1})})[0]),
            (std::vector<std::int32_t>{1}));
}

TEST(TypedGraph, IntegerGemmHonoursWholeFactors) {
  TypedGraph g;
  const ValueId a = g.Input(DataType::kInt32, {1, 2});
  const ValueId b = g.Input(DataType::kInt32, {2, 1});
  const ValueId c = g.Input(DataType::kInt32, {1});
  g.Output(g.Op("Gemm", {a, b, c}, DataType::kInt32, {1, 1}, {{"alpha", -2.0F}, {"beta", 3.0F}}));
  using I32 = std::vector<std::int32_t>;
  const auto y = g.Run({ToBytes(I32{1, 2}), ToBytes(I32{3, 4}), ToBytes(I32{5})});
  EXPECT_EQ(FromBytes<std::int32_t>(y[0]), (I32{-2 * 11 + 3 * 5}));
}

TEST(TypedGraph, ScalesOfQLinearMatMulMayBeOnePerRow) {
  TypedGraph g;
  const ValueId a = g.Input(DataType::kUInt8, {2, 2});
  const ValueId a_scale = g.Known(DataType::kFloat32, {2}, F32{1, 10});
  const ValueId zero = g.Known(DataType::kUInt8, {}, U8{0});
  const ValueId b = g.Input(DataType::kUInt8, {2, 2});
  const ValueId one = g.Known(DataType::kFloat32, {}, F32{1});
  g.Output(
      g.Op("QLinearMatMul", {a, a_scale, zero, b, one, zero, one, zero}, DataType::kUInt8, {2, 2}));
  const auto y = g.Run({ToBytes(U8{1, 0, 0, 1}), ToBytes(U8{1, 2, 3, 4})});
  EXPECT_EQ(FromBytes<std::uint8_t>(y[0]), (U8{1, 2, 30, 40}));
}

TEST(TypedGraph, LongConvIntegerIsExact) {
  constexpr std::int64_t kChannels = 700;  // 700 * 255 * 255 > 2^25
  TypedGraph g;
  const ValueId x = g.Input(DataType::kUInt8, {1, kChannels, 1, 1});
  const ValueId w = g.Input(DataType::kUInt8, {1, kChannels, 1, 1});
  g.Output(g.Op("ConvInteger", {x, w}, DataType::kInt32, {1, 1, 1, 1},
                {{"kernel_shape", I64{1, 1}},
                 {"strides", I64{1, 1}},
                 {"dilations", I64{1, 1}},
                 {"pads", I64{0, 0, 0, 0}},
                 {"group", std::int64_t{1}}}));
  const U8 large(kChannels, 255);
  U8 odd = large;
  odd[5] = 254;
  const auto y = g.Run({ToBytes(large), ToBytes(odd)});
  EXPECT_EQ(FromBytes<std::int32_t>(y[0]),
            (std::vector<std::int32_t>{699 * 255 * 255 + 255 * 254}));
}

TEST(TypedGraph, ABoolThatIsNotOneIsStillTrue) {
  TypedGraph g;
  const ValueId x = g.Input(DataType::kBool, {2, 2});
  g.Output(g.Op("ReduceMax", {x}, DataType::kBool, {2}, {{"axes", I64{1}}}));
  EXPECT_EQ(FromBytes<std::uint8_t>(g.Run({ToBytes(U8{0, 7, 0, 0})})[0]), (U8{1, 0}));
}

// [100 100] times its transpose is 20000: it fits into 16 bits with a sign, and wraps in 8.
template <typename T>
void ExpectProductsWrap(DataType type) {
  const std::vector<T> row{100, 100};
  const auto product = static_cast<T>(20000);
  TypedGraph g;
  const ValueId a = g.Input(type, {1, 2});
  const ValueId b = g.Input(type, {2, 1});
  g.Output(g.Op("MatMul", {a, b}, type, {1, 1}));
  g.Output(g.Op("Einsum", {a, b}, type, {1, 1}, {{"equation", std::string("ij,jk->ik")}}));
  g.Output(g.Op("Gemm", {a, a}, type, {1, 1}, {{"transB", std::int64_t{1}}}));
  for (const Bytes& y : g.Run({ToBytes(row), ToBytes(row)})) {
    EXPECT_EQ(FromBytes<T>(y), std::vector<T>{product}) << OipName(type);
  }
}

TEST(TypedGraph, ProductsOfSmallIntegersHaveTheirType) {
  ExpectProductsWrap<std::int8_t>(DataType::kInt8);
  ExpectProductsWrap<std::uint8_t>(DataType::kUInt8);
  ExpectProductsWrap<std::int16_t>(DataType::kInt16);
  ExpectProductsWrap<std::uint16_t>(DataType::kUInt16);
}

TEST(TypedGraph, AKernelThatMakesAnotherTypeThanTheGraphSaysIsAnError) {
  TypedGraph g;
  const ValueId a = g.Input(DataType::kInt32, {2, 2});
  g.Output(g.Op("MatMul", {a, a}, DataType::kInt64, {2, 2}));
  const Result<LoweredProgram> program = Lower(g.graph(), "m");
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, ::testing::HasSubstr("INT64 [2,2]"));
}

}  // namespace
}  // namespace lagoon
