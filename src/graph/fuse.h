#pragma once

// The steps of FuseOps, in their order.

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/graph_edit.h"

namespace lagoon {

/// Gemm: alpha and beta go into the weights, the bias becomes [N].
void NormalizeGemms(Graph& graph);

/// A Gemm of rows that a Reshape laid out, and that another lays back, becomes a MatMul of the
/// tensor itself, so that what follows can be fused with it. After NormalizeGemms.
void FuseReshapedGemms(Graph& graph);

/// Add of a constant per output channel to a Conv, Gemm or MatMul becomes its bias.
void FuseBias(Graph& graph);

/// Weights that FuseBatchNorms has scaled, by node: the graphs of one model for several batch sizes
/// have the same ones.
struct ScaledWeights {
  struct Entry {
    Constant from;
    std::vector<double> scale;
    Constant scaled;
  };
  std::map<std::string, Entry> by_node;
};
/// A Gemm or MatMul whose output only a Split along its columns reads (queries, keys and values)
/// becomes one node for each part. After FuseBias, before what gives it residuals.
void DivideSplitLinears(Graph& graph);

/// Scales weights and bias of the Conv, Gemm or MatMul before a BatchNormalization, in double
/// precision. kInvalidArgument if a variance is negative.
Status FuseBatchNorms(Graph& graph, ScaledWeights& scaled);

/// What FuseBatchNorms left becomes a ChannelAffine, or Mul and Add with constants [1,C,1,...]
/// where the rank is not 2 or 4.
Status ExpandBatchNorms(Graph& graph);

/// A Concat of channels goes into the ChannelAffine that alone reads it.
void FuseJoins(Graph& graph);
/// A Concat of more tensors stays.
inline constexpr std::size_t kMaxJoinedParts = 64;

/// Add of two computed tensors of one shape goes into the later of the Convs (group 1), Gemms and
/// MatMuls that compute them, which then stands where the Add stood: after both. Behind an
/// activation that the node has by then.
void FuseResiduals(Graph& graph);

/// x / sqrt(mean(x^2) + epsilon) becomes an RMSNormalization, of x - mean(x) a LayerNormalization;
/// what then scales it and is added to it, its parameters.
void FuseNormalizations(Graph& graph);

/// x times a function of x becomes a Gelu or a Swish.
void FuseGatedActivations(Graph& graph);

/// softmax(q * transposed(k)) * v of rank 4, with scale and mask, becomes an Attention.
void FuseAttention(Graph& graph);
/// Longer rows of scores stay what they are.
inline constexpr std::int64_t kMaxFusedKeys = 8192;

/// Relu and Clip go into the Conv, Gemm, MatMul, ChannelAffine or Add before them, other functions
/// into the first four and into Slice.
void FuseActivations(Graph& graph);

bool IsLinear(const Node& node);  // a packed Conv, Gemm or MatMul

/// Output channels of a linear node: of its weights, and what its bias holds.
std::int64_t Channels(const GraphEditor& editor, const Node& node);

/// The bias of a linear node, zeros if it has none.
std::vector<double> BiasOf(const GraphEditor& editor, const Node& node);

/// Gives node `i`, a linear one, the bias `bias`, rounded to fp32.
void SetBias(GraphEditor& editor, std::size_t i, const std::vector<double>& bias);

}  // namespace lagoon
