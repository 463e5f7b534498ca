#include "ort/graph_to_model.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "graph/constant.h"
#include "ort/api.h"

namespace lagoon::plugin {
namespace {

/// One conversion. Counts the bytes of constants, those of bodies included.
class Conversion {
 public:
  Conversion(const Api& api, BorrowedWeights* weights) : api_(api), weights_(weights) {}

  void AddOpsets(const Graph* graph, onnx::ModelProto& model) const;
  /// `top`: not a body, whose constants may be those of a graph around it.
  void AddGraph(const Graph* graph, bool top, onnx::GraphProto& to);

 private:
  std::string NameOf(const ValueInfo* value) const {
    return value == nullptr ? "" : api_.Get<ValueInfoName, const char*>(value);
  }
  template <typename T>
  std::vector<T> Read(const Attribute* attribute, int type) const;
  void SetType(const ValueInfo* value, onnx::ValueInfoProto& to) const;
  void SetTensor(const std::string& name, const Value* value, bool borrows, onnx::TensorProto& to);
  void AddConstants(const Graph* graph, bool top, onnx::GraphProto& to);
  void AddNode(const Node* node, onnx::NodeProto& to);
  void AddAttribute(const Attribute* attribute, int type, onnx::AttributeProto& to);

  const Api& api_;
  BorrowedWeights* const weights_;
  std::size_t constant_bytes_ = 0;
};

void Conversion::AddOpsets(const Graph* graph, onnx::ModelProto& model) const {
  std::vector<const char*> domains(api_.Get<GraphOpsetCount, std::size_t>(graph));
  std::vector<std::int64_t> versions(domains.size());
  if (!domains.empty()) {
    api_.Do<GraphOpsets>(graph, domains.data(), versions.data(), domains.size());
  }
  for (std::size_t i = 0; i < domains.size(); ++i) {
    onnx::OperatorSetIdProto& opset = *model.add_opset_import();
    opset.set_domain(domains[i]);
    opset.set_version(versions[i]);
  }
}

void Conversion::SetType(const ValueInfo* value, onnx::ValueInfoProto& to) const {
  to.set_name(NameOf(value));
  const TypeInfo* type = api_.Get<ValueInfoType, const TypeInfo*>(value);
  const TensorInfo* tensor =
      type == nullptr ? nullptr : api_.Get<CastToTensorInfo, const TensorInfo*>(type);
  if (tensor == nullptr) throw Failed{kNotImplemented, fmt::format("'{}' is no tensor", to.name())};
  onnx::TypeProto::Tensor& proto = *to.mutable_type()->mutable_tensor_type();
  proto.set_elem_type(api_.Get<GetElementType, int>(tensor));
  if (proto.elem_type() == onnx::TensorProto::STRING) {
    throw Failed{kNotImplemented, fmt::format("'{}' is a tensor of strings", to.name())};
  }
  const auto rank = api_.Get<GetDimCount, std::size_t>(tensor);
  // The ABI of version 23 says rank 0 of a scalar and of a tensor without a shape.
  if (rank == 0) return;
  std::vector<std::int64_t> dims(rank);
  std::vector<const char*> symbols(rank);
  api_.Do<GetDims>(tensor, dims.data(), rank);
  api_.Do<GetSymbols>(tensor, symbols.data(), rank);
  onnx::TensorShapeProto& shape = *proto.mutable_shape();
  for (std::size_t i = 0; i < rank; ++i) {
    onnx::TensorShapeProto::Dimension& dim = *shape.add_dim();
    if (dims[i] >= 0) {
      dim.set_dim_value(dims[i]);
    } else if (symbols[i] != nullptr && *symbols[i] != '\0') {
      dim.set_dim_param(symbols[i]);
    }
  }
}

// `borrows`: the value lives as long as the graph.
void Conversion::SetTensor(const std::string& name, const Value* value, bool borrows,
                           onnx::TensorProto& to) {
  TensorInfo* owned = api_.Get<GetTypeAndShape, TensorInfo*>(value);
  const TensorInfo* info = owned;
  to.set_data_type(api_.Get<GetElementType, int>(info));
  std::vector<std::int64_t> dims(api_.Get<GetDimCount, std::size_t>(info));
  if (!dims.empty()) api_.Do<GetDims>(info, dims.data(), dims.size());
  api_.table().Call<ReleaseTensorInfo>(owned);
  for (const std::int64_t dim : dims) to.add_dims(dim);
  if (to.data_type() == onnx::TensorProto::STRING) {
    throw Failed{kNotImplemented, fmt::format("constant '{}' has strings", name)};
  }
  const auto bytes = api_.Get<TensorBytes, std::size_t>(value);
  if (weights_ != nullptr && borrows && bytes >= kDeferredBytes) {
    const auto* const data =
        static_cast<const std::byte*>(api_.Get<TensorData, const void*>(value));
    to.set_data_location(onnx::TensorProto::EXTERNAL);
    onnx::StringStringEntryProto& location = *to.add_external_data();
    location.set_key("location");
    location.set_value(weights_->Add({data, bytes}));
    return;
  }
  constant_bytes_ += bytes;
  if (constant_bytes_ > kMostConstantBytes) {
    throw Failed{kNotImplemented, fmt::format("the constants up to '{}' have more than {} bytes",
                                              name, kMostConstantBytes)};
  }
  to.set_raw_data(api_.Get<TensorData, const void*>(value), bytes);
}

template <typename T>
std::vector<T> Conversion::Read(const Attribute* attribute, int type) const {
  std::size_t bytes = 0;
  // The first call says how many bytes there are, and fails if there are any.
  AbiStatus* status = api_.table().Call<ReadAttribute>(attribute, type, static_cast<void*>(nullptr),
                                                       std::size_t{0}, &bytes);
  if (status != nullptr) api_.table().Call<ReleaseStatus>(status);
  std::vector<T> values(bytes / sizeof(T));
  if (!values.empty()) {
    api_.Do<ReadAttribute>(attribute, type, static_cast<void*>(values.data()), bytes, &bytes);
  }
  return values;
}

void Conversion::AddAttribute(const Attribute* attribute, int type, onnx::AttributeProto& to) {
  to.set_name(api_.Get<AttrName, const char*>(attribute));
  switch (type) {
    case kInt:
      to.set_type(onnx::AttributeProto::INT);
      to.set_i(Read<std::int64_t>(attribute, type).at(0));
      return;
    case kInts:
      to.set_type(onnx::AttributeProto::INTS);
      for (const std::int64_t v : Read<std::int64_t>(attribute, type)) to.add_ints(v);
      return;
    case kFloat:
      to.set_type(onnx::AttributeProto::FLOAT);
      to.set_f(Read<float>(attribute, type).at(0));
      return;
    case kFloats:
      to.set_type(onnx::AttributeProto::FLOATS);
      for (const float v : Read<float>(attribute, type)) to.add_floats(v);
      return;
    case kString: {
      const std::vector<char> text = Read<char>(attribute, type);
      to.set_type(onnx::AttributeProto::STRING);
      to.set_s(std::string(text.begin(), text.end()));
      return;
    }
    case kStrings: {
      to.set_type(onnx::AttributeProto::STRINGS);
      const std::vector<char> text = Read<char>(attribute, type);  // each ends with a zero
      for (auto at = text.begin(); at != text.end();) {
        const auto end = std::find(at, text.end(), '\0');
        to.add_strings(std::string(at, end));
        at = end == text.end() ? end : end + 1;
      }
      return;
    }
    case kTensor: {
      to.set_type(onnx::AttributeProto::TENSOR);
      Value* value = api_.Get<AttrTensor, Value*>(attribute);
      try {
        SetTensor(to.name(), value, false, *to.mutable_t());
      } catch (...) {
        api_.table().Call<ReleaseValue>(value);
        throw;
      }
      api_.table().Call<ReleaseValue>(value);
      return;
    }
    default:
      throw Failed{kNotImplemented, fmt::format("attribute '{}' has type {}", to.name(), type)};
  }
}

void Conversion::AddNode(const Node* node, onnx::NodeProto& to) {
  to.set_name(api_.Get<NodeName, const char*>(node));
  to.set_op_type(api_.Get<NodeOp, const char*>(node));
  to.set_domain(api_.Get<NodeDomain, const char*>(node));
  for (const ValueInfo* value : api_.All<NodeInputCount, NodeInputs, ValueInfo>(node)) {
    to.add_input(NameOf(value));
  }
  for (const ValueInfo* value : api_.All<NodeOutputCount, NodeOutputs, ValueInfo>(node)) {
    to.add_output(NameOf(value));
  }
  std::vector<const Graph*> bodies(api_.Get<NodeGraphCount, std::size_t>(node));
  std::vector<const char*> names(bodies.size());
  if (!bodies.empty()) api_.Do<NodeGraphs>(node, bodies.data(), bodies.size(), names.data());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    onnx::AttributeProto& attribute = *to.add_attribute();
    attribute.set_name(names[i]);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    AddGraph(bodies[i], false, *attribute.mutable_g());
  }
  for (const Attribute* attribute : api_.All<NodeAttrCount, NodeAttrs, Attribute>(node)) {
    const int type = api_.Get<AttrType, int>(attribute);
    if (type != kGraph) AddAttribute(attribute, type, *to.add_attribute());
  }
}

void Conversion::AddConstants(const Graph* graph, bool top, onnx::GraphProto& to) {
  for (const ValueInfo* value : api_.All<GraphInitCount, GraphInits, ValueInfo>(graph)) {
    if (!api_.Get<IsConstant, bool>(value)) continue;
    if (!top && api_.Get<IsOuter, bool>(value)) continue;
    onnx::TensorProto& tensor = *to.add_initializer();
    tensor.set_name(NameOf(value));
    SetTensor(tensor.name(), api_.Get<InitialiserValue, const Value*>(value), true, tensor);
  }
}

void Conversion::AddGraph(const Graph* graph, bool top, onnx::GraphProto& to) {
  to.set_name("subgraph");
  AddConstants(graph, top, to);
  std::set<std::string> constants;
  for (const onnx::TensorProto& tensor : to.initializer()) constants.insert(tensor.name());
  for (const ValueInfo* value : api_.All<GraphInputCount, GraphInputs, ValueInfo>(graph)) {
    if (value == nullptr || constants.contains(NameOf(value))) continue;
    SetType(value, *to.add_input());
  }
  for (const ValueInfo* value : api_.All<GraphOutputCount, GraphOutputs, ValueInfo>(graph)) {
    // ONNX Runtime 1.23 has a null for an optional output of a node that the model leaves out.
    if (value != nullptr) SetType(value, *to.add_output());
  }
  for (const Node* node : api_.All<GraphNodeCount, GraphNodes, Node>(graph)) {
    AddNode(node, *to.add_node());
  }
}

}  // namespace

ConvertedGraph ConvertGraph(const Graph* graph, BorrowedWeights* weights) {
  const Api& api = TheApi();
  Conversion conversion(api, weights);
  onnx::ModelProto model;
  model.set_ir_version(api.Get<GraphIrVersion, std::int64_t>(graph));
  conversion.AddOpsets(graph, model);
  conversion.AddGraph(graph, true, *model.mutable_graph());
  ConvertedGraph converted;
  for (const auto& value : model.graph().input()) converted.inputs.push_back(value.name());
  for (const auto& value : model.graph().output()) converted.outputs.push_back(value.name());
  if (!model.SerializeToString(&converted.bytes)) {
    throw Failed{kFail, "the graph cannot be serialised"};
  }
  return converted;
}

}  // namespace lagoon::plugin
