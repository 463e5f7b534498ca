// An opaque subgraph as an ONNX model.

#include <fmt/format.h>

#include <limits>
#include <set>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/import/tensor_import.h"
#include "graph/opaque/opaque.h"
#include "onnx/onnx_pb.h"
#include "plan/bytes_tensor.h"

namespace lagoon {
namespace {

constexpr int kIrVersion = 8;

Status WriteTensor(const Constant& constant, const std::string& name, onnx::TensorProto& tensor) {
  if (constant.narrow != 0) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("a constant has ONNX element type {}, which Lagoon does not write",
                            constant.narrow));
  }
  tensor.set_name(name);
  tensor.set_data_type(static_cast<int>(ToOnnxType(constant.type)));
  for (const std::int64_t dim : constant.dims) tensor.add_dims(dim);
  if (constant.type == DataType::kString) {
    return VisitBytesElements(
        *constant.bytes, static_cast<std::size_t>(ElementCount(constant.dims)),
        [&](std::string_view text) { tensor.add_string_data(text.data(), text.size()); });
  }
  tensor.set_raw_data(constant.bytes->data(), constant.bytes->size());
  return {};
}

Status WriteAttribute(const Attribute& value, onnx::AttributeProto& to) {
  return std::visit(
      [&](const auto& from) -> Status {
        using T = std::decay_t<decltype(from)>;
        if constexpr (std::is_same_v<T, std::int64_t>) {
          to.set_type(onnx::AttributeProto::INT);
          to.set_i(from);
        } else if constexpr (std::is_same_v<T, float>) {
          to.set_type(onnx::AttributeProto::FLOAT);
          to.set_f(from);
        } else if constexpr (std::is_same_v<T, std::string>) {
          to.set_type(onnx::AttributeProto::STRING);
          to.set_s(from);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          to.set_type(onnx::AttributeProto::INTS);
          to.mutable_ints()->Assign(from.begin(), from.end());
        } else if constexpr (std::is_same_v<T, std::vector<float>>) {
          to.set_type(onnx::AttributeProto::FLOATS);
          to.mutable_floats()->Assign(from.begin(), from.end());
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          to.set_type(onnx::AttributeProto::STRINGS);
          for (const std::string& text : from) to.add_strings(text);
        } else {
          to.set_type(onnx::AttributeProto::TENSOR);
          return WriteTensor(from, "", *to.mutable_t());
        }
        return {};
      },
      value);
}

/// Writes graphs inside one another. Every value has a name of its own in the whole model.
class ModelWriter {
 public:
  explicit ModelWriter(const Graph& graph) : opset_(graph.opset) {}

  Result<std::string> Write(const Graph& graph, InputDims dims) {
    model_.set_ir_version(kIrVersion);
    model_.mutable_graph()->set_name("opaque");
    Names names;
    for (const ValueId input : graph.inputs) {
      const Value& value = graph.value(input);
      onnx::ValueInfoProto& info = *model_.mutable_graph()->add_input();
      info.set_name(NameOf(input, names));
      onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
      type.set_elem_type(static_cast<int>(ToOnnxType(value.type)));
      type.mutable_shape();
      for (const std::int64_t dim : value.dims) {
        auto& to = *type.mutable_shape()->add_dim();
        if (dims == InputDims::kFixed) to.set_dim_value(dim);
      }
    }
    LAGOON_RETURN_IF_ERROR(WriteBody(graph, names, *model_.mutable_graph()));
    imports_.emplace("", opset_);
    for (const auto& [domain, version] : imports_) {
      onnx::OperatorSetIdProto& import = *model_.add_opset_import();
      import.set_domain(domain);
      import.set_version(version);
    }
    if (model_.ByteSizeLong() > std::size_t{std::numeric_limits<int>::max()}) {
      return Fail(
          ErrorCode::kResourceExhausted,
          fmt::format("the opaque subgraph has {} bytes, more than the 2 GiB of an ONNX file",
                      model_.ByteSizeLong()));
    }
    return model_.SerializeAsString();
  }

 private:
  using Names = std::unordered_map<ValueId, std::string>;

  const std::string& NameOf(ValueId id, Names& names) {
    const auto [name, is_new] = names.try_emplace(id);
    if (is_new) name->second = fmt::format("v{}", next_++);
    return name->second;
  }

  /// Nodes, constants and outputs. `names` has the inputs.
  Status WriteBody(const Graph& graph, Names& names, onnx::GraphProto& to) {
    std::unordered_set<ValueId> computed;
    std::set<ValueId> constants;
    for (const Node& node : graph.nodes) {
      for (const ValueId id : node.inputs) {
        if (id == kNoValue || !graph.value(id).constant || !constants.insert(id).second) continue;
        LAGOON_RETURN_IF_ERROR(
            WriteTensor(*graph.value(id).constant, NameOf(id, names), *to.add_initializer()));
      }
      LAGOON_RETURN_IF_ERROR(WriteNode(graph, node, names, *to.add_node()));
      computed.insert(node.outputs.begin(), node.outputs.end());
    }
    for (const ValueId output : graph.outputs) {
      if (computed.erase(output) == 1) {
        to.add_output()->set_name(NameOf(output, names));
        continue;
      }
      // An input, a constant, or a second time the same output.
      if (graph.value(output).constant && constants.insert(output).second) {
        LAGOON_RETURN_IF_ERROR(WriteTensor(*graph.value(output).constant, NameOf(output, names),
                                           *to.add_initializer()));
      }
      onnx::NodeProto& copy = *to.add_node();
      copy.set_op_type("Identity");
      copy.add_input(NameOf(output, names));
      copy.add_output(fmt::format("v{}", next_++));
      to.add_output()->set_name(copy.output(0));
    }
    return {};
  }

  Status WriteNode(const Graph& graph, const Node& node, Names& names, onnx::NodeProto& to) {
    to.set_op_type(node.op);
    to.set_name(node.name);
    to.set_domain(node.domain);
    if (node.domain.empty() && graph.OpsetOf(node) != opset_) {
      return Fail(ErrorCode::kUnimplemented, fmt::format("nodes are written in opsets {} and {}",
                                                         opset_, graph.OpsetOf(node)));
    }
    if (!node.domain.empty()) {
      const std::int64_t version = node.domain_version == 0 ? 1 : node.domain_version;
      const auto [known, is_new] = imports_.emplace(node.domain, version);
      if (known->second != version) {
        return Fail(ErrorCode::kUnimplemented,
                    fmt::format("nodes are written in versions {} and {} "
                                "of domain '{}'",
                                known->second, version, node.domain));
      }
    }
    for (const ValueId id : node.formal_inputs()) {
      to.add_input(id == kNoValue ? std::string() : NameOf(id, names));
    }
    for (const ValueId id : node.outputs) {
      to.add_output(id == kNoValue ? std::string() : NameOf(id, names));
    }
    for (const auto& [name, value] : node.attributes) {
      onnx::AttributeProto& attribute = *to.add_attribute();
      attribute.set_name(name);
      LAGOON_RETURN_IF_ERROR(WriteAttribute(value, attribute));
    }
    for (const auto& [name, body] : node.bodies) {
      onnx::AttributeProto& attribute = *to.add_attribute();
      attribute.set_name(name);
      attribute.set_type(onnx::AttributeProto::GRAPH);
      LAGOON_RETURN_IF_ERROR(WriteBodyOf(node, *body, names, *attribute.mutable_g()));
    }
    return {};
  }

  /// A body names what it captures as the graph around it does.
  Status WriteBodyOf(const Node& node, const Graph& body, Names& around, onnx::GraphProto& to) {
    to.set_name("body");
    Names names;
    const std::size_t formal = body.inputs.size() - node.captured;
    for (std::size_t i = 0; i < node.captured; ++i) {
      const ValueId outer = node.inputs[node.inputs.size() - node.captured + i];
      names.emplace(body.inputs[formal + i], NameOf(outer, around));
    }
    for (std::size_t i = 0; i < formal; ++i) {
      to.add_input()->set_name(NameOf(body.inputs[i], names));
    }
    return WriteBody(body, names, to);
  }

  const std::int64_t opset_;
  std::size_t next_ = 0;
  std::map<std::string, std::int64_t> imports_;
  onnx::ModelProto model_;
};

}  // namespace

Result<std::string> ToOnnx(const Graph& graph, InputDims dims) {
  return ModelWriter(graph).Write(graph, dims);
}

}  // namespace lagoon
