#pragma once

// ONNX files for tests, built from the protobuf classes.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "onnx/onnx_pb.h"

namespace lagoon::testing {

/// A fresh folder that is deleted with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = ::testing::TempDir() + "lagoon_graph_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  /// Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = *this / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  std::string path_;
};

/// Sets attributes of a node: builder.Add("Conv", ...).Ints("pads", {1, 1, 1, 1}).Int("group", 2).
class NodeRef {
 public:
  explicit NodeRef(onnx::NodeProto& proto) : proto_(proto) {}

  NodeRef& Int(const std::string& name, std::int64_t value) {
    Attribute(name, onnx::AttributeProto::INT).set_i(value);
    return *this;
  }
  NodeRef& Float(const std::string& name, float value) {
    Attribute(name, onnx::AttributeProto::FLOAT).set_f(value);
    return *this;
  }
  NodeRef& Text(const std::string& name, const std::string& value) {
    Attribute(name, onnx::AttributeProto::STRING).set_s(value);
    return *this;
  }
  NodeRef& Ints(const std::string& name, const std::vector<std::int64_t>& values) {
    onnx::AttributeProto& attribute = Attribute(name, onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
    return *this;
  }
  NodeRef& Floats(const std::string& name, const std::vector<float>& values) {
    onnx::AttributeProto& attribute = Attribute(name, onnx::AttributeProto::FLOATS);
    for (const float value : values) attribute.add_floats(value);
    return *this;
  }
  NodeRef& Tensor(const std::string& name, const onnx::TensorProto& tensor) {
    *Attribute(name, onnx::AttributeProto::TENSOR).mutable_t() = tensor;
    return *this;
  }
  /// A body: the graph of another builder.
  NodeRef& Graph(const std::string& name, const onnx::GraphProto& body) {
    *Attribute(name, onnx::AttributeProto::GRAPH).mutable_g() = body;
    return *this;
  }
  NodeRef& Name(const std::string& name) {
    proto_.set_name(name);
    return *this;
  }
  onnx::NodeProto& proto() { return proto_; }

 private:
  onnx::AttributeProto& Attribute(const std::string& name,
                                  onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto& attribute = *proto_.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }

  onnx::NodeProto& proto_;
};

/// A tensor with its elements in raw_data.
template <typename T>
onnx::TensorProto RawTensor(const std::string& name, int type, const Dims& dims,
                            const std::vector<T>& values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(values.data(), values.size() * sizeof(T));
  return tensor;
}

/// A model under construction. Use `proto` for what the methods do not offer.
class ModelBuilder {
 public:
  explicit ModelBuilder(std::int64_t opset = 13) {
    proto.set_ir_version(8);
    onnx::OperatorSetIdProto& import = *proto.add_opset_import();
    import.set_domain("");
    import.set_version(opset);
    graph().set_name("test");
  }

  onnx::GraphProto& graph() { return *proto.mutable_graph(); }

  ModelBuilder& Input(const std::string& name, const Dims& dims,
                      int type = onnx::TensorProto::FLOAT) {
    Describe(*graph().add_input(), name, dims, type);
    return *this;
  }
  ModelBuilder& Output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  ModelBuilder& Output(const std::string& name, const Dims& dims) {
    Describe(*graph().add_output(), name, dims, onnx::TensorProto::FLOAT);
    return *this;
  }
  ModelBuilder& Floats(const std::string& name, const Dims& dims,
                       const std::vector<float>& values) {
    *graph().add_initializer() = RawTensor(name, onnx::TensorProto::FLOAT, dims, values);
    return *this;
  }
  /// Adds weights with small, distinct elements of both signs.
  ModelBuilder& Weights(const std::string& name, const Dims& dims) {
    std::vector<float> values(static_cast<std::size_t>(ElementCount(dims)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i * 37 + 11) % 101) / 50.0f - 1.0f;
    }
    return Floats(name, dims, values);
  }
  ModelBuilder& Ints(const std::string& name, const std::vector<std::int64_t>& values) {
    *graph().add_initializer() = RawTensor(name, onnx::TensorProto::INT64,
                                           {static_cast<std::int64_t>(values.size())}, values);
    return *this;
  }
  /// Scalars.
  ModelBuilder& Number(const std::string& name, std::int64_t value) {
    *graph().add_initializer() =
        RawTensor(name, onnx::TensorProto::INT64, {}, std::vector<std::int64_t>{value});
    return *this;
  }
  ModelBuilder& Flag(const std::string& name, bool value) {
    *graph().add_initializer() =
        RawTensor(name, onnx::TensorProto::BOOL, {}, std::vector<char>{value ? '\1' : '\0'});
    return *this;
  }
  NodeRef Add(const std::string& op, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs) {
    onnx::NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    return NodeRef(node);
  }

  std::string Bytes() const { return proto.SerializeAsString(); }
  std::string Save(const TempFolder& folder, const std::string& name = "model.onnx") const {
    return folder.Write(name, Bytes());
  }

  /// ImportOnnx() and LoadGraph() of this model, through a temporary file.
  Result<Graph> Import(const ImportOptions& options = {}) const {
    const TempFolder folder;
    return ImportOnnx(Save(folder), options);
  }
  Result<Graph> Load(const ImportOptions& options = {}) const {
    const TempFolder folder;
    return LoadGraph(Save(folder), options);
  }

  onnx::ModelProto proto;

 private:
  static void Describe(onnx::ValueInfoProto& info, const std::string& name, const Dims& dims,
                       int type) {
    info.set_name(name);
    onnx::TypeProto::Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const std::int64_t dim : dims) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
  }
};

/// The nodes' ops in order, joined by spaces.
inline std::string Ops(const Graph& graph) {
  std::string ops;
  for (const Node& node : graph.nodes) ops += (ops.empty() ? "" : " ") + node.op;
  return ops;
}

/// The error's message; fails the test if there is none or it has another code.
template <typename T>
std::string MessageOf(const Result<T>& result, ErrorCode code) {
  if (result) {
    ADD_FAILURE() << "succeeded, expected an error";
    return "";
  }
  EXPECT_EQ(Name(result.error().code), Name(code)) << result.error().message;
  return result.error().message;
}

}  // namespace lagoon::testing
