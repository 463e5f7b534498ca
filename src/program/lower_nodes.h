#pragma once

// One function per family of ops: appends the kernels of a node in the graph's normal form
// (graph/graph.h) and defines its outputs. An error says what is wrong; Lower() puts model, node,
// op and opset before it.

#include "program/builder.h"

namespace lagoon {

// lower_conv.cc
Status LowerConv(ProgramBuilder& builder, const Node& node);
Status LowerMatMul(ProgramBuilder& builder, const Node& node);  // and Gemm

// lower_reduce.cc
Status LowerPool(ProgramBuilder& builder, const Node& node);  // MaxPool, AveragePool
Status LowerGlobalPool(ProgramBuilder& builder, const Node& node);
Status LowerReduce(ProgramBuilder& builder, const Node& node);
Status LowerSoftmax(ProgramBuilder& builder, const Node& node);  // and LogSoftmax

// lower_elementwise.cc
Status LowerUnary(ProgramBuilder& builder, const Node& node);
Status LowerBinary(ProgramBuilder& builder, const Node& node);  // with any number of inputs

// lower_move.cc
Status LowerView(ProgramBuilder& builder, const Node& node);  // Reshape and its kin, Identity
Status LowerTranspose(ProgramBuilder& builder, const Node& node);
Status LowerConcat(ProgramBuilder& builder, const Node& node);
Status LowerSplit(ProgramBuilder& builder, const Node& node);
Status LowerSlice(ProgramBuilder& builder, const Node& node);
Status LowerPad(ProgramBuilder& builder, const Node& node);

/// A rank-4 value as an image.
struct ImageShape {
  std::uint32_t batch = 1, channels = 1, height = 1, width = 1;
};
Result<ImageShape> ImageOf(const Dims& dims);

/// The window of a convolution or pooling node.
struct WindowShape {
  std::uint32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  std::uint32_t dilation_h = 1, dilation_w = 1;
  std::uint32_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
};
Result<WindowShape> WindowOf(const Node& node);

/// Says that a node has no fused residual or activation that its lowering would drop.
Status CheckNotFused(const Node& node);
/// The activation (not the residual) that fusion put behind a node.
Epilogue EpilogueOf(const Fused& fused);

/// y = the part of x from `starts` on in steps of `steps` (both by logical axis), of dims `dims`.
Result<Tensor> EmitSlice(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                         std::span<const std::int64_t> starts, const Dims& dims,
                         std::span<const std::int64_t> steps);

/// Joins tensors of one layout along a logical axis; any number of them.
Result<Tensor> EmitConcat(ProgramBuilder& builder, const std::string& name,
                          std::vector<Tensor> parts, std::size_t axis);

}  // namespace lagoon
