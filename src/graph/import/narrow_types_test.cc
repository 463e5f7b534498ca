#include "graph/import/narrow_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "graph/testing/model_builder.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::RawTensor;

constexpr int kFloat8E4M3Fn = 17, kFloat8E4M3FnUz = 18, kFloat8E5M2 = 19, kFloat8E5M2FnUz = 20;
constexpr int kUInt4 = 21, kInt4 = 22, kFloat4E2M1 = 23;
constexpr int kFloat8E8M0 = 24, kUInt2 = 25, kInt2 = 26;

float Decoded(int onnx, std::uint8_t bits) {
  const std::optional<NarrowType> type = FindNarrowType(onnx);
  Float16 half{};
  Widen(*type, std::as_bytes(std::span(&bits, 1)), std::as_writable_bytes(std::span(&half, 1)));
  return static_cast<float>(half);
}

TEST(NarrowTypes, SmallFloatsHaveTheValuesOfTheirStandard) {
  EXPECT_EQ(Decoded(kFloat8E4M3Fn, 0x38), 1.0f);
  EXPECT_EQ(Decoded(kFloat8E4M3Fn, 0xc4), -3.0f);
  EXPECT_EQ(Decoded(kFloat8E4M3Fn, 0x7e), 448.0f);   // the largest
  EXPECT_EQ(Decoded(kFloat8E4M3Fn, 0x01), 0x1p-9f);  // the smallest
  EXPECT_TRUE(std::isnan(Decoded(kFloat8E4M3Fn, 0x7f)));
  EXPECT_EQ(Decoded(kFloat8E4M3FnUz, 0x7f), 240.0f);
  EXPECT_EQ(Decoded(kFloat8E4M3FnUz, 0x01), 0x1p-10f);
  EXPECT_TRUE(std::isnan(Decoded(kFloat8E4M3FnUz, 0x80)));
  EXPECT_EQ(Decoded(kFloat8E5M2, 0x7b), 57344.0f);
  EXPECT_EQ(Decoded(kFloat8E5M2, 0x01), 0x1p-16f);
  EXPECT_TRUE(std::isinf(Decoded(kFloat8E5M2, 0xfc)));
  EXPECT_TRUE(std::isnan(Decoded(kFloat8E5M2, 0x7d)));
  EXPECT_EQ(Decoded(kFloat8E5M2FnUz, 0x7f), 57344.0f);
  EXPECT_EQ(Decoded(kFloat8E5M2FnUz, 0x01), 0x1p-17f);
  EXPECT_TRUE(std::isnan(Decoded(kFloat8E5M2FnUz, 0x80)));
}

TEST(NarrowTypes, FloatsOfFourBitsAreEightNumbersAndTheirNegatives) {
  const float expected[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (std::uint8_t bits = 0; bits < 8; ++bits) {
    EXPECT_EQ(Decoded(kFloat4E2M1, bits), expected[bits]);
    EXPECT_EQ(Decoded(kFloat4E2M1, bits | 8), -expected[bits]);
  }
}

TEST(NarrowTypes, PowersOfTwoReachFromOneEndOfFloatsToTheOther) {
  const std::optional<NarrowType> type = FindNarrowType(kFloat8E8M0);
  const std::uint8_t bits[] = {127, 0, 254, 120, 255};
  float values[5] = {};
  Widen(*type, std::as_bytes(std::span(bits)), std::as_writable_bytes(std::span(values)));
  EXPECT_THAT(std::span(values, 4), ElementsAre(1.0f, 0x1p-127f, 0x1p127f, 0x1p-7f));
  EXPECT_TRUE(std::isnan(values[4]));
}

// y = DequantizeLinear of `count` elements in `packed`.
ModelBuilder Weights(int type, std::int64_t count, const std::vector<std::uint8_t>& packed) {
  ModelBuilder model(21);
  *model.graph().add_initializer() = RawTensor<std::uint8_t>("q", type, {count}, packed);
  model.Floats("s", {}, {0.5f}).Input("x", {count}).Output("y");
  model.Add("DequantizeLinear", {"q", "s"}, {"w"});
  model.Add("Add", {"x", "w"}, {"y"});
  return model;
}

std::vector<float> Dequantised(const ModelBuilder& model) {
  const Result<Graph> graph = model.Load();
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  if (!graph || graph->nodes.size() != 1) return {};
  const std::span<const float> floats = graph->value(graph->nodes[0].inputs[1]).constant->floats();
  return {floats.begin(), floats.end()};
}

TEST(NarrowTypes, AreStorageOfWeights) {
  EXPECT_THAT(Dequantised(Weights(kInt4, 3, {0x8f, 0x07})), ElementsAre(-0.5f, -4.0f, 3.5f));
  EXPECT_THAT(Dequantised(Weights(kUInt4, 3, {0x8f, 0x07})), ElementsAre(7.5f, 4.0f, 3.5f));
  EXPECT_THAT(Dequantised(Weights(kFloat8E4M3Fn, 2, {0x38, 0xc4})), ElementsAre(0.5f, -1.5f));
  EXPECT_THAT(Dequantised(Weights(kFloat4E2M1, 2, {0xf7})), ElementsAre(3.0f, -3.0f));
  EXPECT_THAT(Dequantised(Weights(kUInt2, 5, {0xe4, 0x02})),
              ElementsAre(0.0f, 0.5f, 1.0f, 1.5f, 1.0f));
  EXPECT_THAT(Dequantised(Weights(kInt2, 5, {0xe4, 0x02})),
              ElementsAre(0.0f, 0.5f, -1.0f, -0.5f, -1.0f));
}

TEST(NarrowTypes, AreReadFromTheTypedFieldToo) {
  ModelBuilder model = Weights(kInt4, 3, {});
  onnx::TensorProto& tensor = *model.graph().mutable_initializer(0);
  tensor.clear_raw_data();
  tensor.add_int32_data(0x8f);
  tensor.add_int32_data(0x07);
  EXPECT_THAT(Dequantised(model), ElementsAre(-0.5f, -4.0f, 3.5f));
}

TEST(NarrowTypes, MustHaveTheBytesOfTheirShape) {
  EXPECT_THAT(MessageOf(Weights(kInt4, 3, {1}).Import(), ErrorCode::kInvalidArgument),
              HasSubstr("raw_data has 1 bytes, the shape needs 2"));
  EXPECT_THAT(MessageOf(Weights(kFloat8E5M2, 3, {1}).Import(), ErrorCode::kInvalidArgument),
              HasSubstr("raw_data has 1 bytes, the shape needs 3"));
}

TEST(NarrowTypes, AreNotComputedAtRunTime) {
  ModelBuilder model(21);
  model.Input("x", {4}).Output("y").Floats("s", {}, {0.5f});
  *model.graph().add_initializer() = RawTensor<std::uint8_t>("z", kInt4, {}, {0});
  model.Add("QuantizeLinear", {"x", "s", "z"}, {"q"});
  model.Add("DequantizeLinear", {"q", "s", "z"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented),
              HasSubstr("quantises to ONNX element type 22"));

  ModelBuilder input(21);
  input.Input("x", {4}, kInt4).Output("y").Add("Identity", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(input.Import(), ErrorCode::kUnimplemented),
              HasSubstr("ONNX element type 22"));
}

TEST(Dequantise, TakesAScalePerBlock) {
  ModelBuilder model(21);
  *model.graph().add_initializer() =
      RawTensor<std::int8_t>("q", onnx::TensorProto::INT8, {3, 2}, {1, 2, 3, 4, 5, 6});
  *model.graph().add_initializer() =
      RawTensor<std::int8_t>("z", onnx::TensorProto::INT8, {2, 2}, {1, 0, 0, 0});
  model.Floats("s", {2, 2}, {1, 10, 100, 1000}).Input("x", {3, 2}).Output("y");
  model.Add("DequantizeLinear", {"q", "s", "z"}, {"w"}).Int("axis", 0).Int("block_size", 2);
  model.Add("Add", {"x", "w"}, {"y"});
  EXPECT_THAT(Dequantised(model), ElementsAre(0, 20, 2, 40, 500, 6000));
}

TEST(Dequantise, TakesAScalePerIndexOfAnAxisAndInt32) {
  ModelBuilder model(13);
  *model.graph().add_initializer() =
      RawTensor<std::int32_t>("q", onnx::TensorProto::INT32, {2, 2}, {1, 2, 3, 16777217});
  model.Floats("s", {2}, {1, 2}).Input("x", {2, 2}).Output("y");
  model.Add("DequantizeLinear", {"q", "s"}, {"w"}).Int("axis", 1);
  model.Add("Add", {"x", "w"}, {"y"});
  EXPECT_THAT(Dequantised(model), ElementsAre(1, 4, 3, 33554432.0f));
}

TEST(Dequantise, UndoesTheQuantisationOfAConstant) {
  ModelBuilder model(13);
  model.Floats("f", {4}, {0.24f, 0.26f, -100, 0.75f}).Floats("s", {}, {0.5f});
  *model.graph().add_initializer() = RawTensor<std::int8_t>("z", onnx::TensorProto::INT8, {}, {1});
  model.Input("x", {4}).Output("y");
  model.Add("QuantizeLinear", {"f", "s", "z"}, {"q"});
  model.Add("DequantizeLinear", {"q", "s", "z"}, {"w"});
  model.Add("Add", {"x", "w"}, {"y"});
  EXPECT_THAT(Dequantised(model), ElementsAre(0, 0.5f, -64.5f, 1));
}

}  // namespace
}  // namespace lagoon
