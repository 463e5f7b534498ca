#pragma once

// For tests: a slow and simple interpreter of graphs, and graphs built by hand.

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace lagoon::testing {

/// A tensor in ONNX's layout, row-major.
struct HostTensor {
  Dims dims;
  std::vector<float> data;
};

/// Computes a node in the graph's normal form, by loops over indexes in double precision. `inputs`:
/// the node's inputs, then the fused residual if there is one. `out_dims` is used by Reshape and
/// similar ops only. Aborts on an unknown op.
std::vector<HostTensor> Evaluate(const Node& node, const std::vector<const HostTensor*>& inputs,
                                 const Dims& out_dims);

/// Numbers in [-1, 1) that depend only on `seed`.
HostTensor RandomTensor(const Dims& dims, std::uint32_t seed);

/// A graph that computes its values on random inputs while it is built, so that its shapes are
/// known and its outputs can be compared.
class TestGraph {
 public:
  explicit TestGraph(std::int64_t opset = 13) { graph_.opset = opset; }

  ValueId Input(const Dims& dims);
  ValueId Constant(const Dims& dims);
  ValueId Constant(const Dims& dims, std::vector<float> values);
  /// Adds an op with one output.
  ValueId Op(const std::string& op, std::vector<ValueId> inputs,
             std::map<std::string, Attribute> attributes = {}, Fused fused = {});
  std::vector<ValueId> Split(ValueId x, std::int64_t axis, std::vector<std::int64_t> sizes);
  /// Adds a Reshape, Flatten, Squeeze or Unsqueeze.
  ValueId View(const std::string& op, ValueId x, const Dims& dims);
  void Output(ValueId value) { graph_.outputs.push_back(value); }

  // The usual shapes of the ops of convolutional networks.
  struct Window {
    std::int64_t kernel = 3, stride = 1;
    std::vector<std::int64_t> pads{1, 1, 1, 1};
    std::int64_t dilation = 1;
  };
  /// Adds a Conv with random weights and, if `bias`, a random bias.
  ValueId Conv(ValueId x, std::int64_t channels, const Window& window, std::int64_t groups = 1,
               bool bias = true, Fused fused = {});
  ValueId Pool(const std::string& op, ValueId x, const Window& window, std::int64_t count_pad = 0);

  const Graph& graph() const { return graph_; }
  const HostTensor& value(ValueId id) const { return data_[static_cast<std::size_t>(id)]; }

 private:
  ValueId Add(HostTensor data);
  std::vector<ValueId> AddNode(Node node, std::size_t outputs, const Dims& out_dims);

  Graph graph_;
  std::deque<HostTensor> data_;  // by ValueId; references stay valid while the graph grows
  std::uint32_t seed_ = 1;
};

/// An fp32 constant without axes.
inline Constant Number(float value) {
  auto bytes = std::make_shared<std::vector<std::byte>>(sizeof(value));
  std::memcpy(bytes->data(), &value, sizeof(value));
  return {DataType::kFloat32, {}, std::move(bytes)};
}

inline Fused FusedRelu() { return {.activation = ActivationKind::kRelu}; }

}  // namespace lagoon::testing
