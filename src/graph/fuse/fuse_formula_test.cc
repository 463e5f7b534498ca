// Which formulas are recognised. tests/onnxruntime_test.py compares the results of the fused graphs
// with ONNX Runtime.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using testing::ModelBuilder;
using testing::Ops;

Graph Loaded(const ModelBuilder& model) {
  Result<Graph> graph = model.Load();
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph ? *std::move(graph) : Graph{};
}

/// (x - mean) / sqrt(mean((x - mean)^2) + epsilon) as "n"; the second mean is over `axis`.
void AddLayerNorm(ModelBuilder& m, std::int64_t axis = -1) {
  m.Input("x", {2, 7, 19}).Floats("two", {}, {2}).Floats("eps", {}, {1e-5F});
  m.Add("ReduceMean", {"x"}, {"m"}).Ints("axes", {-1});
  m.Add("Sub", {"x", "m"}, {"c"});
  m.Add("Pow", {"c", "two"}, {"p"});
  m.Add("ReduceMean", {"p"}, {"v"}).Ints("axes", {axis});
  m.Add("Add", {"v", "eps"}, {"a"});
  m.Add("Sqrt", {"a"}, {"s"});
  m.Add("Div", {"c", "s"}, {"n"});
}

TEST(FuseNormalization, WithScaleAndBiasIsOneNode) {
  ModelBuilder m;
  AddLayerNorm(m);
  m.Weights("g", {19}).Weights("b", {19}).Output("y");
  m.Add("Mul", {"g", "n"}, {"h"});
  m.Add("Add", {"h", "b"}, {"y"});
  const Graph graph = Loaded(m);
  ASSERT_EQ(Ops(graph), "LayerNormalization");
  EXPECT_EQ(graph.nodes[0].inputs.size(), 3U);
  EXPECT_EQ(graph.nodes[0].Int("axis", 0), 2);
  EXPECT_FLOAT_EQ(graph.nodes[0].Float("epsilon", 0), 1e-5F);
}

TEST(FuseNormalization, WithoutTheMeanItIsARootMeanSquareNorm) {
  ModelBuilder m;
  m.Input("x", {2, 19}).Floats("two", {}, {2}).Floats("eps", {}, {1e-5F}).Floats("one", {}, {1});
  m.Weights("g", {19}).Output("y");
  m.Add("Pow", {"x", "two"}, {"p"});
  m.Add("ReduceMean", {"p"}, {"v"}).Ints("axes", {-1});
  m.Add("Add", {"v", "eps"}, {"a"});
  m.Add("Sqrt", {"a"}, {"s"});
  m.Add("Div", {"one", "s"}, {"r"});
  m.Add("Mul", {"x", "r"}, {"n"});
  m.Add("Mul", {"g", "n"}, {"y"});
  EXPECT_EQ(Ops(Loaded(m)), "RMSNormalization");
}

TEST(FuseNormalization, MeansOverDifferentAxesStay) {
  ModelBuilder m;
  AddLayerNorm(m, 1);
  m.Output("n");
  EXPECT_THAT(Ops(Loaded(m)), ::testing::HasSubstr("Sqrt"));
}

TEST(FuseNormalization, AScaleThatMakesTheResultLargerStays) {
  ModelBuilder m;
  AddLayerNorm(m);
  m.Weights("g", {3, 1, 1, 19}).Output("y");
  m.Add("Mul", {"n", "g"}, {"y"});
  EXPECT_EQ(Ops(Loaded(m)), "LayerNormalization Mul");
}

/// 0.5 x (1 + erf(x / divisor)) as "y".
ModelBuilder Gelu(float divisor) {
  ModelBuilder m;
  m.Input("x", {3, 5}).Output("y");
  m.Floats("root", {}, {divisor}).Floats("one", {}, {1}).Floats("half", {}, {0.5F});
  m.Add("Div", {"x", "root"}, {"d"});
  m.Add("Erf", {"d"}, {"e"});
  m.Add("Add", {"e", "one"}, {"g"});
  m.Add("Mul", {"x", "g"}, {"m"});
  m.Add("Mul", {"m", "half"}, {"y"});
  return m;
}

/// x [3, 4] with the updates u at [1..2, 0..1], of which [1..2, 0..end) is taken.
ModelBuilder ScatteredSlice(std::int64_t end, std::int64_t third) {
  ModelBuilder m;
  m.Input("x", {3, 4}).Input("u", {4}).Output("y");
  *m.graph().add_initializer() = testing::RawTensor<std::int64_t>(
      "i", onnx::TensorProto::INT64, {4, 2}, {1, 0, 1, 1, third, 0, 2, 1});
  m.Ints("from", {1, 0}).Ints("to", {3, end});
  m.Add("ScatterND", {"x", "i", "u"}, {"s"});
  m.Add("Slice", {"s", "from", "to"}, {"y"});
  return m;
}

TEST(FuseIndices, ASliceOfWhatWasScatteredIsTheUpdates) {
  EXPECT_EQ(Ops(Loaded(ScatteredSlice(2, 2))), "Reshape");
  EXPECT_THAT(Ops(Loaded(ScatteredSlice(3, 2))), ::testing::HasSubstr("ScatterND Slice"));
  EXPECT_THAT(Ops(Loaded(ScatteredSlice(1, 2))), ::testing::HasSubstr("ScatterND Slice"));
  EXPECT_THAT(Ops(Loaded(ScatteredSlice(2, 0))), ::testing::HasSubstr("ScatterND Slice"));
}

TEST(FuseResidual, OverOneAxisToo) {
  ModelBuilder m;
  m.Input("x", {1, 4, 9}).Weights("w", {4, 4, 1}).Weights("k", {4, 1}).Output("y");
  m.Add("Conv", {"x", "w"}, {"c"});
  m.Add("Add", {"c", "k"}, {"d"});
  m.Add("Add", {"d", "x"}, {"a"});
  m.Add("Relu", {"a"}, {"y"});
  EXPECT_EQ(Ops(Loaded(m)), "Conv");
}

TEST(FuseGated, GeluIsRecognisedByItsConstants) {
  EXPECT_EQ(Ops(Loaded(Gelu(1.41421356F))), "Gelu");
  EXPECT_THAT(Ops(Loaded(Gelu(1.5F))), ::testing::HasSubstr("Erf"));
}

/// The approximation with tanh; the cubic term is ((0.044715 x) x) x, as JAX writes it, or one of a
/// formula that is no Gelu.
TEST(FuseGated, GeluWithTanhInAnyOrderOfProducts) {
  for (const std::string last : {"x", "half"}) {
    ModelBuilder m;
    m.Input("x", {3, 5}).Floats("c", {}, {0.044715F}).Floats("half", {}, {0.5F});
    m.Floats("root", {}, {0.7978845608F}).Floats("one", {}, {1}).Output("y");
    m.Add("Mul", {"c", "x"}, {"a"});
    m.Add("Mul", {"x", "a"}, {"b"});
    m.Add("Mul", {last, "b"}, {"d"});
    m.Add("Add", {"x", "d"}, {"e"});
    m.Add("Mul", {"root", "e"}, {"f"});
    m.Add("Tanh", {"f"}, {"t"});
    m.Add("Add", {"one", "t"}, {"g"});
    m.Add("Mul", {"half", "g"}, {"h"});
    m.Add("Mul", {"x", "h"}, {"y"});
    EXPECT_EQ(Ops(Loaded(m)) == "Gelu", last == "x");
  }
}

TEST(FuseGated, SwishGoesBehindAConvolution) {
  ModelBuilder m;
  m.Input("x", {1, 4, 5, 5}).Weights("w", {4, 4, 1, 1}).Output("y");
  m.Add("Conv", {"x", "w"}, {"c"});
  m.Add("Sigmoid", {"c"}, {"s"});
  m.Add("Mul", {"c", "s"}, {"y"});
  const Graph graph = Loaded(m);
  ASSERT_EQ(Ops(graph), "Conv");
  EXPECT_EQ(graph.nodes[0].fused.op, "Swish");
}

TEST(FuseGated, HardSwishIsRecognisedByItsSlope) {
  for (const float slope : {1.0F / 6, 0.2F}) {
    ModelBuilder m;
    m.Input("x", {1, 4, 5, 5}).Weights("w", {4, 4, 1, 1}).Output("y");
    m.Add("Conv", {"x", "w"}, {"c"});
    m.Add("HardSigmoid", {"c"}, {"s"}).Float("alpha", slope).Float("beta", 0.5F);
    m.Add("Mul", {"s", "c"}, {"y"});
    EXPECT_EQ(Ops(Loaded(m)), slope == 0.2F ? "Conv HardSigmoid Mul" : "Conv");
  }
}

/// x * clip(x + `shift`, 0, `most`) / 6, with the division behind the product or before it.
std::string HardSwishOps(float shift, float most, bool division_last) {
  ModelBuilder m;
  m.Input("x", {1, 4, 5, 5}).Weights("w", {4, 4, 1, 1}).Output("y");
  m.Floats("shift", {}, {shift}).Floats("most", {}, {most}).Floats("none", {}, {0});
  m.Floats("six", {1}, {6}).Floats("sixth", {}, {1.0F / 6});
  m.Add("Conv", {"x", "w"}, {"c"});
  m.Add("Add", {"shift", "c"}, {"a"});
  m.Add("Clip", {"a", "none", "most"}, {"g"});
  if (division_last) {
    m.Add("Mul", {"c", "g"}, {"p"});
    m.Add("Div", {"p", "six"}, {"y"});
  } else {
    m.Add("Mul", {"g", "sixth"}, {"h"});
    m.Add("Mul", {"h", "c"}, {"y"});
  }
  return Ops(Loaded(m));
}

TEST(FuseGated, HardSwishIsRecognisedByItsClip) {
  for (const bool last : {true, false}) {
    EXPECT_EQ(HardSwishOps(3, 6, last), "Conv");
    EXPECT_THAT(HardSwishOps(2, 6, last), ::testing::HasSubstr("Mul"));
    EXPECT_THAT(HardSwishOps(3, 5, last), ::testing::HasSubstr("Mul"));
  }
}

TEST(FuseResidual, FollowsTheActivationWhereTheFileSaysSo) {
  ModelBuilder m;
  m.Input("x", {1, 4, 5, 5}).Weights("w", {4, 4, 1, 1}).Output("y");
  m.Add("Conv", {"x", "w"}, {"c"});
  m.Add("LeakyRelu", {"c"}, {"a"}).Float("alpha", 0.1F);
  m.Add("Add", {"x", "a"}, {"y"});
  const Graph graph = Loaded(m);
  ASSERT_EQ(Ops(graph), "Conv");
  EXPECT_EQ(graph.nodes[0].fused.op, "LeakyRelu");
  EXPECT_TRUE(graph.nodes[0].fused.residual_last);
}

ModelBuilder Attention() {
  ModelBuilder m;
  m.Input("q", {1, 7, 2, 16}).Input("k", {1, 13, 2, 16}).Input("v", {1, 13, 2, 11});
  m.Input("mask", {1, 1, 1, 13}).Floats("eight", {}, {8}).Output("y");
  m.Add("Transpose", {"q"}, {"qt"}).Ints("perm", {0, 2, 1, 3});
  m.Add("Transpose", {"k"}, {"kt"}).Ints("perm", {0, 2, 3, 1});
  m.Add("Transpose", {"v"}, {"vt"}).Ints("perm", {0, 2, 1, 3});
  m.Add("MatMul", {"qt", "kt"}, {"s"});
  m.Add("Div", {"s", "eight"}, {"d"});
  m.Add("Add", {"d", "mask"}, {"t"});
  m.Add("Softmax", {"t"}, {"p"}).Int("axis", -1);
  m.Add("MatMul", {"p", "vt"}, {"o"});
  m.Add("Transpose", {"o"}, {"y"}).Ints("perm", {0, 2, 1, 3});
  return m;
}

TEST(FuseAttention, TakesScaleMaskAndTranspositions) {
  const Graph graph = Loaded(Attention());
  ASSERT_EQ(Ops(graph), "Attention");
  const Node& node = graph.nodes[0];
  EXPECT_FLOAT_EQ(node.Float("scale", 0), 0.125F);
  EXPECT_EQ(graph.value(node.inputs[0]).name, "q");
  EXPECT_EQ(graph.value(node.inputs[3]).name, "mask");
  EXPECT_EQ(node.inputs[4], kNoValue);
  EXPECT_THAT(node.Ints("q_order", {}), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(node.Ints("k_order", {}), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(node.Ints("y_order", {}), ElementsAre(0, 2, 1, 3));
}

/// Two attentions as Attention(), with batch and heads merged for the products, and two masks.
ModelBuilder MergedAttentions() {
  ModelBuilder m;
  m.Input("q", {2, 7, 3, 16}).Input("k", {2, 13, 3, 16}).Input("v", {6, 13, 11});
  m.Input("mask", {2, 1, 1, 13}).Input("bias", {1, 3, 7, 13});
  m.Ints("q3", {6, 7, 16}).Ints("k3", {6, 13, 16}).Ints("s4", {2, 3, 7, 13}).Ints("s3", {6, 7, 13});
  m.Ints("y4", {2, 3, 7, 11});
  m.Add("Transpose", {"q"}, {"qt"}).Ints("perm", {0, 2, 1, 3});
  m.Add("Transpose", {"k"}, {"kt"}).Ints("perm", {0, 2, 1, 3});
  m.Add("Reshape", {"qt", "q3"}, {"qr"});
  m.Add("Reshape", {"kt", "k3"}, {"kr"});
  m.Add("Transpose", {"kr"}, {"ks"}).Ints("perm", {0, 2, 1});
  for (const std::string n : {"1", "2"}) {
    m.Add("MatMul", {"qr", "ks"}, {"s" + n});
    m.Add("Reshape", {"s" + n, "s4"}, {"a" + n});
    m.Add("Add", {"a" + n, "bias"}, {"b" + n});
    m.Add("Add", {"mask", "b" + n}, {"c" + n});
    m.Add("Reshape", {"c" + n, "s3"}, {"d" + n});
    m.Add("Softmax", {"d" + n}, {"p" + n}).Int("axis", -1);
    m.Add("MatMul", {"p" + n, "v"}, {"o" + n});
    m.Add("Reshape", {"o" + n, "y4"}, {"r" + n});
    m.Add("Transpose", {"r" + n}, {"y" + n}).Ints("perm", {0, 2, 1, 3});
    m.Output("y" + n);
  }
  return m;
}

TEST(FuseAttention, ReadsMergedHeadsAsTheyLieAndAddsTwoMasksOnce) {
  const Graph graph = Loaded(MergedAttentions());
  ASSERT_EQ(Ops(graph), "Add Attention Attention");
  for (const std::size_t i : {1U, 2U}) {
    const Node& node = graph.nodes[i];
    EXPECT_EQ(graph.value(node.inputs[0]).name, "q");
    EXPECT_EQ(graph.value(node.inputs[1]).name, "k");
    EXPECT_EQ(node.inputs[3], graph.nodes[0].outputs[0]);
    EXPECT_THAT(node.Ints("q_order", {}), ElementsAre(0, 2, 1, 3));
    EXPECT_THAT(node.Ints("k_order", {}), ElementsAre(0, 2, 1, 3));
    EXPECT_THAT(node.Ints("v_dims", {}), ElementsAre(2, 3, 13, 11));
    EXPECT_THAT(node.Ints("mask_dims", {}), ElementsAre(2, 3, 7, 13));
    EXPECT_THAT(node.Ints("y_dims", {}), ElementsAre(2, 7, 3, 11));
  }
}

/// Another reader of the scores with the mask needs them without the sum of two masks.
TEST(FuseAttention, KeepsScoresThatAreReadToo) {
  ModelBuilder m = MergedAttentions();
  m.Output("c2");
  EXPECT_THAT(Ops(Loaded(m)), ::testing::HasSubstr("Softmax MatMul"));
}

TEST(FuseAttention, StaysOpenWhereItsProbabilitiesAreReadToo) {
  ModelBuilder m = Attention();
  m.Output("p");
  EXPECT_THAT(Ops(Loaded(m)), ::testing::HasSubstr("Softmax MatMul"));
}

}  // namespace
}  // namespace lagoon
