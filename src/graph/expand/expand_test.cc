#include "graph/expand/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/testing/model_builder.h"
#include "graph/testing/same_graph.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using testing::ExpectSameGraph;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::NodeRef;
using testing::Ops;

NodeRef AddMicrosoft(ModelBuilder& model, const std::string& op,
                     const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) {
  NodeRef node = model.Add(op, inputs, outputs);
  node.proto().set_domain(std::string(kMicrosoft));
  return node.Name("n");
}

// x of shape `dims`, the vectors g, b, c of 8 numbers and the matrix w [8,8].
ModelBuilder Model(const Dims& dims = {2, 4, 8}, std::int64_t opset = 20) {
  ModelBuilder model(opset);
  model.Input("x", dims).Output("y");
  for (const char* const name : {"g", "b", "c"}) model.Weights(name, {8});
  model.Weights("w", {8, 8});
  return model;
}

Graph MustLoad(const ModelBuilder& model) {
  Result<Graph> graph = model.Load();
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph ? *std::move(graph) : Graph{};
}

std::string Refusal(const ModelBuilder& model) {
  return MessageOf(model.Import(), ErrorCode::kUnimplemented);
}

TEST(Expand, FusedConvIsAConvolutionAndItsActivation) {
  ModelBuilder fused, plain;
  for (ModelBuilder* const model : {&fused, &plain}) {
    model->Input("x", {1, 3, 8, 8}).Output("y").Weights("w", {4, 3, 3, 3}).Weights("b", {4});
  }
  AddMicrosoft(fused, "FusedConv", {"x", "w", "b"}, {"y"})
      .Text("activation", "LeakyRelu")
      .Floats("activation_params", {0.25f})
      .Ints("strides", {2, 2});
  plain.Add("Conv", {"x", "w", "b"}, {"a"}).Ints("strides", {2, 2});
  plain.Add("LeakyRelu", {"a"}, {"y"}).Float("alpha", 0.25f);
  ExpectSameGraph(fused, plain);
  EXPECT_EQ(Ops(MustLoad(fused)), "Conv");  // the activation is fused into the convolution
}

TEST(Expand, FusedConvAddsItsFourthInputBeforeTheActivation) {
  ModelBuilder fused, plain;
  for (ModelBuilder* const model : {&fused, &plain}) {
    model->Input("x", {1, 3, 8, 8}).Input("z", {1, 4, 6, 6}).Output("y");
    model->Weights("w", {4, 3, 3, 3}).Weights("b", {4});
  }
  AddMicrosoft(fused, "FusedConv", {"x", "w", "b", "z"}, {"y"}).Text("activation", "Relu");
  plain.Add("Conv", {"x", "w", "b"}, {"a"});
  plain.Add("Add", {"a", "z"}, {"s"});
  plain.Add("Relu", {"s"}, {"y"});
  ExpectSameGraph(fused, plain);
}

TEST(Expand, FusedMatMulTransposesAndScales) {
  ModelBuilder fused = Model(), plain = Model();
  AddMicrosoft(fused, "FusedMatMul", {"x", "w"}, {"y"}).Int("transB", 1).Float("alpha", 0.5f);
  plain.Floats("half", {}, {0.5f});
  plain.Add("Transpose", {"w"}, {"t"}).Ints("perm", {1, 0});
  plain.Add("MatMul", {"x", "t"}, {"p"});
  plain.Add("Mul", {"p", "half"}, {"y"});
  ExpectSameGraph(fused, plain);
}

TEST(Expand, BiasGeluFusesIntoTheMatrixBeforeIt) {
  ModelBuilder model = Model();
  model.Add("MatMul", {"x", "w"}, {"p"});
  AddMicrosoft(model, "BiasGelu", {"p", "b"}, {"y"});
  EXPECT_EQ(Ops(MustLoad(model)), "MatMul");
}

TEST(Expand, SkipLayerNormalizationGivesTheSumToo) {
  ModelBuilder fused = Model(), plain = Model();
  for (ModelBuilder* const model : {&fused, &plain}) model->Input("s", {2, 4, 8}).Output("sum");
  AddMicrosoft(fused, "SkipLayerNormalization", {"x", "s", "g", "b", "c"}, {"y", "", "", "sum"})
      .Float("epsilon", 1e-3f);
  plain.Add("Add", {"x", "s"}, {"a"});
  plain.Add("Add", {"a", "c"}, {"sum"});
  plain.Add("LayerNormalization", {"sum", "g", "b"}, {"y"}).Float("epsilon", 1e-3f);
  ExpectSameGraph(fused, plain);
}

TEST(Expand, RootMeanSquareNormsOfAllSpellingsAreOneKernel) {
  ModelBuilder onnx = Model({2, 4, 8}, 23);
  onnx.Add("RMSNormalization", {"x", "g"}, {"y"});
  EXPECT_EQ(Ops(MustLoad(onnx)), "RMSNormalization");
  ModelBuilder simplified = Model({2, 4, 8}, 11);
  simplified.Add("SimplifiedLayerNormalization", {"x", "g"}, {"y"});
  ExpectSameGraph(simplified, onnx);
}

TEST(Expand, LayerNormalizationRunsInOpsetsBeforeItsOwn) {
  ModelBuilder model = Model({2, 4, 8}, 11);
  model.Add("LayerNormalization", {"x", "g", "b"}, {"y"});
  EXPECT_EQ(Ops(MustLoad(model)), "LayerNormalization");
}

TEST(Expand, AttentionBecomesTheAttentionKernel) {
  ModelBuilder model = Model({2, 4, 8}, 11);  // in which a Softmax runs over several axes
  model.Input("mask", {2, 4}, onnx::TensorProto::INT32);
  model.Weights("qkv", {8, 24}).Weights("bias", {24});
  AddMicrosoft(model, "Attention", {"x", "qkv", "bias", "mask"}, {"y"})
      .Int("num_heads", 2)
      .Int("unidirectional", 1);
  const std::string ops = Ops(MustLoad(model));
  EXPECT_THAT(ops, HasSubstr("Attention"));
  EXPECT_THAT(ops, Not(HasSubstr("Softmax")));
  EXPECT_THAT(ops, Not(HasSubstr("Transpose")));
}

TEST(Expand, AttentionOfOpset23BecomesTheAttentionKernel) {
  ModelBuilder model(23);
  model.Input("q", {1, 4, 3, 8}).Input("k", {1, 4, 5, 8}).Input("v", {1, 4, 5, 8}).Output("y");
  model.Add("Attention", {"q", "k", "v"}, {"y"});
  EXPECT_EQ(Ops(MustLoad(model)), "Attention");
}

// The op of ONNX Runtime lets its last query see all keys, also where there are more than queries.
TEST(Expand, TheLastQueryOfACausalAttentionKeepsAllKeys) {
  for (const std::int64_t queries : {3, 1}) {
    ModelBuilder model(20);
    model.Input("q", {1, queries, 8}).Input("k", {1, 5, 8}).Output("y");
    AddMicrosoft(model, "MultiHeadAttention", {"q", "k", "k"}, {"y"})
        .Int("num_heads", 1)
        .Int("unidirectional", 1);
    const Graph graph = MustLoad(model);
    std::vector<std::byte> kept;
    for (const Value& value : graph.values) {
      if (!value.constant || value.constant->type != DataType::kBool) continue;
      if (value.constant->dims == Dims{1, 1, queries, 5}) kept = *value.constant->bytes;
    }
    constexpr std::byte k0{0}, k1{1};
    const std::vector<std::byte> band = {k1, k0, k0, k0, k0, k1, k1, k0,
                                         k0, k0, k1, k1, k1, k1, k1};
    EXPECT_EQ(kept, queries == 1 ? std::vector<std::byte>() : band);
  }
}

TEST(Expand, OutputsKeepTheirNamesAlsoWhereTheyAreInputs) {
  ModelBuilder model(20);
  model.Input("k", {1, 2, 5, 8}).Input("q", {1, 3, 16}).Output("y").Output("present");
  AddMicrosoft(model, "MultiHeadAttention", {"q", "k", "k"}, {"y", "present"}).Int("num_heads", 2);
  const Graph graph = MustLoad(model);
  ASSERT_EQ(graph.outputs.size(), 2U);
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  EXPECT_EQ(graph.value(graph.outputs[1]).name, "present");
  EXPECT_EQ(graph.value(graph.outputs[1]).dims, (Dims{1, 2, 5, 8}));
}

TEST(Expand, QuantisedSumIsRoundedAsTheOutputSays) {
  ModelBuilder fused(20), plain(20);
  for (ModelBuilder* const model : {&fused, &plain}) {
    model->Input("x", {4}, onnx::TensorProto::UINT8).Output("y");
    model->Floats("s", {}, {0.5f}).Floats("t", {}, {0.25f});
    *model->graph().add_initializer() =
        testing::RawTensor<std::uint8_t>("z", onnx::TensorProto::UINT8, {}, {7});
  }
  AddMicrosoft(fused, "QLinearAdd", {"x", "s", "z", "x", "s", "z", "t", "z"}, {"y"});
  plain.Add("DequantizeLinear", {"x", "s", "z"}, {"a"});
  plain.Add("DequantizeLinear", {"x", "s", "z"}, {"b"});
  plain.Add("Add", {"a", "b"}, {"sum"});
  plain.Add("QuantizeLinear", {"sum", "t", "z"}, {"y"});
  ExpectSameGraph(fused, plain);
}

TEST(Expand, PackedWeightsBecomeAMatrix) {
  ModelBuilder packed(20), plain(20);
  for (ModelBuilder* const model : {&packed, &plain}) model->Input("x", {2, 16}).Output("y");
  // One column of 16 rows: 0, 1, 2, ... 15 in 4 bits each, minus 8, times 0.5.
  std::vector<std::uint8_t> bytes(8);
  std::vector<float> column(16);
  for (std::uint8_t row = 0; row < 16; ++row) {
    bytes[row / 2] = static_cast<std::uint8_t>(bytes[row / 2] | row << (row % 2 * 4));
    column[row] = (static_cast<float>(row) - 8.0f) * 0.5f;
  }
  *packed.graph().add_initializer() =
      testing::RawTensor<std::uint8_t>("b", onnx::TensorProto::UINT8, {1, 1, 8}, bytes);
  // Zero points that are floats have no kernel.
  packed.Floats("s", {1}, {0.5f}).Floats("z", {1}, {8});
  AddMicrosoft(packed, "MatMulNBits", {"x", "b", "s", "z"}, {"y"})
      .Int("K", 16)
      .Int("N", 1)
      .Int("bits", 4)
      .Int("block_size", 16);
  plain.Floats("w", {16, 1}, column).Add("MatMul", {"x", "w"}, {"y"});
  ExpectSameGraph(packed, plain);
}

/// x [3,48] times weights [48,2] in blocks of 16 with 4 bits; `more`: inputs behind the scales.
ModelBuilder BlocksModel(const std::vector<std::string>& more = {}, std::int64_t block = 16) {
  ModelBuilder model(20);
  model.Input("x", {3, 48}).Output("y");
  const std::int64_t blocks = (48 + block - 1) / block;
  const auto bytes = static_cast<std::size_t>(2 * blocks * block / 2);
  const auto u8 = onnx::TensorProto::UINT8;
  const std::vector<std::uint8_t> levels(bytes, 0x3a);
  *model.graph().add_initializer() = testing::RawTensor("b", u8, {2, blocks, block / 2}, levels);
  *model.graph().add_initializer() =
      testing::RawTensor("z", u8, {4}, std::vector<std::uint8_t>{1, 2, 3, 4});
  model.Weights("s", {2 * blocks}).Weights("bias", {2}).Weights("short", {1});
  std::vector<std::int64_t> rows(48);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i) / block;
  model.Ints("in_order", rows);
  model.Ints("few", std::vector<std::int64_t>(rows.begin(), rows.begin() + 47));
  std::ranges::reverse(rows);
  model.Ints("reversed", rows);
  std::vector<std::string> inputs{"x", "b", "s"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  AddMicrosoft(model, "MatMulNBits", inputs, {"y"})
      .Int("K", 48)
      .Int("N", 2)
      .Int("bits", 4)
      .Int("accuracy_level", 4)
      .Int("block_size", block);
  return model;
}

TEST(Expand, PackedWeightsKeepTheirBitsWhereAKernelTakesThem) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"z"}, {"", "in_order"}, {"z", "", "bias"}}) {
    const Graph graph = MustLoad(BlocksModel(more));
    ASSERT_EQ(Ops(graph), "MatMulNBits");
    EXPECT_EQ(graph.value(graph.outputs[0]).dims, (Dims{3, 2}));
    EXPECT_EQ(graph.nodes[0].Int("accuracy_level", 0), 4);
    EXPECT_EQ(graph.nodes[0].Int("half_scales", 1), 0);
  }
  EXPECT_EQ(Ops(MustLoad(BlocksModel({"", "reversed"}))), "MatMul");
  EXPECT_EQ(Ops(MustLoad(BlocksModel({}, 512))), "MatMul");
}

TEST(ExpandErrors, PackedWeightsNameWhatDoesNotFit) {
  const auto message = [](const ModelBuilder& model) {
    return MessageOf(model.Import(), ErrorCode::kInvalidArgument);
  };
  EXPECT_THAT(message(BlocksModel({"b"})), AllOf(HasSubstr("input 'b'"), HasSubstr("expected")));
  EXPECT_THAT(message(BlocksModel({"", "", "short"})), HasSubstr("the bias has shape [1], N is 2"));
  EXPECT_THAT(message(BlocksModel({"", "few"})), HasSubstr("g_idx has 47 numbers for 48 rows"));
  EXPECT_THAT(message(BlocksModel({}, 24)),
              AllOf(HasSubstr("block_size is 24"), HasSubstr("multiple of 16 from 16 to")));
  ModelBuilder narrow = BlocksModel();
  narrow.graph().mutable_node(0)->mutable_attribute(0)->set_i(47);
  EXPECT_THAT(message(narrow), HasSubstr("K is 47"));
  narrow.graph().mutable_node(0)->mutable_attribute(0)->set_i(0);
  EXPECT_THAT(message(narrow), HasSubstr("K is 0, N is 2; each must be 1 to 16777216"));
  ModelBuilder scales = BlocksModel();
  scales.graph().mutable_node(0)->set_input(2, "bias");
  EXPECT_THAT(message(scales), HasSubstr("input 'bias'"));
  ModelBuilder computed = BlocksModel();
  computed.Input("run_time", {6}).graph().mutable_node(0)->set_input(2, "run_time");
  EXPECT_THAT(Refusal(computed), HasSubstr("input 2 'run_time' must be constant"));
}

TEST(Expand, ConstantsAreComputedWhenTheModelIsLoaded) {
  ModelBuilder model = Model({8, 8});
  AddMicrosoft(model, "TransposeMatMul", {"x", "scaled"}, {"y"});
  AddMicrosoft(model, "DequantizeLinear", {"q", "s"}, {"scaled"});
  model.Floats("s", {}, {0.5f});
  *model.graph().add_initializer() = testing::RawTensor<std::uint8_t>(
      "q", onnx::TensorProto::UINT8, {8, 8}, std::vector<std::uint8_t>(64, 4));
  const Graph graph = MustLoad(model);
  ASSERT_EQ(Ops(graph), "MatMul");
  EXPECT_TRUE(graph.nodes[0].packed);
}

TEST(Expand, UpsampleOfOpset7HasItsScalesAsAnAttribute) {
  ModelBuilder old(7), plain(9);
  for (ModelBuilder* const model : {&old, &plain}) model->Input("x", {1, 2, 3, 3}).Output("y");
  old.Add("Upsample", {"x"}, {"y"}).Floats("scales", {1, 1, 2, 3}).Text("mode", "nearest");
  plain.Floats("scales", {4}, {1, 1, 2, 3});
  plain.Add("Upsample", {"x", "scales"}, {"y"}).Text("mode", "nearest");
  const Graph a = MustLoad(old), b = MustLoad(plain);
  ASSERT_EQ(Ops(a), "Resize");
  EXPECT_EQ(a.value(a.outputs[0]).dims, (Dims{1, 2, 6, 9}));
  for (const char* const name : {"scales", "roi"}) {
    EXPECT_EQ(std::get<std::vector<float>>(a.nodes[0].attributes.at(name)),
              std::get<std::vector<float>>(b.nodes[0].attributes.at(name)));
  }
  for (const char* const name : {"coordinate_transformation_mode", "nearest_mode", "mode"}) {
    EXPECT_EQ(a.nodes[0].String(name, ""), b.nodes[0].String(name, "-"));
  }
}

TEST(Expand, OpsWithOldFormsRunFromOpset7On) {
  ModelBuilder model(7);
  model.Input("x", {1, 8, 6, 6}).Output("y");
  for (const char* const name : {"g", "b", "m"}) model.Weights(name, {8});
  model.Floats("v", {8}, std::vector<float>(8, 1.0f));
  model.Add("BatchNormalization", {"x", "g", "b", "m", "v"}, {"n"}).Int("spatial", 1);
  model.Add("MaxPool", {"n"}, {"p"}).Ints("kernel_shape", {2, 2});
  model.Add("Sum", {"p", "p", "p"}, {"s"});
  model.Add("Max", {"s", "p"}, {"t"});
  model.Add("Mean", {"t", "p"}, {"y"});
  EXPECT_TRUE(model.Load().has_value());

  ModelBuilder spatial = model;
  spatial.graph().mutable_node(0)->mutable_attribute(0)->set_i(0);
  EXPECT_THAT(Refusal(spatial), HasSubstr("spatial = 0"));
}

TEST(ExpandErrors, NameDomainOpAndNode) {
  ModelBuilder unknown = Model();
  AddMicrosoft(unknown, "Frobnicate", {"x"}, {"y"});
  EXPECT_THAT(Refusal(unknown), HasSubstr("domain 'com.microsoft': op 'Frobnicate': node 'n'"));

  ModelBuilder other = Model();
  other.Add("Gelu", {"x"}, {"y"}).proto().set_domain("org.example");
  EXPECT_THAT(Refusal(other), HasSubstr("domain 'org.example': op 'Gelu'"));

  ModelBuilder attribute = Model();
  AddMicrosoft(attribute, "Gelu", {"x"}, {"y"}).Int("sparse", 1);
  EXPECT_THAT(Refusal(attribute), AllOf(HasSubstr("domain 'com.microsoft': op 'Gelu'"),
                                        HasSubstr("attribute 'sparse'")));

  ModelBuilder activation = Model({8, 8});
  AddMicrosoft(activation, "FusedGemm", {"x", "w"}, {"y"}).Text("activation", "Sine");
  EXPECT_THAT(Refusal(activation), HasSubstr("activation 'Sine'"));
}

TEST(ExpandErrors, RefuseWhatTheCompositionLacks) {
  ModelBuilder rotary = Model();
  rotary.Weights("qkv", {8, 24});
  AddMicrosoft(rotary, "Attention", {"x", "qkv"}, {"y"}).Int("num_heads", 2).Int("do_rotary", 1);
  EXPECT_THAT(Refusal(rotary), HasSubstr("do_rotary = 1"));

  ModelBuilder mask = Model();
  mask.Weights("qkv", {8, 24}).Input("mask", {5}, onnx::TensorProto::INT32);
  AddMicrosoft(mask, "Attention", {"x", "qkv", "", "mask"}, {"y"}).Int("num_heads", 2);
  EXPECT_THAT(Refusal(mask), HasSubstr("a mask of shape [5]"));
}

TEST(ExpandErrors, RefuseShapesThatDoNotFit) {
  for (const std::int64_t heads : {0, 3, -2}) {
    ModelBuilder model = Model();
    model.Weights("qkv", {8, 24});
    AddMicrosoft(model, "Attention", {"x", "qkv"}, {"y"}).Int("num_heads", heads);
    EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kInvalidArgument),
                HasSubstr("does not divide [2,4,8] into " + std::to_string(heads) + " heads"));
  }
  ModelBuilder blocks = Model({2, 8});
  blocks.Floats("s", {1}, {0.5f});
  *blocks.graph().add_initializer() =
      testing::RawTensor<std::uint8_t>("q", onnx::TensorProto::UINT8, {4}, {1, 2, 3, 4});
  AddMicrosoft(blocks, "MatMulNBits", {"x", "q", "s"}, {"y"})
      .Int("K", 1 << 20)
      .Int("N", 1 << 20)
      .Int("bits", 4)
      .Int("block_size", 16);
  EXPECT_THAT(MessageOf(blocks.Import(), ErrorCode::kInvalidArgument), HasSubstr("input 'q'"));

  ModelBuilder parts(20);
  parts.Input("x", {4}, onnx::TensorProto::UINT8).Output("y").Floats("s", {}, {1.0f});
  AddMicrosoft(parts, "QLinearConcat", {"s", "x", "x", "s", "x", "x"}, {"y"});
  EXPECT_THAT(MessageOf(parts.Import(), ErrorCode::kInvalidArgument), HasSubstr("3 for each part"));
}

TEST(ExpandErrors, CountTheMemoryOfTheirConstants) {
  ModelBuilder model(20);  // the triangle alone has 10^10 bytes
  model.Input("x", {1, 100'000, 8}).Output("y");
  AddMicrosoft(model, "MultiHeadAttention", {"x", "x", "x"}, {"y"})
      .Int("num_heads", 1)
      .Int("unidirectional", 1);
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kResourceExhausted), HasSubstr("a constant"));
}

TEST(ExpandErrors, NameAnInputThatIsLeftOut) {
  ModelBuilder model = Model();
  AddMicrosoft(model, "EmbedLayerNormalization", {"x", "", "w"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("input 3 is left out"));
}

}  // namespace
}  // namespace lagoon
