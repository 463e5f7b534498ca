// If: the branch that is taken becomes part of the graph, the other one is never looked at.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/onnx_model.h"
#include "graph/ops/infer.h"
#include "graph/testing/folded.h"
#include "graph/testing/model_builder.h"
#include "graph/testing/reference.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using testing::Folded;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::Ops;
using testing::TempFolder;
using Numbers = std::vector<double>;

/// A branch of one node that reads "x" of the graph around it.
onnx::GraphProto Branch(const std::string& op, const std::string& name = "b") {
  ModelBuilder body;
  body.Output(name);
  body.Add(op, {"x"}, {name});
  return body.graph();
}

onnx::GraphProto NoSuchOp() {
  ModelBuilder body;
  body.Output("b");
  body.Add("NoSuchOp", {"x"}, {"b"});
  return body.graph();
}

ModelBuilder TwoBranches(bool condition, const onnx::GraphProto& yes, const onnx::GraphProto& no) {
  ModelBuilder model;
  model.Input("x", {2, 3}).Flag("c", condition).Output("y");
  model.Add("If", {"c"}, {"y"}).Graph("then_branch", yes).Graph("else_branch", no).Name("choice");
  return model;
}

TEST(If, TheBranchThatIsTakenReplacesTheNode) {
  EXPECT_EQ(Ops(*TwoBranches(true, Branch("Relu"), Branch("Tanh")).Load()), "Relu");
  EXPECT_EQ(Ops(*TwoBranches(false, Branch("Relu"), Branch("Tanh")).Load()), "Tanh");
}

TEST(If, TheOtherBranchMayBeUnsupported) {
  EXPECT_EQ(Ops(*TwoBranches(true, Branch("Relu"), NoSuchOp()).Load()), "Relu");
  EXPECT_THAT(
      MessageOf(TwoBranches(false, Branch("Relu"), NoSuchOp()).Import(), ErrorCode::kUnimplemented),
      AllOf(HasSubstr("choice/else_branch/NoSuchOp_0"), HasSubstr("not supported")));
}

TEST(If, WhatOnlyTheOtherBranchReadsMayBeUnsupported) {
  for (const bool condition : {true, false}) {
    ModelBuilder yes, no;
    yes.Output("b");
    yes.Add("Relu", {"good"}, {"b"});
    no.Output("b");
    no.Add("Relu", {"bad"}, {"b"});
    ModelBuilder model = TwoBranches(condition, yes.graph(), no.graph());
    model.Add("Tanh", {"x"}, {"good"});
    model.Add("Sigmoid", {"x"}, {"t"});
    model.Add("NoSuchOp", {"t"}, {"bad"});
    const Result<Graph> graph = model.Load();
    ASSERT_EQ(graph.has_value(), condition);
    if (graph) {
      EXPECT_EQ(Ops(*graph), "Tanh Relu");
    }
  }
}

TEST(If, TheConditionMayFollowFromAShape) {
  for (const std::int64_t rows : {1, 4}) {
    ModelBuilder model;
    model.Input("x", {rows, 3}).Number("zero", 0).Number("one", 1).Output("y");
    model.Add("Shape", {"x"}, {"s"});
    model.Add("Gather", {"s", "zero"}, {"rows"});
    model.Add("Equal", {"rows", "one"}, {"c"});
    model.Add("If", {"c"}, {"y"})
        .Graph("then_branch", Branch("Relu"))
        .Graph("else_branch", Branch("Tanh"));
    EXPECT_EQ(Ops(*model.Load()), rows == 1 ? "Relu" : "Tanh");
  }
}

TEST(If, BranchesMayHaveDifferentShapes) {
  ModelBuilder whole, row;
  whole.Output("b");
  whole.Add("Identity", {"x"}, {"b"});
  row.Output("b").Number("zero", 0);
  row.Add("Gather", {"x", "zero"}, {"b"});
  const auto dims = [&](bool condition) {
    const Result<Graph> graph = TwoBranches(condition, whole.graph(), row.graph()).Import();
    return graph->value(graph->outputs[0]).dims;
  };
  EXPECT_EQ(dims(true), (Dims{2, 3}));
  EXPECT_EQ(dims(false), Dims{3});
}

TEST(If, BranchesMayReturnWhatTheyDoNotCompute) {
  ModelBuilder captured, constant;
  captured.Output("x");
  constant.Output("k").Floats("k", {2}, {3, 4});
  EXPECT_EQ(Ops(*TwoBranches(true, captured.graph(), constant.graph()).Load()), "Identity");
  EXPECT_EQ(Folded(TwoBranches(false, captured.graph(), constant.graph())), (Numbers{3, 4}));
}

TEST(If, OneValueMayBeTwoOutputs) {
  ModelBuilder branch;
  branch.Output("b").Output("b");
  branch.Add("Relu", {"x"}, {"b"});
  ModelBuilder model;
  model.Input("x", {2}).Flag("c", true).Output("y").Output("z");
  model.Add("If", {"c"}, {"y", "z"})
      .Graph("then_branch", branch.graph())
      .Graph("else_branch", branch.graph());
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->value(graph->outputs[0]).name, "y");
  EXPECT_EQ(graph->value(graph->outputs[1]).name, "z");
}

TEST(If, AnOutputWithoutAReaderIsNotComputed) {
  ModelBuilder branch;
  branch.Output("a").Output("b");
  branch.Add("Relu", {"x"}, {"a"});
  branch.Add("NoSuchOp", {"x"}, {"b"});
  ModelBuilder model;
  model.Input("x", {2}).Flag("c", true).Output("y");
  model.Add("If", {"c"}, {"y", "unread"})
      .Graph("then_branch", branch.graph())
      .Graph("else_branch", branch.graph());
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Relu");
}

TEST(If, InsideAnIfComputesTheSame) {
  ModelBuilder inner = ModelBuilder();
  inner.Output("b").Flag("d", false);
  inner.Add("Mul", {"x", "w"}, {"t"});
  ModelBuilder deepest;
  deepest.Output("r");
  deepest.Add("Add", {"t", "w"}, {"r"});
  inner.Add("If", {"d"}, {"b"})
      .Graph("then_branch", NoSuchOp())
      .Graph("else_branch", deepest.graph());
  ModelBuilder model = TwoBranches(true, inner.graph(), NoSuchOp());
  model.Weights("w", {3});
  ModelBuilder straight;
  straight.Input("x", {2, 3}).Weights("w", {3}).Output("y");
  straight.Add("Mul", {"x", "w"}, {"t"});
  straight.Add("Add", {"t", "w"}, {"y"});
  testing::ExpectSameOutputs(*straight.Load(), *model.Load());
}

TEST(If, TheInnermostDefinitionOfANameCounts) {
  ModelBuilder branch;  // its own "w" and "t"
  branch.Output("t").Floats("w", {1}, {10});
  branch.Add("Add", {"k", "w"}, {"t"});
  ModelBuilder model;
  model.Floats("w", {1}, {1}).Floats("k", {1}, {5}).Flag("c", true).Output("t").Output("u");
  model.Add("If", {"c"}, {"t"})
      .Graph("then_branch", branch.graph())
      .Graph("else_branch", branch.graph());
  model.Add("Add", {"k", "w"}, {"u"});
  EXPECT_EQ(Folded(model, 0), Numbers{15});
  EXPECT_EQ(Folded(model, 1), Numbers{6});
}

TEST(If, ABranchMayReadWhatLaterNodesOfTheFileCompute) {
  ModelBuilder branch;
  branch.Output("b");
  branch.Add("Relu", {"late"}, {"b"});
  ModelBuilder model = TwoBranches(true, branch.graph(), branch.graph());
  model.Add("Tanh", {"x"}, {"late"});
  EXPECT_EQ(Ops(*model.Load()), "Tanh Relu");
}

// Conditions that are computed.

ModelBuilder ComputedCondition() {
  ModelBuilder model;
  model.Input("x", {2, 3}).Input("rate", {1}, onnx::TensorProto::INT64).Number("k", 16).Output("y");
  model.Add("Equal", {"rate", "k"}, {"c"});
  model.Add("If", {"c"}, {"y"})
      .Graph("then_branch", Branch("Relu"))
      .Graph("else_branch", Branch("Tanh"))
      .Name("choice");
  return model;
}

TEST(If, AConditionThatIsComputedIsNamed) {
  EXPECT_THAT(MessageOf(ComputedCondition().Import(), ErrorCode::kUnimplemented),
              AllOf(HasSubstr("'choice' (If, opset 13)"), HasSubstr("condition 'c'"),
                    HasSubstr("run time")));
}

TEST(If, ASmallInputMayDecide) {
  const TempFolder folder;
  const auto model = OnnxModel::Read(ComputedCondition().Save(folder));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  GraphInputs inputs = (*model)->DefaultInputs();
  std::vector<std::size_t> deciding;
  EXPECT_FALSE((*model)->Instantiate(inputs, &deciding).has_value());
  EXPECT_EQ(deciding, std::vector<std::size_t>{1});
  for (const std::int64_t rate : {8, 16}) {
    auto bytes = std::make_shared<ConstantData::Bytes>(sizeof(rate));
    std::memcpy(bytes->data(), &rate, sizeof(rate));
    inputs.values[1] = Constant{DataType::kInt64, {1}, std::move(bytes)};
    const Result<ModelPart> part = (*model)->Instantiate(inputs);
    ASSERT_TRUE(part.has_value()) << part.error().message;
    EXPECT_EQ(Ops(part->graph), rate == 16 ? "Relu" : "Tanh");
  }
}

ValueId Add(Graph& graph, const std::string& name, DataType type, bool known) {
  Value& value = graph.values.emplace_back();
  value.name = name;
  value.type = type;
  value.shape_known = known;
  return static_cast<ValueId>(graph.values.size() - 1);
}

Node MakeNode(const std::string& op, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Node node;
  node.name = node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

TEST(If, LaterNodesAreAsTheyWere) {
  auto body = std::make_shared<Graph>();
  body->inputs = {Add(*body, "i", DataType::kFloat32, false)};
  body->outputs = {Add(*body, "o", DataType::kFloat32, false)};
  body->nodes.push_back(MakeNode("Relu", body->inputs, body->outputs));
  Graph graph;
  graph.opset = 13;
  const ValueId x = Add(graph, "x", DataType::kFloat32, true);
  const ValueId condition = Add(graph, "c", DataType::kBool, true);
  const ValueId only_in_branch = Add(graph, "t", DataType::kFloat32, false);
  const ValueId s = Add(graph, "s", DataType::kFloat32, false);
  const ValueId y = Add(graph, "y", DataType::kFloat32, false);
  const ValueId z = Add(graph, "z", DataType::kFloat32, false);
  graph.inputs = {x, condition};
  graph.outputs = {z, s};
  Node choice = MakeNode("If", {condition, only_in_branch}, {y});
  choice.bodies = {{"then_branch", body}, {"else_branch", body}};
  choice.captured = 1;
  graph.nodes = {MakeNode("Tanh", {x}, {only_in_branch}), MakeNode("Exp", {x}, {s}), choice,
                 MakeNode("Sqrt", {y}, {z})};
  ByteBudget budget(1 << 20);
  LaterNodes later;
  later.who_knows = [&](const Node&, ValueId missing) {
    EXPECT_EQ(missing, condition);
    return Knows::kLaterPart;
  };
  ASSERT_TRUE(InferShapes(graph, budget, &later));
  EXPECT_EQ(Ops(graph), "Exp");
  EXPECT_THAT(later.why.error().message, HasSubstr("condition 'c'"));
  // The host now knows the condition: the other nodes alone go on from there. Of them, the branch
  // decides whether Tanh is needed.
  graph.nodes = std::move(later.nodes);
  EXPECT_EQ(Ops(graph), "Tanh If Sqrt");
  EXPECT_EQ(graph.nodes[1].inputs, choice.inputs);
  graph.outputs = {z};
  graph.value(condition).constant =
      Constant{DataType::kBool, {}, std::make_shared<ConstantData::Bytes>(1)};
  const Status resumed = InferShapes(graph, budget);
  EXPECT_TRUE(resumed.has_value()) << resumed.error().message;
  EXPECT_EQ(Ops(graph), "Tanh Relu Identity Sqrt");
}

// Errors.

TEST(If, BadNodesAreRefused) {
  ModelBuilder lacks;
  lacks.Input("x", {2}).Flag("c", true).Output("y");
  lacks.Add("If", {"c"}, {"y"}).Graph("then_branch", Branch("Relu"));
  EXPECT_THAT(MessageOf(lacks.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("attribute 'else_branch' is not a graph"));
  ModelBuilder number;
  number.Input("x", {2}).Number("c", 1).Output("y");
  number.Add("If", {"c"}, {"y"})
      .Graph("then_branch", Branch("Relu"))
      .Graph("else_branch", Branch("Relu"));
  EXPECT_THAT(MessageOf(number.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("condition 'c' is INT64 [], must be one BOOL"));
  ModelBuilder two;
  two.Input("x", {2}).Flag("c", true).Output("y").Output("z");
  two.Add("If", {"c"}, {"y", "z"})
      .Graph("then_branch", Branch("Relu"))
      .Graph("else_branch", Branch("Relu"));
  EXPECT_THAT(MessageOf(two.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("then_branch has 1 outputs, the node 2"));
  ModelBuilder input = ModelBuilder();
  input.Input("i", {2}).Output("b");
  input.Add("Relu", {"i"}, {"b"});
  EXPECT_THAT(MessageOf(TwoBranches(true, input.graph(), input.graph()).Import(),
                        ErrorCode::kInvalidArgument),
              HasSubstr("then_branch has 1 inputs, gets 0"));
}

TEST(If, OtherOpsTakeNoGraph) {
  ModelBuilder model;
  model.Input("x", {2}).Output("y");
  model.Add("Relu", {"x"}, {"y"}).Graph("body", Branch("Relu"));
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented), HasSubstr("graph"));
}

}  // namespace
}  // namespace lagoon
