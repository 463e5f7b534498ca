#pragma once

// Ops that are compositions of others. When shapes are inferred, the nodes that such an op is
// composed of replace its node. Fusion then finds the patterns for which there are kernels,
// as it does in files where an exporter wrote the composition out.
//
// The domain com.microsoft is ONNX Runtime's: its optimiser and its quantiser write these ops.

#include <span>
#include <string_view>

#include "graph/expand/writer.h"
#include "graph/graph.h"
#include "graph/ops/op_context.h"

namespace lagoon {

inline constexpr std::string_view kMicrosoft = "com.microsoft";

struct Expansion {
  std::string_view domain;  // empty: ai.onnx
  OpSpec signature;         // without rule, evaluator and run time
  void (*expand)(Writer& writer) = nullptr;
  /// Null: every node of the op is a composition. Otherwise: is this one?
  bool (*applies)(const OpContext& context) = nullptr;
};

/// Null if the node is no composition.
const Expansion* FindExpansion(const OpContext& context);

/// Whether nodes of this op may be compositions.
bool IsExpandable(const Node& node);

std::span<const Expansion> ActivationExpansions();
std::span<const Expansion> AttentionExpansions();
std::span<const Expansion> DeformExpansions();
std::span<const Expansion> FourierExpansions();
std::span<const Expansion> LinearExpansions();
std::span<const Expansion> LossExpansions();
std::span<const Expansion> MatrixExpansions();
std::span<const Expansion> MlExpansions();
std::span<const Expansion> MoveExpansions();
std::span<const Expansion> NormalizationExpansions();
std::span<const Expansion> QuantizedExpansions();
std::span<const Expansion> RandomExpansions();
std::span<const Expansion> RegionExpansions();
std::span<const Expansion> ResizeExpansions();
std::span<const Expansion> RotaryExpansions();
std::span<const Expansion> SignalExpansions();
std::span<const Expansion> StateExpansions();
std::span<const Expansion> TreeExpansions();

}  // namespace lagoon
