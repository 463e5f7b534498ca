#pragma once

// Which fp32 values of a graph can be kept as bytes, and which nodes compute on bytes.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace lagoon {

/// The floats that bytes stand for: (byte - zero) * scale.
struct ByteGrid {
  float scale = 1;
  std::uint8_t zero = 0;

  friend bool operator==(const ByteGrid&, const ByteGrid&) = default;
};

/// The grid of a FakeQuantize with these attributes, if it is one of bytes.
std::optional<ByteGrid> ByteGridOf(float scale, float low);

/// The grid that the activation fused into a node rounds to, if it is a FakeQuantize.
std::optional<ByteGrid> FusedGridOf(const Node& node);

/// A product with constant quantised weights, or a convolution.
struct ByteLinear {
  std::size_t columns = 0, depth = 0;  // depth: products of a sum
  std::size_t groups = 1;              // ONNX's
  bool depthwise = false;              // a group has one channel and one column
  bool columns_last = false;           // the weights are [depth, columns]
  const QuantizedConstant* weights = nullptr;
  ByteGrid x;
};

/// The graph's nodes in the order in which they are lowered. Keeps references to both.
class ByteFlow {
 public:
  ByteFlow(const Graph& graph, std::span<const Node> nodes);

  /// The grid on which the elements of a value lie, if there is one.
  std::optional<ByteGrid> GridAt(ValueId value) const;
  /// What the node multiplies, if it can do so on bytes.
  std::optional<ByteLinear> LinearOf(const Graph& graph, const Node& node) const;
  /// Whether a reader of the value computes on bytes.
  bool WantsBytes(ValueId value) const { return wanted_.contains(value); }
  /// Whether a convolution reads the value.
  bool IsReadAsImage(ValueId value) const;
  /// The FakeQuantize that is the only reader of the value.
  const Node* OnlyFake(ValueId value) const;

 private:
  /// Whether the kernels on bytes can do what is fused into a linear node.
  bool KeepsFused(const Node& node) const;
  void FindWanted(const Graph& graph, std::span<const Node> nodes);

  std::map<ValueId, ByteGrid> grids_;
  std::map<ValueId, std::vector<const Node*>> readers_;  // null: an output of the graph
  std::set<ValueId> wanted_;
};

/// True for ops that only move elements of their inputs.
bool MovesBytes(const Node& node);

}  // namespace lagoon
