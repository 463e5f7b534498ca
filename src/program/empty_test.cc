// Values without elements: graph inputs and outputs, and what nodes compute from them.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::FromBytes;
using testing::ModelBuilder;
using testing::RunModel;
using testing::ToBytes;
using testing::TypedGraph;
using F32 = std::vector<float>;
using I64 = std::vector<std::int64_t>;
constexpr DataType kFloat = DataType::kFloat32;

/// Output of a node of one empty input [0, 3] and the given attributes.
F32 OfNothing(const std::string& op, const Dims& out, std::map<std::string, Attribute> attributes) {
  TypedGraph g;
  const ValueId x = g.Input(kFloat, {0, 3});
  g.Output(g.Op(op, {x}, kFloat, out, std::move(attributes)));
  return FromBytes<float>(g.Run({Bytes()})[0]);
}

TEST(EmptyValues, PassThroughAsInputsAndOutputs) {
  TypedGraph g;
  const ValueId x = g.Input(kFloat, {0, 3}), z = g.Input(kFloat, {2});
  const ValueId y = g.Op("Relu", {x}, kFloat, {0, 3});
  g.Output(x);
  g.Output(y);
  g.Output(g.Op("Softmax", {y}, kFloat, {0, 3}, {{"axis", std::int64_t{1}}}));
  g.Output(g.Op("Relu", {z}, kFloat, {2}));
  const std::vector<Bytes> results = g.Run({Bytes(), ToBytes(F32{-1, 2})});
  EXPECT_TRUE(results[0].empty() && results[1].empty() && results[2].empty());
  EXPECT_EQ(FromBytes<float>(results[3]), (F32{0, 2}));
}

TEST(EmptyValues, APlanWithoutKernelsRuns) {
  TypedGraph g;
  const ValueId x = g.Input(kFloat, {4, 0});
  g.Output(g.Op("Transpose", {x}, kFloat, {0, 4}, {{"perm", I64{1, 0}}}));
  EXPECT_TRUE(g.Run({Bytes()})[0].empty());
}

TEST(EmptyValues, ReductionsOfNothingAreNeutral) {
  const std::map<std::string, Attribute> axis{{"axes", I64{0}}, {"keepdims", std::int64_t{0}}};
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(OfNothing("ReduceSum", {3}, axis), (F32{0, 0, 0}));
  EXPECT_EQ(OfNothing("ReduceL2", {3}, axis), (F32{0, 0, 0}));
  EXPECT_EQ(OfNothing("ReduceProd", {3}, axis), (F32{1, 1, 1}));
  EXPECT_EQ(OfNothing("ReduceMax", {3}, axis), (F32{-infinity, -infinity, -infinity}));
  EXPECT_EQ(OfNothing("ReduceMin", {3}, axis), (F32{infinity, infinity, infinity}));
  EXPECT_EQ(OfNothing("ReduceLogSumExp", {3}, axis)[1], -infinity);
  EXPECT_TRUE(std::isnan(OfNothing("ReduceMean", {3}, axis)[0]));
}

TEST(EmptyValues, ReductionsOfNoFlagsAreNeutral) {
  for (const bool most : {true, false}) {
    TypedGraph g;
    const ValueId x = g.Input(DataType::kBool, {0, 2});
    g.Output(g.Op(most ? "ReduceMax" : "ReduceMin", {x}, DataType::kBool, {2},
                  {{"axes", I64{0}}, {"keepdims", std::int64_t{0}}}));
    const std::uint8_t expected = most ? 0 : 1;
    EXPECT_EQ(FromBytes<std::uint8_t>(g.Run({Bytes()})[0]),
              (std::vector<std::uint8_t>{expected, expected}));
  }
}

TEST(EmptyValues, ProductsOverNothingAreZero) {
  TypedGraph g;
  const ValueId a = g.Input(kFloat, {2, 0}), b = g.Input(kFloat, {0, 3}), c = g.Input(kFloat, {3});
  g.Output(g.Op("MatMul", {a, b}, kFloat, {2, 3}));
  g.Output(g.Op("Gemm", {a, b, c}, kFloat, {2, 3}, {{"beta", 2.0F}}));
  g.Output(g.Op("Einsum", {a, b}, kFloat, {2, 3}, {{"equation", std::string("ij,jk->ik")}}));
  const auto results = g.Run({Bytes(), Bytes(), ToBytes(F32{1, 2, 3})});
  EXPECT_EQ(FromBytes<float>(results[0]), F32(6, 0.0F));
  EXPECT_EQ(FromBytes<float>(results[1]), (F32{2, 4, 6, 2, 4, 6}));
  EXPECT_EQ(FromBytes<float>(results[2]), F32(6, 0.0F));
}

TEST(EmptyValues, ConcatAndSplitLeaveEmptyPartsOut) {
  TypedGraph g;
  const ValueId past = g.Input(kFloat, {1, 0, 2}), now = g.Input(kFloat, {1, 3, 2});
  const ValueId all =
      g.Op("Concat", {past, now, past}, kFloat, {1, 3, 2}, {{"axis", std::int64_t{1}}});
  g.Output(all);
  const ValueId first = g.Add(kFloat, {1, 1, 2}), none = g.Add(kFloat, {1, 0, 2}),
                last = g.Add(kFloat, {1, 2, 2});
  g.Op("Split", {now}, {first, none, last}, {{"axis", std::int64_t{1}}, {"split", I64{1, 0, 2}}});
  for (const ValueId id : {first, none, last}) g.Output(id);
  const auto results = g.Run({Bytes(), ToBytes(F32{1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(FromBytes<float>(results[0]), (F32{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(FromBytes<float>(results[1]), (F32{1, 2}));
  EXPECT_TRUE(results[2].empty());
  EXPECT_EQ(FromBytes<float>(results[3]), (F32{3, 4, 5, 6}));
}

TEST(EmptyValues, NoUpdatesLeaveATensorAsItIs) {
  TypedGraph g;
  const ValueId x = g.Input(kFloat, {3}), indices = g.Input(DataType::kInt64, {0, 1}),
                updates = g.Input(kFloat, {0});
  g.Output(g.Op("ScatterND", {x, indices, updates}, kFloat, {3}));
  EXPECT_EQ(FromBytes<float>(g.Run({ToBytes(F32{1, 2, 3}), Bytes(), Bytes()})[0]), (F32{1, 2, 3}));
}

TEST(EmptyValues, PaddingOfNothingIsAllPadding) {
  TypedGraph g;
  const ValueId x = g.Input(kFloat, {0, 1});
  g.Output(
      g.Op("Pad", {x}, kFloat, {2, 2}, {{"pads", I64{1, 0, 1, 1}}, {"value", testing::Number(7)}}));
  EXPECT_EQ(FromBytes<float>(g.Run({Bytes()})[0]), (F32{7, 7, 7, 7}));
}

TEST(EmptyValues, AModelMayComputeThem) {
  ModelBuilder model;
  model.Input("x", {2, 3}).Output("y").Output("sum").Output("joined").Output("found");
  model.Ints("from", {3}).Ints("to", {9}).Ints("axis", {1});
  model.Add("Slice", {"x", "from", "to", "axis"}, {"y"});
  model.Add("ReduceSum", {"y", "axis"}, {"sum"});
  model.Add("Concat", {"y", "sum"}, {"joined"}).Int("axis", 1);
  model.Add("NonZero", {"y"}, {"found"});
  const auto results = RunModel(model, {ToBytes(F32{1, 2, 3, 4, 5, 6})});
  EXPECT_TRUE(results[0].empty());
  EXPECT_EQ(FromBytes<float>(results[1]), (F32{0, 0}));
  EXPECT_EQ(FromBytes<float>(results[2]), (F32{0, 0}));
  EXPECT_TRUE(results[3].empty());
}

// The number of elements of a scalar: the product of no sizes.
TEST(EmptyValues, ReductionsOfEmptyConstantsAreEvaluated) {
  ModelBuilder model;
  model.Input("x", {2, 3}).Output("y");
  model.Add("ReduceSum", {"x"}, {"all"}).Int("keepdims", 0);
  model.Add("Shape", {"all"}, {"shape"});
  model.Add("ReduceProd", {"shape"}, {"count"}).Int("keepdims", 1);
  model.Add("Reshape", {"all", "count"}, {"y"});
  EXPECT_EQ(FromBytes<float>(RunModel(model, {ToBytes(F32{1, 2, 3, 4, 5, 6})})[0]), F32{21});
}

TEST(EmptyValues, WhatHasNoResultIsRefused) {
  TypedGraph g;
  const ValueId x = g.Input(kFloat, {1, 2, 0, 0});
  g.Output(g.Op("GlobalAveragePool", {x}, kFloat, {1, 2, 1, 1}));
  const auto device = testing::MakeDevice(1);
  CompileOptions options;
  options.model = "test";
  const auto loaded = CompileGraph(g.graph(), *device, options);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_NE(loaded.error().message.find("has shape [1,2,0,0]"), std::string::npos)
      << loaded.error().message;
}

}  // namespace
}  // namespace lagoon
