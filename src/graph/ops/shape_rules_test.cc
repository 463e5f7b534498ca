// Shapes, normal forms and refusals of the ops that are not linear or pooling.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/import/attributes.h"
#include "graph/testing/one_node.h"
#include "plan/elementwise_ops.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::NodeRef;
using testing::OneNode;
using Ints = std::vector<std::int64_t>;

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

TEST(ElementwiseShape, FollowsTheRowOfEveryFunction) {
  for (const elementwise::UnaryRow& row : elementwise::kUnaryRows) {
    if (row.since == 0) continue;
    OneNode node{std::string(row.name), {2, 3}};
    node.opset = row.since;
    if (row.takes_flags) {
      EXPECT_THAT(node.Invalid(), HasSubstr("takes BOOL, not FP32")) << row.name;
      continue;
    }
    const Graph graph = node.MustImport();
    const Value& y = graph.value(graph.outputs.at(0));
    EXPECT_EQ(y.dims, (Dims{2, 3})) << row.name;
    EXPECT_EQ(y.type == DataType::kBool, row.gives_flags) << row.name;
    for (const elementwise::Parameter& parameter : {row.alpha, row.beta}) {
      if (parameter.attribute == nullptr) continue;
      const Attribute& value = graph.nodes.at(0).attributes.at(parameter.attribute);
      EXPECT_EQ(KindLetter(value), parameter.kind) << row.name;
    }
    if (row.since == kMinOpset) continue;
    --node.opset;
    EXPECT_THAT(node.Unimplemented(), HasSubstr("is supported from opset")) << row.name;
  }
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
  EXPECT_EQ(computed.Imported().inputs.size(), 2u);
  const OneNode vector{"Clip", {1}, {"c"}, [](ModelBuilder& m) { m.Weights("c", {2}); }};
  EXPECT_THAT(vector.Invalid(), HasSubstr("takes one FP32"));
  const OneNode nan{"Clip", {1}, {"c"}, [](ModelBuilder& m) { m.Floats("c", {}, {NAN}); }};
  EXPECT_THAT(nan.Invalid(), HasSubstr("not a number"));
  OneNode old{"Clip", {1}, {"c"}, [](ModelBuilder& m) { m.Floats("c", {}, {0}); }};
  old.opset = 9;
  EXPECT_THAT(old.Invalid(), HasSubstr("opset 11"));
}

TEST(DropoutShape, RefusesTraining) {
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
  const Graph graph = mask.MustImport();
  EXPECT_EQ(graph.value(graph.outputs[1]).type, DataType::kBool);
}

TEST(CastShape, KeepsTheShape) {
  const auto cast = [](std::int64_t to) {
    return OneNode{"Cast", {3}, {}, [](ModelBuilder&) {}, [=](NodeRef n) { n.Int("to", to); }};
  };
  EXPECT_EQ(cast(onnx::TensorProto::FLOAT).OutputDims(), Dims{3});
  const Graph graph = cast(onnx::TensorProto::INT64).MustImport();
  EXPECT_EQ(graph.value(graph.outputs[0]).type, DataType::kInt64);
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
    EXPECT_EQ(std::get<Constant>(pad.Imported().attributes.at("value")).floats()[0], 7);
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
  EXPECT_THAT(pad({0, 0, 0, 0}, "mirror").Unimplemented(), HasSubstr("mode 'mirror'"));
  EXPECT_EQ(pad({0, 0, -1, 0}, "constant").OutputDims(), (Dims{1, 3}));
  EXPECT_THAT(pad({0, 0, -3, 0}, "constant").Invalid(), HasSubstr("leave -1 of axis 0"));
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
  EXPECT_EQ(Slice({-1}, {INT64_MIN}, {0}, {-3}).OutputDims(), (Dims{4, 20}));
  EXPECT_EQ(Slice({0}, {5}, {0}, {-1}).OutputDims(), (Dims{0, 20}));
  EXPECT_THAT(Slice({0}, {5}, {0}, {0}).Invalid(), HasSubstr("step of 0"));
  EXPECT_EQ(Slice({5}, {5}, {0}, {1}).OutputDims(), (Dims{0, 20}));
  EXPECT_THAT(Slice({0, 0}, {5}, {0}, {1}).Invalid(), HasSubstr("differ in length"));
  EXPECT_THAT(Slice({0, 0}, {5, 5}, {0, -2}, {1, 1}).Invalid(), HasSubstr("twice"));
  EXPECT_THAT(Slice(Ints(9, 0), Ints(9, 1), Ints(9, 0), Ints(9, 1)).Invalid(), HasSubstr("9 axes"));
}

TEST(GatherShape, PutsTheShapeOfTheIndicesIn) {
  OneNode gather{"Gather", {4, 5}, {"i"}, [](ModelBuilder& m) { m.Ints("i", {0, 1, 2}); }};
  EXPECT_EQ(gather.OutputDims(), (Dims{3, 5}));
  gather.configure = [](NodeRef n) { n.Int("axis", -1); };
  EXPECT_EQ(gather.OutputDims(), (Dims{4, 3}));
  const OneNode floats{"Gather", {4}, {"i"}, [](ModelBuilder& m) { m.Weights("i", {1}); }};
  EXPECT_THAT(floats.Invalid(), AllOf(HasSubstr("indices 'i'"), HasSubstr("FP32")));
}

TEST(ExpandShape, Broadcasts) {
  const auto expand = [](const Ints& shape) {
    return OneNode{"Expand", {3, 1}, {"s"}, [=](ModelBuilder& m) { m.Ints("s", shape); }};
  };
  EXPECT_EQ(expand({1, 1}).OutputDims(), (Dims{3, 1}));
  EXPECT_EQ(expand({2, 1, 4}).OutputDims(), (Dims{2, 3, 4}));
  EXPECT_THAT(expand({2, 1}).Invalid(), HasSubstr("[3,1] and [2,1]"));
}

// Indices.

OneNode Indexed(
    const std::string& op, const Dims& x, const Dims& indices, const Dims& updates,
    std::function<void(NodeRef)> configure = [](NodeRef) {}) {
  OneNode node{op, x, {"i"}, [=](ModelBuilder& m) {
                 std::vector<std::int64_t> zeros(static_cast<std::size_t>(ElementCount(indices)));
                 *m.graph().add_initializer() =
                     testing::RawTensor("i", onnx::TensorProto::INT64, indices, zeros);
                 if (!updates.empty()) m.Weights("u", updates);
               }};
  if (!updates.empty()) node.parameters = {"i", "u"};
  node.configure = std::move(configure);
  node.opset = 18;
  return node;
}

TEST(IndexShape, OfTheGathers) {
  EXPECT_EQ(Indexed("GatherElements", {4, 5}, {2, 5}, {}).OutputDims(), (Dims{2, 5}));
  EXPECT_THAT(Indexed("GatherElements", {4, 5}, {2, 6}, {}).Invalid(), HasSubstr("[2,6]"));
  EXPECT_EQ(Indexed("GatherND", {4, 5, 6}, {3, 2}, {}).OutputDims(), (Dims{3, 6}));
  const auto batch = [](NodeRef n) { n.Int("batch_dims", 1); };
  EXPECT_EQ(Indexed("GatherND", {4, 5, 6}, {4, 2}, {}, batch).OutputDims(), Dims{4});
  EXPECT_THAT(Indexed("GatherND", {4, 5}, {1, 3}, {}).Invalid(), HasSubstr("do not match"));
}

TEST(IndexShape, OfTheScattersIsTheInput) {
  EXPECT_EQ(Indexed("ScatterElements", {4, 5}, {2, 5}, {2, 5}).OutputDims(), (Dims{4, 5}));
  EXPECT_THAT(Indexed("ScatterElements", {4, 5}, {2, 5}, {2, 4}).Invalid(),
              HasSubstr("do not match"));
  EXPECT_EQ(Indexed("ScatterND", {4, 5, 6}, {3, 2}, {3, 6}).OutputDims(), (Dims{4, 5, 6}));
  EXPECT_THAT(Indexed("ScatterND", {4, 5}, {3, 1}, {3, 4}).Invalid(), HasSubstr("do not match"));
  const auto unknown = [](NodeRef n) { n.Text("reduction", "mean"); };
  EXPECT_THAT(Indexed("ScatterND", {4}, {3, 1}, {3}, unknown).Invalid(), HasSubstr("'mean'"));
}

// Resize.

OneNode Resize(const Dims& x, std::vector<float> scales, const std::string& mode) {
  return {"Resize",
          x,
          {"", "scales"},
          [=](ModelBuilder& m) {
            m.Floats("scales", {static_cast<std::int64_t>(scales.size())}, scales);
          },
          [=](NodeRef n) { n.Text("mode", mode); }};
}

TEST(ResizeShape, ScalesAndRefuses) {
  EXPECT_EQ(Resize({1, 2, 5, 7}, {1, 1, 2, 0.5f}, "linear").OutputDims(), (Dims{1, 2, 10, 3}));
  EXPECT_THAT(Resize({1, 2, 5, 7}, {1, 1, 2}, "linear").Invalid(), HasSubstr("3 scales for 4"));
  EXPECT_THAT(Resize({4}, {-1}, "linear").Invalid(), HasSubstr("scaled by -1"));
  EXPECT_THAT(Resize({4}, {2}, "lanczos").Unimplemented(), HasSubstr("'lanczos'"));
}

}  // namespace
}  // namespace lagoon
