// The parts of testing/reference.h that build graphs.

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "base/check.h"
#include "program/testing/reference.h"

namespace lagoon::testing {

HostTensor RandomTensor(const Dims& dims, std::uint32_t seed) {
  std::mt19937 random(seed);
  HostTensor tensor{dims, {}};
  for (std::int64_t i = ElementCount(dims); i > 0; --i) {
    tensor.data.push_back(static_cast<float>(random() >> 8) * 0x1p-23F - 1);
  }
  return tensor;
}

ValueId TestGraph::Add(HostTensor data) {
  Value value;
  value.name = "v" + std::to_string(data_.size());
  value.dims = data.dims;
  value.shape_known = true;
  graph_.values.push_back(std::move(value));
  data_.push_back(std::move(data));
  return ValueId{static_cast<std::uint32_t>(data_.size() - 1)};
}

ValueId TestGraph::Input(const Dims& dims) {
  const ValueId id = Add(RandomTensor(dims, seed_++));
  graph_.inputs.push_back(id);
  return id;
}

ValueId TestGraph::Constant(const Dims& dims) {
  return Constant(dims, RandomTensor(dims, seed_++).data);
}

ValueId TestGraph::Constant(const Dims& dims, std::vector<float> values) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(float));
  std::memcpy(bytes->data(), values.data(), bytes->size());
  const ValueId id = Add({dims, std::move(values)});
  graph_.value(id).constant = lagoon::Constant{DataType::kFloat32, dims, std::move(bytes)};
  return id;
}

std::vector<ValueId> TestGraph::AddNode(Node node, std::size_t outputs, const Dims& out_dims) {
  std::vector<const HostTensor*> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : &value(id));
  if (node.fused.residual != kNoValue) inputs.push_back(&value(node.fused.residual));
  node.name = node.op + "_" + std::to_string(graph_.nodes.size());
  std::vector<HostTensor> results = Evaluate(node, inputs, out_dims);
  LAGOON_CHECK(results.size() == outputs);
  for (HostTensor& result : results) node.outputs.push_back(Add(std::move(result)));
  graph_.nodes.push_back(node);
  return node.outputs;
}

ValueId TestGraph::Op(const std::string& op, std::vector<ValueId> inputs,
                      std::map<std::string, Attribute> attributes, Fused fused) {
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.fused = std::move(fused);
  return AddNode(std::move(node), 1, {})[0];
}

std::vector<ValueId> TestGraph::Split(ValueId x, std::int64_t axis,
                                      std::vector<std::int64_t> sizes) {
  Node node;
  node.op = "Split";
  node.inputs = {x};
  const std::size_t outputs = sizes.size();
  node.attributes = {{"axis", axis}, {"split", std::move(sizes)}};
  return AddNode(std::move(node), outputs, {});
}

ValueId TestGraph::View(const std::string& op, ValueId x, const Dims& dims) {
  Node node;
  node.op = op;
  node.inputs = {x};
  return AddNode(std::move(node), 1, dims)[0];
}

ValueId TestGraph::Conv(ValueId x, std::int64_t channels, const Window& window, std::int64_t groups,
                        bool bias, Fused fused) {
  const std::int64_t in = value(x).dims[1] / groups;
  HostTensor weights = RandomTensor({channels, in, window.kernel, window.kernel}, seed_++);
  // Keeps the values of deep networks near one.
  const float scale = std::sqrt(3.0F / static_cast<float>(in * window.kernel * window.kernel));
  for (float& weight : weights.data) weight *= scale;
  std::vector<ValueId> inputs{x, Constant(weights.dims, std::move(weights.data))};
  if (bias) inputs.push_back(Constant({channels}));
  return Op("Conv", std::move(inputs),
            {{"kernel_shape", std::vector(2, window.kernel)},
             {"strides", std::vector(2, window.stride)},
             {"dilations", std::vector(2, window.dilation)},
             {"pads", window.pads},
             {"group", groups}},
            std::move(fused));
}

ValueId TestGraph::Pool(const std::string& op, ValueId x, const Window& window,
                        std::int64_t count_pad) {
  return Op(op, {x},
            {{"kernel_shape", std::vector(2, window.kernel)},
             {"strides", std::vector(2, window.stride)},
             {"dilations", std::vector(2, window.dilation)},
             {"pads", window.pads},
             {"count_include_pad", count_pad}});
}

}  // namespace lagoon::testing
