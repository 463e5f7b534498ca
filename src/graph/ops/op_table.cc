// The ops that Lagoon imports: those of plan/elementwise_list.h and those below. The bodies of ops
// that run are in `kernels`; docs/guide/ops.md lists the ops for users.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <span>

#include "graph/fold/evaluate.h"
#include "graph/ops/op_context.h"
#include "graph/ops/shape_rules.h"
#include "plan/elementwise_ops.h"

namespace lagoon {
namespace {

constexpr std::string_view kConvAttributes =
    "s:auto_pad I:dilations i:group I:kernel_shape I:pads I:strides";
constexpr std::string_view kMaxPoolAttributes =
    "s:auto_pad i:ceil_mode I:dilations I:kernel_shape I:pads i:storage_order I:strides";
constexpr std::string_view kAveragePoolAttributes =
    "s:auto_pad i:ceil_mode i:count_include_pad I:dilations I:kernel_shape I:pads I:strides";
constexpr std::string_view kReduceAttributes = "I:axes i:keepdims i:noop_with_empty_axes";
constexpr std::string_view kConstantAttributes =
    "t:value f:value_float F:value_floats i:value_int I:value_ints s:value_string S:value_strings";

constexpr std::string_view kTransposeConvAttributes =
    "s:auto_pad I:dilations i:group I:kernel_shape I:output_padding I:output_shape I:pads "
    "I:strides";
constexpr std::string_view kLpPoolAttributes =
    "s:auto_pad i:ceil_mode I:dilations I:kernel_shape i:p I:pads I:strides";
constexpr std::string_view kRecurrentAttributes =
    "F:activation_alpha F:activation_beta S:activations f:clip s:direction i:hidden_size "
    "i:input_forget i:layout i:linear_before_reset";
constexpr std::string_view kResizeAttributes =
    "i:antialias I:axes s:coordinate_transformation_mode f:cubic_coeff_a i:exclude_outside "
    "f:extrapolation_value s:keep_aspect_ratio_policy s:mode s:nearest_mode";

// op, since, inputs (least, most), outputs, attributes, rule, evaluator, run time
constexpr OpSpec kOps[] = {
    {"Conv", 1, 2, 3, 1, kConvAttributes, InferConv},
    {"ConvTranspose", 1, 2, 3, 1, kTransposeConvAttributes, InferConvTranspose},
    {"ConvInteger", 10, 2, 4, 1, kConvAttributes, InferConvInteger},
    {"QLinearConv", 10, 8, 9, 1, kConvAttributes, InferQLinearConv},
    {"Gemm", 7, 2, 3, 1, "f:alpha f:beta i:transA i:transB", InferGemm},
    {"MatMul", 1, 2, 2, 1, "", InferMatMul},
    {"MatMulInteger", 10, 2, 4, 1, "", InferMatMulInteger},
    {"QLinearMatMul", 10, 8, 8, 1, "", InferQLinearMatMul},
    {"Einsum", 12, 1, 8, 1, "s:equation", InferEinsum},

    {"BatchNormalization", 9, 5, 5, 1, "f:epsilon f:momentum i:training_mode",
     InferBatchNormalization},
    {"InstanceNormalization", 6, 3, 3, 1, "f:epsilon", InferInstanceNormalization},
    {"GroupNormalization", 18, 3, 3, 1, "f:epsilon i:num_groups i:stash_type",
     InferGroupNormalization},
    {"LayerNormalization", 17, 2, 3, 3, "i:axis f:epsilon i:stash_type", InferLayerNormalization},
    {"MeanVarianceNormalization", 9, 1, 1, 1, "I:axes", InferMeanVarianceNormalization},
    {"LpNormalization", 1, 1, 1, 1, "i:axis i:p", InferLpNormalization},
    {"LRN", 1, 1, 1, 1, "f:alpha f:beta f:bias i:size", InferLrn},

    {"MaxPool", 8, 1, 1, 2, kMaxPoolAttributes, InferMaxPool},
    {"AveragePool", 7, 1, 1, 1, kAveragePoolAttributes, InferAveragePool},
    {"LpPool", 2, 1, 1, 1, kLpPoolAttributes, InferLpPool},
    {"GlobalAveragePool", 1, 1, 1, 1, "", InferGlobalPool},
    {"GlobalMaxPool", 1, 1, 1, 1, "", InferGlobalPool},
    {"GlobalLpPool", 2, 1, 1, 1, "i:p", InferGlobalPool},

    {"LSTM", 7, 3, 8, 3, kRecurrentAttributes, InferRecurrent},
    {"GRU", 7, 3, 6, 2, kRecurrentAttributes, InferRecurrent},
    {"RNN", 7, 3, 6, 2, kRecurrentAttributes, InferRecurrent},

    {"PRelu", 7, 2, 2, 1, "", InferPRelu},
    {"Gelu", 20, 1, 1, 1, "s:approximate", InferGelu},
    {"Clip", 6, 1, 3, 1, "f:max f:min", InferClip},

    {"Mod", 10, 2, 2, 1, "i:fmod", InferBinary},
    {"Pow", 7, 2, 2, 1, "", InferPow, EvaluateBinary},
    {"Sum", 8, 1, kMaxGraphEdges, 1, "", InferSum, EvaluateBinary},
    {"Mean", 8, 1, kMaxGraphEdges, 1, "", InferBinary},
    {"BitShift", 11, 2, 2, 1, "s:direction", InferBitShift},
    {"Equal", 7, 2, 2, 1, "", InferBinaryRow, EvaluateEqual},
    {"Where", 9, 3, 3, 1, "", InferWhere, EvaluateWhere},

    {"ReduceMean", 1, 1, 2, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceMax", 1, 1, 2, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceMin", 1, 1, 2, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceProd", 1, 1, 2, 1, kReduceAttributes, InferReduce, EvaluateReduce},
    {"ReduceSum", 1, 1, 2, 1, kReduceAttributes, InferReduceSum, EvaluateReduce},
    {"ReduceL1", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ReduceL2", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ReduceLogSum", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ReduceLogSumExp", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ReduceSumSquare", 1, 1, 2, 1, kReduceAttributes, InferReduce},
    {"ArgMax", 1, 1, 1, 1, "i:axis i:keepdims i:select_last_index", InferArg},
    {"ArgMin", 1, 1, 1, 1, "i:axis i:keepdims i:select_last_index", InferArg},
    {"CumSum", 11, 2, 2, 1, "i:exclusive i:reverse", InferCumSum},
    {"TopK", 1, 1, 2, 2, "i:axis i:k i:largest i:sorted", InferTopK},
    {"Softmax", 1, 1, 1, 1, "i:axis", InferSoftmax},
    {"LogSoftmax", 1, 1, 1, 1, "i:axis", InferSoftmax},
    {"Hardmax", 1, 1, 1, 1, "i:axis", InferSoftmax},

    {"Flatten", 1, 1, 1, 1, "i:axis", InferFlatten, EvaluateAlias},
    {"Reshape", 5, 2, 2, 1, "i:allowzero", InferReshape, EvaluateAlias},
    {"Squeeze", 1, 1, 2, 1, "I:axes", InferSqueeze, EvaluateAlias},
    {"Unsqueeze", 1, 1, 2, 1, "I:axes", InferUnsqueeze, EvaluateAlias},
    {"Transpose", 1, 1, 1, 1, "I:perm", InferTranspose, EvaluateTranspose},
    {"Concat", 4, 1, kMaxGraphEdges, 1, "i:axis", InferConcat, EvaluateConcat},
    {"Split", 2, 1, 2, kMaxGraphEdges, "i:axis i:num_outputs I:split", InferSplit, EvaluateSplit},
    {"DepthToSpace", 1, 1, 1, 1, "i:blocksize s:mode", InferDepthToSpace},
    {"SpaceToDepth", 1, 1, 1, 1, "i:blocksize", InferSpaceToDepth},

    {"Pad", 2, 1, 4, 1, "s:mode I:pads f:value", InferPad},
    {"Slice", 1, 1, 5, 1, "I:axes I:ends I:starts", InferSlice, EvaluateSlice},
    {"Expand", 8, 2, 2, 1, "", InferExpand, EvaluateExpand},
    {"Tile", 6, 2, 2, 1, "", InferTile},
    {"Resize", 10, 1, 4, 1, kResizeAttributes, InferResize},
    {"Upsample", 9, 2, 2, 1, "s:mode", InferUpsample},
    {"Trilu", 14, 1, 2, 1, "i:upper", InferTrilu},
    {"ReverseSequence", 10, 2, 2, 1, "i:batch_axis i:time_axis", InferReverseSequence},
    {"Gather", 1, 2, 2, 1, "i:axis", InferGather, EvaluateGather},
    {"GatherElements", 11, 2, 2, 1, "i:axis", InferGatherElements},
    {"GatherND", 11, 2, 2, 1, "i:batch_dims", InferGatherND},
    {"Scatter", 9, 3, 3, 1, "i:axis", InferScatterElements},
    {"ScatterElements", 11, 3, 3, 1, "i:axis s:reduction", InferScatterElements},
    {"ScatterND", 11, 3, 3, 1, "s:reduction", InferScatterND},
    {"Compress", 9, 2, 2, 1, "i:axis", InferCompress},

    {"Identity", 1, 1, 1, 1, "", InferUnary, EvaluateAlias},
    {"Dropout", 7, 1, 3, 2, "f:ratio i:seed", InferDropout},
    {"Cast", 6, 1, 1, 1, "i:saturate i:to", InferCast, EvaluateCast},
    {"CastLike", 15, 2, 2, 1, "i:saturate", InferCastLike, EvaluateCast},
    {"QuantizeLinear", 10, 2, 3, 1, "i:axis i:block_size i:output_dtype i:saturate",
     InferQuantizeLinear},
    {"DequantizeLinear", 10, 2, 3, 1, "i:axis i:block_size", InferDequantizeLinear},
    {"DynamicQuantizeLinear", 11, 1, 1, 3, "", InferDynamicQuantizeLinear},

    {"Shape", 1, 1, 1, 1, "i:end i:start", InferShape, EvaluateShape, RunTime::kShapeOnly},
    {"Size", 1, 1, 1, 1, "", InferSize, EvaluateSize, RunTime::kShapeOnly},
    {"Constant", 1, 0, 0, 1, kConstantAttributes, InferConstant, EvaluateConstant},
    {"ConstantOfShape", 9, 1, 1, 1, "t:value", InferConstantOfShape, EvaluateConstantOfShape,
     RunTime::kNever},
    {"Range", 11, 3, 3, 1, "", InferRange, EvaluateRange, RunTime::kNever},
    {"OneHot", 9, 3, 3, 1, "i:axis", InferOneHot},
    {"EyeLike", 9, 1, 1, 1, "i:dtype i:k", InferEyeLike},
};

/// "f:alpha f:beta", as in OpSpec.
std::string AttributesOf(const elementwise::UnaryRow& row) {
  std::string attributes;
  for (const elementwise::Parameter& parameter : {row.alpha, row.beta}) {
    if (parameter.attribute == nullptr) continue;
    if (!attributes.empty()) attributes += ' ';
    attributes += fmt::format("{}:{}", parameter.kind, parameter.attribute);
  }
  return attributes;
}

/// The ops that their row of plan/elementwise_list.h describes.
struct RowOps {
  std::deque<std::string> attributes;  // the specs refer to them
  std::vector<OpSpec> specs;

  RowOps() {
    for (const elementwise::UnaryRow& row : elementwise::kUnaryRows) {
      if (row.since == 0) continue;
      specs.push_back({row.name, row.since, 1, 1, 1, attributes.emplace_back(AttributesOf(row)),
                       InferUnaryRow, row.folds ? EvaluateUnary : nullptr});
    }
    for (const elementwise::BinaryRow& row : elementwise::kBinaryRows) {
      if (row.since == 0) continue;
      const std::size_t least = row.any_inputs ? 1 : 2;
      const std::size_t most = row.any_inputs ? kMaxGraphEdges : 2;
      specs.push_back({row.name, row.since, least, most, 1, "", InferBinaryRow,
                       row.folds ? EvaluateBinary : nullptr});
    }
  }
};

const OpSpec* Find(std::span<const OpSpec> specs, std::string_view op) {
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const OpSpec& spec) { return spec.op == op; });
  return found == specs.end() ? nullptr : &*found;
}

}  // namespace

const OpSpec* FindOp(std::string_view op) {
  static const RowOps rows;
  const OpSpec* found = Find(rows.specs, op);
  return found != nullptr ? found : Find(kOps, op);
}

}  // namespace lagoon
