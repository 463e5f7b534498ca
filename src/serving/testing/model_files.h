#pragma once

// For tests: repositories in temporary folders, and small ONNX models for them.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/testing/test_folder.h"
#include "onnx/onnx_pb.h"
#include "plan/tensor.h"

namespace lagoon::testing {

/// A folder that is removed at the end of the test.
class TestRepository {
 public:
  std::string path() const { return folder_.path().string(); }

  void WriteFile(const std::string& name, const std::string& content) {
    const std::filesystem::path file = folder_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
  }
  void AddModel(const std::string& name, const onnx::ModelProto& model,
                const std::string& config = "", int version = 1) {
    WriteFile(name + "/" + std::to_string(version) + "/model.onnx", model.SerializeAsString());
    if (!config.empty()) WriteFile(name + "/config.pbtxt", config);
  }

 private:
  TestFolder folder_;
};

/// Builds an ONNX model of opset 13, node by node.
class OnnxBuilder {
 public:
  OnnxBuilder() {
    model_.set_ir_version(7);
    model_.add_opset_import()->set_version(13);
    model_.mutable_graph()->set_name("test");
  }

  OnnxBuilder& Input(const std::string& name, const Dims& dims) {
    Declare(*model_.mutable_graph()->add_input(), name, dims);
    return *this;
  }
  OnnxBuilder& Output(const std::string& name, const Dims& dims) {
    Declare(*model_.mutable_graph()->add_output(), name, dims);
    return *this;
  }
  OnnxBuilder& Constant(const std::string& name, const Dims& dims,
                        const std::vector<float>& values) {
    onnx::TensorProto& tensor = AddTensor(name, dims);
    tensor.mutable_raw_data()->assign(reinterpret_cast<const char*>(values.data()),
                                      values.size() * sizeof(float));
    return *this;
  }
  /// A constant with its bytes in `file` beside the model.
  OnnxBuilder& ExternalConstant(const std::string& name, const Dims& dims,
                                const std::string& file) {
    onnx::TensorProto& tensor = AddTensor(name, dims);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key("location");
    entry.set_value(file);
    return *this;
  }
  OnnxBuilder& Node(const std::string& op, const std::vector<std::string>& inputs,
                    const std::string& output) {
    onnx::NodeProto& node = *model_.mutable_graph()->add_node();
    node.set_op_type(op);
    node.set_name(output + "_node");
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return *this;
  }
  const onnx::ModelProto& Build() const { return model_; }

 private:
  static void Declare(onnx::ValueInfoProto& value, const std::string& name, const Dims& dims) {
    value.set_name(name);
    auto& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : dims) type.mutable_shape()->add_dim()->set_dim_value(dim);
  }
  onnx::TensorProto& AddTensor(const std::string& name, const Dims& dims) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : dims) tensor.add_dims(dim);
    return tensor;
  }

  onnx::ModelProto model_;
};

/// Two outputs of x [1,4]: "y" [1,2] = x W + [1,-1], "z" [1,2] = relu(y).
inline onnx::ModelProto SmallModel() {
  return OnnxBuilder()
      .Input("x", {1, 4})
      .Constant("w", {4, 2}, {1, 0, 0, 1, 1, 0, 0, 1})
      .Constant("b", {1, 2}, {1, -1})
      .Node("MatMul", {"x", "w"}, "xw")
      .Node("Add", {"xw", "b"}, "y")
      .Node("Relu", {"y"}, "z")
      .Output("y", {1, 2})
      .Output("z", {1, 2})
      .Build();
}

/// SmallModel with a symbolic first dim.
inline onnx::ModelProto SmallBatchModel() {
  onnx::ModelProto model = SmallModel();
  for (auto* values :
       {model.mutable_graph()->mutable_input(), model.mutable_graph()->mutable_output()}) {
    for (onnx::ValueInfoProto& value : *values) {
      auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
      shape.mutable_dim(0)->set_dim_param("rows");
    }
  }
  return model;
}

inline constexpr std::int64_t kSlowRows = 256;
inline constexpr std::int64_t kSlowColumns = 1024;

/// "y" = "x" [256,1024], negated `steps` times, an even number: some 0.2 ms a step, and no weights.
/// A test in which something must happen meanwhile holds a model back instead: HeldModel().
inline onnx::ModelProto SlowModel(int steps = 512) {
  OnnxBuilder builder;
  builder.Input("x", {kSlowRows, kSlowColumns});
  std::string value = "x";
  for (int i = 0; i < steps; ++i) {
    const std::string next = i + 1 == steps ? "y" : "v" + std::to_string(i);
    builder.Node("Neg", {value}, next);
    value = next;
  }
  return builder.Output("y", {kSlowRows, kSlowColumns}).Build();
}

/// "y" = "x" [256,1024], on a HeldDevice() when its gate is open.
inline onnx::ModelProto HeldModel() {
  return OnnxBuilder()
      .Input("x", {kSlowRows, kSlowColumns})
      .Node("Floor", {"x"}, "y")
      .Output("y", {kSlowRows, kSlowColumns})
      .Build();
}

}  // namespace lagoon::testing
