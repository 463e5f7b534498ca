// What the ops of opsets 24 to 28 become, and what they refuse.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/one_node.h"
#include "graph/testing/same_graph.h"

namespace lagoon {
namespace {

using testing::ExpectSameGraph;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::NodeRef;
using testing::OneNode;
using testing::Ops;

OneNode Scatter(const Dims& cache, const Dims& update, std::int64_t axis = -2) {
  return {.op = "TensorScatter",
          .dims = cache,
          .parameters = {"u", "at"},
          .prepare =
              [=](ModelBuilder& m) {
                m.Input("u", update).Input("at", {cache.empty() ? 1 : cache[0]}, 7);
              },
          .configure = [=](NodeRef n) { n.Int("axis", axis); },
          .opset = 24};
}

TEST(TensorScatter, WritesWhatFitsTheCache) {
  EXPECT_EQ(Scatter({2, 3, 8, 4}, {2, 3, 5, 4}).OutputDims(), (Dims{2, 3, 8, 4}));
  EXPECT_EQ(Scatter({2, 8, 4}, {2, 0, 4}).OutputDims(), (Dims{2, 8, 4}));
  EXPECT_THAT(Scatter({2, 8, 4}, {2, 9, 4}).Invalid(), HasSubstr("does not write [2,9,4] into"));
  EXPECT_FALSE(Scatter({2, 8, 4}, {2, 3, 5}).Import().has_value());
  EXPECT_FALSE(Scatter({2, 8, 4}, {3, 4}).Import().has_value());
  EXPECT_FALSE(Scatter({2, 8}, {2, 8}).Import().has_value());  // axis 0 is the batch
  EXPECT_FALSE(Scatter({2}, {2}).Import().has_value());
  OneNode unknown = Scatter({2, 8, 4}, {2, 3, 4});
  unknown.configure = [](NodeRef n) { n.Text("mode", "spiral"); };
  EXPECT_THAT(unknown.Invalid(), HasSubstr("mode is 'spiral'"));
}

OneNode Causal(const Dims& x, const Dims& w, const Dims& past) {
  return {.op = "CausalConvWithState",
          .dims = x,
          .parameters = {"w", "", "p"},
          .prepare = [=](ModelBuilder& m) { m.Input("w", w).Input("p", past); },
          .opset = 27,
          .outputs = 2};
}

TEST(CausalConv, TakesWeightsAndAStateThatFit) {
  EXPECT_EQ(Causal({1, 3, 2}, {3, 1, 4}, {1, 3, 3}).OutputDims(), (Dims{1, 3, 2}));
  EXPECT_EQ(Causal({1, 3, 2}, {3, 1, 4}, {1, 3, 3}).OutputDims(1), (Dims{1, 3, 3}));
  EXPECT_THAT(Causal({1, 3, 2}, {2, 1, 4}, {1, 3, 3}).Invalid(), HasSubstr("do not fit [1,3,2]"));
  EXPECT_THAT(Causal({1, 3, 2}, {3, 1, 4}, {1, 3, 4}).Invalid(), HasSubstr("expected is [1,3,3]"));
  EXPECT_FALSE(Causal({1, 3}, {3, 1}, {1, 3}).Import().has_value());
  EXPECT_FALSE(Causal({1, 3, 2}, {3, 1, 0}, {1, 3, 0}).Import().has_value());
  OneNode unknown = Causal({1, 3, 2}, {3, 1, 4}, {1, 3, 3});
  unknown.configure = [](NodeRef n) { n.Text("activation", "relu"); };
  EXPECT_THAT(unknown.Invalid(), HasSubstr("activation is 'relu'"));
}

OneNode Linear(std::int64_t steps, const char* rule = "linear", std::int64_t shared = 2) {
  return {.op = "LinearAttention",
          .dims = {1, steps, 8},
          .parameters = {"k", "v"},
          .prepare =
              [=](ModelBuilder& m) {
                m.Input("k", {1, steps, 4}).Input("v", {1, steps, 6});
              },
          .configure =
              [=](NodeRef n) {
                n.Text("update_rule", rule).Int("q_num_heads", 4).Int("kv_num_heads", shared);
              },
          .opset = 27,
          .outputs = 2};
}

TEST(LinearAttention, HasAStateForEachHeadOfTheKeys) {
  EXPECT_EQ(Linear(3).OutputDims(), (Dims{1, 3, 12}));
  EXPECT_EQ(Linear(3).OutputDims(1), (Dims{1, 2, 2, 3}));
  EXPECT_THAT(Linear(513).Unimplemented(), HasSubstr("supported are 1 to 512"));
  EXPECT_THAT(Linear(3, "cubic").Invalid(), HasSubstr("update_rule 'cubic' is unknown"));
  EXPECT_THAT(Linear(3, "gated").Invalid(), HasSubstr("input 4 is left out"));
  EXPECT_THAT(Linear(3, "delta").Invalid(), HasSubstr("input 5 is left out"));
  EXPECT_THAT(Linear(3, "linear", 0).Invalid(), HasSubstr("kv_num_heads is 0"));
  EXPECT_THAT(Linear(3, "linear", 3).Invalid(), HasSubstr("kv_num_heads is 3"));
  EXPECT_THAT(Linear(3, "linear", 1).Invalid(), HasSubstr("differ in size"));
  OneNode decayed = Linear(3);
  decayed.parameters = {"k", "v", "", "k"};
  EXPECT_THAT(decayed.Invalid(), HasSubstr("input 4 is not taken by this update_rule"));
}

TEST(Swish, IsTheFunctionThatFusionKnows) {
  ModelBuilder model(28);
  model.Input("x", {2, 8}).Weights("w", {8, 8}).Output("y");
  model.Add("MatMul", {"x", "w"}, {"p"});
  model.Add("Swish", {"p"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "MatMul");
}

TEST(SwiGlu, DoesNotBroadcast) {
  const OneNode gate{.op = "SwiGLU",
                     .dims = {2, 8},
                     .parameters = {"b"},
                     .prepare =
                         [](ModelBuilder& m) {
                           m.Input("b", {1, 8});
                         },
                     .opset = 28};
  EXPECT_THAT(gate.Invalid(), HasSubstr("shapes [2,8] and [1,8]"));
}

ModelBuilder Attention(std::int64_t opset = 25) {
  ModelBuilder model(opset);
  model.Input("q", {2, 1, 3, 8}).Input("k", {2, 1, 5, 8}).Input("n", {2}, 7).Output("y");
  return model;
}

TEST(WindowedAttention, IsTheAttentionKernelWithItsMask) {
  ModelBuilder window = Attention(), plain = Attention();
  window.Add("Attention", {"q", "k", "k"}, {"y"}).Int("left_window_size", 1 << 20);
  plain.Add("Attention", {"q", "k", "k"}, {"y"});
  ExpectSameGraph(window, plain);  // all keys lie in the window
  ModelBuilder in_use = Attention();
  in_use.Add("Attention", {"q", "k", "k", "", "", "", "n"}, {"y"}).Int("is_causal", 1);
  const Result<Graph> graph = in_use.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_THAT(Ops(*graph), HasSubstr("Attention"));
}

TEST(WindowedAttention, RefusesWhatHasNoMeaning) {
  ModelBuilder negative = Attention(), both = Attention(), old = Attention(24), half = Attention();
  negative.Add("Attention", {"q", "k", "k"}, {"y"}).Int("right_window_size", -2);
  EXPECT_THAT(MessageOf(negative.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("right_window_size is -2"));
  both.Add("Attention", {"q", "k", "k", "", "k", "k", "n"}, {"y"});
  EXPECT_THAT(MessageOf(both.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("both nonpad_kv_seqlen and a past"));
  old.Output("s")
      .Add("Attention", {"q", "k", "k"}, {"y", "", "", "s"})
      .Int("qk_matmul_output_mode", 1);
  EXPECT_THAT(MessageOf(old.Import(), ErrorCode::kUnimplemented), HasSubstr("from opset 25 on"));
  half.Add("Attention", {"q", "k", "k", "", "k"}, {"y"});
  EXPECT_THAT(MessageOf(half.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("input 5 is left out"));
}

TEST(BitCast, TakesTypesOfOneSize) {
  OneNode cast{.op = "BitCast", .dims = {3}, .opset = 26};
  EXPECT_THAT(cast.Invalid(), HasSubstr("has no 'to'"));
  cast.configure = [](NodeRef n) { n.Int("to", onnx::TensorProto::INT64); };
  EXPECT_THAT(cast.Invalid(), HasSubstr("input 'x' is FP32, which has not the size of INT64"));
  cast.configure = [](NodeRef n) { n.Int("to", 27); };
  EXPECT_THAT(cast.Unimplemented(), HasSubstr("ONNX element type 27"));
}

TEST(NewestOpsets, AreReadUpTo28WhateverTheIrVersion) {
  ModelBuilder model(28);
  model.proto.set_ir_version(14);
  model.Input("x", {2}).Output("y").Add("Relu", {"x"}, {"y"});
  EXPECT_TRUE(model.Import().has_value());
  ModelBuilder newer(29);
  newer.Input("x", {2}).Output("y").Add("Relu", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(newer.Import(), ErrorCode::kUnimplemented),
              HasSubstr("opset 29 is not supported, 1 to 28 are"));
}

}  // namespace
}  // namespace lagoon
