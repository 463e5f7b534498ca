// Every lowered op, on images in both layouts, compared with the reference.

#include <gtest/gtest.h>

#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using testing::FusedRelu;
using testing::TestGraph;
using Ints = std::vector<std::int64_t>;
using Window = TestGraph::Window;

constexpr std::int64_t kOne = 1, kZero = 0;

/// Adds the op under test to a graph with an image x of [2,6,5,7] and returns the op's output.
struct OpCase {
  const char* name;
  ValueId (*build)(TestGraph& g, ValueId x);
};

ValueId Unary(TestGraph& g, const char* op, ValueId x,
              std::map<std::string, Attribute> attributes = {}) {
  return g.Op(op, {x}, std::move(attributes));
}

ValueId Positive(TestGraph& g, ValueId x) {
  return g.Op("Add", {Unary(g, "Abs", x), g.Constant({}, {0.25F})});
}

ValueId Reduce(TestGraph& g, const char* op, ValueId x, Ints axes, std::int64_t keep) {
  return g.Op(op, {x}, {{"axes", std::move(axes)}, {"keepdims", keep}});
}

ValueId Transpose(TestGraph& g, ValueId x, Ints perm) {
  return g.Op("Transpose", {x}, {{"perm", std::move(perm)}});
}

ValueId Softmax(TestGraph& g, const char* op, ValueId x, std::int64_t axis) {
  return g.Op(op, {x}, {{"axis", axis}});
}

ValueId Concat(TestGraph& g, std::vector<ValueId> parts, std::int64_t axis) {
  return g.Op("Concat", std::move(parts), {{"axis", axis}});
}

/// A computed image of x's shape in kChannelsLast.
ValueId Other(TestGraph& g, ValueId x) { return g.Conv(x, 6, {1, 1, {0, 0, 0, 0}}); }

Fused Residual(ValueId residual, ActivationKind activation = ActivationKind::kRelu) {
  Fused fused;
  fused.residual = residual;
  fused.activation = activation;
  fused.low = -0.5F;
  fused.high = 0.5F;
  return fused;
}

const OpCase kCases[] = {
    {"Relu", [](TestGraph& g, ValueId x) { return Unary(g, "Relu", x); }},
    {"Clip",
     [](TestGraph& g, ValueId x) { return Unary(g, "Clip", x, {{"min", -0.3F}, {"max", 0.4F}}); }},
    {"ClipWithoutMax",
     [](TestGraph& g, ValueId x) { return Unary(g, "Clip", x, {{"min", 0.1F}}); }},
    {"Sigmoid", [](TestGraph& g, ValueId x) { return Unary(g, "Sigmoid", x); }},
    {"Tanh", [](TestGraph& g, ValueId x) { return Unary(g, "Tanh", x); }},
    {"Exp", [](TestGraph& g, ValueId x) { return Unary(g, "Exp", x); }},
    {"Log", [](TestGraph& g, ValueId x) { return Unary(g, "Log", Positive(g, x)); }},
    {"Sqrt", [](TestGraph& g, ValueId x) { return Unary(g, "Sqrt", Positive(g, x)); }},
    {"Abs", [](TestGraph& g, ValueId x) { return Unary(g, "Abs", x); }},
    {"Neg", [](TestGraph& g, ValueId x) { return Unary(g, "Neg", x); }},
    {"LeakyRelu",
     [](TestGraph& g, ValueId x) { return Unary(g, "LeakyRelu", x, {{"alpha", 0.2F}}); }},
    {"HardSwish", [](TestGraph& g, ValueId x) { return Unary(g, "HardSwish", x); }},
    {"HardSigmoid",
     [](TestGraph& g, ValueId x) {
       return Unary(g, "HardSigmoid", x, {{"alpha", 0.4F}, {"beta", 0.3F}});
     }},

    {"AddImages", [](TestGraph& g, ValueId x) { return g.Op("Add", {x, Other(g, x)}); }},
    {"AddToItself", [](TestGraph& g, ValueId x) { return g.Op("Add", {x, x}); }},
    {"AddWithRelu",
     [](TestGraph& g, ValueId x) { return g.Op("Add", {x, Other(g, x)}, {}, FusedRelu()); }},
    {"AddChannels",
     [](TestGraph& g, ValueId x) { return g.Op("Add", {x, g.Constant({1, 6, 1, 1})}); }},
    {"AddChannelsOfRank3",
     [](TestGraph& g, ValueId x) { return g.Op("Add", {g.Constant({6, 1, 1}), x}); }},
    {"MulRow", [](TestGraph& g, ValueId x) { return g.Op("Mul", {x, g.Constant({7})}); }},
    {"SubPlane", [](TestGraph& g, ValueId x) { return g.Op("Sub", {x, g.Constant({5, 7})}); }},
    {"SubImageConstant",
     [](TestGraph& g, ValueId x) { return g.Op("Sub", {g.Constant({2, 6, 5, 7}), x}); }},
    {"DivScalar", [](TestGraph& g, ValueId x) { return g.Op("Div", {x, g.Constant({}, {3})}); }},
    {"PowScalar",
     [](TestGraph& g, ValueId x) { return g.Op("Pow", {x, g.Constant({}, {2})}); }},
    {"PowOfThree",
     [](TestGraph& g, ValueId x) { return g.Op("Pow", {x, g.Constant({1}, {3})}); }},
    {"PowOfHigherRank",
     [](TestGraph& g, ValueId x) { return g.Op("Pow", {x, g.Constant({1, 1, 1, 1, 1}, {2})}); }},
    {"BroadcastUpwards",
     [](TestGraph& g, ValueId x) {
       const ValueId column = Reduce(g, "ReduceMax", x, {1, 3}, kOne);
       const ValueId row = Reduce(g, "ReduceMin", x, {0, 2}, kOne);
       return g.Op("Add", {column, row});
     }},
    {"BroadcastToRank5",
     [](TestGraph& g, ValueId x) { return g.Op("Add", {x, g.Constant({3, 1, 1, 1, 1})}); }},
    {"Gate",
     [](TestGraph& g, ValueId x) {
       const ValueId gate = Unary(g, "Sigmoid", Unary(g, "GlobalAveragePool", x));
       return g.Op("Mul", {x, gate});
     }},
    {"MinOfThree",
     [](TestGraph& g, ValueId x) {
       return g.Op("Min", {x, Other(g, x), g.Constant({1, 6, 1, 1})});
     }},
    {"MaxOfThree",
     [](TestGraph& g, ValueId x) { return g.Op("Max", {x, g.Constant({1}, {0}), Other(g, x)}); }},
    {"SumOfFour",
     [](TestGraph& g, ValueId x) { return g.Op("Sum", {x, x, Other(g, x), g.Constant({7})}); }},
    {"SumOfOne", [](TestGraph& g, ValueId x) { return Unary(g, "Neg", g.Op("Sum", {x})); }},

    {"Conv3x3", [](TestGraph& g, ValueId x) { return g.Conv(x, 9, {}); }},
    {"ConvStrided", [](TestGraph& g, ValueId x) { return g.Conv(x, 8, {3, 2, {1, 1, 1, 1}}); }},
    {"ConvAsymmetricPads",
     [](TestGraph& g, ValueId x) { return g.Conv(x, 5, {3, 2, {0, 1, 2, 0}}); }},
    {"ConvDilated", [](TestGraph& g, ValueId x) { return g.Conv(x, 5, {3, 1, {2, 2, 2, 2}, 2}); }},
    {"ConvWithoutBias",
     [](TestGraph& g, ValueId x) { return g.Conv(x, 17, {1, 1, {0, 0, 0, 0}}, 1, false); }},
    {"ConvRelu", [](TestGraph& g, ValueId x) { return g.Conv(x, 6, {}, 1, true, FusedRelu()); }},
    {"ConvResidual",
     [](TestGraph& g, ValueId x) { return g.Conv(x, 6, {}, 1, true, Residual(x)); }},
    {"ConvResidualClip",
     [](TestGraph& g, ValueId x) {
       return g.Conv(x, 6, {}, 1, false, Residual(Other(g, x), ActivationKind::kClip));
     }},
    {"Depthwise", [](TestGraph& g, ValueId x) { return g.Conv(x, 6, {}, 6); }},
    {"DepthwiseStridedClip",
     [](TestGraph& g, ValueId x) {
       const Fused clip = Residual(kNoValue, ActivationKind::kClip);
       return g.Conv(x, 6, {3, 2, {1, 1, 1, 1}}, 6, false, clip);
     }},
    {"ConvOfTwoGroups",
     [](TestGraph& g, ValueId x) { return g.Conv(x, 8, {}, 2, true, FusedRelu()); }},
    {"ConvDepthwiseTimesTwo", [](TestGraph& g, ValueId x) { return g.Conv(x, 12, {}, 6); }},
    {"ConvOfGroupsWithADistantWindow",
     [](TestGraph& g, ValueId x) {
       const std::int64_t far = 40'000;
       return g.Conv(x, 8, {3, 1, {far, far, far, far}, far}, 2, true, FusedRelu());
     }},
    {"ConvOfManyGroups",
     [](TestGraph& g, ValueId x) {
       return g.Conv(g.Conv(x, 40, {1, 1, {0, 0, 0, 0}}), 40, {1, 1, {0, 0, 0, 0}}, 20);
     }},

    {"MaxPool", [](TestGraph& g, ValueId x) { return g.Pool("MaxPool", x, {3, 2}); }},
    {"MaxPoolAsymmetric",
     [](TestGraph& g, ValueId x) { return g.Pool("MaxPool", x, {2, 2, {0, 0, 1, 1}}); }},
    {"MaxPoolDilated",
     [](TestGraph& g, ValueId x) { return g.Pool("MaxPool", x, {2, 1, {1, 1, 1, 1}, 2}); }},
    {"AveragePool",
     [](TestGraph& g, ValueId x) { return g.Pool("AveragePool", x, {3, 2, {1, 1, 1, 1}}); }},
    {"AveragePoolCountingPadding",
     [](TestGraph& g, ValueId x) { return g.Pool("AveragePool", x, {3, 2, {1, 1, 1, 1}}, 1); }},
    {"GlobalAveragePool",
     [](TestGraph& g, ValueId x) { return Unary(g, "GlobalAveragePool", x); }},
    {"GlobalMaxPool", [](TestGraph& g, ValueId x) { return Unary(g, "GlobalMaxPool", x); }},

    {"MeanOfPixels",
     [](TestGraph& g, ValueId x) { return Reduce(g, "ReduceMean", x, {2, 3}, kZero); }},
    {"MeanOfPixelsKept",
     [](TestGraph& g, ValueId x) { return Reduce(g, "ReduceMean", x, {2, 3}, kOne); }},
    {"SumOfChannels",
     [](TestGraph& g, ValueId x) { return Reduce(g, "ReduceSum", x, {1}, kZero); }},
    {"MaxOfBatch", [](TestGraph& g, ValueId x) { return Reduce(g, "ReduceMax", x, {0}, kZero); }},
    {"MinOfAxesApart",
     [](TestGraph& g, ValueId x) { return Reduce(g, "ReduceMin", x, {0, 2}, kZero); }},
    {"MeanOfAll",
     [](TestGraph& g, ValueId x) { return Reduce(g, "ReduceMean", x, {0, 1, 2, 3}, kZero); }},
    {"SoftmaxOfChannels", [](TestGraph& g, ValueId x) { return Softmax(g, "Softmax", x, 1); }},
    {"SoftmaxOfRows", [](TestGraph& g, ValueId x) { return Softmax(g, "Softmax", x, 3); }},
    {"LogSoftmaxOfHeight", [](TestGraph& g, ValueId x) { return Softmax(g, "LogSoftmax", x, 2); }},

    {"ConcatBatch", [](TestGraph& g, ValueId x) { return Concat(g, {x, Other(g, x)}, 0); }},
    {"ConcatChannels",
     [](TestGraph& g, ValueId x) {
       return Concat(g, {x, g.Conv(x, 3, {}), x, g.Constant({2, 1, 5, 7})}, 1);
     }},
    {"ConcatWidth", [](TestGraph& g, ValueId x) { return Concat(g, {Other(g, x), x}, 3); }},
    {"ConcatOfMany",
     [](TestGraph& g, ValueId x) {
       std::vector<ValueId> parts(33, x);
       for (std::size_t i = 0; i < parts.size(); i += 8) parts[i] = Unary(g, "Neg", x);
       return Concat(g, parts, 1);
     }},
    {"SplitChannels",
     [](TestGraph& g, ValueId x) {
       const std::vector<ValueId> parts = g.Split(x, 1, {1, 3, 2});
       return Concat(g, {parts[2], parts[0], parts[1]}, 1);
     }},
    {"SplitHeight", [](TestGraph& g, ValueId x) { return g.Split(x, 2, {2, 3})[1]; }},
    {"Slice",
     [](TestGraph& g, ValueId x) {
       return g.Op("Slice", {x},
                   {{"starts", Ints{0, 1, 0, 2}},
                    {"ends", Ints{2, 6, 5, 7}},
                    {"axes", Ints{0, 1, 2, 3}},
                    {"steps", Ints{1, 2, 3, 1}}});
     }},
    {"Pad",
     [](TestGraph& g, ValueId x) {
       return g.Op("Pad", {x},
                   {{"pads", Ints{0, 1, 2, 0, 0, 2, 0, 3}}, {"value", testing::Number(0.5F)}});
     }},
    {"TransposeToChannelsLast",
     [](TestGraph& g, ValueId x) { return Transpose(g, x, {0, 2, 3, 1}); }},
    {"TransposeToChannelsFirst",
     [](TestGraph& g, ValueId x) {
       return Unary(g, "GlobalMaxPool", Transpose(g, x, {0, 3, 1, 2}));
     }},
    {"TransposeAll", [](TestGraph& g, ValueId x) { return Transpose(g, x, {3, 1, 0, 2}); }},
    {"ShuffleChannels",
     [](TestGraph& g, ValueId x) {
       const ValueId apart = g.View("Reshape", x, {2, 2, 3, 5, 7});
       return g.View("Reshape", Transpose(g, apart, {0, 2, 1, 3, 4}), {2, 6, 5, 7});
     }},
    {"ReshapeToImages",
     [](TestGraph& g, ValueId x) { return g.Conv(g.View("Reshape", x, {4, 3, 7, 5}), 2, {}); }},
    {"Squeeze",
     [](TestGraph& g, ValueId x) {
       return g.View("Squeeze", Unary(g, "GlobalMaxPool", x), {2, 6});
     }},
    {"Unsqueeze", [](TestGraph& g, ValueId x) { return g.View("Unsqueeze", x, {2, 1, 6, 5, 7}); }},
    {"Identity", [](TestGraph& g, ValueId x) { return Unary(g, "Identity", x); }},
    {"Gemm",
     [](TestGraph& g, ValueId x) {
       const ValueId flat = g.View("Flatten", x, {2, 210});
       return g.Op("Gemm", {flat, g.Constant({11, 210}), g.Constant({11})}, {{"transB", kOne}});
     }},
    {"GemmResidual",
     [](TestGraph& g, ValueId x) {
       const ValueId flat = g.View("Flatten", x, {2, 210});
       const ValueId first = g.Op("Gemm", {flat, g.Constant({210, 21})}, {{"transB", kZero}});
       return g.Op("Gemm", {flat, g.Constant({210, 21}), g.Constant({21})}, {{"transB", kZero}},
                   Residual(first));
     }},
    {"MatMulOfRank4",
     [](TestGraph& g, ValueId x) { return g.Op("MatMul", {x, g.Constant({7, 9})}); }},
    {"FlattenedImageTransposed",
     [](TestGraph& g, ValueId x) {
       return Transpose(g, g.View("Reshape", x, {2, 6, 35}), {0, 2, 1});
     }},
    {"SequenceAsImage",
     [](TestGraph& g, ValueId x) {
       const ValueId rows = Transpose(g, g.View("Reshape", x, {2, 35, 6}), {0, 2, 1});
       return g.Op("Add", {g.View("Reshape", rows, {2, 6, 7, 5}), g.Constant({1, 6, 1, 1})});
     }},
    {"MatMulByTransposed",
     [](TestGraph& g, ValueId x) {
       return g.Op("MatMul", {x, Transpose(g, Unary(g, "Neg", x), {0, 1, 3, 2})});
     }},
    {"MatMulOfTransposed",
     [](TestGraph& g, ValueId x) {
       return g.Op("MatMul", {Transpose(g, Unary(g, "Neg", x), {0, 1, 3, 2}), x});
     }},
    {"MatMulOfHeads",  // [n,h,s,d] and [n,h,d,t] of what lies as [n,s,h,d]
     [](TestGraph& g, ValueId x) {
       const ValueId rows = g.View("Reshape", x, {2, 6, 5, 7});
       const ValueId queries = Transpose(g, rows, {0, 2, 1, 3});
       return g.Op("MatMul", {queries, Transpose(g, Unary(g, "Neg", rows), {0, 2, 3, 1})});
     }},
    {"MatMulOfColumnsApart",
     [](TestGraph& g, ValueId x) {
       const ValueId apart = Transpose(g, Unary(g, "Neg", x), {1, 3, 2, 0});
       return g.Op("MatMul", {apart, Transpose(g, apart, {0, 1, 3, 2})});
     }},
    {"MatMulByTransposedThatIsReadTwice",
     [](TestGraph& g, ValueId x) {
       const ValueId turned = Transpose(g, Unary(g, "Neg", x), {0, 1, 3, 2});
       return g.Op("Add", {g.Op("MatMul", {x, turned}),
                           Reduce(g, "ReduceMean", turned, {0, 1, 2, 3}, kZero)});
     }},
    {"MatMulOfBroadcast",
     [](TestGraph& g, ValueId x) {
       const ValueId one = Reduce(g, "ReduceMean", x, {0}, kZero);
       return g.Op("MatMul", {x, Transpose(g, one, {0, 2, 1})});
     }},
    {"MatMulOfRank3",
     [](TestGraph& g, ValueId x) {
       const ValueId rows = g.View("Reshape", x, {2, 6, 35});
       return g.Op("MatMul", {rows, g.Constant({35, 4}), g.Constant({4})}, {}, FusedRelu());
     }},
};

class LowerOp : public ::testing::TestWithParam<OpCase> {};

TEST_P(LowerOp, ComputesPlainImages) {
  TestGraph g;
  g.Output(GetParam().build(g, g.Input({2, 6, 5, 7})));
  testing::ExpectSameAsReference(g);
}

TEST_P(LowerOp, ComputesChannelsLastImages) {
  TestGraph g;
  const ValueId x = g.Conv(g.Input({2, 3, 5, 7}), 6, {});
  const ValueId y = GetParam().build(g, x);
  g.Output(y);
  g.Output(x);
  testing::ExpectSameAsReference(g);
}

TEST_P(LowerOp, FeedsAConvolution) {
  TestGraph g;
  ValueId y = GetParam().build(g, g.Conv(g.Input({2, 3, 5, 7}), 6, {}));
  const Dims dims = g.value(y).dims;
  if (dims.size() != 4) y = g.View("Reshape", y, {ElementCount(dims), 1, 1, 1});
  g.Output(g.Conv(y, 4, {}));
  testing::ExpectSameAsReference(g);
}

INSTANTIATE_TEST_SUITE_P(Ops, LowerOp, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lagoon
