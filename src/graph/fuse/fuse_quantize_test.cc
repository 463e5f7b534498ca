// Fusion of quantised graphs. tests/contrib_test.py compares their results with ONNX Runtime.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/testing/fused_model.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using testing::Fused;
using testing::ModelBuilder;
using testing::Ops;
using testing::RawTensor;

ModelBuilder& Byte(ModelBuilder& m, const std::string& name, std::uint8_t value) {
  *m.graph().add_initializer() =
      RawTensor<std::uint8_t>(name, onnx::TensorProto::UINT8, {}, {value});
  return m;
}

/// y = x, rounded to 8 bits with the scale `scale` and zero point 0.
void AddPair(ModelBuilder& m, const std::string& x, const std::string& y,
             const std::string& scale = "s") {
  m.Add("QuantizeLinear", {x, scale}, {y + "_q"});
  m.Add("DequantizeLinear", {y + "_q", scale}, {y});
}

Graph Loaded(const ModelBuilder& model) {
  Result<Graph> graph = model.Load();
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph ? *std::move(graph) : Graph{};
}

TEST(FuseQuantization, APairGoesBehindAConvolution) {
  ModelBuilder m;
  m.Input("x", {1, 2, 5, 5}).Output("y").Floats("s", {}, {0.03f});
  testing::AddConv(m, "x", "c", 2, 4);
  AddPair(m, "c", "y");
  const Graph graph = Fused(m);
  ASSERT_EQ(Ops(graph), "Conv");
  EXPECT_EQ(graph.nodes[0].fused.op, "FakeQuantize");
  EXPECT_FLOAT_EQ(std::get<float>(graph.nodes[0].fused.attributes.at("scale")), 0.03f);
  EXPECT_EQ(std::get<float>(graph.nodes[0].fused.attributes.at("low")), 0);
}

TEST(FuseQuantization, TheZeroPointShiftsTheRange) {
  ModelBuilder m;
  m.Input("x", {4}).Output("y").Floats("s", {}, {0.5f});
  Byte(m, "z", 7);
  m.Add("QuantizeLinear", {"x", "s", "z"}, {"q"});
  m.Add("DequantizeLinear", {"q", "s", "z"}, {"y"});
  const Graph graph = Loaded(m);
  ASSERT_EQ(Ops(graph), "FakeQuantize");
  EXPECT_EQ(graph.nodes[0].Float("low", 0), -7);
}

TEST(FuseQuantization, OtherParametersStay) {
  ModelBuilder m;
  m.Input("x", {4}).Output("y").Floats("s", {}, {0.5f}).Floats("t", {}, {0.25f});
  m.Add("QuantizeLinear", {"x", "s"}, {"q"});
  m.Add("DequantizeLinear", {"q", "t"}, {"y"});
  EXPECT_EQ(Ops(Fused(m)), "QuantizeLinear DequantizeLinear");
}

TEST(FuseQuantization, IntegersThatAreReadStay) {
  ModelBuilder m;
  m.Input("x", {4}).Output("y").Output("y_q").Floats("s", {}, {0.5f});
  AddPair(m, "x", "y");
  EXPECT_EQ(Ops(Fused(m)), "QuantizeLinear FakeQuantize");
}

TEST(FuseQuantization, ASecondPairOfTheSameParametersIsDropped) {
  ModelBuilder m;
  m.Input("x", {2, 6}).Output("y").Floats("s", {}, {0.05f}).Ints("shape", {3, 4});
  AddPair(m, "x", "a");
  m.Add("Reshape", {"a", "shape"}, {"b"});
  m.Add("Relu", {"b"}, {"c"});
  AddPair(m, "c", "d");
  m.Add("Tanh", {"d"}, {"y"});
  EXPECT_EQ(Ops(Fused(m)), "FakeQuantize Reshape Tanh");
}

TEST(FuseQuantization, LimitsThatTheRoundingImpliesAreDropped) {
  ModelBuilder m;
  m.Input("x", {1, 2, 5, 5}).Output("y").Floats("s", {}, {0.03f});
  testing::AddConv(m, "x", "c", 2, 4);
  m.Add("Relu", {"c"}, {"r"});
  AddPair(m, "r", "y");
  EXPECT_EQ(Ops(Fused(m)), "Conv");
}

TEST(FuseQuantization, MovesUpThroughAReshapeToTheNodeThatAppliesIt) {
  ModelBuilder m;
  m.Input("x", {2, 6}).Weights("w", {6, 8}).Output("y").Floats("s", {}, {0.05f});
  m.Ints("shape", {4, 4});
  m.Add("MatMul", {"x", "w"}, {"p"});
  m.Add("Reshape", {"p", "shape"}, {"r"});
  AddPair(m, "r", "y");
  const Graph graph = Fused(m);
  ASSERT_EQ(Ops(graph), "MatMul Reshape");
  EXPECT_EQ(graph.value(graph.nodes[0].outputs[0]).dims, (Dims{2, 8}));
}

TEST(FuseQuantization, IntegersAreMovedAsFloats) {
  ModelBuilder m;
  m.Input("x", {1, 2, 6, 6}).Output("y").Output("z").Floats("s", {}, {0.05f});
  m.Ints("shape", {2, 25});
  Byte(m, "zero", 9);
  m.Add("QuantizeLinear", {"x", "s", "zero"}, {"q"});
  m.Add("MaxPool", {"q"}, {"p"}).Ints("kernel_shape", {2, 2});
  m.Add("Reshape", {"p", "shape"}, {"r"});
  m.Add("DequantizeLinear", {"r", "s", "zero"}, {"a"});
  m.Add("DequantizeLinear", {"r", "s", "zero"}, {"b"});
  m.Add("Tanh", {"a"}, {"y"});
  m.Add("Neg", {"b"}, {"z"});
  const Graph graph = Loaded(m);
  ASSERT_EQ(Ops(graph), "FakeQuantize MaxPool Reshape Tanh Neg");
  EXPECT_EQ(graph.value(graph.nodes[1].outputs[0]).type, DataType::kFloat32);
  EXPECT_EQ(graph.value(graph.nodes[1].outputs[0]).dims, (Dims{1, 2, 5, 5}));
  EXPECT_EQ(graph.value(graph.nodes[2].outputs[0]).dims, (Dims{2, 25}));
}

// A table of `rows` rows of 1,024 bytes, with the dims `parameter` of its scale and zero point.
ModelBuilder WithTable(std::int64_t rows, const Dims& parameter) {
  ModelBuilder m;
  m.Input("i", {2, 3}, onnx::TensorProto::INT64).Output("y");
  const auto count = static_cast<std::size_t>(ElementCount(parameter));
  m.Floats("s", parameter, std::vector<float>(count, 0.5F));
  std::vector<std::uint8_t> levels(static_cast<std::size_t>(rows) * 1024);
  for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = static_cast<std::uint8_t>(i % 251);
  *m.graph().add_initializer() =
      RawTensor<std::uint8_t>("t", onnx::TensorProto::UINT8, {rows, 1024}, levels);
  *m.graph().add_initializer() = RawTensor<std::uint8_t>("z", onnx::TensorProto::UINT8, parameter,
                                                         std::vector<std::uint8_t>(count, 7));
  m.Add("DequantizeLinear", {"t", "s", "z"}, {"f"}).Int("axis", 0);
  m.Add("Gather", {"f", "i"}, {"y"}).Int("axis", 0);
  return m;
}

TEST(FuseQuantization, RowsOfALargeTableAreTakenAsBytes) {
  for (const Dims& parameter : {Dims{}, Dims{1}}) {
    const Graph graph = Loaded(WithTable(64, parameter));
    ASSERT_EQ(Ops(graph), "Gather DequantizeLinear");
    EXPECT_EQ(graph.value(graph.nodes[0].inputs[0]).type, DataType::kUInt8);
    EXPECT_EQ(graph.value(graph.nodes[0].outputs[0]).dims, (Dims{2, 3, 1024}));
    EXPECT_EQ(graph.value(graph.nodes[1].outputs[0]).type, DataType::kFloat32);
  }
}

TEST(FuseQuantization, SmallTablesAndThoseWithAScaleForEachRowAreFloats) {
  EXPECT_EQ(Ops(Loaded(WithTable(63, {}))), "Gather");
  EXPECT_EQ(Ops(Loaded(WithTable(64, {64}))), "Gather");
}

TEST(FuseQuantization, RoundsThePartsOfAConcat) {
  ModelBuilder m;
  m.Input("x", {1, 2, 5, 5}).Input("z", {1, 3, 5, 5}).Output("y").Floats("s", {}, {0.05f});
  m.Add("Tanh", {"x"}, {"a"});
  m.Add("Tanh", {"z"}, {"b"});
  m.Add("Concat", {"a", "b"}, {"c"}).Int("axis", 1);
  AddPair(m, "c", "d");
  m.Add("Tanh", {"d"}, {"y"});
  const Graph graph = Fused(m);
  EXPECT_EQ(Ops(graph), "Tanh Tanh FakeQuantize FakeQuantize Concat Tanh");
}

TEST(FuseQuantization, AConcatThatIsReadAsItIsStays) {
  ModelBuilder m;
  m.Input("x", {1, 2, 5, 5}).Output("y").Output("c").Floats("s", {}, {0.05f});
  m.Add("Tanh", {"x"}, {"a"});
  m.Add("Concat", {"a", "x"}, {"c"}).Int("axis", 1);
  AddPair(m, "c", "d");
  m.Add("Tanh", {"d"}, {"y"});
  EXPECT_EQ(Ops(Fused(m)), "Tanh Concat FakeQuantize Tanh");
}

TEST(FuseQuantization, MovedIntegersThatAreReadStay) {
  ModelBuilder m;
  m.Input("x", {1, 2, 6, 6}).Output("y").Output("p").Floats("s", {}, {0.05f});
  m.Add("QuantizeLinear", {"x", "s"}, {"q"});
  m.Add("MaxPool", {"q"}, {"p"}).Ints("kernel_shape", {2, 2});
  m.Add("DequantizeLinear", {"p", "s"}, {"y"});
  EXPECT_EQ(Ops(Loaded(m)), "QuantizeLinear MaxPool DequantizeLinear");
}

TEST(FuseQuantization, IntegersOfAnotherGridAreMovedAsIntegers) {
  ModelBuilder m;
  m.Input("x", {1, 2, 6, 6}).Output("y").Floats("s", {}, {0.05f}).Floats("t", {}, {0.1f});
  m.Add("QuantizeLinear", {"x", "s"}, {"q"});
  m.Add("MaxPool", {"q"}, {"p"}).Ints("kernel_shape", {2, 2});
  m.Add("DequantizeLinear", {"p", "t"}, {"y"});
  EXPECT_EQ(Ops(Loaded(m)), "QuantizeLinear MaxPool DequantizeLinear");
}

TEST(FuseQuantization, GoesBehindASum) {
  ModelBuilder m;
  m.Input("x", {2, 6}).Input("z", {2, 6}).Output("y").Floats("s", {}, {0.05f});
  m.Add("Add", {"x", "z"}, {"a"});
  AddPair(m, "a", "y");
  EXPECT_EQ(Ops(Fused(m)), "Add");
}

/// y = relu((x * w) * scales + bias), with x quantised at run time.
ModelBuilder DynamicProduct() {
  ModelBuilder m;
  m.Input("x", {2, 6}).Output("y").Weights("b", {3}).Floats("ws", {3}, {0.1f, 0.2f, 0.3f});
  *m.graph().add_initializer() =
      RawTensor<std::int8_t>("w", onnx::TensorProto::INT8, {6, 3}, std::vector<std::int8_t>(18, 3));
  m.Add("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
  m.Add("MatMulInteger", {"q", "w", "z"}, {"sum"});
  m.Add("Cast", {"sum"}, {"f"}).Int("to", onnx::TensorProto::FLOAT);
  m.Add("Mul", {"s", "ws"}, {"scale"});
  m.Add("Mul", {"f", "scale"}, {"p"});
  m.Add("Add", {"p", "b"}, {"t"});
  m.Add("Relu", {"t"}, {"y"});
  return m;
}

TEST(FuseIntegerProducts, TakesScalesBiasAndActivation) {
  const Graph graph = Loaded(DynamicProduct());
  ASSERT_EQ(Ops(graph), "DynamicQuantizeLinear IntegerLinear");
  const Node& node = graph.nodes[1];
  EXPECT_EQ(graph.value(node.inputs[4]).name, "ws");
  EXPECT_EQ(node.inputs[6], kNoValue);
  EXPECT_EQ(node.fused.activation, ActivationKind::kRelu);
}

TEST(FuseIntegerProducts, SumsThatAreReadStay) {
  ModelBuilder m = DynamicProduct();
  m.Output("sum");
  EXPECT_THAT(Ops(Loaded(m)), ::testing::HasSubstr("MatMulInteger Cast"));
}

/// y = relu(conv(x, w) * scales + bias), x quantised at run time. `scales`: dims of those of w.
ModelBuilder DynamicConv(const std::vector<std::int64_t>& scales) {
  ModelBuilder m;
  m.Input("x", {1, 2, 5, 5}).Output("y").Weights("b", {3, 1, 1});
  std::vector<float> numbers(static_cast<std::size_t>(ElementCount(scales)), 0.1F);
  numbers.back() = 0.5F;
  m.Floats("ws", scales, numbers);
  Byte(m, "wz", 128);
  std::vector<std::uint8_t> w(54, 130);
  w.back() = 120;
  *m.graph().add_initializer() =
      RawTensor<std::uint8_t>("w", onnx::TensorProto::UINT8, {3, 2, 3, 3}, w);
  m.Add("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
  m.Add("ConvInteger", {"q", "w", "z", "wz"}, {"sum"}).Ints("pads", {1, 1, 1, 1});
  m.Add("Cast", {"sum"}, {"f"}).Int("to", onnx::TensorProto::FLOAT);
  m.Add("Mul", {"s", "ws"}, {"scale"});
  m.Add("Mul", {"f", "scale"}, {"p"});
  m.Add("Add", {"p", "b"}, {"t"});
  m.Add("Relu", {"t"}, {"y"});
  return m;
}

TEST(FuseIntegerProducts, ConvolutionsAreOfFloats) {
  for (const std::vector<std::int64_t>& scales :
       std::vector<std::vector<std::int64_t>>{{}, {1}, {3, 1, 1}, {1, 3, 1, 1}}) {
    const Graph graph = Loaded(DynamicConv(scales));
    ASSERT_EQ(Ops(graph), "DynamicQuantizeLinear DequantizeLinear Conv");
    const Node &dequantize = graph.nodes[1], &conv = graph.nodes[2];
    EXPECT_EQ(graph.value(dequantize.inputs[1]).name, "s");
    EXPECT_EQ(graph.value(dequantize.inputs[2]).name, "z");
    EXPECT_EQ(graph.value(conv.inputs[0]).dims, (Dims{1, 2, 5, 5}));
    EXPECT_THAT(conv.Ints("pads", {}), ::testing::ElementsAre(1, 1, 1, 1));
    EXPECT_EQ(conv.fused.activation, ActivationKind::kRelu);
    const std::span<const float> w = graph.value(conv.inputs[1]).constant->floats();
    EXPECT_FLOAT_EQ(w[0], scales.size() < 2 ? 1.0F : 0.2F);
    EXPECT_FLOAT_EQ(w[53], -4.0F);
  }
}

TEST(FuseIntegerProducts, ConvolutionsOfIntegersThatAreReadStay) {
  ModelBuilder m = DynamicConv({});
  m.Output("sum");
  EXPECT_THAT(Ops(Loaded(m)), ::testing::HasSubstr("ConvInteger Cast"));
}

/// One factor for each column is none for the channels.
TEST(FuseIntegerProducts, ConvolutionsWithAFactorOfAnotherAxisStay) {
  for (const std::vector<std::int64_t>& scales :
       std::vector<std::vector<std::int64_t>>{{5}, {5, 1}, {1, 1, 5}}) {
    EXPECT_THAT(Ops(Loaded(DynamicConv(scales))), ::testing::HasSubstr("ConvInteger Cast"));
  }
}

/// A cache of `old` entries, rounded, with new ones: "present", rounded.
ModelBuilder Cache(std::int64_t old, const std::string& grid_of_new = "s") {
  ModelBuilder m;
  m.Input("past", {1, 2, old, 8}).Input("new", {1, 2, 3, 8}).Output("present");
  m.Floats("s", {}, {0.05f}).Floats("t", {}, {0.03f});
  AddPair(m, "past", "p");
  AddPair(m, "new", "n", grid_of_new);
  m.Add("Concat", {"p", "n"}, {"j"}).Int("axis", 2);
  AddPair(m, "j", "present");
  return m;
}

TEST(FuseQuantization, ACacheIsRoundedWhileItsPartsAreJoined) {
  const Graph graph = Fused(Cache(9));
  ASSERT_EQ(Ops(graph), "Concat");
  EXPECT_EQ(graph.nodes[0].fused.op, "FakeQuantize");
  EXPECT_EQ(graph.nodes[0].inputs, graph.inputs);
  const Graph other = Fused(Cache(9, "t"));
  ASSERT_EQ(Ops(other), "FakeQuantize Concat") << "what is rounded to another grid before";
  EXPECT_FLOAT_EQ(other.nodes[0].Float("scale", 0), 0.03f);
}

TEST(FuseQuantization, WhatIsMostlyComputedIsNoCache) {
  ModelBuilder m = Cache(2);
  EXPECT_EQ(Fused(m).nodes.back().fused.op, "FakeQuantize") << "the new ones are an input, too";
  ModelBuilder computed;
  computed.Input("past", {1, 2, 2, 8}).Input("x", {1, 2, 3, 8}).Output("present");
  computed.Floats("s", {}, {0.05f});
  computed.Add("Tanh", {"x"}, {"n"});
  computed.Add("Concat", {"past", "n"}, {"j"}).Int("axis", 2);
  AddPair(computed, "j", "present");
  EXPECT_EQ(Fused(computed).nodes.back().fused.op, "");
}

TEST(DivideQuantizedOps, ConvolutionsNeedNoIntegersBetweenThem) {
  ModelBuilder m;
  m.Input("x", {1, 2, 5, 5}, onnx::TensorProto::UINT8).Output("y");
  m.Floats("s", {}, {0.5f}).Floats("ws", {2}, {0.1f, 0.2f});
  Byte(Byte(m, "z", 7), "wz", 128);
  *m.graph().add_initializer() = RawTensor<std::uint8_t>(
      "w", onnx::TensorProto::UINT8, {2, 2, 1, 1}, std::vector<std::uint8_t>{1, 2, 3, 200});
  m.Add("QLinearConv", {"x", "s", "z", "w", "ws", "wz", "s", "z"}, {"c"});
  m.Add("QLinearConv", {"c", "s", "z", "w", "ws", "wz", "s", "z"}, {"y"});
  const Graph graph = Loaded(m);
  ASSERT_EQ(Ops(graph), "DequantizeLinear Conv Conv QuantizeLinear");
  EXPECT_EQ(graph.nodes[1].fused.op, "FakeQuantize");
  // Output channel 1: (3 - 128) * 0.2 and (200 - 128) * 0.2.
  EXPECT_FLOAT_EQ(graph.value(graph.nodes[1].inputs[1]).constant->floats()[2], -25.0f);
}

}  // namespace
}  // namespace lagoon
