#include <gtest/gtest.h>

#include <random>

#include "graph/graph.h"
#include "graph/testing/fused_model.h"
#include "graph/testing/model_builder.h"
#include "graph/testing/reference.h"

namespace lagoon {
namespace {

using testing::AddBatchNorm;
using testing::AddConv;
using testing::ExpectSameOutputs;
using testing::Fused;
using testing::ModelBuilder;
using testing::Ops;

// Bias.

TEST(FuseBias, TakesOneNumberAChannel) {
  for (const Dims& dims : {Dims{4, 1, 1}, Dims{1, 4, 1, 1}, Dims{1}, Dims{}}) {
    ModelBuilder model;
    model.Input("x", {1, 2, 3, 3}).Output("y").Weights("k", dims);
    AddConv(model, "x", "c", 2, 4);
    model.Add("Add", {"k", "c"}, {"y"});
    const Graph graph = Fused(model);
    ASSERT_EQ(Ops(graph), "Conv") << ToString(dims);
    EXPECT_EQ(graph.value(graph.nodes[0].inputs[2]).dims, Dims{4});
  }
}

TEST(FuseBias, LeavesOtherShapesAlone) {
  for (const Dims& dims :
       {Dims{3}, Dims{3, 1}, Dims{4, 3, 3}, Dims{2, 4, 1, 1}, Dims{1, 1, 4, 1, 1}}) {
    ModelBuilder model;
    model.Input("x", {1, 2, 3, 3}).Output("y").Weights("k", dims);
    AddConv(model, "x", "c", 2, 4);
    model.Add("Add", {"c", "k"}, {"y"});
    EXPECT_EQ(Ops(Fused(model)), "Conv Add") << ToString(dims);
  }
}

TEST(FuseBias, AddsUp) {
  ModelBuilder model;
  model.Input("x", {2, 5, 3})
      .Output("y")
      .Weights("w", {3, 4})
      .Weights("a", {4})
      .Weights("b", {1, 4});
  model.Add("MatMul", {"x", "w"}, {"c"});
  model.Add("Add", {"c", "a"}, {"d"});
  model.Add("Add", {"d", "b"}, {"y"});
  EXPECT_EQ(Ops(Fused(model)), "MatMul");
}

// Equal nodes.

TEST(ShareEqualNodes, KeepsOnePositionForAllLayers) {
  ModelBuilder model;
  model.Input("at", {2, 1}, onnx::TensorProto::INT64).Input("x", {2, 6}).Output("y").Output("z");
  model.Ints("keys", {0, 1, 2, 3, 4, 5}).Ints("same_keys", {0, 1, 2, 3, 4, 5}).Ints("one", {1});
  model.Ints("others", {0, 1, 2, 3, 4, 6});
  model.Weights("low", {1});
  const auto layer = [&](const std::string& from, const std::string& keys, const std::string& to) {
    model.Add("Add", {"at", "one"}, {to + "_end"});
    model.Add("Less", {keys, to + "_end"}, {to + "_keep"});
    model.Add("Where", {to + "_keep", from, "low"}, {to});
  };
  layer("x", "keys", "a");
  layer("a", "same_keys", "y");
  layer("a", "others", "z");
  const Result<Graph> graph = model.Load();  // the reference computes no integers
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Add Less Where Where Less Where");
}

TEST(ShareEqualNodes, LeavesOutputsAndFloatsAlone) {
  ModelBuilder model;
  model.Input("at", {3}, onnx::TensorProto::INT64).Input("x", {3}).Output("a").Output("b");
  model.Output("c").Output("d").Ints("one", {1});
  model.Add("Add", {"at", "one"}, {"a"});
  model.Add("Add", {"at", "one"}, {"b"});
  model.Add("Exp", {"x"}, {"c"});
  model.Add("Exp", {"x"}, {"d"});
  const Result<Graph> graph = model.Load();  // as above
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Add Add Exp Exp");
}

TEST(FuseExpandedIndices, ReadsIndicesAsTheyAreBeforeAnExpand) {
  ModelBuilder model;
  model.Input("x", {6, 4, 5}).Output("y").Output("z").Ints("shape", {3, 4, 5});
  model.Input("which", {3, 1, 1}, onnx::TensorProto::INT64).Input("what", {3, 4, 5});
  model.Add("Expand", {"which", "shape"}, {"all"});
  model.Add("GatherElements", {"x", "all"}, {"y"}).Int("axis", 0);
  model.Add("ScatterElements", {"x", "all", "what"}, {"z"}).Int("axis", 0);
  const Result<Graph> graph = model.Load();  // what it computes: OneIndexMovesAWholeRow
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(Ops(*graph), "GatherElements ScatterElements");
  for (const Node& node : graph->nodes) {
    EXPECT_EQ(graph->value(node.inputs[1]).dims, (Dims{3, 1, 1}));
  }
  EXPECT_EQ(graph->value(graph->outputs[0]).dims, (Dims{3, 4, 5}));
}

TEST(FuseGemm, OfRowsThatAReshapeLaidOutIsAMatMulOfTheTensorItself) {
  ModelBuilder model;
  model.Input("x", {2, 3, 4}).Output("y").Output("z");
  model.Weights("w", {4, 6}).Weights("b", {6}).Ints("rows", {-1, 4}).Ints("back", {2, 3, 6});
  model.Ints("other", {3, 2, 6});
  model.Add("Reshape", {"x", "rows"}, {"r"});
  model.Add("Gemm", {"r", "w", "b"}, {"g"});
  model.Add("Reshape", {"g", "back"}, {"h"});
  model.Add("Relu", {"h"}, {"y"});
  model.Add("Gemm", {"r", "w", "b"}, {"k"});
  model.Add("Reshape", {"k", "other"}, {"z"});  // rows restored to another shape: stays
  EXPECT_EQ(Ops(Fused(model)), "Reshape MatMul Gemm Reshape");
}

TEST(FuseGemm, WithColumnsThatASplitDividesIsOneNodeForEachPart) {
  for (const std::int64_t axis : {-1, 2}) {
    ModelBuilder model;
    model.Input("x", {2, 3, 4}).Output("q").Output("k").Output("v");
    model.Weights("w", {4, 9}).Weights("b", {9}).Ints("sizes", {2, 3, 4});
    model.Add("MatMul", {"x", "w"}, {"m"});
    model.Add("Add", {"m", "b"}, {"a"});
    model.Add("Split", {"a", "sizes"}, {"q", "k", "v"}).Int("axis", axis);
    EXPECT_EQ(Ops(Fused(model)), "MatMul MatMul MatMul");
  }
  ModelBuilder unread;  // the first part stays, although nothing reads it
  unread.Input("x", {3, 4}).Output("k").Weights("w", {4, 9}).Ints("sizes", {2, 3, 4});
  unread.Add("MatMul", {"x", "w"}, {"m"});
  unread.Add("Split", {"m", "sizes"}, {"q", "k", "v"}).Int("axis", 1);
  const Graph graph = Fused(unread);
  EXPECT_EQ(Ops(graph), "MatMul");
  EXPECT_EQ(graph.value(graph.outputs[0]).dims, (Dims{3, 3}));
  ModelBuilder rows;
  rows.Input("x", {2, 3, 4}).Output("q").Output("k").Weights("w", {4, 9}).Ints("sizes", {1, 2});
  rows.Add("MatMul", {"x", "w"}, {"m"});
  rows.Add("Split", {"m", "sizes"}, {"q", "k"}).Int("axis", 1);
  EXPECT_EQ(Ops(Fused(rows)), "MatMul Split");
}

TEST(FuseGemm, TakesAlphaBetaAndEveryBiasShape) {
  for (const Dims& bias : {Dims{}, Dims{1}, Dims{1, 1}, Dims{4}, Dims{1, 4}}) {
    ModelBuilder model;
    model.Input("x", {2, 3}).Output("y").Weights("w", {4, 3}).Weights("b", bias);
    model.Add("Gemm", {"x", "w", "b"}, {"y"})
        .Int("transB", 1)
        .Float("alpha", 0.5f)
        .Float("beta", 3);
    const Graph graph = Fused(model);
    ASSERT_EQ(Ops(graph), "Gemm");
    EXPECT_EQ(graph.nodes[0].Float("alpha", 0), 1);
    EXPECT_EQ(graph.nodes[0].Float("beta", 0), 1);
    EXPECT_EQ(graph.value(graph.nodes[0].inputs[2]).dims, Dims{4});
  }
}

// Residuals.

TEST(FuseResidual, TakesTheSkipOfAResNetBlock) {
  ModelBuilder model;
  model.Input("x", {1, 4, 5, 5}).Output("y");
  AddConv(model, "x", "a", 4, 4);
  AddBatchNorm(model, "a", "an", 4);
  model.Add("Relu", {"an"}, {"ar"});
  AddConv(model, "ar", "b", 4, 4);
  AddBatchNorm(model, "b", "bn", 4);
  model.Add("Add", {"bn", "x"}, {"s"});
  model.Add("Relu", {"s"}, {"y"});
  const Graph graph = Fused(model);
  ASSERT_EQ(Ops(graph), "Conv Conv");
  EXPECT_EQ(graph.nodes[0].fused.activation, ActivationKind::kRelu);
  EXPECT_EQ(graph.nodes[0].fused.residual, kNoValue);
  EXPECT_EQ(graph.nodes[1].fused.activation, ActivationKind::kRelu);
  EXPECT_EQ(graph.nodes[1].fused.residual, graph.inputs[0]);
}

TEST(FuseResidual, OfTwoConvolutionsGoesIntoTheLater) {
  for (const bool swapped : {false, true}) {
    ModelBuilder model;
    model.Input("x", {1, 4, 5, 5}).Output("y");
    AddConv(model, "x", "main", 4, 4);
    AddConv(model, "x", "skip", 4, 4);
    model.Add("Add",
              swapped ? std::vector<std::string>{"skip", "main"}
                      : std::vector<std::string>{"main", "skip"},
              {"y"});
    const Graph graph = Fused(model);
    ASSERT_EQ(Ops(graph), "Conv Conv");
    EXPECT_EQ(graph.nodes[0].name, "main");
    EXPECT_EQ(graph.nodes[1].name, "skip");
    EXPECT_EQ(graph.nodes[1].fused.residual, graph.nodes[0].outputs[0]);
  }
}

TEST(FuseResidual, MovesTheConvolutionBehindItsResidual) {
  ModelBuilder model;
  model.Input("x", {1, 4, 5, 5}).Output("y");
  AddConv(model, "x", "early", 4, 4);
  model.Add("Tanh", {"x"}, {"t"});
  model.Add("Add", {"early", "t"}, {"y"});
  const Graph graph = Fused(model);
  ASSERT_EQ(Ops(graph), "Tanh Conv");
  EXPECT_EQ(graph.nodes[1].fused.residual, graph.nodes[0].outputs[0]);
}

TEST(FuseResidual, MakesNoCycle) {
  // The other operand of the sum depends on the convolution, which is read twice and so stays.
  ModelBuilder model;
  model.Input("x", {1, 4, 5, 5}).Output("y");
  AddConv(model, "x", "c", 4, 4);
  model.Add("Tanh", {"c"}, {"t"});
  model.Add("Add", {"c", "t"}, {"y"});
  EXPECT_EQ(Ops(Fused(model)), "Conv Tanh Add");
}

TEST(FuseResidual, LeavesGroupedConvolutionsAndOtherShapes) {
  ModelBuilder grouped;
  grouped.Input("x", {1, 4, 5, 5}).Output("y");
  AddConv(grouped, "x", "c", 4, 4, 4);
  grouped.Add("Add", {"c", "x"}, {"y"});
  EXPECT_EQ(Ops(Fused(grouped)), "Conv Add");

  ModelBuilder broadcast;
  broadcast.Input("x", {1, 4, 5, 5}).Input("s", {1, 4, 1, 1}).Output("y");
  AddConv(broadcast, "x", "c", 4, 4);
  broadcast.Add("Add", {"c", "s"}, {"y"});
  EXPECT_EQ(Ops(Fused(broadcast)), "Conv Add");
}

TEST(FuseResidual, PrefersAConvolutionThatTakesIt) {
  ModelBuilder model;
  model.Input("x", {1, 4, 5, 5}).Output("y");
  AddConv(model, "x", "dense", 4, 4);
  AddConv(model, "x", "depthwise", 4, 4, 4);
  model.Add("Add", {"dense", "depthwise"}, {"y"});
  const Graph graph = Fused(model);
  ASSERT_EQ(Ops(graph), "Conv Conv");
  EXPECT_EQ(graph.nodes[0].name, "depthwise");
  EXPECT_EQ(graph.nodes[1].name, "dense");
}

TEST(FuseResidual, LeavesRoomForABiasBehindIt) {
  ModelBuilder model;
  model.Input("x", {1, 4, 5, 5}).Output("y").Weights("k", {4, 1, 1});
  AddConv(model, "x", "c", 4, 4);
  model.Add("Add", {"c", "x"}, {"s"});
  model.Add("Add", {"s", "k"}, {"t"});
  model.Add("Relu", {"t"}, {"y"});
  EXPECT_EQ(Ops(Fused(model)), "Conv");
}

TEST(FuseResidual, StaysBehindAnActivation) {
  ModelBuilder model;
  model.Input("x", {1, 4, 5, 5}).Output("y");
  AddConv(model, "x", "c", 4, 4);
  model.Add("Relu", {"c"}, {"r"});
  model.Add("Add", {"r", "x"}, {"y"});
  const Graph graph = Fused(model);
  ASSERT_EQ(Ops(graph), "Conv");
  EXPECT_EQ(graph.nodes[0].fused.activation, ActivationKind::kRelu);
  EXPECT_TRUE(graph.nodes[0].fused.residual_last);
}

TEST(FuseResidual, OfAValueWithItselfStays) {
  ModelBuilder model;
  model.Input("x", {1, 4, 5, 5}).Output("y");
  AddConv(model, "x", "c", 4, 4);
  model.Add("Add", {"c", "c"}, {"y"});
  EXPECT_EQ(Ops(Fused(model)), "Conv Add");
}

// Activations.

TEST(FuseActivation, GoesIntoLinearNodesAndAdd) {
  ModelBuilder model(11);
  model.Input("x", {2, 3}).Output("y").Weights("w", {3, 3}).Weights("k", {2, 3});
  model.Floats("low", {}, {-0.5f}).Floats("high", {}, {0.25f});
  model.Add("MatMul", {"x", "w"}, {"a"});
  model.Add("Relu", {"a"}, {"b"});
  model.Add("Gemm", {"b", "w"}, {"c"});
  model.Add("Clip", {"c", "low", "high"}, {"d"});
  model.Add("Add", {"d", "k"}, {"e"});
  model.Add("Relu", {"e"}, {"y"});
  const Graph graph = Fused(model);
  ASSERT_EQ(Ops(graph), "MatMul Gemm Add");
  EXPECT_EQ(graph.nodes[0].fused.activation, ActivationKind::kRelu);
  EXPECT_EQ(graph.nodes[1].fused.activation, ActivationKind::kClip);
  EXPECT_EQ(graph.nodes[1].fused.low, -0.5f);
  EXPECT_EQ(graph.nodes[1].fused.high, 0.25f);
  EXPECT_EQ(graph.nodes[2].fused.activation, ActivationKind::kRelu);
}

TEST(FuseActivation, TakesOneOnly) {
  ModelBuilder model(10);
  model.Input("x", {1, 2, 3, 3}).Output("y");
  AddConv(model, "x", "c", 2, 2);
  model.Add("Relu", {"c"}, {"r"});
  model.Add("Clip", {"r"}, {"y"}).Float("min", 0.1f).Float("max", 0.2f);
  EXPECT_EQ(Ops(Fused(model)), "Conv Clip");
}

TEST(FuseActivation, LeavesIntermediatesThatAreNeeded) {
  ModelBuilder model;
  model.Input("x", {1, 2, 3, 3}).Output("y").Output("c");
  AddConv(model, "x", "c", 2, 2);
  model.Add("Relu", {"c"}, {"y"});
  EXPECT_EQ(Ops(Fused(model)), "Conv Relu");
}

TEST(FuseActivation, AFunctionGoesIntoTheSliceBefore) {
  for (const char* op : {"Tanh", "Relu"}) {
    ModelBuilder model;
    model.Input("x", {1, 2, 3, 9}).Output("y");
    model.Ints("starts", {2}).Ints("ends", {6}).Ints("axes", {3});
    model.Add("Slice", {"x", "starts", "ends", "axes"}, {"s"});
    model.Add(op, {"s"}, {"y"});
    const Graph graph = Fused(model);
    EXPECT_EQ(Ops(graph), op == std::string("Tanh") ? "Slice" : "Slice Relu");
  }
}

// All fusions on random graphs.

class RandomModel {
 public:
  explicit RandomModel(std::uint64_t seed) : random_(seed) {
    model_.Input("x", {1, kChannels, 4, 4});
    values_.push_back("x");
    const int nodes = 5 + static_cast<int>(random_() % 20);
    for (int i = 0; i < nodes; ++i) AddNode("v" + std::to_string(i));
    model_.Output(values_.back());
    if (random_() % 3 == 0) model_.Output(values_[values_.size() / 2 + 1]);
  }
  const ModelBuilder& model() const { return model_; }

 private:
  static constexpr std::int64_t kChannels = 4;

  // Prefers the latest values, so that both chains and branches arise.
  std::string Pick() {
    const std::size_t back =
        random_() % 4 == 0 ? std::min<std::size_t>(random_() % 4, values_.size() - 1) : 0;
    return values_[values_.size() - 1 - back];
  }

  void AddNode(const std::string& y) {
    switch (random_() % 8) {
      case 0:
      case 1:
        AddConv(model_, Pick(), y, kChannels, kChannels, random_() % 4 == 0 ? kChannels : 1);
        break;
      case 2:
        AddBatchNorm(model_, Pick(), y, kChannels);
        break;
      case 3:
        model_.Add("Relu", {Pick()}, {y});
        break;
      case 4:
        model_.Weights("k_" + y, {kChannels, 1, 1});
        model_.Add("Add", {"k_" + y, Pick()}, {y});
        break;
      case 5:
        model_.Add("Tanh", {Pick()}, {y});  // keeps numbers small
        break;
      case 6:
      case 7:
        model_.Add("Add", {values_[random_() % values_.size()], values_.back()}, {y});
        break;
    }
    values_.push_back(y);
  }

  std::mt19937_64 random_;
  ModelBuilder model_;
  std::vector<std::string> values_;
};

TEST(FuseOps, KeepsWhatRandomGraphsCompute) {
  std::size_t before = 0, after = 0, residuals = 0, activations = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const RandomModel random(seed);
    const Result<Graph> imported = random.model().Import();
    ASSERT_TRUE(imported.has_value()) << imported.error().message;
    const Graph fused = Fused(random.model());
    if (::testing::Test::HasFatalFailure() || ::testing::Test::HasNonfatalFailure()) return;
    before += imported->nodes.size();
    after += fused.nodes.size();
    for (const Node& node : fused.nodes) {
      residuals += node.fused.residual != kNoValue ? 1 : 0;
      activations += node.fused.activation != ActivationKind::kNone ? 1 : 0;
    }
  }
  // Enough was fused for the comparison to mean something.
  EXPECT_LT(after, before);
  EXPECT_GT(residuals, 50u);
  EXPECT_GT(activations, 50u);
}

TEST(FuseOps, IsDoneAfterOnePass) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Graph graph = Fused(RandomModel(seed).model());
    const Graph once = graph;
    ASSERT_TRUE(FuseOps(graph).has_value());
    EXPECT_EQ(Ops(graph), Ops(once)) << seed;
    ExpectSameOutputs(once, graph);
  }
}

}  // namespace
}  // namespace lagoon
