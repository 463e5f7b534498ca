#pragma once

// One function per family of ops: appends the kernels of a node in the graph's normal form
// (graph/graph.h) and defines its outputs. An error says what is wrong; Lower() adds model, node,
// op and opset.

#include "kernels/image_window.h"
#include "program/lower/builder.h"

namespace lagoon {

// lower_conv.cc: Conv, MatMul and Gemm with constant weights.
Status LowerImageConv(ProgramBuilder& builder, const Node& node);     // on images
Status LowerPackedMatMul(ProgramBuilder& builder, const Node& node);  // and Gemm

// lower_window.cc
Status LowerConv(ProgramBuilder& builder, const Node& node);
/// On plain tensors; the weights may be computed.
Status LowerDirectConv(ProgramBuilder& builder, const Node& node);
Status LowerConvTranspose(ProgramBuilder& builder, const Node& node);
Status LowerConvInteger(ProgramBuilder& builder, const Node& node);
Status LowerQLinearConv(ProgramBuilder& builder, const Node& node);
Status LowerPool(ProgramBuilder& builder, const Node& node);  // MaxPool, AveragePool, LpPool
Status LowerGlobalLpPool(ProgramBuilder& builder, const Node& node);

// lower_matmul.cc: products of two computed operands.
Status LowerComputedMatMul(ProgramBuilder& builder, const Node& node);
Status LowerComputedGemm(ProgramBuilder& builder, const Node& node);
Status LowerMatMulInteger(ProgramBuilder& builder, const Node& node);
Status LowerQLinearMatMul(ProgramBuilder& builder, const Node& node);
Status LowerEinsum(ProgramBuilder& builder, const Node& node);

// lower_attention.cc
Status LowerAttention(ProgramBuilder& builder, const Node& node);

// lower_normalize.cc
Status LowerChannelAffine(ProgramBuilder& builder, const Node& node);
Status LowerBatchNormalization(ProgramBuilder& builder, const Node& node);
Status LowerInstanceNormalization(ProgramBuilder& builder, const Node& node);
Status LowerGroupNormalization(ProgramBuilder& builder, const Node& node);
Status LowerLayerNormalization(ProgramBuilder& builder, const Node& node);  // RMSNormalization too
Status LowerMeanVarianceNormalization(ProgramBuilder& builder, const Node& node);
Status LowerLpNormalization(ProgramBuilder& builder, const Node& node);
Status LowerLrn(ProgramBuilder& builder, const Node& node);

// lower_quantize.cc
Status LowerQuantizeLinear(ProgramBuilder& builder, const Node& node);
Status LowerDequantizeLinear(ProgramBuilder& builder, const Node& node);
Status LowerDynamicQuantizeLinear(ProgramBuilder& builder, const Node& node);

// lower_recurrent.cc
Status LowerRecurrent(ProgramBuilder& builder, const Node& node);  // LSTM, GRU, RNN

// lower_resize.cc
Status LowerResize(ProgramBuilder& builder, const Node& node);

// lower_reduce.cc
Status LowerArg(ProgramBuilder& builder, const Node& node);  // ArgMax, ArgMin
Status LowerHardmax(ProgramBuilder& builder, const Node& node);
Status LowerCumSum(ProgramBuilder& builder, const Node& node);
Status LowerTopK(ProgramBuilder& builder, const Node& node);
Status LowerGlobalPool(ProgramBuilder& builder, const Node& node);
Status LowerReduce(ProgramBuilder& builder, const Node& node);
Status LowerSoftmax(ProgramBuilder& builder, const Node& node);  // and LogSoftmax

// lower_elementwise.cc
Status LowerUnary(ProgramBuilder& builder, const Node& node);
Status LowerBinary(ProgramBuilder& builder, const Node& node);  // any number of inputs
Status LowerPow(ProgramBuilder& builder, const Node& node);
Status LowerCast(ProgramBuilder& builder, const Node& node);
Status LowerWhere(ProgramBuilder& builder, const Node& node);

// lower_move.cc
Status LowerView(ProgramBuilder& builder, const Node& node);  // Reshape and similar ops, Identity
Status LowerTranspose(ProgramBuilder& builder, const Node& node);
Status LowerConcat(ProgramBuilder& builder, const Node& node);
Status LowerSplit(ProgramBuilder& builder, const Node& node);
Status LowerSlice(ProgramBuilder& builder, const Node& node);
Status LowerDropout(ProgramBuilder& builder, const Node& node);
Status LowerExpand(ProgramBuilder& builder, const Node& node);

// lower_index.cc
Status LowerGather(ProgramBuilder& builder, const Node& node);
Status LowerGatherElements(ProgramBuilder& builder, const Node& node);
Status LowerGatherND(ProgramBuilder& builder, const Node& node);
Status LowerScatterElements(ProgramBuilder& builder, const Node& node);
Status LowerScatterND(ProgramBuilder& builder, const Node& node);

// lower_take.cc
Status LowerPad(ProgramBuilder& builder, const Node& node);
Status LowerTile(ProgramBuilder& builder, const Node& node);
Status LowerCompress(ProgramBuilder& builder, const Node& node);
Status LowerDepthToSpace(ProgramBuilder& builder, const Node& node);
Status LowerSpaceToDepth(ProgramBuilder& builder, const Node& node);
Status LowerTrilu(ProgramBuilder& builder, const Node& node);
Status LowerEyeLike(ProgramBuilder& builder, const Node& node);
Status LowerOneHot(ProgramBuilder& builder, const Node& node);
Status LowerReverseSequence(ProgramBuilder& builder, const Node& node);

/// A rank-4 value as an image.
struct ImageShape {
  std::uint32_t batch = 1, channels = 1, height = 1, width = 1;
};
Result<ImageShape> ImageOf(const Dims& dims);

/// A convolution or pooling node over images: its window, and the channels of its input and output.
struct ImageNode {
  ImageWindow window;
  std::uint32_t in_channels = 1, out_channels = 1;
  std::uint32_t pad_bottom = 0, pad_right = 0;
};
Result<ImageNode> ImageNodeOf(const ProgramBuilder& builder, const Node& node);

/// Fails if the node has a fused residual or activation, which its lowering would drop.
Status CheckNotFused(const Node& node);
/// The activation (not the residual) that fusion added to a node.
Epilogue EpilogueOf(const Fused& fused);
/// lower_elementwise.cc: sets the epilogue of a kernel to a function of one input.
void SetFunction(const Fused& fused, Epilogue& epilogue);

}  // namespace lagoon
