#pragma once

// For tests: graphs whose values have any types, in the normal form and built by hand.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "program/testing/run_graph.h"

namespace lagoon::testing {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes ToBytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> FromBytes(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The outputs of one run of `graph`; empty ones and a test failure if it does not compile.
inline std::vector<Bytes> RunTyped(const Graph& graph, const std::vector<Bytes>& inputs) {
  const auto device = MakeDevice(2);
  const auto loaded = Compile(graph, *device);
  if (loaded == nullptr) return std::vector<Bytes>(graph.outputs.size());
  auto instance = Instance::Create(loaded, *device);
  std::vector<const void*> in;
  std::vector<Bytes> results;
  std::vector<void*> out;
  for (const Bytes& input : inputs) in.push_back(input.data());
  for (const PlanTensor& output : loaded->plan.outputs) results.emplace_back(output.spec.bytes());
  for (Bytes& result : results) out.push_back(result.data());
  const Status run = RunOnce(**instance, *device, in, out);
  EXPECT_TRUE(run) << run.error().message;
  return results;
}

/// A graph in the normal form, with values of any types.
class TypedGraph {
 public:
  TypedGraph() { graph_.opset = 17; }

  ValueId Add(DataType type, const Dims& dims) {
    Value value;
    value.name = "v" + std::to_string(graph_.values.size());
    value.type = type;
    value.dims = dims;
    value.shape_known = true;
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }
  ValueId Input(DataType type, const Dims& dims) {
    graph_.inputs.push_back(Add(type, dims));
    return graph_.inputs.back();
  }
  template <typename T>
  ValueId Known(DataType type, const Dims& dims, const std::vector<T>& values) {
    const ValueId id = Add(type, dims);
    graph_.value(id).constant =
        Constant{type, dims, std::make_shared<const Bytes>(ToBytes(values))};
    return id;
  }
  ValueId Op(const std::string& op, std::vector<ValueId> inputs, DataType type, const Dims& dims,
             std::map<std::string, Attribute> attributes = {}) {
    Node node;
    node.name = op;
    node.op = op;
    node.inputs = std::move(inputs);
    node.outputs = {Add(type, dims)};
    node.attributes = std::move(attributes);
    graph_.nodes.push_back(node);
    return node.outputs[0];
  }
  void Output(ValueId id) { graph_.outputs.push_back(id); }

  /// Adds an op with any outputs, which are values of this graph.
  void Op(const std::string& op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
          std::map<std::string, Attribute> attributes = {}) {
    graph_.nodes.push_back(
        {op, op, std::move(inputs), std::move(outputs), std::move(attributes), {}, false});
  }
  /// Makes the dims of `id` a capacity. Returns the value of the actual dims.
  ValueId SizesOf(ValueId id) {
    const auto rank = static_cast<std::int64_t>(graph_.value(id).dims.size());
    const ValueId sizes = Add(DataType::kInt64, {rank});
    graph_.value(id).sizes = sizes;
    return sizes;
  }

  std::vector<Bytes> Run(const std::vector<Bytes>& inputs) const {
    return RunTyped(graph_, inputs);
  }

  const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
};

}  // namespace lagoon::testing
