// Sub-graphs in files: names of inner and outer graphs, and limits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/testing/folded.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using testing::Folded;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::Ops;
using Numbers = std::vector<double>;

ModelBuilder WithBranches(const onnx::GraphProto& branch) {
  ModelBuilder model;
  model.Input("x", {2}).Flag("c", true).Output("y");
  model.Add("If", {"c"}, {"y"})
      .Graph("then_branch", branch)
      .Graph("else_branch", branch)
      .Name("choice");
  return model;
}

std::string Refusal(const onnx::GraphProto& branch) {
  return MessageOf(WithBranches(branch).Import(), ErrorCode::kInvalidArgument);
}

TEST(SubGraph, ANameThatNoGraphDefinesIsRefused) {
  ModelBuilder branch;
  branch.Output("b");
  branch.Add("Add", {"x", "nowhere"}, {"b"});
  EXPECT_THAT(Refusal(branch.graph()),
              AllOf(HasSubstr("'choice'"), HasSubstr("nothing defines"), HasSubstr("'nowhere'")));
}

TEST(SubGraph, ABranchThatReadsItsOwnNodeIsRefused) {
  ModelBuilder branch;
  branch.Output("b");
  branch.Add("Relu", {"y"}, {"b"});
  EXPECT_THAT(Refusal(branch.graph()), HasSubstr("cycle"));
}

TEST(SubGraph, ErrorsNameBothNodes) {
  ModelBuilder branch;
  branch.Output("b");
  branch.Add("Relu", {"x"}, {"b"}).Name("inner").Int("a", 1).Int("a", 2);
  EXPECT_THAT(Refusal(branch.graph()),
              AllOf(HasSubstr("'choice'"), HasSubstr("'then_branch'"), HasSubstr("'inner'")));
  ModelBuilder twice;
  twice.Output("b");
  twice.Add("Relu", {"x"}, {"b"});
  twice.Add("Tanh", {"x"}, {"b"});
  EXPECT_THAT(Refusal(twice.graph()), HasSubstr("output 'b' is defined twice"));
}

TEST(SubGraph, DeadNodesOfABranchAreLeftOut) {
  ModelBuilder branch;
  branch.Output("b");
  branch.Add("Relu", {"x"}, {"b"});
  branch.Add("NoSuchOp", {"x"}, {"dead"});
  EXPECT_EQ(Ops(*WithBranches(branch.graph()).Load()), "Relu");
}

TEST(SubGraph, NodesOfABranchMayStandInAnyOrder) {
  ModelBuilder branch;
  branch.Output("b");
  branch.Add("Tanh", {"t"}, {"b"});
  branch.Add("Relu", {"x"}, {"t"});
  EXPECT_EQ(Ops(*WithBranches(branch.graph()).Load()), "Relu Tanh");
}

TEST(SubGraph, ReadsThroughSeveralGraphs) {
  ModelBuilder inner, outer;
  inner.Output("r");
  inner.Add("Add", {"w", "k"}, {"r"});
  outer.Output("b").Floats("k", {2}, {10, 20});
  outer.Add("If", {"c"}, {"b"})
      .Graph("then_branch", inner.graph())
      .Graph("else_branch", inner.graph());
  ModelBuilder model = WithBranches(outer.graph());
  model.Floats("w", {2}, {1, 2});
  EXPECT_EQ(Folded(model), (Numbers{11, 22}));
}

/// `depth` graphs inside one another.
ModelBuilder Nested(int depth) {
  ModelBuilder branch;
  branch.Output("b");
  branch.Add("Relu", {"x"}, {"b"});
  for (int i = 1; i < depth; ++i) {
    ModelBuilder outer;
    outer.Output("b");
    outer.Add("If", {"c"}, {"b"})
        .Graph("then_branch", branch.graph())
        .Graph("else_branch", ModelBuilder().Output("x").graph())
        .Name("level " + std::to_string(depth - i));
    branch = outer;
  }
  ModelBuilder model;
  model.Input("x", {2}).Flag("c", true).Output("y");
  model.Add("If", {"c"}, {"y"})
      .Graph("then_branch", branch.graph())
      .Graph("else_branch", ModelBuilder().Output("x").graph())
      .Name("level 0");
  return model;
}

TEST(SubGraph, SixteenInsideOneAnotherAreTaken) {
  const Result<Graph> graph = Nested(16).Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Relu");
}

TEST(SubGraph, MoreInsideOneAnotherAreRefused) {
  EXPECT_THAT(MessageOf(Nested(17).Import(), ErrorCode::kResourceExhausted),
              AllOf(HasSubstr("'level 16'"), HasSubstr("limit is 16")));
  EXPECT_THAT(MessageOf(Nested(30).Import(), ErrorCode::kResourceExhausted),
              HasSubstr("limit is 16"));
}

TEST(SubGraph, TheirNodesCount) {
  ModelBuilder branch;
  branch.Output("b");
  branch.Add("Relu", {"x"}, {"b"});
  for (int i = 0; i < 40'000; ++i) branch.graph().add_node();
  EXPECT_THAT(MessageOf(WithBranches(branch.graph()).Import(), ErrorCode::kResourceExhausted),
              HasSubstr("more than 65536 nodes"));
}

TEST(SubGraph, MoreThanOneOpTakesAreRefused) {
  ModelBuilder branch;
  branch.Output("x");
  ModelBuilder model = WithBranches(branch.graph());
  onnx::AttributeProto& more = *model.graph().mutable_node(0)->add_attribute();
  more.set_name("third");
  more.set_type(onnx::AttributeProto::GRAPH);
  *more.mutable_g() = branch.graph();
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented),
              HasSubstr("more than 2 sub-graphs"));
}

TEST(SubGraph, AListOfGraphsIsRefused) {
  ModelBuilder model = WithBranches(ModelBuilder().Output("x").graph());
  onnx::AttributeProto& list = *model.graph().mutable_node(0)->add_attribute();
  list.set_name("graphs");
  list.set_type(onnx::AttributeProto::GRAPHS);
  list.add_graphs();
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented), HasSubstr("'graphs'"));
}

}  // namespace
}  // namespace lagoon
