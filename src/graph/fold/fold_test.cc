// Values that the importer computes, and what folding drops.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "graph/graph.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::Ops;
using testing::RawTensor;
using Ints = std::vector<std::int64_t>;

// The constant "c" that `build` makes from initialisers; "x" is an input of [2,3,4].
Result<Constant> Computed(const std::function<void(ModelBuilder&)>& build,
                          std::int64_t opset = 13) {
  ModelBuilder model(opset);
  model.Input("x", {2, 3, 4}).Output("c");
  build(model);
  // Converts "c" to fp32, the type of the declared output.
  for (onnx::NodeProto& node : *model.graph().mutable_node()) {
    for (std::string& name : *node.mutable_output()) {
      if (name == "c") name = "value";
    }
  }
  model.Add("Cast", {"value"}, {"c"}).Int("to", onnx::TensorProto::FLOAT);
  const Result<Graph> graph = model.Import();
  if (!graph) return tl::unexpected(graph.error());
  const Value& value = graph->value(graph->outputs[0]);
  if (!value.constant) return Fail(ErrorCode::kInternal, "not constant");
  EXPECT_TRUE(graph->nodes.empty());
  return *value.constant;
}

std::vector<float> Numbers(const std::function<void(ModelBuilder&)>& build,
                           std::int64_t opset = 13) {
  const Result<Constant> constant = Computed(build, opset);
  if (!constant) {
    ADD_FAILURE() << constant.error().message;
    return {};
  }
  const auto floats = constant->floats();
  return {floats.begin(), floats.end()};
}

TEST(Evaluate, ShapeAndSize) {
  EXPECT_THAT(Numbers([](ModelBuilder& m) { m.Add("Shape", {"x"}, {"c"}); }), ElementsAre(2, 3, 4));
  EXPECT_THAT(Numbers([](ModelBuilder& m) { m.Add("Size", {"x"}, {"c"}); }), ElementsAre(24));
  EXPECT_THAT(
      Numbers([](ModelBuilder& m) { m.Add("Shape", {"x"}, {"c"}).Int("start", -2).Int("end", 9); },
              15),
      ElementsAre(3, 4));
}

TEST(Evaluate, Constants) {
  EXPECT_THAT(Numbers([](ModelBuilder& m) { m.Add("Constant", {}, {"c"}).Int("value_int", 7); }),
              ElementsAre(7));
  EXPECT_THAT(
      Numbers([](ModelBuilder& m) { m.Add("Constant", {}, {"c"}).Float("value_float", 0.5f); }),
      ElementsAre(0.5f));
  EXPECT_THAT(Numbers([](ModelBuilder& m) {
                m.Add("Constant", {}, {"c"}).Ints("value_ints", {1, 2});
              }),
              ElementsAre(1, 2));
  EXPECT_THAT(Numbers([](ModelBuilder& m) {
                m.Add("Constant", {}, {"c"}).Floats("value_floats", {1, 2});
              }),
              ElementsAre(1, 2));
  EXPECT_THAT(Numbers([](ModelBuilder& m) {
                m.Add("Constant", {}, {"c"})
                    .Tensor("value", RawTensor<double>("", onnx::TensorProto::DOUBLE, {2}, {3, 4}));
              }),
              ElementsAre(3, 4));
  EXPECT_THAT(MessageOf(Computed([](ModelBuilder& m) { m.Add("Constant", {}, {"c"}); }),
                        ErrorCode::kInvalidArgument),
              HasSubstr("has 0 values"));
}

TEST(Evaluate, ConstantOfShape) {
  EXPECT_THAT(Numbers([](ModelBuilder& m) {
                m.Ints("s", {2, 2});
                m.Add("ConstantOfShape", {"s"}, {"c"})
                    .Tensor("value",
                            RawTensor<std::int32_t>("", onnx::TensorProto::INT32, {1}, {9}));
              }),
              ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(Numbers([](ModelBuilder& m) {
                m.Ints("s", {2});
                m.Add("ConstantOfShape", {"s"}, {"c"});
              }),
              ElementsAre(0, 0));
}

TEST(Evaluate, Range) {
  const auto range = [](std::int64_t start, std::int64_t limit, std::int64_t delta) {
    return Numbers([=](ModelBuilder& m) {
      m.Ints("a", {start}).Ints("b", {limit}).Ints("d", {delta});
      m.Add("Range", {"a", "b", "d"}, {"c"});
    });
  };
  EXPECT_THAT(range(2, 9, 3), ElementsAre(2, 5, 8));
  EXPECT_THAT(range(5, 0, -2), ElementsAre(5, 3, 1));
  EXPECT_THAT(range(0, -1, 1), ElementsAre());
  EXPECT_THAT(range(INT64_MIN, INT64_MAX, INT64_MAX), ::testing::SizeIs(3));
  EXPECT_THAT(Numbers([](ModelBuilder& m) {
                m.Floats("a", {}, {0}).Floats("b", {}, {1}).Floats("d", {}, {0.4f});
                m.Add("Range", {"a", "b", "d"}, {"c"});
              }),
              ElementsAre(0, 0.4f, 0.8f));
  EXPECT_THAT(MessageOf(Computed([](ModelBuilder& m) {
                          m.Ints("a", {0}).Ints("b", {1}).Ints("d", {0});
                          m.Add("Range", {"a", "b", "d"}, {"c"});
                        }),
                        ErrorCode::kInvalidArgument),
              HasSubstr("delta of 0"));
  EXPECT_THAT(MessageOf(Computed([](ModelBuilder& m) {
                          m.Floats("a", {}, {0}).Floats("b", {}, {INFINITY}).Floats("d", {}, {1});
                          m.Add("Range", {"a", "b", "d"}, {"c"});
                        }),
                        ErrorCode::kInvalidArgument),
              HasSubstr("no end"));
}

std::vector<float> OfMatrix(const std::function<void(ModelBuilder&)>& build) {
  return Numbers([&](ModelBuilder& m) {
    m.Floats("m", {2, 3}, {0, 1, 2, 10, 11, 12});
    build(m);
  });
}

TEST(Evaluate, Movement) {
  EXPECT_THAT(OfMatrix([](ModelBuilder& m) { m.Add("Transpose", {"m"}, {"c"}); }),
              ElementsAre(0, 10, 1, 11, 2, 12));
  EXPECT_THAT(OfMatrix([](ModelBuilder& m) {
                m.Ints("i", {-1, 0});
                m.Add("Gather", {"m", "i"}, {"c"}).Int("axis", 1);
              }),
              ElementsAre(2, 0, 12, 10));
  EXPECT_THAT(OfMatrix([](ModelBuilder& m) {
                m.Add("Concat", {"m", "m"}, {"c"}).Int("axis", 1);
              }),
              ElementsAre(0, 1, 2, 0, 1, 2, 10, 11, 12, 10, 11, 12));
  EXPECT_THAT(OfMatrix([](ModelBuilder& m) {
                m.Ints("s", {2, 2, 3});
                m.Add("Expand", {"m", "s"}, {"c"});
              }),
              ElementsAre(0, 1, 2, 10, 11, 12, 0, 1, 2, 10, 11, 12));
  EXPECT_THAT(OfMatrix([](ModelBuilder& m) {
                m.Ints("s", {1, 2});
                m.Add("Split", {"m", "s"}, {"unread", "c"}).Int("axis", 1);
              }),
              ElementsAre(1, 2, 11, 12));
  EXPECT_THAT(OfMatrix([](ModelBuilder& m) {
                m.Ints("s", {3, -1});
                m.Add("Reshape", {"m", "s"}, {"c"});
              }),
              ElementsAre(0, 1, 2, 10, 11, 12));
}

TEST(Evaluate, SliceWithEitherSign) {
  const auto slice = [](const Ints& starts, const Ints& ends, const Ints& axes, const Ints& steps) {
    return OfMatrix([=](ModelBuilder& m) {
      m.Ints("s", starts).Ints("e", ends).Ints("a", axes).Ints("t", steps);
      m.Add("Slice", {"m", "s", "e", "a", "t"}, {"c"});
    });
  };
  EXPECT_THAT(slice({1}, {3}, {1}, {1}), ElementsAre(1, 2, 11, 12));
  EXPECT_THAT(slice({0}, {3}, {1}, {2}), ElementsAre(0, 2, 10, 12));
  EXPECT_THAT(slice({-1}, {INT64_MIN}, {1}, {-1}), ElementsAre(2, 1, 0, 12, 11, 10));
  EXPECT_THAT(slice({1, 2}, {-9, 0}, {0, 1}, {-1, -2}), ElementsAre(12, 2));
  EXPECT_THAT(slice({2}, {INT64_MIN}, {1}, {INT64_MIN}), ElementsAre(2, 12));
  EXPECT_THAT(slice({2}, {2}, {1}, {1}), ElementsAre());
}

TEST(Evaluate, GatherChecksItsIndices) {
  for (const std::int64_t index : {3, -4}) {
    EXPECT_THAT(MessageOf(Computed([=](ModelBuilder& m) {
                            m.Weights("m", {3}).Ints("i", {index});
                            m.Add("Gather", {"m", "i"}, {"c"});
                          }),
                          ErrorCode::kInvalidArgument),
                HasSubstr("index " + std::to_string(index)));
  }
}

std::vector<float> OfInts(const std::string& op, const Ints& a, const Ints& b) {
  return Numbers([&](ModelBuilder& m) {
    m.Ints("a", a).Ints("b", b);
    m.Add(op, {"a", "b"}, {"c"});
  });
}

TEST(Evaluate, IntegerArithmetic) {
  EXPECT_THAT(OfInts("Add", {1, 2}, {10}), ElementsAre(11, 12));
  EXPECT_THAT(OfInts("Sub", {1}, {10, 20}), ElementsAre(-9, -19));
  EXPECT_THAT(OfInts("Mul", {3}, {4}), ElementsAre(12));
  EXPECT_THAT(OfInts("Div", {7, -7}, {2, 2}), ElementsAre(3, -3));
  EXPECT_THAT(OfInts("Min", {7, -7}, {2, 2}), ElementsAre(2, -7));
  EXPECT_THAT(OfInts("Max", {7, -7}, {2, 2}), ElementsAre(7, 2));
  EXPECT_THAT(OfInts("Equal", {7, -7}, {2, -7}), ElementsAre(0, 1));
}

TEST(Evaluate, IntegerOverflowWrapsAndDivisionByZeroIsAnError) {
  const float lowest = static_cast<float>(INT64_MIN);
  EXPECT_THAT(OfInts("Add", {INT64_MAX}, {1}), ElementsAre(lowest));
  EXPECT_THAT(OfInts("Mul", {INT64_MIN}, {-1}), ElementsAre(lowest));
  EXPECT_THAT(OfInts("Div", {INT64_MIN}, {-1}), ElementsAre(lowest));
  EXPECT_THAT(MessageOf(Computed([](ModelBuilder& m) {
                          m.Ints("a", {1}).Ints("b", {0});
                          m.Add("Div", {"a", "b"}, {"c"});
                        }),
                        ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("'Div_0'"), HasSubstr("by zero")));
}

TEST(Evaluate, FloatArithmetic) {
  const auto of = [](const std::string& op) {
    return Numbers([&](ModelBuilder& m) {
      m.Floats("a", {2}, {4, 9}).Floats("b", {}, {0.5f});
      m.Add(op, {"a", "b"}, {"c"});
    });
  };
  EXPECT_THAT(of("Add"), ElementsAre(4.5f, 9.5f));
  EXPECT_THAT(of("Div"), ElementsAre(8, 18));
  EXPECT_THAT(of("Pow"), ElementsAre(2, 3));
  const auto unary = [](const std::string& op) {
    return Numbers([&](ModelBuilder& m) {
      m.Floats("a", {2}, {2.25f, 6.25f});
      m.Add(op, {"a"}, {"c"});
    });
  };
  EXPECT_THAT(unary("Sqrt"), ElementsAre(1.5f, 2.5f));
  EXPECT_THAT(unary("Neg"), ElementsAre(-2.25f, -6.25f));
  EXPECT_THAT(unary("Floor"), ElementsAre(2, 6));
  EXPECT_THAT(unary("Ceil"), ElementsAre(3, 7));
}

TEST(Evaluate, SumsOfMany) {
  EXPECT_THAT(Numbers([](ModelBuilder& m) {
                m.Floats("a", {2}, {1, 2}).Floats("b", {1}, {10}).Floats("d", {}, {100});
                m.Add("Sum", {"a", "b", "d"}, {"c"});
              }),
              ElementsAre(111, 112));
}

TEST(Evaluate, Reductions) {
  const auto reduce = [](const std::string& op, const Ints& axes) {
    return OfMatrix([&](ModelBuilder& m) { m.Add(op, {"m"}, {"c"}).Ints("axes", axes); });
  };
  EXPECT_THAT(reduce("ReduceProd", {1}), ElementsAre(0, 1320));
  EXPECT_THAT(reduce("ReduceMean", {0}), ElementsAre(5, 6, 7));
  EXPECT_THAT(reduce("ReduceMax", {0, 1}), ElementsAre(12));
  EXPECT_THAT(reduce("ReduceMin", {1}), ElementsAre(0, 10));
  EXPECT_THAT(OfMatrix([](ModelBuilder& m) { m.Add("ReduceSum", {"m"}, {"c"}); }), ElementsAre(36));
}

TEST(Evaluate, Where) {
  EXPECT_THAT(Numbers([](ModelBuilder& m) {
                m.Ints("a", {1, -1, 1}).Ints("b", {-1}).Ints("d", {7, 8, 9});
                m.Add("Equal", {"a", "b"}, {"e"});
                m.Add("Where", {"e", "d", "a"}, {"c"});
              }),
              ElementsAre(1, 8, 1));
}

TEST(Evaluate, CastsSaturate) {
  const auto through = [](std::int64_t type) {
    return Numbers([=](ModelBuilder& m) {
      m.Floats("a", {5}, {-2.9f, 2.9f, 1e30f, -INFINITY, NAN});
      m.Add("Cast", {"a"}, {"c"}).Int("to", type);
    });
  };
  EXPECT_THAT(through(onnx::TensorProto::INT8), ElementsAre(-2, 2, 127, -128, 0));
  EXPECT_THAT(through(onnx::TensorProto::UINT8), ElementsAre(0, 2, 255, 0, 0));
  EXPECT_THAT(through(onnx::TensorProto::INT64), ElementsAre(-2, 2, 0x1p63f, -0x1p63f, 0));
  EXPECT_THAT(through(onnx::TensorProto::BOOL), ElementsAre(1, 1, 1, 1, 1));
}

TEST(Evaluate, CastsHalfPrecisionWeights) {
  EXPECT_THAT(Numbers([](ModelBuilder& m) {
                *m.graph().add_initializer() = RawTensor<std::uint16_t>(
                    "a", onnx::TensorProto::FLOAT16, {2}, {0x3c00, 0xc000});
                m.Add("Identity", {"a"}, {"c"});
              }),
              ElementsAre(1, -2));
}

TEST(Evaluate, LeavesWhatNoEvaluatorCoversToKernels) {
  ModelBuilder model;
  model.Weights("a", {2}).Output("c");
  model.Add("Relu", {"a"}, {"c"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(testing::Ops(*graph), "Relu");
  EXPECT_FALSE(graph->value(graph->outputs[0]).constant.has_value());
}

// The shape arithmetic of exporters.

TEST(FoldConstants, ResolvesAViewThatKeepsTheBatch) {
  ModelBuilder model;
  model.Input("x", {2, 3, 4, 4}).Output("y").Ints("zero", {0}).Ints("minus", {-1});
  model.Add("Shape", {"x"}, {"shape"});
  model.Add("Constant", {}, {"index"})
      .Tensor("value", RawTensor<std::int64_t>("", onnx::TensorProto::INT64, {}, {0}));
  model.Add("Gather", {"shape", "index"}, {"batch"}).Int("axis", 0);
  model.Add("Unsqueeze", {"batch", "zero"}, {"batch1"});
  model.Add("Concat", {"batch1", "minus"}, {"target"}).Int("axis", 0);
  model.Add("Reshape", {"x", "target"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Reshape");
  EXPECT_EQ(graph->value(graph->outputs[0]).dims, (Dims{2, 48}));
  EXPECT_EQ(graph->values.size(), 2u);
}

TEST(FoldConstants, TransposesWeights) {
  ModelBuilder model;
  model.Input("x", {1, 2}).Output("y").Floats("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  model.Add("Transpose", {"w"}, {"wt"}).Ints("perm", {1, 0});
  model.Add("MatMul", {"x", "wt"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(Ops(*graph), "MatMul");
  const Value& weights = graph->value(graph->nodes[0].inputs[1]);
  EXPECT_EQ(weights.dims, (Dims{2, 3}));
  EXPECT_THAT(weights.constant->floats(), ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST(FoldConstants, EvaluatesNodesOfAGraphMadeByHand) {
  ModelBuilder model;
  model.Input("x", {2}).Output("y").Floats("a", {2}, {1, 2});
  model.Add("Neg", {"x"}, {"b"});
  model.Add("Add", {"b", "a"}, {"y"});
  Result<Graph> graph = model.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  graph->nodes[0].inputs[0] = graph->nodes[1].inputs[1];  // Neg of the constant
  ASSERT_TRUE(FoldConstants(*graph).has_value());
  ASSERT_TRUE(graph->value(graph->outputs[0]).constant.has_value());
  EXPECT_THAT(graph->value(graph->outputs[0]).constant->floats(), ElementsAre(0, 0));
  EXPECT_TRUE(graph->nodes.empty());
}

TEST(FoldConstants, DropsNodesThatChangeNothing) {
  ModelBuilder model;
  model.Input("x", {1, 4, 8, 8}).Output("y");
  model.Ints("same", {1, 4, 8, 8}).Ints("pads", Ints(8, 0)).Ints("zero", {0}).Ints("eight", {8});
  model.Ints("two", {2});
  model.Add("Identity", {"x"}, {"a"});
  model.Add("Dropout", {"a"}, {"b", "mask"});
  model.Add("Reshape", {"b", "same"}, {"c"});
  model.Add("Pad", {"c", "pads"}, {"d"});
  model.Add("Slice", {"d", "zero", "eight", "two"}, {"e"});
  model.Add("Transpose", {"e"}, {"f"}).Ints("perm", {0, 1, 2, 3});
  model.Add("Concat", {"f"}, {"g"}).Int("axis", 1);
  model.Add("AveragePool", {"g"}, {"h"}).Ints("kernel_shape", {1, 1});
  model.Add("Cast", {"h"}, {"i"}).Int("to", onnx::TensorProto::FLOAT);
  model.Add("Max", {"i"}, {"j"});
  model.Add("Relu", {"j"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Relu");
  EXPECT_EQ(graph->nodes[0].inputs[0], graph->inputs[0]);
}

TEST(FoldConstants, KeepsNodesThatOnlyKeepTheShape) {
  ModelBuilder model;
  model.Input("x", {1, 4, 4, 4}).Output("y");
  model.Add("Transpose", {"x"}, {"a"}).Ints("perm", {0, 2, 1, 3});
  model.Add("MaxPool", {"a"}, {"b"}).Ints("kernel_shape", {3, 3}).Ints("pads", {1, 1, 1, 1});
  model.Add("ReduceMax", {"b"}, {"c"}).Ints("axes", {0});
  model.Add("Relu", {"c"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Transpose MaxPool ReduceMax Relu");
}

TEST(FoldConstants, KeepsTheNamesOfOutputs) {
  ModelBuilder model;
  model.Input("x", {2}).Output("y").Output("z");
  model.Add("Relu", {"x"}, {"a"});
  model.Add("Identity", {"a"}, {"y"});
  model.Add("Tanh", {"a"}, {"z"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Relu Tanh");
  EXPECT_EQ(graph->value(graph->outputs[0]).name, "y");
  EXPECT_EQ(graph->nodes[0].outputs[0], graph->outputs[0]);
  EXPECT_EQ(graph->nodes[1].inputs[0], graph->outputs[0]);
}

TEST(FoldConstants, KeepsIdentityWhereAnOutputWouldBeAnInputOrAnotherOutput) {
  ModelBuilder model;
  model.Input("x", {2}).Output("y").Output("a").Output("b");
  model.Add("Dropout", {"x"}, {"y"});
  model.Add("Relu", {"x"}, {"a"});
  model.Add("Identity", {"a"}, {"b"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(Ops(*graph), "Identity Relu Identity");
  EXPECT_EQ(graph->nodes[0].outputs[0], graph->outputs[0]);
  EXPECT_EQ(graph->nodes[2].inputs[0], graph->outputs[1]);
  EXPECT_EQ(graph->nodes[2].outputs[0], graph->outputs[2]);
}

TEST(FoldConstants, DropsUnreadOutputsOfANode) {
  ModelBuilder model;
  model.Input("x", {6}).Output("y");
  model.Add("Split", {"x"}, {"a", "b", "c"});
  model.Add("Relu", {"c"}, {"y"});
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(graph->nodes[0].outputs.size(), 3u);
  EXPECT_NE(graph->nodes[0].outputs[0], kNoValue) << "every node has a first output";
  EXPECT_EQ(graph->nodes[0].outputs[1], kNoValue);
  EXPECT_THAT(graph->nodes[0].Ints("split", {}), ElementsAre(2, 2, 2));
  EXPECT_EQ(graph->values.size(), 4u);
}

// The number of outputs says how a Split without sizes divides its axis.
TEST(FoldConstants, KeepsTheNumberOfOutputsOfASplit) {
  for (const std::string last : {"c", ""}) {
    ModelBuilder model;
    model.Input("x", {6}).Output("y");
    model.Add("Split", {"x"}, {"a", "b", last});
    model.Add("Relu", {"a"}, {"y"});
    const Result<Graph> graph = model.Load();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    EXPECT_THAT(graph->nodes[0].outputs,
                ElementsAre(graph->nodes[0].outputs[0], kNoValue, kNoValue));
    EXPECT_THAT(graph->nodes[0].Ints("split", {}), ElementsAre(2, 2, 2));
  }
}

}  // namespace
}  // namespace lagoon
