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

/// The grid of a DequantizeLinear's result, if its input is computed and has one scale. Such nodes
/// are in models whose inputs are 8-bit integers.
std::optional<ByteGrid> DequantizedGridOf(const Graph& graph, const Node& node);

/// A product with constant quantised weights, or a convolution.
struct ByteLinear {
  std::size_t columns = 0, depth = 0;  // depth: products of a sum
  std::size_t groups = 1;              // ONNX's
  bool depthwise = false;              // a group has one channel and one column
  bool columns_last = false;           // the weights are [depth, columns]
  const QuantizedConstant* weights = nullptr;
  ByteGrid x;
};

/// A value that elementwise nodes compute from the bytes of one other value: a table of 256 bytes.
struct ByteFunction {
  ValueId of = kNoValue;
  std::vector<const Node*> nodes;  // in the order in which they run
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
  /// How to compute the value from a table; null if it is computed in another way.
  const ByteFunction* FunctionOf(ValueId value) const;
  /// Whether only tables need what the node computes, so that it need not run.
  bool IsInTables(const Node& node) const { return in_tables_.contains(&node); }
  /// Whether a convolution reads the value.
  bool IsReadAsImage(ValueId value) const;
  /// The node that alone reads the value; null if there are more, or if the graph outputs it.
  const Node* OnlyReader(ValueId value) const;
  /// The FakeQuantize that is the only reader of the value.
  const Node* OnlyFake(ValueId value) const;

 private:
  /// The value that elementwise nodes compute a value from, and how many nodes these are at most.
  struct Origin {
    ValueId of = kNoValue;
    std::size_t nodes = 0;
  };

  /// Whether the kernels on bytes can do what is fused into a linear node.
  bool KeepsFused(const Node& node) const;
  void FindOrigins(const Graph& graph, std::span<const Node> nodes);
  /// Of the output of an elementwise node. `far`: behind the nodes before it.
  std::optional<Origin> OriginOf(const Graph& graph, const Node& node, bool far) const;
  void FindNeeded(const Graph& graph, std::span<const Node> nodes);
  /// Adds the inputs that the node reads as bytes; it has inputs and outputs.
  void FindWanted(const Graph& graph, const Node& node);
  /// Whether a table for the value is faster than the nodes.
  bool PrefersTable(const Graph& graph, const Node& node) const;
  ByteFunction FunctionBehind(ValueId value) const;

  std::map<ValueId, ByteGrid> grids_;
  std::map<ValueId, std::vector<const Node*>> readers_;  // null: an output of the graph
  std::map<ValueId, const Node*> makers_;
  std::map<ValueId, Origin> origins_;
  std::map<ValueId, ByteFunction> functions_;
  std::set<const Node*> in_tables_;
  std::set<ValueId> wanted_;
};

/// True for ops that only move elements of their inputs.
bool MovesBytes(const Node& node);

}  // namespace lagoon
