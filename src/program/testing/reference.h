#pragma once

// For tests: a graph interpreter that is slow and obvious, and graphs built by hand.

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace lagoon::testing {

/// Row-major in ONNX's layout.
struct HostTensor {
  Dims dims;
  std::vector<float> data;
};

/// What a node in the graph's normal form computes, by loops over indexes in double precision. The
/// inputs are the node's, then the fused residual if there is one. `out_dims` is used by Reshape
/// and its kin only. Aborts on an op that it does not know.
std::vector<HostTensor> Evaluate(const Node& node, const std::vector<const HostTensor*>& inputs,
                                 const Dims& out_dims);

/// Numbers in [-1, 1) that depend on `seed` alone.
HostTensor RandomTensor(const Dims& dims, std::uint32_t seed);

/// A graph that computes itself while it is built, on random inputs, so that its shapes are known
/// and its outputs can be compared.
class TestGraph {
 public:
  explicit TestGraph(std::int64_t opset = 13) { graph_.opset = opset; }

  ValueId Input(const Dims& dims);
  ValueId Constant(const Dims& dims);
  ValueId Constant(const Dims& dims, std::vector<float> values);
  /// An op with one output.
  ValueId Op(const std::string& op, std::vector<ValueId> inputs,
             std::map<std::string, Attribute> attributes = {}, Fused fused = {});
  std::vector<ValueId> Split(ValueId x, std::int64_t axis, std::vector<std::int64_t> sizes);
  /// Reshape, Flatten, Squeeze, Unsqueeze.
  ValueId View(const std::string& op, ValueId x, const Dims& dims);
  void Output(ValueId value) { graph_.outputs.push_back(value); }

  // The usual shapes of the ops of convolutional networks.
  struct Window {
    std::int64_t kernel = 3, stride = 1;
    std::vector<std::int64_t> pads{1, 1, 1, 1};
    std::int64_t dilation = 1;
  };
  /// A Conv with random weights and, if `bias`, a bias.
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

/// A constant of fp32 without axes.
inline Constant Number(float value) {
  auto bytes = std::make_shared<std::vector<std::byte>>(sizeof(value));
  std::memcpy(bytes->data(), &value, sizeof(value));
  return {DataType::kFloat32, {}, std::move(bytes)};
}

inline Fused FusedRelu() { return {.activation = ActivationKind::kRelu}; }

}  // namespace lagoon::testing
