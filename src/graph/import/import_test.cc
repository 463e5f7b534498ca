#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "graph/graph.h"
#include "graph/onnx_model.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::Ops;
using testing::TempFolder;

ModelBuilder OneRelu(std::int64_t opset = 13) {
  ModelBuilder model(opset);
  model.Input("x", {1, 4}).Output("y");
  model.Add("Relu", {"x"}, {"y"});
  return model;
}

TEST(ImportOnnx, ReadsASmallModel) {
  const Result<Graph> graph = OneRelu().Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->name, "test");
  EXPECT_EQ(graph->opset, 13);
  ASSERT_EQ(graph->inputs.size(), 1u);
  ASSERT_EQ(graph->outputs.size(), 1u);
  EXPECT_EQ(graph->value(graph->inputs[0]).name, "x");
  EXPECT_EQ(graph->value(graph->outputs[0]).name, "y");
  EXPECT_EQ(graph->value(graph->outputs[0]).dims, (Dims{1, 4}));
  EXPECT_TRUE(graph->value(graph->outputs[0]).shape_known);
  ASSERT_EQ(graph->nodes.size(), 1u);
  EXPECT_EQ(graph->nodes[0].name, "Relu_0");
}

TEST(ImportOnnx, KeepsTheNamesOfNodesAndInventsTheOthers) {
  ModelBuilder model;
  model.Input("x", {1}).Output("y");
  model.Add("Relu", {"x"}, {"a"}).Name("first");
  model.Add("Tanh", {"a"}, {"y"});
  const Result<Graph> graph = model.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->nodes[0].name, "first");
  EXPECT_EQ(graph->nodes[1].name, "Tanh_1");
}

TEST(ImportOnnx, SortsNodesThatTheFileHasOutOfOrder) {
  ModelBuilder model;
  model.Input("x", {1}).Output("y");
  model.Add("Tanh", {"b"}, {"y"});
  model.Add("Sigmoid", {"a"}, {"b"});
  model.Add("Relu", {"x"}, {"a"});
  const Result<Graph> graph = model.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Relu Sigmoid Tanh");
}

TEST(ImportOnnx, LeavesOutWhatNoOutputNeedsUnread) {
  ModelBuilder model = OneRelu();
  model.Add("NoSuchOp", {"x", "w"}, {"unused"});
  model.Weights("w", {2});
  model.graph().mutable_initializer(0)->set_raw_data("wrong size");
  const Result<Graph> graph = model.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Relu");
  EXPECT_EQ(graph->values.size(), 2u);
}

TEST(ImportOnnx, TakesAnInputThatIsAnInitialiserAsConstant) {
  ModelBuilder model;
  model.Input("x", {1, 2}).Input("w", {2, 3}).Output("y").Weights("w", {2, 3});
  model.Add("MatMul", {"x", "w"}, {"y"});
  const Result<Graph> graph = model.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(graph->inputs.size(), 1u);
  EXPECT_EQ(graph->value(graph->inputs[0]).name, "x");
}

TEST(ImportOnnx, KeepsInputsThatNothingReads) {
  ModelBuilder model = OneRelu();
  model.Input("spare", {7});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(graph->inputs.size(), 2u);
  EXPECT_EQ(graph->value(graph->inputs[1]).dims, Dims{7});
}

// Dimensions.

ModelBuilder WithDimension(const std::function<void(onnx::TensorShapeProto::Dimension&)>& set) {
  ModelBuilder model;
  model.Input("x", {5, 4}).Output("y");
  set(*model.graph()
           .mutable_input(0)
           ->mutable_type()
           ->mutable_tensor_type()
           ->mutable_shape()
           ->mutable_dim(0));
  model.Add("Relu", {"x"}, {"y"});
  return model;
}

Dims InputDims(const ModelBuilder& model, const ImportOptions& options = {}) {
  const Result<Graph> graph = model.Import(options);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph ? graph->value(graph->inputs[0]).dims : Dims{};
}

TEST(ImportDimensions, BindsSymbolsByName) {
  const ModelBuilder model = WithDimension([](auto& dim) { dim.set_dim_param("batch"); });
  ImportOptions options;
  options.dimensions["batch"] = 3;
  EXPECT_EQ(InputDims(model, options), (Dims{3, 4}));
}

TEST(ImportDimensions, MakesUnboundZeroAndMissingOnesOne) {
  EXPECT_EQ(InputDims(WithDimension([](auto& dim) { dim.set_dim_param("batch"); })), (Dims{1, 4}));
  EXPECT_EQ(InputDims(WithDimension([](auto& dim) { dim.set_dim_value(0); })), (Dims{1, 4}));
  EXPECT_EQ(InputDims(WithDimension([](auto& dim) { dim.set_dim_value(-1); })), (Dims{1, 4}));
  EXPECT_EQ(InputDims(WithDimension([](auto& dim) { dim.Clear(); })), (Dims{1, 4}));
}

TEST(ImportDimensions, RefusesNegativeOnes) {
  const ModelBuilder model = WithDimension([](auto& dim) { dim.set_dim_value(-3); });
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("input 'x'"), HasSubstr("-3")));
}

TEST(ImportDimensions, RefusesABindingBelowOne) {
  ImportOptions options;
  options.dimensions["batch"] = 0;
  EXPECT_THAT(MessageOf(OneRelu().Import(options), ErrorCode::kInvalidArgument),
              HasSubstr("dimension 'batch' is set to 0"));
}

TEST(ImportDimensions, AnInputWithoutShapeTakesAnyShape) {
  ModelBuilder builder = OneRelu();
  builder.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  const TempFolder folder;
  auto model = OnnxModel::Read(builder.Save(folder));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE((*model)->open());
  for (const Dims& dims : {Dims{}, Dims{3}, Dims{2, 3, 4}}) {
    auto part = (*model)->Import({{dims}, {}});
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ(part->graph.value(part->graph.outputs[0]).dims, dims);
  }
}

TEST(ImportDimensions, GuessesThatACacheIsEmptyFirst) {
  ModelBuilder builder;
  builder.Input("q", {1, 1, 64}).Input("k", {1, 2, 1, 16}).Input("mask", {1, 1}).Output("y");
  builder.Add("Shape", {"q"}, {"y"});
  const auto name = [&](int input, int axis, const std::string& symbol) {
    auto& type = *builder.graph().mutable_input(input)->mutable_type()->mutable_tensor_type();
    type.mutable_shape()->mutable_dim(axis)->set_dim_param(symbol);
  };
  name(0, 1, "s");
  name(1, 2, "p");
  name(2, 1, "p + s + 1");
  const TempFolder folder;
  auto model = OnnxModel::Read(builder.Save(folder));
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<GraphInputs> guesses = (*model)->Guesses();
  EXPECT_THAT(guesses.at(0).dims, ElementsAre(Dims{1, 16, 64}, Dims{1, 2, 0, 16}, Dims{1, 17}));
  EXPECT_THAT(guesses.at(1).dims, ElementsAre(Dims{1, 16, 64}, Dims{1, 2, 224, 16}, Dims{1, 241}));
}

TEST(ImportOnnx, TakesOutputsOfTrainingThatNothingReads) {
  const auto with = [](const std::string& reads) {
    ModelBuilder model(9);
    model.Input("x", {1, 2, 3, 3}).Output(reads);
    for (const char* const name : {"s", "b", "m", "v"}) model.Floats(name, {2}, {1, 2});
    model.Add("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y", "m1", "v1", "m2", "v2"});
    return model;
  };
  const Result<Graph> graph = with("y").Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->nodes[0].outputs.size(), 1u);
  EXPECT_THAT(MessageOf(with("v2").Import(), ErrorCode::kUnimplemented),
              HasSubstr("has 5 outputs, supported are at most 1"));
}

// Exporters declare shapes of outputs that are wrong; those that Lagoon computes count.
TEST(ImportDimensions, IgnoresTheDeclaredShapeOfOutputs) {
  for (const Dims& declared : {Dims{1, 5}, Dims{0, 4}, Dims{4}, Dims{1, 4, 1}}) {
    ModelBuilder model;
    model.Input("x", {1, 4}).Output("y", declared);
    model.Add("Relu", {"x"}, {"y"});
    const auto graph = model.Import();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    EXPECT_EQ(graph->value(graph->outputs[0]).dims, (Dims{1, 4}));
  }
}

// Opsets and domains.

TEST(ImportOpset, TakesThoseInWhichTheOpMeansTheSame) {
  for (const std::int64_t opset : {6, 9, 13, 17, 21, 23, 28}) {
    EXPECT_TRUE(OneRelu(opset).Import().has_value()) << opset;
  }
  for (const std::int64_t opset : {-1, 5, 29}) {
    EXPECT_THAT(MessageOf(OneRelu(opset).Import(), ErrorCode::kUnimplemented),
                HasSubstr("opset " + std::to_string(opset)));
  }
}

TEST(ImportOpset, RefusesNoneAndTwo) {
  ModelBuilder none = OneRelu();
  none.proto.clear_opset_import();
  EXPECT_THAT(MessageOf(none.Import(), ErrorCode::kInvalidArgument), HasSubstr("no opset"));

  ModelBuilder two = OneRelu(13);
  onnx::OperatorSetIdProto& import = *two.proto.add_opset_import();
  import.set_domain("ai.onnx");
  import.set_version(11);
  EXPECT_THAT(MessageOf(two.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("both opset 13 and 11"));
}

TEST(ImportOpset, RefusesOpsThatCameLater) {
  ModelBuilder model(13);
  model.Input("x", {1}).Output("y");
  model.Add("HardSwish", {"x"}, {"y"});
  EXPECT_THAT(
      MessageOf(model.Import(), ErrorCode::kUnimplemented),
      HasSubstr("node 'HardSwish_0' (HardSwish, opset 13): the op is supported from opset 14 on"));
}

TEST(ImportErrors, NameFileNodeOpAndOpset) {
  const TempFolder folder;
  ModelBuilder model(12);
  model.Input("x", {1}).Output("y");
  model.Add("Frobnicate", {"x"}, {"y"}).Name("attention");
  const std::string path = model.Save(folder, "bert.onnx");
  EXPECT_THAT(MessageOf(ImportOnnx(path), ErrorCode::kUnimplemented),
              AllOf(HasSubstr(path), HasSubstr("node 'attention' (Frobnicate, opset 12)")));
  EXPECT_THAT(MessageOf(LoadGraph(path), ErrorCode::kUnimplemented),
              AllOf(HasSubstr(path), HasSubstr("node 'attention' (Frobnicate, opset 12)")));
}

TEST(ImportErrors, NameUnknownDomains) {
  ModelBuilder model = OneRelu();
  model.graph().mutable_node(0)->set_domain("com.microsoft");
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented),
              AllOf(HasSubstr("'Relu_0'"), HasSubstr("domain 'com.microsoft'")));
  model.graph().mutable_node(0)->set_domain("ai.onnx");
  EXPECT_TRUE(model.Import().has_value());
}

TEST(ImportErrors, NameAttributesThatAreNotKnownOrOfAnotherType) {
  ModelBuilder unknown;
  unknown.Input("x", {1}).Output("y");
  unknown.Add("Relu", {"x"}, {"y"}).Int("strength", 11);
  EXPECT_THAT(MessageOf(unknown.Import(), ErrorCode::kUnimplemented),
              AllOf(HasSubstr("'Relu_0'"), HasSubstr("'strength'")));

  ModelBuilder typed;
  typed.Input("x", {1, 2}).Output("y");
  typed.Add("Softmax", {"x"}, {"y"}).Float("axis", 1);
  EXPECT_THAT(MessageOf(typed.Import(), ErrorCode::kUnimplemented), HasSubstr("'axis'"));

  ModelBuilder twice;
  twice.Input("x", {1, 2}).Output("y");
  twice.Add("Softmax", {"x"}, {"y"}).Int("axis", 0).Int("axis", 1);
  EXPECT_THAT(MessageOf(twice.Import(), ErrorCode::kInvalidArgument), HasSubstr("'axis' twice"));

  ModelBuilder subgraph;
  subgraph.Input("x", {1}).Output("y");
  onnx::AttributeProto& body = *subgraph.Add("Relu", {"x"}, {"y"}).proto().add_attribute();
  body.set_name("body");
  body.set_type(onnx::AttributeProto::GRAPH);
  EXPECT_THAT(MessageOf(subgraph.Import(), ErrorCode::kUnimplemented), HasSubstr("'body'"));
}

TEST(ImportErrors, NameTheCountOfInputsAndOutputs) {
  ModelBuilder inputs;
  inputs.Input("x", {1}).Output("y");
  inputs.Add("Relu", {"x", "x"}, {"y"});
  EXPECT_THAT(MessageOf(inputs.Import(), ErrorCode::kUnimplemented), HasSubstr("has 2 inputs"));

  ModelBuilder left_out;
  left_out.Input("x", {1}).Output("y");
  left_out.Add("Add", {"", "x"}, {"y"});
  EXPECT_THAT(MessageOf(left_out.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("input 0 is left out"));

  ModelBuilder variadic;
  variadic.Input("x", {1}).Output("y");
  variadic.Add("Max", {"x", "", "x"}, {"y"});
  EXPECT_THAT(MessageOf(variadic.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("input 1 is left out"));

  ModelBuilder outputs;
  outputs.Input("x", {1, 1, 4, 4}).Output("y").Output("z");
  outputs.Add("Relu", {"x"}, {"y", "z"});
  EXPECT_THAT(MessageOf(outputs.Import(), ErrorCode::kUnimplemented), HasSubstr("has 2 outputs"));
}

TEST(ImportTypes, InputsAndOutputsKeepTheirs) {
  ModelBuilder model;
  model.Input("ids", {1, 8}, onnx::TensorProto::INT64).Output("y").Output("ids");
  model.Add("Equal", {"ids", "ids"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->value(graph->inputs[0]).type, DataType::kInt64);
  EXPECT_EQ(graph->value(graph->outputs[0]).type, DataType::kBool);
  EXPECT_EQ(graph->outputs[1], graph->inputs[0]);
}

TEST(ImportErrors, NameInputsOfOtherTypes) {
  ModelBuilder model;
  model.Input("waves", {1, 8}, onnx::TensorProto::COMPLEX64).Output("y");
  model.Add("Identity", {"waves"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented),
              AllOf(HasSubstr("input 'waves'"), HasSubstr("type 14")));
}

TEST(ImportStrings, AreMovedAndCounted) {
  ModelBuilder model;
  model.Input("words", {2, 3}, onnx::TensorProto::STRING).Output("y").Output("n");
  model.Add("Identity", {"words"}, {"a"});
  model.Add("Flatten", {"a"}, {"y"});
  model.Add("Size", {"words"}, {"n"});
  const Result<Graph> graph = model.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->value(graph->outputs[0]).type, DataType::kString);
  EXPECT_EQ(graph->value(graph->outputs[0]).dims, (Dims{2, 3}));
  EXPECT_EQ(graph->value(graph->outputs[1]).constant->ToInt64(), std::vector<std::int64_t>{6});
}

onnx::TensorProto Words(const std::vector<std::string>& texts) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::STRING);
  tensor.add_dims(static_cast<std::int64_t>(texts.size()));
  for (const std::string& text : texts) tensor.add_string_data(text);
  return tensor;
}

TEST(ImportStrings, AreNeitherReadNorMadeByKernels) {
  const auto refused = [](const std::function<void(ModelBuilder&)>& add) {
    ModelBuilder model;
    model.Input("words", {3}, onnx::TensorProto::STRING).Input("x", {3}).Output("y");
    add(model);
    return MessageOf(model.Import(), ErrorCode::kUnimplemented);
  };
  EXPECT_THAT(refused([](auto& m) { m.Add("Cast", {"words"}, {"y"}).Int("to", 1); }),
              HasSubstr("input 0 'words' holds strings"));
  EXPECT_THAT(refused([](auto& m) {
                m.Add("Equal", {"words", "words"}, {"y"});
              }),
              HasSubstr("holds strings"));
  EXPECT_THAT(refused([](auto& m) { m.Add("Cast", {"x"}, {"y"}).Int("to", 8); }),
              HasSubstr("to is ONNX element type 8"));
  EXPECT_THAT(refused([](auto& m) {
                m.Add("Shape", {"x"}, {"n"});
                m.Add("ConstantOfShape", {"n"}, {"y"}).Tensor("value", Words({"a"}));
              }),
              HasSubstr("attribute 'value' holds strings"));
  EXPECT_THAT(refused([](auto& m) {
                m.Add("Constant", {}, {"c"}).Tensor("value", Words({"a", "b", "c"}));
                m.Add("Concat", {"c", "words"}, {"y"}).Int("axis", 0);
              }),
              HasSubstr("holds strings"));
  EXPECT_THAT(refused([](auto& m) {
                m.Add("Constant", {}, {"c"}).Text("value_string", "true");
                m.Add("Gather", {"c", "x"}, {"y"});
              }),
              HasSubstr("holds strings"));
}

// Files that no checker takes: a text where a number must be.
TEST(ImportStrings, AreNoNumbers) {
  for (const char* op : {"If", "Loop", "SequenceAt", "Reshape", "Unsqueeze"}) {
    ModelBuilder model(17), body(17);
    body.Output("r").Add("Constant", {}, {"r"}).Float("value_float", 1);
    model.Input("x", {3}).Output("y");
    model.Add("Constant", {}, {"c"}).Tensor("value", Words({"1"}));
    model.Add("SequenceConstruct", {"x"}, {"s"});
    const std::string name = op;
    if (name == "If") {
      model.Add(op, {"c"}, {"y"})
          .Graph("then_branch", body.proto.graph())
          .Graph("else_branch", body.proto.graph());
    } else if (name == "Loop") {
      model.Add(op, {"c", "", "x"}, {"y"}).Graph("body", body.proto.graph());
    } else {
      model.Add(op, {name == "SequenceAt" ? "s" : "x", "c"}, {"y"});
    }
    EXPECT_FALSE(model.Import()) << op;
  }
}

Constant Int64s(const Dims& dims, const std::vector<std::int64_t>& values) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(std::int64_t));
  std::memcpy(bytes->data(), values.data(), bytes->size());
  return {DataType::kInt64, dims, std::move(bytes)};
}

TEST(ImportInputs, ThatAreKnownAtLoadBecomeConstants) {
  ModelBuilder model;
  model.Input("x", {2, 6}).Input("shape", {2}, onnx::TensorProto::INT64).Output("y");
  model.Add("Reshape", {"x", "shape"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented),
              HasSubstr("shape 'shape' must be constant"));
  ImportOptions options;
  options.inputs["shape"] = Int64s({2}, {3, 4});
  const Result<Graph> graph = model.Import(options);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->inputs.size(), 1u);
  EXPECT_EQ(graph->value(graph->outputs[0]).dims, (Dims{3, 4}));
}

TEST(ImportInputs, ThatAreKnownAtLoadMustFit) {
  ModelBuilder model;
  model.Input("x", {2, 6}).Input("shape", {2}, onnx::TensorProto::INT64).Output("y");
  model.Add("Reshape", {"x", "shape"}, {"y"});
  ImportOptions options;
  options.inputs["shape"] = Int64s({3}, {3, 4, 1});
  EXPECT_THAT(MessageOf(model.Import(options), ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("'shape'"), HasSubstr("[2]"), HasSubstr("[3]")));
  options.inputs = {{"form", Int64s({2}, {3, 4})}};
  EXPECT_THAT(MessageOf(model.Import(options), ErrorCode::kInvalidArgument), HasSubstr("'form'"));
}

TEST(ImportErrors, NameOutputsThatAreDoubled) {
  ModelBuilder doubled = OneRelu();
  doubled.Output("y");
  EXPECT_THAT(MessageOf(doubled.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("output 'y' is named twice"));
  ModelBuilder none = OneRelu();
  none.graph().clear_output();
  EXPECT_THAT(MessageOf(none.Import(), ErrorCode::kInvalidArgument), HasSubstr("no output"));
}

// The form of softmax, which changed with opset 13.

TEST(ImportSoftmax, RunsOverOneAxisSinceOpset13) {
  ModelBuilder model(13);
  model.Input("x", {2, 3, 4}).Output("y");
  model.Add("Softmax", {"x"}, {"y"});
  const Result<Graph> graph = model.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Softmax");
  EXPECT_EQ(graph->nodes[0].Int("axis", -9), 2);
}

TEST(ImportSoftmax, IsFlattenedBefore) {
  ModelBuilder model(11);
  model.Input("x", {2, 3, 4}).Output("y");
  model.Add("LogSoftmax", {"x"}, {"y"}).Name("s");
  const Result<Graph> graph = model.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(Ops(*graph), "Reshape LogSoftmax Reshape");
  EXPECT_EQ(graph->nodes[1].Int("axis", -9), 1);
  EXPECT_EQ(graph->value(graph->nodes[1].inputs[0]).dims, (Dims{2, 12}));
  EXPECT_EQ(graph->value(graph->outputs[0]).dims, (Dims{2, 3, 4}));
  EXPECT_EQ(graph->value(graph->outputs[0]).name, "y");
}

TEST(ImportSoftmax, IsNotFlattenedWhereThatChangesNothing) {
  ModelBuilder model(9);
  model.Input("x", {2, 1, 10, 1}).Output("y");
  model.Add("Softmax", {"x"}, {"y"}).Int("axis", 1);
  const Result<Graph> graph = model.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(Ops(*graph), "Softmax");
  EXPECT_EQ(graph->nodes[0].Int("axis", -9), 2);
}

TEST(LoadGraph, TakesAConstantOutput) {
  ModelBuilder model;
  model.Input("x", {1}).Output("y").Floats("c", {1}, {3});
  model.Add("Identity", {"c"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_TRUE(graph->value(graph->outputs[0]).constant.has_value());
}

}  // namespace
}  // namespace lagoon
