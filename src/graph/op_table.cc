// The ops that Lagoon imports. Bodies of those that run are in `kernels`; docs/ops.md is the list
// for people.

#include <algorithm>
#include <iterator>

#include "graph/evaluate.h"
#include "graph/op_context.h"
#include "graph/shape_rules.h"

namespace lagoon {
namespace {

constexpr std::string_view kConvAttributes =
    "s:auto_pad I:dilations i:group I:kernel_shape I:pads I:strides";
constexpr std::string_view kMaxPoolAttributes =
    "s:auto_pad i:ceil_mode I:dilations I:kernel_shape I:pads i:storage_order I:strides";
constexpr std::string_view kAveragePoolAttributes =
    "s:auto_pad i:ceil_mode i:count_include_pad I:kernel_shape I:pads I:strides";
constexpr std::string_view kReduceAttributes = "I:axes i:keepdims";
constexpr std::string_view kConstantAttributes =
    "t:value f:value_float F:value_floats i:value_int I:value_ints";

// op, since, inputs (least, most), outputs, attributes, rule, evaluator, run time
constexpr OpSpec kOps[] = {
    {"Conv", 9, 2, 3, 1, kConvAttributes, InferConv},
    {"Gemm", 9, 2, 3, 1, "f:alpha f:beta i:transA i:transB", InferGemm},
    {"MatMul", 9, 2, 2, 1, "", InferMatMul},
    {"BatchNormalization", 9, 5, 5, 1, "f:epsilon f:momentum i:training_mode",
     InferBatchNormalization},

    {"MaxPool", 9, 1, 1, 1, kMaxPoolAttributes, InferMaxPool},
    {"AveragePool", 9, 1, 1, 1, kAveragePoolAttributes, InferAveragePool},
    {"GlobalAveragePool", 9, 1, 1, 1, "", InferGlobalPool},
    {"GlobalMaxPool", 9, 1, 1, 1, "", InferGlobalPool},

    {"Relu", 9, 1, 1, 1, "", InferUnary},
    {"LeakyRelu", 9, 1, 1, 1, "f:alpha", InferLeakyRelu},
    {"Clip", 9, 1, 3, 1, "f:max f:min", InferClip},
    {"Sigmoid", 9, 1, 1, 1, "", InferUnary},
    {"Tanh", 9, 1, 1, 1, "", InferUnary},
    {"HardSwish", 14, 1, 1, 1, "", InferUnary},
    {"HardSigmoid", 9, 1, 1, 1, "f:alpha f:beta", InferHardSigmoid},
    {"Exp", 9, 1, 1, 1, "", InferUnary, EvaluateUnary},
    {"Log", 9, 1, 1, 1, "", InferUnary, EvaluateUnary},
    {"Sqrt", 9, 1, 1, 1, "", InferUnary, EvaluateUnary},
    {"Abs", 9, 1, 1, 1, "", InferUnary, EvaluateUnary},
    {"Neg", 9, 1, 1, 1, "", InferUnary, EvaluateUnary},
    {"Floor", 9, 1, 1, 1, "", InferUnary, EvaluateUnary, RunTime::kNever},
    {"Ceil", 9, 1, 1, 1, "", InferUnary, EvaluateUnary, RunTime::kNever},

    {"Add", 9, 2, 2, 1, "", InferBinary, EvaluateBinary},
    {"Sub", 9, 2, 2, 1, "", InferBinary, EvaluateBinary},
    {"Mul", 9, 2, 2, 1, "", InferBinary, EvaluateBinary},
    {"Div", 9, 2, 2, 1, "", InferBinary, EvaluateBinary},
    {"Pow", 9, 2, 2, 1, "", InferBinary, EvaluateBinary},
    {"Min", 9, 1, kMaxGraphEdges, 1, "", InferBinary, EvaluateBinary},
    {"Max", 9, 1, kMaxGraphEdges, 1, "", InferBinary, EvaluateBinary},
    {"Sum", 9, 1, kMaxGraphEdges, 1, "", InferSum, EvaluateBinary},
    {"Equal", 9, 2, 2, 1, "", InferEqual, EvaluateEqual, RunTime::kNever},
    {"Where", 9, 3, 3, 1, "", InferWhere, EvaluateWhere, RunTime::kNever},

    {"ReduceMean", 9, 1, 1, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceMax", 9, 1, 1, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceMin", 9, 1, 1, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceProd", 9, 1, 1, 1, kReduceAttributes, InferReduce, EvaluateReduce, RunTime::kNever},
    {"ReduceSum", 9, 1, 2, 1, "I:axes i:keepdims i:noop_with_empty_axes", InferReduceSum,
     EvaluateReduce},
    {"Softmax", 9, 1, 1, 1, "i:axis", InferSoftmax},
    {"LogSoftmax", 9, 1, 1, 1, "i:axis", InferSoftmax},

    {"Flatten", 9, 1, 1, 1, "i:axis", InferFlatten, EvaluateAlias},
    {"Reshape", 9, 2, 2, 1, "i:allowzero", InferReshape, EvaluateAlias},
    {"Squeeze", 9, 1, 2, 1, "I:axes", InferSqueeze, EvaluateAlias},
    {"Unsqueeze", 9, 1, 2, 1, "I:axes", InferUnsqueeze, EvaluateAlias},
    {"Transpose", 9, 1, 1, 1, "I:perm", InferTranspose, EvaluateTranspose},
    {"Concat", 9, 1, kMaxGraphEdges, 1, "i:axis", InferConcat, EvaluateConcat},
    {"Split", 9, 1, 2, kMaxGraphEdges, "i:axis I:split", InferSplit, EvaluateSplit},

    {"Pad", 9, 1, 3, 1, "s:mode I:pads f:value", InferPad},
    {"Slice", 9, 1, 5, 1, "I:axes I:ends I:starts", InferSlice, EvaluateSlice},
    {"Gather", 9, 2, 2, 1, "i:axis", InferGather, EvaluateGather, RunTime::kNever},
    {"Expand", 9, 2, 2, 1, "", InferExpand, EvaluateExpand},

    {"Identity", 9, 1, 1, 1, "", InferUnary, EvaluateAlias},
    {"Dropout", 9, 1, 3, 2, "f:ratio i:seed", InferDropout, EvaluateAlias},
    {"Cast", 9, 1, 1, 1, "i:to", InferCast, EvaluateCast},

    {"Shape", 9, 1, 1, 1, "i:end i:start", InferShape, EvaluateShape, RunTime::kShapeOnly},
    {"Size", 9, 1, 1, 1, "", InferSize, EvaluateSize, RunTime::kShapeOnly},
    {"Constant", 9, 0, 0, 1, kConstantAttributes, InferConstant, EvaluateConstant},
    {"ConstantOfShape", 9, 1, 1, 1, "t:value", InferConstantOfShape, EvaluateConstantOfShape,
     RunTime::kNever},
    {"Range", 11, 3, 3, 1, "", InferRange, EvaluateRange, RunTime::kNever},
};

}  // namespace

const OpSpec* FindOp(std::string_view op) {
  const auto found = std::find_if(std::begin(kOps), std::end(kOps),
                                  [&](const OpSpec& spec) { return spec.op == op; });
  return found == std::end(kOps) ? nullptr : found;
}

}  // namespace lagoon
