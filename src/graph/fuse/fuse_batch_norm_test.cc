#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "graph/graph.h"
#include "graph/testing/fused_model.h"

namespace lagoon {
namespace {

using testing::AddBatchNorm;
using testing::AddConv;
using ::testing::AllOf;
using testing::Fused;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::Ops;

TEST(FuseBatchNorm, GoesIntoTheConvolutionBefore) {
  for (const std::int64_t group : {1, 2, 4}) {
    ModelBuilder model;
    model.Input("x", {1, 4, 5, 5}).Output("y");
    AddConv(model, "x", "c", 4, 8, group);
    AddBatchNorm(model, "c", "y", 8);
    const Graph graph = Fused(model);
    ASSERT_EQ(Ops(graph), "Conv") << group;
    EXPECT_EQ(graph.nodes[0].inputs.size(), 3u);
    EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  }
}

TEST(FuseBatchNorm, ScalesAnExistingBias) {
  ModelBuilder model;
  model.Input("x", {1, 2, 3, 3}).Output("y").Weights("w", {3, 2, 1, 1}).Weights("b", {3});
  model.Add("Conv", {"x", "w", "b"}, {"c"});
  AddBatchNorm(model, "c", "y", 3);
  EXPECT_EQ(Ops(Fused(model)), "Conv");
}

TEST(FuseBatchNorm, GoesIntoMatricesOfEitherLayout) {
  for (const std::int64_t transposed : {0, 1}) {
    ModelBuilder model;
    model.Input("x", {2, 3}).Output("y").Weights("w", transposed ? Dims{4, 3} : Dims{3, 4});
    model.Weights("b", {4});
    model.Add("Gemm", {"x", "w", "b"}, {"c"}).Int("transB", transposed).Float("alpha", 0.5f);
    AddBatchNorm(model, "c", "y", 4);
    EXPECT_EQ(Ops(Fused(model)), "Gemm") << transposed;
  }
  ModelBuilder matmul;
  matmul.Input("x", {2, 3}).Output("y").Weights("w", {3, 4}).Weights("b", {4});
  matmul.Add("MatMul", {"x", "w"}, {"c"});
  matmul.Add("Add", {"b", "c"}, {"d"});
  AddBatchNorm(matmul, "d", "y", 4);
  EXPECT_EQ(Ops(Fused(matmul)), "MatMul");
}

TEST(FuseBatchNorm, StaysWhereItsChannelsAreOthers) {
  ModelBuilder model;
  model.Input("x", {2, 3, 5}).Output("y").Weights("w", {5, 3});
  model.Add("MatMul", {"x", "w"}, {"c"});
  AddBatchNorm(model, "c", "y", 3);
  EXPECT_EQ(Ops(Fused(model)), "MatMul Mul Add");
}

TEST(FuseBatchNorm, WithoutAConvolutionBecomesScaleAndShift) {
  for (const Dims& dims : {Dims{1, 4, 3, 3}, Dims{2, 4}, Dims{2, 4, 3}}) {
    ModelBuilder model;
    model.Input("x", dims).Output("y");
    AddBatchNorm(model, "x", "n", 4);
    model.Add("Relu", {"n"}, {"y"});
    const Graph graph = Fused(model);
    ASSERT_EQ(Ops(graph), dims.size() == 3 ? "Mul Add" : "ChannelAffine");
    const Dims expected = dims.size() == 3 ? Dims{1, 4, 1} : Dims{4};
    EXPECT_EQ(graph.value(graph.nodes[0].inputs[1]).dims, expected);
    EXPECT_EQ(graph.nodes.back().fused.activation, ActivationKind::kRelu);
  }
}

// As in DenseNet.
TEST(FuseBatchNorm, TakesTheJoinBeforeIt) {
  ModelBuilder model;
  model.Input("a", {2, 1, 3, 3}).Input("b", {2, 3, 3, 3}).Output("y");
  model.Add("Concat", {"a", "b"}, {"c"}).Int("axis", 1);
  AddBatchNorm(model, "c", "n", 4);
  model.Add("Tanh", {"n"}, {"y"});
  const Graph graph = Fused(model);
  ASSERT_EQ(Ops(graph), "ChannelAffine");
  EXPECT_EQ(graph.nodes[0].inputs.size(), 4u);
  EXPECT_EQ(graph.nodes[0].fused.op, "Tanh");
}

TEST(FuseBatchNorm, LeavesAJoinOfOtherAxesOrThatIsReadTwice) {
  for (const std::int64_t axis : {1, 2}) {
    ModelBuilder model;
    model.Input("a", {2, 2, 3, 3}).Input("b", {2, 2, 3, 3}).Output("y");
    if (axis == 1) model.Output("c");
    model.Add("Concat", {"a", "b"}, {"c"}).Int("axis", axis);
    AddBatchNorm(model, "c", "y", axis == 1 ? 4 : 2);
    EXPECT_EQ(Ops(Fused(model)), "Concat ChannelAffine");
  }
}

TEST(FuseBatchNorm, LeavesWeightsThatOthersShareAsTheyAre) {
  ModelBuilder model;
  model.Input("x", {1, 2, 3, 3}).Output("y").Output("z").Weights("w", {2, 2, 1, 1});
  model.Add("Conv", {"x", "w"}, {"c"});
  model.Add("Conv", {"x", "w"}, {"z"});
  AddBatchNorm(model, "c", "y", 2);
  EXPECT_EQ(Ops(Fused(model)), "Conv Conv");
}

TEST(FuseBatchNorm, LeavesAnIntermediateThatIsReadTwiceOrIsAnOutput) {
  ModelBuilder twice;
  twice.Input("x", {1, 2, 3, 3}).Output("y").Output("z");
  AddConv(twice, "x", "c", 2, 2);
  AddBatchNorm(twice, "c", "y", 2);
  twice.Add("Tanh", {"c"}, {"z"});
  EXPECT_EQ(Ops(Fused(twice)), "Conv ChannelAffine Tanh");

  ModelBuilder output;
  output.Input("x", {1, 2, 3, 3}).Output("y").Output("c");
  AddConv(output, "x", "c", 2, 2);
  AddBatchNorm(output, "c", "y", 2);
  EXPECT_EQ(Ops(Fused(output)), "Conv ChannelAffine");
}

TEST(FuseScale, TakesOneNumberAChannel) {
  for (const Dims& dims : {Dims{4, 1, 1}, Dims{1, 4, 1, 1}, Dims{1}, Dims{}}) {
    ModelBuilder model;
    model.Input("x", {1, 2, 3, 3}).Output("y").Weights("k", dims).Weights("b", {1});
    AddConv(model, "x", "c", 2, 4);
    model.Add("Mul", {"k", "c"}, {"d"});
    model.Add("Add", {"d", "b"}, {"y"});
    EXPECT_EQ(Ops(Fused(model)), "Conv") << ToString(dims);
  }
  // Of the last axis, with a bias before it.
  ModelBuilder matmul;
  matmul.Input("x", {2, 5, 3}).Output("y").Weights("w", {3, 4}).Weights("b", {4});
  matmul.Weights("k", {4});
  matmul.Add("MatMul", {"x", "w"}, {"c"});
  matmul.Add("Add", {"c", "b"}, {"d"});
  matmul.Add("Mul", {"d", "k"}, {"y"});
  EXPECT_EQ(Ops(Fused(matmul)), "MatMul");
}

TEST(FuseScale, LeavesOtherFactorsAlone) {
  for (const Dims& dims : {Dims{3}, Dims{3, 1}, Dims{4, 3, 3}, Dims{2, 4, 1, 1}}) {
    ModelBuilder model;
    model.Input("x", {1, 2, 3, 3}).Output("y").Weights("k", dims);
    AddConv(model, "x", "c", 2, 4);
    model.Add("Mul", {"c", "k"}, {"y"});
    EXPECT_EQ(Ops(Fused(model)), "Conv Mul") << ToString(dims);
  }
  // Zero times infinity is no number, whatever the weights are.
  ModelBuilder infinite;
  infinite.Input("x", {1, 2, 3, 3}).Output("y");
  infinite.Floats("k", {}, {std::numeric_limits<float>::infinity()});
  AddConv(infinite, "x", "c", 2, 4);
  infinite.Add("Mul", {"c", "k"}, {"y"});
  const Result<Graph> graph = infinite.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Conv Mul");
  // The product before the factor is an output too.
  ModelBuilder read;
  read.Input("x", {1, 2, 3, 3}).Output("y").Output("c").Floats("k", {}, {2});
  AddConv(read, "x", "c", 2, 4);
  read.Add("Mul", {"c", "k"}, {"y"});
  EXPECT_EQ(Ops(Fused(read)), "Conv Mul");
}

TEST(FuseBatchNorm, RefusesANegativeVariance) {
  for (const bool after_conv : {false, true}) {
    ModelBuilder model;
    model.Input("x", {1, 1, 2, 2}).Output("y");
    if (after_conv) AddConv(model, "x", "c", 1, 1);
    model.Floats("one", {1}, {1}).Floats("v", {1}, {-1});
    model.Add("BatchNormalization", {after_conv ? "c" : "x", "one", "one", "one", "v"}, {"y"})
        .Name("bn");
    EXPECT_THAT(
        MessageOf(model.Load(), ErrorCode::kInvalidArgument),
        AllOf(HasSubstr("node 'bn' (BatchNormalization, opset 13)"), HasSubstr("channel 0")));
  }
}

}  // namespace
}  // namespace lagoon
