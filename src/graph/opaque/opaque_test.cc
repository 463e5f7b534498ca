#include "graph/opaque/opaque.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/test_engine.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostOf;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::Ops;
using testing::TestEngine;

/// A model over x [2,3] with ops of the test engine.
class OpaqueModel : public ModelBuilder {
 public:
  OpaqueModel() {
    auto& import = *proto.add_opset_import();
    import.set_domain("test");
    import.set_version(3);
    Input("x", {2, 3});
  }
  testing::NodeRef Test(const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& output) {
    testing::NodeRef node = Add(op, inputs, {output});
    node.proto().set_domain("test");
    return node;
  }
  Result<Graph> With(const std::shared_ptr<TestEngine>& engine) const {
    ImportOptions options;
    options.engine = HostOf(engine);
    return Import(options);
  }
};

TEST(Opaque, ANodeWithoutAnEngineIsRefused) {
  OpaqueModel model;
  model.Output("y");
  model.Test("Twice", {"x"}, "y");
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented), HasSubstr("Twice"));
}

TEST(Opaque, AnUnknownOpBecomesAnOpaqueNode) {
  OpaqueModel model;
  model.Output("y").Add("Relu", {"x"}, {"a"});
  model.Test("Twice", {"a"}, "b");
  model.Add("Exp", {"b"}, {"y"});
  const auto engine = std::make_shared<TestEngine>();
  const Result<Graph> graph = model.With(engine);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Relu Opaque Exp");
  const Node& node = graph->nodes[1];
  EXPECT_THAT(node.opaque->ops, ElementsAre("test.Twice"));
  EXPECT_THAT(node.opaque->why, HasSubstr("the op is not supported"));
  EXPECT_EQ(graph->value(node.outputs[0]).dims, (Dims{2, 3}));
  // The domain's version is that of the file.
  ASSERT_EQ(engine->loaded.size(), 1U);
  EXPECT_EQ(engine->loaded[0].opset_import(1).domain(), "test");
  EXPECT_EQ(engine->loaded[0].opset_import(1).version(), 3);
}

TEST(Opaque, ConstantsGoWithTheNode) {
  OpaqueModel model;
  model.Output("y").Weights("w", {2, 3});
  model.Test("Both", {"x", "w"}, "y");
  const Result<Graph> graph = model.With(std::make_shared<TestEngine>());
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->nodes[0].inputs.size(), 1U);
  const Result<std::string> bytes = ToOnnx(graph->nodes[0].opaque->graph, InputDims::kOpen);
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(*bytes));
  ASSERT_EQ(proto.graph().initializer_size(), 1);
  EXPECT_EQ(proto.graph().initializer(0).raw_data().size(), 24U);
  const auto& shape = proto.graph().input(0).type().tensor_type().shape();
  ASSERT_EQ(shape.dim_size(), 2);
  EXPECT_FALSE(shape.dim(0).has_dim_value());
}

TEST(MergeOpaque, AChainIsOneNode) {
  OpaqueModel model;
  model.Output("y");
  model.Test("Twice", {"x"}, "a");
  model.Test("Twice", {"a"}, "b");
  model.Test("Both", {"a", "b"}, "y");
  const Result<Graph> graph = model.With(std::make_shared<TestEngine>());
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(Ops(*graph), "Opaque");
  EXPECT_THAT(graph->nodes[0].opaque->ops, ElementsAre("test.Both", "test.Twice"));
  EXPECT_EQ(graph->nodes[0].opaque->graph.nodes.size(), 3U);
  EXPECT_EQ(graph->nodes[0].outputs.size(), 1U);  // nothing else reads a and b
}

TEST(MergeOpaque, ANodeOfOursBetweenKeepsThemApart) {
  // a -> Relu -> Both and a -> Both: together they would read what they compute.
  OpaqueModel model;
  model.Output("y");
  model.Test("Twice", {"x"}, "a");
  model.Add("Relu", {"a"}, {"r"});
  model.Test("Both", {"a", "r"}, "y");
  const Result<Graph> graph = model.With(std::make_shared<TestEngine>());
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Opaque Relu Opaque");
}

TEST(MergeOpaque, WhatIsNotBetweenMovesAside) {
  // Relu reads a but does not lead to y: it comes after the merged node, which has two outputs.
  OpaqueModel model;
  model.Output("y").Output("r");
  model.Test("Twice", {"x"}, "a");
  model.Add("Relu", {"a"}, {"r"});
  model.Add("Tanh", {"x"}, {"t"});
  model.Test("Both", {"a", "t"}, "y");
  const Result<Graph> graph = model.With(std::make_shared<TestEngine>());
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Tanh Opaque Relu");
  EXPECT_EQ(graph->nodes[1].inputs.size(), 2U);
  EXPECT_EQ(graph->nodes[1].outputs.size(), 2U);
}

TEST(Opaque, AnOpThatTheEngineLacksIsRefused) {
  OpaqueModel model;
  model.Output("y").Add("NoSuchOp", {"x"}, {"y"});
  const std::string message =
      MessageOf(model.With(std::make_shared<TestEngine>()), ErrorCode::kUnimplemented);
  EXPECT_THAT(message, HasSubstr("NoSuchOp"));
  EXPECT_THAT(message, HasSubstr("test engine cannot run the model either: no op NoSuchOp"));
}

}  // namespace
}  // namespace lagoon
