#include "graph/functions/inline_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/model_builder.h"
#include "graph/testing/same_graph.h"

namespace lagoon {
namespace {

using testing::ExpectSameGraph;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::NodeRef;
using testing::Ops;

constexpr char kDomain[] = "local";

/// A function under construction.
class Function {
 public:
  Function(ModelBuilder& model, const std::string& name, const std::vector<std::string>& inputs,
           const std::vector<std::string>& outputs)
      : proto(*model.proto.add_functions()) {
    proto.set_domain(kDomain);
    proto.set_name(name);
    for (const std::string& input : inputs) proto.add_input(input);
    for (const std::string& output : outputs) proto.add_output(output);
  }

  NodeRef Add(const std::string& op, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs, const std::string& domain = "") {
    onnx::NodeProto& node = *proto.add_node();
    node.set_op_type(op);
    node.set_domain(domain);
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    return NodeRef(node);
  }

  /// The node's attribute `name` is the function's attribute `of`.
  static void Refer(NodeRef node, const std::string& name, const std::string& of) {
    onnx::AttributeProto& attribute = *node.proto().add_attribute();
    attribute.set_name(name);
    attribute.set_ref_attr_name(of);
    attribute.set_type(onnx::AttributeProto::FLOAT);
  }

  onnx::FunctionProto& proto;
};

NodeRef Call(ModelBuilder& model, const std::string& function,
             const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  NodeRef node = model.Add(function, inputs, outputs);
  node.proto().set_domain(kDomain);
  return node;
}

ModelBuilder OneInput(std::int64_t opset = 13) {
  ModelBuilder model(opset);
  model.Input("x", {4}).Output("y");
  return model;
}

TEST(Functions, BecomeTheirNodes) {
  ModelBuilder called = OneInput(), plain = OneInput();
  Function function(called, "Twice", {"a"}, {"b"});
  function.Add("Sin", {"a"}, {"t"});
  function.Add("Cos", {"t"}, {"b"});
  Call(called, "Twice", {"x"}, {"m"});
  Call(called, "Twice", {"m"}, {"y"});  // the inner name "t" must differ from the first call's
  plain.Add("Sin", {"x"}, {"1"});
  plain.Add("Cos", {"1"}, {"2"});
  plain.Add("Sin", {"2"}, {"3"});
  plain.Add("Cos", {"3"}, {"y"});
  ExpectSameGraph(called, plain);
}

TEST(Functions, InnerNamesDoNotMeetNamesOfTheModel) {
  ModelBuilder called(13), plain(13);
  for (ModelBuilder* const model : {&called, &plain}) model->Input("F/t", {4}).Output("y");
  Function function(called, "F", {"a"}, {"b"});
  function.Add("Sin", {"a"}, {"t"});
  function.Add("Add", {"t", "a"}, {"b"});
  Call(called, "F", {"F/t"}, {"y"});
  plain.Add("Sin", {"F/t"}, {"s"});
  plain.Add("Add", {"s", "F/t"}, {"y"});
  ExpectSameGraph(called, plain);
}

TEST(Functions, CallFunctions) {
  ModelBuilder called = OneInput(), plain = OneInput();
  Function outer(called, "Outer", {"a"}, {"b"});
  outer.Add("Inner", {"a"}, {"t"}, kDomain);
  outer.Add("Cos", {"t"}, {"b"});
  Function inner(called, "Inner", {"a"}, {"b"});
  inner.Add("Sin", {"a"}, {"b"});
  Call(called, "Outer", {"x"}, {"y"});
  plain.Add("Sin", {"x"}, {"s"});
  plain.Add("Cos", {"s"}, {"y"});
  ExpectSameGraph(called, plain);
}

float AlphaOf(const ModelBuilder& model) {
  const Result<Graph> graph = model.Load();
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph && graph->nodes.size() == 1 ? graph->nodes[0].Float("alpha", 0) : 0;
}

TEST(Functions, TakeAttributesFromTheCallThenDefaultsThenTheOps) {
  ModelBuilder given = OneInput();
  Function function(given, "F", {"a"}, {"b"});
  function.proto.add_attribute("slope");
  Function::Refer(function.Add("LeakyRelu", {"a"}, {"b"}), "alpha", "slope");
  ModelBuilder left_out = given, with_default = given;
  Call(given, "F", {"x"}, {"y"}).Float("slope", 0.5f);
  EXPECT_EQ(AlphaOf(given), 0.5f);

  Call(left_out, "F", {"x"}, {"y"});
  EXPECT_EQ(AlphaOf(left_out), 0.01f);  // LeakyRelu's own

  onnx::AttributeProto attribute;
  attribute.set_name("slope");
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(0.25f);
  onnx::FunctionProto& proto = *with_default.proto.mutable_functions(0);
  proto.mutable_unknown_fields()->AddLengthDelimited(11, attribute.SerializeAsString());
  Call(with_default, "F", {"x"}, {"y"});
  EXPECT_EQ(AlphaOf(with_default), 0.25f);
}

TEST(Functions, MayLeaveOutInputsAndOutputs) {
  ModelBuilder called = OneInput(), plain = OneInput();
  for (ModelBuilder* const model : {&called, &plain}) model->Floats("high", {}, {0.5f});
  Function function(called, "F", {"a", "low", "high"}, {"b", "unused"});
  function.Add("Clip", {"a", "low", "high"}, {"b"});
  function.Add("Sin", {"a"}, {"unused"});
  Call(called, "F", {"x", "", "high"}, {"y"});
  plain.Add("Clip", {"x", "", "high"}, {"y"});
  ExpectSameGraph(called, plain);
}

TEST(Functions, MayPassAnInputThrough) {
  ModelBuilder model = OneInput();
  Function function(model, "F", {"a"}, {"a"});
  Call(model, "F", {"x"}, {"m"});
  model.Add("Sin", {"m"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Sin");
}

TEST(Functions, KeepTheOpsetThatTheyAreWrittenIn) {
  ModelBuilder model = OneInput(10);  // where the axes of a ReduceSum are an attribute
  model.Ints("axes", {0});
  Function function(model, "F", {"a", "axes"}, {"b"});
  onnx::OperatorSetIdProto& import = *function.proto.add_opset_import();
  import.set_domain("");
  import.set_version(13);
  function.Add("ReduceSum", {"a", "axes"}, {"b"}).Int("keepdims", 0);
  Call(model, "F", {"x", "axes"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "ReduceSum");

  import.set_version(kMaxOpset + 1);
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented), HasSubstr("opset 29"));
}

TEST(Functions, RenameWhatSubGraphsReadAndDefine) {
  ModelBuilder model = OneInput();
  Function function(model, "F", {"a", "flag"}, {"b"});
  function.Add("Sin", {"a"}, {"t"});
  onnx::NodeProto& choice = function.Add("If", {"flag"}, {"b"}).proto();
  onnx::AttributeProto& branch = *choice.add_attribute();
  branch.set_name("then_branch");
  branch.set_type(onnx::AttributeProto::GRAPH);
  onnx::NodeProto& inner = *branch.mutable_g()->add_node();
  inner.set_op_type("Add");
  inner.add_input("t");  // of the function
  inner.add_input("own");
  inner.add_output("a");  // hides the function's input
  branch.mutable_g()->add_initializer()->set_name("own");
  branch.mutable_g()->add_output()->set_name("a");
  Call(model, "F", {"x", "x"}, {"y"});
  ASSERT_TRUE(InlineFunctions(model.proto, 13, 1 << 20).has_value());
  ASSERT_EQ(model.graph().node_size(), 2);
  const onnx::GraphProto& graph = model.graph().node(1).attribute(0).g();
  EXPECT_EQ(graph.node(0).input(0), model.graph().node(0).output(0));
  EXPECT_EQ(graph.node(0).input(1), graph.initializer(0).name());
  EXPECT_EQ(graph.node(0).output(0), graph.output(0).name());
  EXPECT_NE(graph.output(0).name(), "x");
}

TEST(Functions, AreInlinedInSubGraphs) {
  ModelBuilder model = OneInput();
  Function(model, "F", {"a"}, {"b"}).Add("Sin", {"a"}, {"b"});
  onnx::AttributeProto& branch = *model.Add("If", {"x"}, {"y"}).proto().add_attribute();
  onnx::NodeProto& call = *branch.mutable_g()->add_node();
  call.set_op_type("F");
  call.set_domain(kDomain);
  call.add_input("x");
  call.add_output("z");
  ASSERT_TRUE(InlineFunctions(model.proto, 13, 1 << 20).has_value());
  const onnx::NodeProto& inner = model.graph().node(0).attribute(0).g().node(0);
  EXPECT_EQ(inner.op_type(), "Sin");
  EXPECT_EQ(inner.output(0), "z");
}

TEST(HostileFunctions, MayNotCallThemselves) {
  ModelBuilder model = OneInput();
  Function(model, "F", {"a"}, {"b"}).Add("G", {"a"}, {"b"}, kDomain);
  Function(model, "G", {"a"}, {"b"}).Add("F", {"a"}, {"b"}, kDomain);
  Call(model, "F", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("function 'F' of domain 'local' calls itself"));
}

TEST(HostileFunctions, MayNotGrowWithoutBound) {
  ModelBuilder model = OneInput();  // each function calls the next one twice: 2^40 nodes
  for (int i = 0; i < 40; ++i) {
    Function function(model, "F" + std::to_string(i), {"a"}, {"b"});
    const std::string next = i == 39 ? "Sin" : "F" + std::to_string(i + 1);
    const std::string domain = i == 39 ? "" : kDomain;
    function.Add(next, {"a"}, {"t"}, domain);
    function.Add(next, {"t"}, {"b"}, domain);
  }
  Call(model, "F0", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kResourceExhausted),
              HasSubstr("more than 65536 nodes"));
}

TEST(HostileFunctions, MayNotCopyWithoutBound) {
  ModelBuilder model = OneInput();
  Function function(model, "F", {"a"}, {"b"});
  function.Add("Sin", {"a"}, {"b"}).Text("ballast", std::string(1000, 'x'));
  for (int i = 0; i < 2000; ++i) {
    const std::string from = i == 0 ? "x" : "v" + std::to_string(i - 1);
    Call(model, "F", {from}, {i == 1999 ? "y" : "v" + std::to_string(i)});
  }
  ASSERT_FALSE(InlineFunctions(model.proto, 13, 1 << 20).has_value());
}

TEST(HostileFunctions, MayNotNestWithoutBound) {
  ModelBuilder model = OneInput();
  for (int i = 0; i < 100; ++i) {
    Function function(model, "F" + std::to_string(i), {"a"}, {"b"});
    function.Add("F" + std::to_string(i + 1), {"a"}, {"b"}, kDomain);
  }
  Function(model, "F100", {"a"}, {"b"}).Add("Sin", {"a"}, {"b"});
  Call(model, "F0", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kResourceExhausted),
              HasSubstr("more than 64 calls inside one another"));
}

TEST(HostileFunctions, MustFitTheirCalls) {
  ModelBuilder inputs = OneInput();
  Function(inputs, "F", {"a"}, {"b"}).Add("Sin", {"a"}, {"b"});
  ModelBuilder outputs = inputs, undefined = inputs, twice = inputs;
  Call(inputs, "F", {"x", "x"}, {"y"});
  EXPECT_THAT(MessageOf(inputs.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("takes 1 inputs, a call has 2"));
  Call(outputs, "F", {"x"}, {"y", "z"});
  EXPECT_THAT(MessageOf(outputs.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("has 1 outputs, a call takes 2"));
  undefined.proto.mutable_functions(0)->clear_node();
  Call(undefined, "F", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(undefined.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("nothing defines output 'y'"));
  Function(twice, "F", {"a"}, {"b"}).Add("Cos", {"a"}, {"b"});
  Call(twice, "F", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(twice.Import(), ErrorCode::kUnimplemented),
              HasSubstr("is defined twice; overloads are not supported"));
}

TEST(HostileFunctions, HaveNoOpsetsThatDoNotExist) {
  EXPECT_EQ(WrittenInOpset("ai.onnx@17"), 17);
  for (const char* const domain : {"", "ai.onnx", "ai.onnx@", "ai.onnx@0", "ai.onnx@99",
                                   "ai.onnx@1x", "ai.onnx17", "ai.onnx@99999999999999999999"}) {
    EXPECT_EQ(WrittenInOpset(domain), std::nullopt) << domain;
  }
}

}  // namespace
}  // namespace lagoon
