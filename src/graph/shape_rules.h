#pragma once

// The shape rules that the op table names (op_table.cc). Each checks its node, brings it into the
// normal form of graph.h and sets its outputs.

#include "base/status.h"
#include "graph/op_context.h"

namespace lagoon {

// shape_rules_linear.cc
Status InferConv(OpContext& context);
Status InferGemm(OpContext& context);
Status InferMatMul(OpContext& context);
Status InferBatchNormalization(OpContext& context);

// shape_rules_pool.cc
Status InferMaxPool(OpContext& context);
Status InferAveragePool(OpContext& context);
Status InferGlobalPool(OpContext& context);

// shape_rules_elementwise.cc
Status InferUnary(OpContext& context);
Status InferLeakyRelu(OpContext& context);
Status InferHardSigmoid(OpContext& context);
Status InferClip(OpContext& context);
Status InferDropout(OpContext& context);
Status InferCast(OpContext& context);
Status InferBinary(OpContext& context);  // also Min and Max, of any number of inputs
Status InferSum(OpContext& context);
Status InferEqual(OpContext& context);
Status InferWhere(OpContext& context);

// shape_rules_reduce.cc
Status InferReduce(OpContext& context);
Status InferReduceSum(OpContext& context);
Status InferSoftmax(OpContext& context);

// shape_rules_layout.cc
Status InferFlatten(OpContext& context);
Status InferReshape(OpContext& context);
Status InferSqueeze(OpContext& context);
Status InferUnsqueeze(OpContext& context);
Status InferTranspose(OpContext& context);
Status InferConcat(OpContext& context);
Status InferSplit(OpContext& context);

// shape_rules_region.cc
Status InferPad(OpContext& context);
Status InferSlice(OpContext& context);
Status InferGather(OpContext& context);
Status InferExpand(OpContext& context);

// shape_rules_constant.cc
Status InferShape(OpContext& context);
Status InferSize(OpContext& context);
Status InferConstant(OpContext& context);
Status InferConstantOfShape(OpContext& context);
Status InferRange(OpContext& context);

/// What `a` and `b` broadcast to, as numpy does; the error names both.
Result<Dims> Broadcast(const OpContext& context, const Dims& a, const Dims& b);

/// The attribute of a Constant node that holds its value, as a constant.
Result<Constant> ConstantNodeValue(const OpContext& context);

}  // namespace lagoon
