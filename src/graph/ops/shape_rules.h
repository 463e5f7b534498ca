#pragma once

// The shape rules that the op table refers to (op_table.cc). Each rule checks its node, brings it
// into the normal form of graph.h and sets its outputs.

#include "base/status.h"
#include "graph/ops/op_context.h"

namespace lagoon {

// shape_rules_linear.cc
Status InferConv(OpContext& context);
Status InferConvTranspose(OpContext& context);
Status InferConvInteger(OpContext& context);
Status InferQLinearConv(OpContext& context);
Status InferGemm(OpContext& context);
Status InferMatMul(OpContext& context);
Status InferMatMulInteger(OpContext& context);
Status InferQLinearMatMul(OpContext& context);
Status InferEinsum(OpContext& context);

// shape_rules_normalize.cc
Status InferBatchNormalization(OpContext& context);
Status InferInstanceNormalization(OpContext& context);
Status InferGroupNormalization(OpContext& context);
Status InferLayerNormalization(OpContext& context);
Status InferMeanVarianceNormalization(OpContext& context);
Status InferLrn(OpContext& context);

// shape_rules_quantize.cc
Status InferQuantizeLinear(OpContext& context);
Status InferDequantizeLinear(OpContext& context);
Status InferDynamicQuantizeLinear(OpContext& context);

// shape_rules_recurrent.cc
Status InferRecurrent(OpContext& context);  // LSTM, GRU, RNN

// shape_rules_resize.cc
Status InferResize(OpContext& context);
Status InferUpsample(OpContext& context);  // becomes Resize

// shape_rules_pool.cc
Status InferMaxPool(OpContext& context);
Status InferAveragePool(OpContext& context);
Status InferLpPool(OpContext& context);
Status InferGlobalPool(OpContext& context);

// shape_rules_elementwise.cc
Status InferUnaryRow(OpContext& context);   // an op of plan/elementwise_list.h
Status InferBinaryRow(OpContext& context);  // another
Status InferUnary(OpContext& context);
Status InferGelu(OpContext& context);
Status InferClip(OpContext& context);
Status InferDropout(OpContext& context);
Status InferCast(OpContext& context);
Status InferCastLike(OpContext& context);  // becomes Cast
Status InferBinary(OpContext& context);    // also of any number of inputs
Status InferSum(OpContext& context);
Status InferPow(OpContext& context);
Status InferBitShift(OpContext& context);
Status InferPRelu(OpContext& context);
Status InferWhere(OpContext& context);

// shape_rules_reduce.cc
Status InferReduce(OpContext& context);
Status InferReduceSum(OpContext& context);
Status InferArg(OpContext& context);  // ArgMax, ArgMin
Status InferCumSum(OpContext& context);
Status InferTopK(OpContext& context);
Status InferLpNormalization(OpContext& context);
Status InferSoftmax(OpContext& context);

// shape_rules_layout.cc
Status InferFlatten(OpContext& context);
Status InferReshape(OpContext& context);
Status InferSqueeze(OpContext& context);
Status InferUnsqueeze(OpContext& context);
Status InferTranspose(OpContext& context);
Status InferConcat(OpContext& context);
Status InferSplit(OpContext& context);
Status InferDepthToSpace(OpContext& context);
Status InferSpaceToDepth(OpContext& context);

// shape_rules_region.cc
Status InferPad(OpContext& context);
Status InferSlice(OpContext& context);
Status InferGather(OpContext& context);
Status InferExpand(OpContext& context);

// shape_rules_index.cc
Status InferGatherElements(OpContext& context);
Status InferGatherND(OpContext& context);
Status InferScatterElements(OpContext& context);
Status InferScatterND(OpContext& context);
Status InferTile(OpContext& context);
Status InferTrilu(OpContext& context);
Status InferOneHot(OpContext& context);
Status InferEyeLike(OpContext& context);
Status InferReverseSequence(OpContext& context);
Status InferCompress(OpContext& context);

// shape_rules_constant.cc
Status InferShape(OpContext& context);
Status InferSize(OpContext& context);
Status InferConstant(OpContext& context);
Status InferConstantOfShape(OpContext& context);
Status InferRange(OpContext& context);

/// The shape that `a` and `b` broadcast to, by numpy's rules; the error names both shapes.
Result<Dims> Broadcast(const OpContext& context, const Dims& a, const Dims& b);

/// Fails unless input `i` is int32 or int64.
Status CheckIndices(const OpContext& context, std::size_t i);

/// The value of a Constant node, from whichever attribute holds it.
Result<Constant> ConstantNodeValue(const OpContext& context);

}  // namespace lagoon
