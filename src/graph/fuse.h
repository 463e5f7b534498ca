#pragma once

// The steps of FuseOps, in their order.

#include "base/status.h"
#include "graph/graph.h"
#include "graph/graph_edit.h"

namespace lagoon {

/// Gemm: alpha and beta go into the weights, the bias becomes [N].
void NormalizeGemms(Graph& graph);

/// Add of a constant per output channel to a Conv, Gemm or MatMul becomes its bias.
void FuseBias(Graph& graph);

/// Scales weights and bias of the Conv, Gemm or MatMul before a BatchNormalization, in double
/// precision. kInvalidArgument if a variance is negative.
Status FuseBatchNorms(Graph& graph);

/// What FuseBatchNorms left becomes Mul and Add with constants [1,C,1,...].
Status ExpandBatchNorms(Graph& graph);

/// Add of two computed tensors of one shape goes into the later of the Convs (group 1), Gemms and
/// MatMuls that compute them, which then stands where the Add stood: after both.
void FuseResiduals(Graph& graph);

/// Relu and Clip go into the Conv, Gemm, MatMul or Add before them.
void FuseActivations(Graph& graph);

bool IsLinear(const Node& node);  // Conv, Gemm or MatMul

/// Output channels of a linear node: of its weights, and what its bias holds.
std::int64_t Channels(const GraphEditor& editor, const Node& node);

/// The bias of a linear node, zeros if it has none.
std::vector<double> BiasOf(const GraphEditor& editor, const Node& node);

/// Gives node `i`, a linear one, the bias `bias`, rounded to fp32.
void SetBias(GraphEditor& editor, std::size_t i, const std::vector<double>& bias);

}  // namespace lagoon
