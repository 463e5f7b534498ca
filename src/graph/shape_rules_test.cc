// Shapes, normal forms and refusals of the ops, one by one.

#include "graph/shape_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::NodeRef;
using Ints = std::vector<std::int64_t>;

// A model of one node that reads "x" (of `dims`) and `parameters`, initialisers made by `prepare`.
struct OneNode {
  std::string op;
  Dims dims;
  std::vector<std::string> parameters{};
  std::function<void(ModelBuilder&)> prepare = [](ModelBuilder&) {};
  std::function<void(NodeRef)> configure = [](NodeRef) {};
  std::int64_t opset = 13;
  std::size_t outputs = 1;

  Result<Graph> Import() const {
    ModelBuilder model(opset);
    model.Input("x", dims);
    prepare(model);
    std::vector<std::string> inputs{"x"};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < outputs; ++i) {
      names.push_back("y" + std::to_string(i));
      model.Output(names.back());
    }
    configure(model.Add(op, inputs, names).Name("n"));
    return model.Import();
  }

  Graph MustImport() const {
    Result<Graph> graph = Import();
    EXPECT_TRUE(graph.has_value()) << op << ": " << graph.error().message;
    return graph ? *std::move(graph) : Graph{};
  }

  Dims OutputDims(std::size_t i = 0) const {
    const Graph graph = MustImport();
    return i < graph.outputs.size() ? graph.value(graph.outputs[i]).dims : Dims{};
  }

  Node Imported() const {
    const Graph graph = MustImport();
    return graph.nodes.size() == 1 ? graph.nodes[0] : Node{};
  }

  std::string Invalid() const { return MessageOf(Import(), ErrorCode::kInvalidArgument); }
  std::string Unimplemented() const { return MessageOf(Import(), ErrorCode::kUnimplemented); }
};

// Conv.

OneNode Conv(const Dims& x, const Dims& w, std::function<void(NodeRef)> configure) {
  return {"Conv", x, {"w"}, [=](ModelBuilder& m) { m.Weights("w", w); }, std::move(configure)};
}

TEST(ConvShape, FollowsStridesPadsAndDilations) {
  EXPECT_EQ(Conv({1, 3, 224, 224}, {64, 3, 7, 7},
                 [](NodeRef n) {
                   n.Ints("strides", {2, 2}).Ints("pads", {3, 3, 3, 3});
                 })
                .OutputDims(),
            (Dims{1, 64, 112, 112}));
  EXPECT_EQ(Conv({2, 4, 10, 12}, {6, 2, 3, 1},
                 [](NodeRef n) {
                   n.Int("group", 2).Ints("dilations", {2, 1}).Ints("pads", {1, 0, 2, 3});
                 })
                .OutputDims(),
            (Dims{2, 6, 9, 15}));
}

TEST(ConvShape, FillsInAttributes) {
  const Node node = Conv({1, 1, 4, 5}, {1, 1, 2, 3}, [](NodeRef) {}).Imported();
  EXPECT_THAT(node.Ints("kernel_shape", {}), ElementsAre(2, 3));
  EXPECT_THAT(node.Ints("strides", {}), ElementsAre(1, 1));
  EXPECT_THAT(node.Ints("dilations", {}), ElementsAre(1, 1));
  EXPECT_THAT(node.Ints("pads", {}), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(node.Int("group", -1), 1);
}

Node AutoPadded(const std::string& mode, const Dims& x, const Ints& strides) {
  return Conv(x, {1, 1, 3, 4},
              [=](NodeRef n) { n.Text("auto_pad", mode).Ints("strides", strides); })
      .Imported();
}

TEST(ConvShape, ResolvesAutoPad) {
  // Height 5 with a kernel of 3 needs 2 in all; width 6 with a kernel of 4 needs 3.
  const Node upper = AutoPadded("SAME_UPPER", {1, 1, 5, 6}, {1, 1});
  EXPECT_THAT(upper.Ints("pads", {}), ElementsAre(1, 1, 1, 2));
  EXPECT_FALSE(upper.attributes.contains("auto_pad"));
  const Node lower = AutoPadded("SAME_LOWER", {1, 1, 5, 6}, {1, 1});
  EXPECT_THAT(lower.Ints("pads", {}), ElementsAre(1, 2, 1, 1));
  EXPECT_THAT(AutoPadded("VALID", {1, 1, 5, 6}, {1, 1}).Ints("pads", {}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(AutoPadded("SAME_UPPER", {1, 1, 7, 9}, {2, 3}).Ints("pads", {}),
              ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(AutoPadded("NOTSET", {1, 1, 5, 6}, {1, 1}).Ints("pads", {}), ElementsAre(0, 0, 0, 0));
}

TEST(ConvShape, OfSamePaddingIsTheInputOverTheStride) {
  EXPECT_EQ(Conv({1, 1, 7, 9}, {1, 1, 3, 4},
                 [](NodeRef n) {
                   n.Text("auto_pad", "SAME_UPPER").Ints("strides", {2, 3});
                 })
                .OutputDims(),
            (Dims{1, 1, 4, 3}));
}

TEST(ConvShape, RefusesContradictions) {
  const auto nothing = [](NodeRef) {};
  EXPECT_THAT(Conv({1, 3, 8, 8}, {4, 2, 3, 3}, nothing).Invalid(),
              AllOf(HasSubstr("node 'n' (Conv, opset 13)"), HasSubstr("[1,3,8,8]"),
                    HasSubstr("[4,2,3,3]")));
  EXPECT_THAT(Conv({1, 4, 8, 8}, {4, 2, 3, 3}, [](NodeRef n) { n.Int("group", 0); }).Invalid(),
              HasSubstr("0 groups"));
  EXPECT_THAT(
      Conv({1, 4, 8, 8}, {4, 2, 3, 3}, [](NodeRef n) { n.Int("group", INT64_MIN); }).Invalid(),
      HasSubstr("groups"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("kernel_shape", {3, 2});
                   })
                  .Invalid(),
              HasSubstr("kernel_shape [3,2]"));
  EXPECT_THAT(Conv({1, 2, 2, 8}, {4, 2, 3, 3}, nothing).Invalid(), HasSubstr("does not fit"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("strides", {0, 1});
                   })
                  .Invalid(),
              HasSubstr("strides [0,1]"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("pads", {0, -1, 0, 0});
                   })
                  .Invalid(),
              HasSubstr("pads [0,-1,0,0]"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("pads", {1, 1});
                   })
                  .Invalid(),
              HasSubstr("2 pads"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("pads", {1, 1, 1, 1}).Text("auto_pad", "VALID");
                   })
                  .Invalid(),
              HasSubstr("both auto_pad"));
}

TEST(ConvShape, RefusesWhatIsNotSupported) {
  const auto nothing = [](NodeRef) {};
  EXPECT_THAT(Conv({1, 3, 8}, {4, 3, 3}, nothing).Unimplemented(), HasSubstr("only 2-D"));
  EXPECT_THAT(Conv({1, 3, 8, 8}, {4, 3, 3, 3}, [](NodeRef n) { n.Text("auto_pad", "SAME"); })
                  .Unimplemented(),
              HasSubstr("auto_pad 'SAME'"));
  const OneNode computed{"Conv", {1, 1, 3, 3}, {"x"}};
  EXPECT_THAT(computed.Unimplemented(), HasSubstr("weights 'x' is computed at run time"));
  const OneNode half{"Conv", {1, 1, 3, 3}, {"w"}, [](ModelBuilder& m) {
                       *m.graph().add_initializer() = testing::RawTensor<std::uint16_t>(
                           "w", onnx::TensorProto::FLOAT16, {1, 1, 1, 1}, {0x3c00});
                     }};
  EXPECT_THAT(half.Unimplemented(), HasSubstr("is FP16"));
  const OneNode transposed{"ConvTranspose", {1, 1, 3, 3}, {"w"}, [](ModelBuilder& m) {
                             m.Weights("w", {1, 1, 2, 2});
                           }};
  EXPECT_THAT(transposed.Unimplemented(),
              HasSubstr("node 'n' (ConvTranspose, opset 13): the op is not supported"));
}

TEST(ConvShape, ChecksTheBias) {
  OneNode conv = Conv({1, 1, 3, 3}, {4, 1, 1, 1}, [](NodeRef) {});
  conv.parameters = {"w", "b"};
  conv.prepare = [](ModelBuilder& m) { m.Weights("w", {4, 1, 1, 1}).Weights("b", {3}); };
  EXPECT_THAT(conv.Invalid(), AllOf(HasSubstr("bias 'b'"), HasSubstr("[3]"), HasSubstr("[4]")));
}

// Matrices.

OneNode Gemm(const Dims& x, const Dims& b, const Dims& c, std::function<void(NodeRef)> configure) {
  return {"Gemm",
          x,
          {"b", "c"},
          [=](ModelBuilder& m) { m.Weights("b", b).Weights("c", c); },
          std::move(configure)};
}

TEST(GemmShape, FollowsTransB) {
  const auto nothing = [](NodeRef) {};
  const auto transposed = [](NodeRef n) { n.Int("transB", 1); };
  EXPECT_EQ(Gemm({2, 3}, {3, 5}, {5}, nothing).OutputDims(), (Dims{2, 5}));
  EXPECT_EQ(Gemm({2, 3}, {5, 3}, {1, 5}, transposed).OutputDims(), (Dims{2, 5}));
  EXPECT_EQ(Gemm({2, 3}, {5, 3}, {}, transposed).OutputDims(), (Dims{2, 5}));
  EXPECT_THAT(Gemm({2, 3}, {3, 5}, {5}, transposed).Invalid(),
              AllOf(HasSubstr("[2,3]"), HasSubstr("[3,5]")));
  EXPECT_THAT(Gemm({2, 3, 1}, {3, 5}, {5}, nothing).Invalid(), HasSubstr("matrices"));
}

TEST(GemmShape, RefusesWhatIsNotSupported) {
  EXPECT_THAT(Gemm({3, 2}, {3, 5}, {5}, [](NodeRef n) { n.Int("transA", 1); }).Unimplemented(),
              HasSubstr("transA"));
  const auto nothing = [](NodeRef) {};
  EXPECT_THAT(Gemm({2, 3}, {3, 5}, {2, 5}, nothing).Unimplemented(), HasSubstr("C [2,5]"));
  EXPECT_THAT(Gemm({2, 3}, {3, 5}, {4}, nothing).Unimplemented(), HasSubstr("C [4]"));
}

TEST(MatMulShape, TakesBatchesOnTheLeft) {
  const auto matmul = [](const Dims& x, const Dims& w) {
    return OneNode{"MatMul", x, {"w"}, [=](ModelBuilder& m) { m.Weights("w", w); }};
  };
  EXPECT_EQ(matmul({2, 3}, {3, 5}).OutputDims(), (Dims{2, 5}));
  EXPECT_EQ(matmul({4, 7, 2, 3}, {3, 5}).OutputDims(), (Dims{4, 7, 2, 5}));
  EXPECT_THAT(matmul({2, 3}, {4, 5}).Invalid(), HasSubstr("does not match"));
  EXPECT_THAT(matmul({2, 3}, {2, 3, 5}).Unimplemented(), HasSubstr("[2,3,5]"));
  EXPECT_THAT(matmul({3}, {3, 5}).Unimplemented(), HasSubstr("[3]"));
  const OneNode square{"MatMul", {3, 3}, {"x"}};
  EXPECT_THAT(square.Unimplemented(), HasSubstr("must be constant"));
}

OneNode BatchNorm(const Dims& x, std::int64_t channels, std::int64_t opset = 13) {
  OneNode node{"BatchNormalization", x, {"s", "b", "m", "v"}, [=](ModelBuilder& m) {
                 for (const char* name : {"s", "b", "m", "v"}) m.Weights(name, {channels});
               }};
  node.opset = opset;
  return node;
}

TEST(BatchNormalizationShape, KeepsTheInput) {
  EXPECT_EQ(BatchNorm({2, 3, 4, 5}, 3).OutputDims(), (Dims{2, 3, 4, 5}));
  EXPECT_FLOAT_EQ(BatchNorm({2, 3}, 3).Imported().Float("epsilon", 0), 1e-5f);
  EXPECT_THAT(BatchNorm({2, 3, 4, 5}, 4).Invalid(),
              AllOf(HasSubstr("scale 's'"), HasSubstr("[4]")));
  EXPECT_THAT(BatchNorm({3}, 3).Invalid(), HasSubstr("no channels"));
}

TEST(BatchNormalizationShape, RefusesTraining) {
  OneNode node = BatchNorm({2, 3, 4, 5}, 3, 15);
  node.configure = [](NodeRef n) { n.Int("training_mode", 1); };
  EXPECT_THAT(node.Unimplemented(), HasSubstr("training_mode"));
  OneNode outputs = BatchNorm({2, 3, 4, 5}, 3, 9);
  outputs.outputs = 5;
  EXPECT_THAT(outputs.Unimplemented(), HasSubstr("has 5 outputs"));
}

// Pooling.

OneNode Pool(const std::string& op, const Dims& x, std::function<void(NodeRef)> configure) {
  return {op, x, {}, [](ModelBuilder&) {}, std::move(configure)};
}

TEST(PoolShape, RoundsDownByDefault) {
  const auto three_by_two = [](NodeRef n) {
    n.Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Ints("pads", {1, 1, 1, 1});
  };
  EXPECT_EQ(Pool("MaxPool", {1, 8, 112, 112}, three_by_two).OutputDims(), (Dims{1, 8, 56, 56}));
  EXPECT_EQ(Pool("AveragePool", {1, 8, 7, 8}, three_by_two).OutputDims(), (Dims{1, 8, 4, 4}));
}

TEST(PoolShape, ResolvesCeilModeIntoPads) {
  const OneNode pool = Pool("MaxPool", {1, 2, 55, 54}, [](NodeRef n) {
    n.Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Int("ceil_mode", 1);
  });
  EXPECT_EQ(pool.OutputDims(), (Dims{1, 2, 27, 27}));
  const Node node = pool.Imported();
  EXPECT_THAT(node.Ints("pads", {}), ElementsAre(0, 0, 0, 1));
  EXPECT_FALSE(node.attributes.contains("ceil_mode"));
}

TEST(PoolShape, DropsAWindowThatHoldsOnlyPadding) {
  // Without padding, windows start at 0 and 3; 3 is behind the image.
  const OneNode pool = Pool("MaxPool", {1, 1, 3, 3}, [](NodeRef n) {
    n.Ints("kernel_shape", {1, 1}).Ints("strides", {3, 3}).Int("ceil_mode", 1);
  });
  EXPECT_EQ(pool.OutputDims(), (Dims{1, 1, 1, 1}));
}

TEST(PoolShape, CountsDilatedExtents) {
  EXPECT_EQ(Pool("MaxPool", {1, 1, 9, 9},
                 [](NodeRef n) {
                   n.Ints("kernel_shape", {3, 3}).Ints("dilations", {2, 3});
                 })
                .OutputDims(),
            (Dims{1, 1, 5, 3}));
}

TEST(PoolShape, RefusesWhatIsNotSupported) {
  EXPECT_THAT(
      Pool("MaxPool", {1, 1, 9}, [](NodeRef n) { n.Ints("kernel_shape", {3}); }).Unimplemented(),
      HasSubstr("only 2-D"));
  EXPECT_THAT(Pool("MaxPool", {1, 1, 9, 9}, [](NodeRef) {}).Invalid(),
              HasSubstr("no kernel_shape"));
  EXPECT_THAT(Pool("MaxPool", {1, 1, 9, 9},
                   [](NodeRef n) {
                     n.Ints("kernel_shape", {2, 2}).Ints("pads", {2, 0, 0, 0});
                   })
                  .Invalid(),
              HasSubstr("as large as the window"));
  EXPECT_THAT(Pool("AveragePool", {1, 1, 6, 6},
                   [](NodeRef n) {
                     n.Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Int("ceil_mode", 1);
                     n.Int("count_include_pad", 1);
                   })
                  .Unimplemented(),
              HasSubstr("count_include_pad"));
  OneNode old = Pool("MaxPool", {1, 1, 6, 6}, [](NodeRef n) {
    n.Ints("kernel_shape", {3, 3}).Int("ceil_mode", 1);
  });
  old.opset = 9;
  EXPECT_THAT(old.Invalid(), HasSubstr("opset 10"));
}

TEST(PoolShape, OfGlobalPoolingIsOnePixel) {
  EXPECT_EQ(Pool("GlobalAveragePool", {2, 5, 7, 7}, [](NodeRef) {}).OutputDims(),
            (Dims{2, 5, 1, 1}));
  EXPECT_EQ(Pool("GlobalMaxPool", {2, 5, 7, 7}, [](NodeRef) {}).OutputDims(), (Dims{2, 5, 1, 1}));
  EXPECT_THAT(Pool("GlobalAveragePool", {2, 5, 7}, [](NodeRef) {}).Unimplemented(),
              HasSubstr("[2,5,7]"));
}

// Elementwise.

TEST(ElementwiseShape, OfOneInputIsTheInput) {
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Abs", "Neg", "LeakyRelu",
                         "HardSigmoid", "HardSwish", "Identity"}) {
    OneNode node{op, {2, 3}};
    node.opset = 14;
    EXPECT_EQ(node.OutputDims(), (Dims{2, 3})) << op;
  }
  EXPECT_FLOAT_EQ(OneNode({"LeakyRelu", {1}}).Imported().Float("alpha", 0), 0.01f);
  EXPECT_FLOAT_EQ(OneNode({"HardSigmoid", {1}}).Imported().Float("beta", 0), 0.5f);
}

TEST(ElementwiseShape, BroadcastsAsNumpyDoes) {
  const auto with = [](const char* op, const Dims& x, const Dims& c) {
    return OneNode{op, x, {"c"}, [=](ModelBuilder& m) { m.Weights("c", c); }};
  };
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum"}) {
    EXPECT_EQ(with(op, {2, 1, 4}, {3, 1}).OutputDims(), (Dims{2, 3, 4})) << op;
  }
  EXPECT_EQ(with("Add", {4}, {}).OutputDims(), Dims{4});
  EXPECT_THAT(with("Add", {2, 3}, {2}).Invalid(),
              AllOf(HasSubstr("[2,3]"), HasSubstr("[2]"), HasSubstr("broadcast")));
  const OneNode types{"Add", {2}, {"c"}, [](ModelBuilder& m) { m.Ints("c", {1}); }};
  EXPECT_THAT(types.Invalid(), AllOf(HasSubstr("FP32"), HasSubstr("INT64")));
}

TEST(ElementwiseShape, TakesAnyNumberOfInputsWhereOnnxDoes) {
  const OneNode three{"Max", {2, 1}, {"a", "b"}, [](ModelBuilder& m) {
                        m.Weights("a", {3}).Weights("b", {5, 1, 1});
                      }};
  EXPECT_EQ(three.OutputDims(), (Dims{5, 2, 3}));
  const OneNode sum{"Sum", {2}, {"a"}, [](ModelBuilder& m) { m.Weights("a", {2}); }};
  EXPECT_EQ(sum.Imported().op, "Add");
}

TEST(ClipForm, IsAttributesWhateverTheOpset) {
  OneNode attributes{"Clip", {2}};
  attributes.opset = 10;
  attributes.configure = [](NodeRef n) { n.Float("min", 0).Float("max", 6); };
  OneNode inputs{"Clip", {2}, {"low", "high"}, [](ModelBuilder& m) {
                   m.Floats("low", {}, {0}).Floats("high", {1}, {6});
                 }};
  for (const OneNode& clip : {attributes, inputs}) {
    const Node node = clip.Imported();
    EXPECT_EQ(node.inputs.size(), 1u);
    EXPECT_EQ(node.Float("min", -1), 0);
    EXPECT_EQ(node.Float("max", -1), 6);
  }
}

TEST(ClipForm, FillsInBounds) {
  const OneNode only_max{
      "Clip", {2}, {"", "high"}, [](ModelBuilder& m) { m.Floats("high", {}, {6}); }};
  EXPECT_EQ(only_max.Imported().Float("min", 0), std::numeric_limits<float>::lowest());
  EXPECT_EQ(only_max.Imported().Float("max", 0), 6);
  const OneNode crossed{"Clip", {2}, {"low", "high"}, [](ModelBuilder& m) {
                          m.Floats("low", {}, {9}).Floats("high", {}, {6});
                        }};
  EXPECT_EQ(crossed.Imported().Float("min", 0), 6);
}

TEST(ClipForm, RefusesBoundsItCannotRead) {
  const OneNode computed{"Clip", {1}, {"x"}};
  EXPECT_THAT(computed.Unimplemented(), HasSubstr("min 'x' must be constant"));
  const OneNode vector{"Clip", {1}, {"c"}, [](ModelBuilder& m) { m.Weights("c", {2}); }};
  EXPECT_THAT(vector.Invalid(), HasSubstr("one FP32 number"));
  const OneNode nan{"Clip", {1}, {"c"}, [](ModelBuilder& m) { m.Floats("c", {}, {NAN}); }};
  EXPECT_THAT(nan.Invalid(), HasSubstr("not a number"));
  OneNode old{"Clip", {1}, {"c"}, [](ModelBuilder& m) { m.Floats("c", {}, {0}); }};
  old.opset = 9;
  EXPECT_THAT(old.Invalid(), HasSubstr("opset 11"));
}

TEST(DropoutShape, RefusesTrainingAndReadMasks) {
  const auto flag = [](bool value) {
    return [=](ModelBuilder& m) {
      m.Floats("ratio", {}, {0.5f});
      *m.graph().add_initializer() =
          testing::RawTensor<std::uint8_t>("training", onnx::TensorProto::BOOL, {}, {value});
    };
  };
  EXPECT_EQ((OneNode{"Dropout", {3}, {"ratio", "training"}, flag(false)}).OutputDims(), Dims{3});
  EXPECT_THAT((OneNode{"Dropout", {3}, {"ratio", "training"}, flag(true)}).Unimplemented(),
              HasSubstr("training_mode is true"));
  OneNode mask{"Dropout", {3}};
  mask.outputs = 2;
  EXPECT_THAT(mask.Unimplemented(), HasSubstr("output 'y1' is BOOL"));
}

TEST(CastShape, ChangesNoTypeAtRunTime) {
  const auto cast = [](std::int64_t to) {
    return OneNode{"Cast", {3}, {}, [](ModelBuilder&) {}, [=](NodeRef n) { n.Int("to", to); }};
  };
  EXPECT_EQ(cast(onnx::TensorProto::FLOAT).OutputDims(), Dims{3});
  EXPECT_THAT(cast(onnx::TensorProto::INT64).Unimplemented(), HasSubstr("from FP32 to INT64"));
  EXPECT_THAT(cast(-7).Unimplemented(), HasSubstr("-7"));
  EXPECT_THAT(cast(1LL << 33).Unimplemented(), HasSubstr("8589934592"));
}

// Reductions.

TEST(ReduceShape, DropsOrKeepsAxes) {
  const auto reduce = [](const Ints& axes, std::int64_t keep) {
    return OneNode{"ReduceMean",
                   {2, 3, 4, 5},
                   {},
                   [](ModelBuilder&) {},
                   [=](NodeRef n) { n.Ints("axes", axes).Int("keepdims", keep); }};
  };
  EXPECT_EQ(reduce({-1, 2}, 0).OutputDims(), (Dims{2, 3}));
  EXPECT_EQ(reduce({-1, 2}, 1).OutputDims(), (Dims{2, 3, 1, 1}));
  EXPECT_THAT(reduce({3, 2}, 0).Imported().Ints("axes", {}), ElementsAre(2, 3));
  EXPECT_THAT(reduce({2, -2}, 0).Invalid(), HasSubstr("name one twice"));
  EXPECT_THAT(reduce({4}, 0).Invalid(), HasSubstr("axis 4"));
  EXPECT_EQ((OneNode{"ReduceMax", {2, 3}}).OutputDims(), (Dims{1, 1}));
}

TEST(ReduceShape, OfSumTakesAxesAsInputSinceOpset13) {
  OneNode sum{"ReduceSum", {2, 3, 4}, {"axes"}, [](ModelBuilder& m) { m.Ints("axes", {1}); }};
  EXPECT_EQ(sum.OutputDims(), (Dims{2, 1, 4}));
  EXPECT_EQ(sum.Imported().inputs.size(), 1u);
  sum.opset = 12;
  EXPECT_THAT(sum.Invalid(), HasSubstr("'axes' as an attribute"));

  OneNode attribute{"ReduceSum", {2, 3, 4}};
  attribute.configure = [](NodeRef n) { n.Ints("axes", {1}); };
  EXPECT_THAT(attribute.Invalid(), HasSubstr("'axes' as input 1"));
  attribute.opset = 11;
  EXPECT_EQ(attribute.OutputDims(), (Dims{2, 1, 4}));
}

TEST(ReduceShape, OfNoAxesIsTheInputWhereAskedFor) {
  OneNode sum{"ReduceSum", {2, 3}};
  EXPECT_EQ(sum.OutputDims(), (Dims{1, 1}));
  sum.configure = [](NodeRef n) { n.Int("noop_with_empty_axes", 1); };
  EXPECT_EQ(sum.OutputDims(), (Dims{2, 3}));
}

TEST(SoftmaxShape, ChecksTheAxis) {
  OneNode node{"Softmax", {2, 3}};
  node.configure = [](NodeRef n) { n.Int("axis", 2); };
  EXPECT_THAT(node.Invalid(), HasSubstr("axis 2"));
}

// Layout.

TEST(FlattenShape, SplitsAtTheAxis) {
  const auto flatten = [](std::int64_t axis) {
    return OneNode{
        "Flatten", {2, 3, 4}, {}, [](ModelBuilder&) {}, [=](NodeRef n) { n.Int("axis", axis); }};
  };
  EXPECT_EQ((OneNode{"Flatten", {2, 3, 4}}).OutputDims(), (Dims{2, 12}));
  EXPECT_EQ(flatten(0).OutputDims(), (Dims{1, 24}));
  EXPECT_EQ(flatten(3).OutputDims(), (Dims{24, 1}));
  EXPECT_EQ(flatten(-1).OutputDims(), (Dims{6, 4}));
  EXPECT_THAT(flatten(4).Invalid(), HasSubstr("axis 4"));
  EXPECT_THAT(flatten(-4).Invalid(), HasSubstr("axis -4"));
}

OneNode Reshape(const Dims& x, const Ints& shape) {
  return {"Reshape", x, {"shape"}, [=](ModelBuilder& m) { m.Ints("shape", shape); }};
}

TEST(ReshapeShape, InfersMinusOneAndCopiesZero) {
  EXPECT_EQ(Reshape({2, 3, 4}, {4, 6}).OutputDims(), (Dims{4, 6}));
  EXPECT_EQ(Reshape({2, 3, 4}, {0, -1}).OutputDims(), (Dims{2, 12}));
  EXPECT_EQ(Reshape({1, 1}, {}).OutputDims(), Dims{});
  EXPECT_EQ(Reshape({2, 3}, {-1}).Imported().inputs.size(), 1u);
}

TEST(ReshapeShape, RefusesWhatDoesNotFit) {
  for (const Ints& shape :
       {Ints{5}, Ints{-1, -1}, Ints{-2, -12}, Ints{0, 0, 0, 0}, Ints{-1, 7}, Ints{1, 2, 3, 4, 5}}) {
    EXPECT_THAT(Reshape({2, 3, 4}, shape).Invalid(), HasSubstr("cannot reshape [2,3,4]"));
  }
  EXPECT_THAT(MessageOf(Reshape({2}, {1LL << 62, 4}).Import(), ErrorCode::kResourceExhausted),
              HasSubstr("2^63"));
  EXPECT_THAT(Reshape({2}, Ints(100, 1)).Invalid(), HasSubstr("100 dimensions"));
  const OneNode computed{"Reshape", {2}, {"x"}};
  EXPECT_THAT(computed.Unimplemented(), HasSubstr("shape 'x' must be constant"));
}

TEST(SqueezeShape, TakesAxesAsAttributeOrInput) {
  OneNode attribute{"Squeeze", {1, 3, 1, 5}};
  attribute.opset = 11;
  attribute.configure = [](NodeRef n) { n.Ints("axes", {-2}); };
  EXPECT_EQ(attribute.OutputDims(), (Dims{1, 3, 5}));
  const OneNode input{"Squeeze", {1, 3, 1, 5}, {"axes"}, [](ModelBuilder& m) {
                        m.Ints("axes", {0, 2});
                      }};
  EXPECT_EQ(input.OutputDims(), (Dims{3, 5}));
  EXPECT_EQ((OneNode{"Squeeze", {1, 3, 1, 5}}).OutputDims(), (Dims{3, 5}));
  const OneNode wrong{"Squeeze", {1, 3}, {"axes"}, [](ModelBuilder& m) { m.Ints("axes", {1}); }};
  EXPECT_THAT(wrong.Invalid(), HasSubstr("axis 1 of [1,3] is not 1"));
}

TEST(UnsqueezeShape, CountsAxesInTheOutput) {
  OneNode attribute{"Unsqueeze", {3, 5}};
  attribute.opset = 11;
  attribute.configure = [](NodeRef n) { n.Ints("axes", {-1, 0}); };
  EXPECT_EQ(attribute.OutputDims(), (Dims{1, 3, 5, 1}));
  const OneNode input{"Unsqueeze", {3, 5}, {"axes"}, [](ModelBuilder& m) { m.Ints("axes", {1}); }};
  EXPECT_EQ(input.OutputDims(), (Dims{3, 1, 5}));
  EXPECT_THAT((OneNode{"Unsqueeze", {3}}).Invalid(), HasSubstr("no axes"));
}

TEST(TransposeShape, Permutes) {
  const auto transpose = [](const Ints& perm) {
    return OneNode{
        "Transpose", {2, 3, 4}, {}, [](ModelBuilder&) {}, [=](NodeRef n) { n.Ints("perm", perm); }};
  };
  EXPECT_EQ(transpose({2, 0, 1}).OutputDims(), (Dims{4, 2, 3}));
  EXPECT_EQ((OneNode{"Transpose", {2, 3, 4}}).OutputDims(), (Dims{4, 3, 2}));
  EXPECT_THAT(transpose({0, 1, 1}).Invalid(), HasSubstr("not a permutation"));
  EXPECT_THAT(transpose({0, 1, -1}).Invalid(), HasSubstr("not a permutation"));
  EXPECT_THAT(transpose({0, 1}).Invalid(), HasSubstr("2 axes"));
}

TEST(ConcatShape, AddsUpTheAxis) {
  const auto concat = [](const Dims& c, std::int64_t axis) {
    return OneNode{"Concat",
                   {2, 3, 4},
                   {"c", "x"},
                   [=](ModelBuilder& m) { m.Weights("c", c); },
                   [=](NodeRef n) { n.Int("axis", axis); }};
  };
  EXPECT_EQ(concat({2, 5, 4}, 1).OutputDims(), (Dims{2, 11, 4}));
  EXPECT_EQ(concat({2, 3, 1}, -1).OutputDims(), (Dims{2, 3, 9}));
  EXPECT_THAT(concat({2, 5, 3}, 1).Invalid(), AllOf(HasSubstr("[2,5,3]"), HasSubstr("[2,3,4]")));
  EXPECT_THAT(concat({2, 5}, 1).Invalid(), HasSubstr("[2,5]"));
  EXPECT_THAT((OneNode{"Concat", {1}}).Invalid(), HasSubstr("no axis"));
}

TEST(SplitShape, TakesSizesOrEvenParts) {
  OneNode even{"Split", {6, 2}};
  even.outputs = 3;
  EXPECT_EQ(even.OutputDims(2), (Dims{2, 2}));
  OneNode sizes{"Split", {2, 6}, {"s"}, [](ModelBuilder& m) { m.Ints("s", {1, 5}); }};
  sizes.outputs = 2;
  sizes.configure = [](NodeRef n) { n.Int("axis", -1); };
  EXPECT_EQ(sizes.OutputDims(0), (Dims{2, 1}));
  EXPECT_EQ(sizes.OutputDims(1), (Dims{2, 5}));
  EXPECT_THAT(sizes.Imported().Ints("split", {}), ElementsAre(1, 5));
  OneNode attribute{"Split", {6, 2}};
  attribute.opset = 11;
  attribute.outputs = 2;
  attribute.configure = [](NodeRef n) { n.Ints("split", {4, 2}); };
  EXPECT_EQ(attribute.OutputDims(0), (Dims{4, 2}));
}

TEST(SplitShape, RefusesSizesThatDoNotFit) {
  OneNode uneven{"Split", {7, 2}};
  uneven.outputs = 2;
  EXPECT_THAT(uneven.Invalid(), HasSubstr("does not part into 2"));
  for (const Ints& split : {Ints{4, 4}, Ints{-1, 7}, Ints{1, 2}, Ints{INT64_MAX, INT64_MAX}}) {
    OneNode sizes{"Split", {6}, {"s"}, [=](ModelBuilder& m) { m.Ints("s", split); }};
    sizes.outputs = 2;
    EXPECT_THAT(sizes.Invalid(), HasSubstr("'split'"));
  }
}

// Regions.

TEST(PadShape, TakesBothForms) {
  OneNode attribute{"Pad", {2, 3}};
  attribute.opset = 10;
  attribute.configure = [](NodeRef n) { n.Ints("pads", {1, 0, 2, 3}).Float("value", 7); };
  OneNode inputs{"Pad", {2, 3}, {"pads", "value"}, [](ModelBuilder& m) {
                   m.Ints("pads", {1, 0, 2, 3}).Floats("value", {}, {7});
                 }};
  for (const OneNode& pad : {attribute, inputs}) {
    EXPECT_EQ(pad.OutputDims(), (Dims{5, 6}));
    EXPECT_EQ(pad.Imported().Float("value", 0), 7);
    EXPECT_THAT(pad.Imported().Ints("pads", {}), ElementsAre(1, 0, 2, 3));
    EXPECT_EQ(pad.Imported().inputs.size(), 1u);
  }
}

TEST(PadShape, RefusesWhatIsNotSupported) {
  const auto pad = [](const Ints& pads, const std::string& mode) {
    return OneNode{"Pad",
                   {2, 3},
                   {"pads"},
                   [=](ModelBuilder& m) { m.Ints("pads", pads); },
                   [=](NodeRef n) { n.Text("mode", mode); }};
  };
  EXPECT_THAT(pad({0, 0, 0, 0}, "reflect").Unimplemented(), HasSubstr("mode 'reflect'"));
  EXPECT_THAT(pad({0, 0, -1, 0}, "constant").Unimplemented(), HasSubstr("negative pad of -1"));
  EXPECT_THAT(pad({0, 0}, "constant").Invalid(), HasSubstr("2 pads"));
  EXPECT_THAT(pad({0, 0, INT64_MAX, 0}, "constant").Invalid(), HasSubstr("pads axis 0"));
}

OneNode Slice(const Ints& starts, const Ints& ends, const Ints& axes, const Ints& steps) {
  return {"Slice", {10, 20}, {"s", "e", "a", "t"}, [=](ModelBuilder& m) {
            m.Ints("s", starts).Ints("e", ends).Ints("a", axes).Ints("t", steps);
          }};
}

TEST(SliceShape, ClampsAndCounts) {
  EXPECT_EQ(Slice({2}, {7}, {0}, {2}).OutputDims(), (Dims{3, 20}));
  EXPECT_EQ(Slice({-3, INT64_MIN}, {INT64_MAX, 5}, {1, 0}, {1, 1}).OutputDims(), (Dims{5, 3}));
  EXPECT_EQ(Slice({0}, {10}, {0}, {INT64_MAX}).OutputDims(), (Dims{1, 20}));
  const Node node = Slice({-3}, {100}, {-1}, {2}).Imported();
  EXPECT_THAT(node.Ints("starts", {}), ElementsAre(0, 17));
  EXPECT_THAT(node.Ints("ends", {}), ElementsAre(10, 20));
  EXPECT_THAT(node.Ints("axes", {}), ElementsAre(0, 1));
  EXPECT_THAT(node.Ints("steps", {}), ElementsAre(1, 2));
  EXPECT_EQ(node.inputs.size(), 1u);
}

TEST(SliceShape, TakesAttributesBeforeOpset10) {
  OneNode slice{"Slice", {10, 20}};
  slice.opset = 9;
  slice.configure = [](NodeRef n) { n.Ints("starts", {1, 2}).Ints("ends", {3, 4}); };
  EXPECT_EQ(slice.OutputDims(), (Dims{2, 2}));
}

TEST(SliceShape, RefusesWhatIsNotSupported) {
  EXPECT_THAT(Slice({0}, {5}, {0}, {-1}).Unimplemented(), HasSubstr("a step of -1"));
  EXPECT_THAT(Slice({0}, {5}, {0}, {0}).Invalid(), HasSubstr("step of 0"));
  EXPECT_THAT(Slice({5}, {5}, {0}, {1}).Invalid(), HasSubstr("is empty"));
  EXPECT_THAT(Slice({0, 0}, {5}, {0}, {1}).Invalid(), HasSubstr("differ in length"));
  EXPECT_THAT(Slice({0, 0}, {5, 5}, {0, -2}, {1, 1}).Invalid(), HasSubstr("twice"));
  EXPECT_THAT(Slice(Ints(9, 0), Ints(9, 1), Ints(9, 0), Ints(9, 1)).Invalid(), HasSubstr("9 axes"));
}

TEST(GatherShape, IsForConstantsOnly) {
  const OneNode gather{"Gather", {4}, {"i"}, [](ModelBuilder& m) { m.Ints("i", {0}); }};
  EXPECT_THAT(gather.Unimplemented(), HasSubstr("supported on constants only"));
}

TEST(ExpandShape, ChangesNothingAtRunTime) {
  const auto expand = [](const Ints& shape) {
    return OneNode{"Expand", {3, 1}, {"s"}, [=](ModelBuilder& m) { m.Ints("s", shape); }};
  };
  EXPECT_EQ(expand({1, 1}).OutputDims(), (Dims{3, 1}));
  EXPECT_THAT(expand({3, 4}).Unimplemented(), HasSubstr("from [3,1] to [3,4]"));
}

}  // namespace
}  // namespace lagoon
