#pragma once

// The steps of FuseOps; fuse.cc has their order.

#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/graph_edit.h"

namespace lagoon {

/// A QLinearConv with constant parameters becomes DequantizeLinear, Conv and QuantizeLinear; a
/// QLinearMatMul with a constant matrix becomes IntegerLinear and QuantizeLinear.
void DivideQuantizedOps(Graph& graph);

/// MatMulInteger with a constant matrix, Cast to fp32 and Mul by a scale become one IntegerLinear.
/// ConvInteger with constant weights in the place of MatMulInteger: DequantizeLinear and Conv.
void FuseIntegerProducts(Graph& graph);

/// A QuantizeLinear to 8 bits and a DequantizeLinear behind it with the same parameters become a
/// FakeQuantize (plan/elementwise_list.h). One that cannot change a value is dropped, as are limits
/// that a FakeQuantize implies. Runs before all other steps.
void FuseQuantization(Graph& graph);

/// Multiplies alpha and beta of every Gemm into its weights and its bias; the bias becomes [N].
void NormalizeGemms(Graph& graph);

/// Turns a Gemm between two Reshapes (one makes rows of the tensor, the other restores its shape)
/// into a MatMul on the tensor itself, so that later ops can be fused with it. Runs after
/// NormalizeGemms.
void FuseReshapedGemms(Graph& graph);

/// An Add of one constant per output channel behind a Conv, Gemm or MatMul becomes the bias of that
/// node.
void FuseBias(Graph& graph);

/// A Mul by one finite constant, or by one per output channel, behind a Conv, Gemm or MatMul goes
/// into the weights of that node, in double precision. Weights that come from integers stay.
void FuseScales(Graph& graph);

/// Splits a Gemm or MatMul into one node per part if its output is read only by a Split along the
/// columns (queries, keys and values). Runs after FuseBias and before the steps that add residuals.
void DivideSplitLinears(Graph& graph);

/// Folds a BatchNormalization into weights and bias of the Conv, Gemm or MatMul before it, in
/// double precision. kInvalidArgument if a variance is negative.
Status FuseBatchNorms(Graph& graph);

/// Turns each BatchNormalization that FuseBatchNorms left into a ChannelAffine, or, for ranks other
/// than 2 and 4, into Mul and Add with constants of shape [1,C,1,...].
Status ExpandBatchNorms(Graph& graph);

/// Merges a Concat along the channels into the ChannelAffine that is its only reader.
void FuseJoins(Graph& graph);
/// FuseJoins leaves a Concat of more tensors as it is.
inline constexpr std::size_t kMaxJoinedParts = 64;

/// Fuses an Add of two computed tensors of the same shape into the node that computes one of them:
/// a Conv (group 1), Gemm or MatMul, the later of the two if both qualify. The merged node takes
/// the place of the Add, so that it runs after both operands. If the node already has an
/// activation, the residual is added after the activation.
void FuseResiduals(Graph& graph);

/// A GatherElements or ScatterElements reads indices that an Expand repeats as they are before it.
/// So these nodes have indices with a size of 1 where the output of the one, or the updates of the
/// other, have more. Exporters write rows that are gathered or scattered as a whole in this way.
void FuseExpandedIndices(Graph& graph);

/// Nodes that compute the same integers are one: positions and masks, which a decoder has once for
/// each layer.
void ShareEqualNodes(Graph& graph);

/// A Slice of exactly the elements that a ScatterND with constant indices has written is a Reshape
/// of the updates. Exporters write masks in this way.
void FuseScatteredSlices(Graph& graph);

/// x / sqrt(mean(x^2) + epsilon) becomes an RMSNormalization; the same formula on x - mean(x)
/// becomes a LayerNormalization. A scale and a bias that follow become parameters of the new node.
void FuseNormalizations(Graph& graph);

/// x * f(x) becomes a Gelu or a Swish, depending on f.
void FuseGatedActivations(Graph& graph);

/// softmax(q * transposed(k)) * v of rank 4, with scale and masks, becomes an Attention. Batch and
/// heads may also be merged into one axis.
void FuseAttention(Graph& graph);
/// FuseAttention leaves longer rows of scores unfused.
inline constexpr std::int64_t kMaxFusedKeys = std::int64_t{1} << 17;

/// Fuses Relu and Clip into the Conv, Gemm, MatMul, ChannelAffine or Add before them, and other
/// functions into a Conv, Gemm, MatMul, ChannelAffine, Slice, Add, Sub, Mul or Div.
void FuseActivations(Graph& graph);

/// A packed Conv, ConvTranspose, Gemm or MatMul, or an IntegerLinear.
bool IsLinear(const Node& node);
bool IsConvolution(const Node& node);  // Conv or ConvTranspose

/// Output channels of a linear node, from the shape of its weights; also the length of its bias.
std::int64_t Channels(const GraphEditor& editor, const Node& node);

/// The axis of the output channels of a linear node whose output has `rank` axes, from the back.
std::size_t ChannelAxis(const Node& node, std::size_t rank);
/// Whether `constant`, the dims of an operand, has one number, or one per channel along an axis of
/// an output of `dims`. `channel_axis` counts from the back.
bool IsPerChannel(const Dims& constant, const Dims& dims, std::size_t channel_axis);

/// The bias of a linear node, zeros if it has none.
std::vector<double> BiasOf(const GraphEditor& editor, const Node& node);

/// Gives node `i`, a linear one, the bias `bias`, rounded to fp32.
void SetBias(GraphEditor& editor, std::size_t i, const std::vector<double>& bias);

}  // namespace lagoon
