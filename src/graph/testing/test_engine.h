#pragma once

// A second engine, for tests: a few made-up ops of domain "test", on fp32.

#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_host.h"
#include "onnx/onnx_pb.h"

namespace lagoon::testing {

/// The ops: Twice (y = 2 x), Both (y = a + b), Positive (the positive elements, so that the shape
/// of y depends on data), Broken (each run fails). A model with other ops is refused.
class TestEngine final : public Engine {
 public:
  struct Tensor {
    Dims dims;
    std::vector<float> data;
  };

  const std::string& name() const override { return name_; }

  Result<std::unique_ptr<EngineModel>> Load(const EngineSource& source) override {
    onnx::ModelProto model;
    std::string bytes(reinterpret_cast<const char*>(source.bytes.data()), source.bytes.size());
    if (!source.file.empty()) {
      std::ifstream file(source.file, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
    if (!model.ParseFromString(bytes)) return Fail(ErrorCode::kInvalidArgument, "no model");
    for (const onnx::NodeProto& node : model.graph().node()) {
      if (node.domain() == "test" || node.op_type() == "Identity") continue;
      return Fail(ErrorCode::kUnimplemented, "no op " + node.op_type());
    }
    loaded.push_back(model);
    return std::make_unique<Model>(std::move(model));
  }

  std::vector<onnx::ModelProto> loaded;  // all models so far

 private:
  class Binding final : public EngineBinding {
   public:
    Binding(const onnx::GraphProto& graph, std::span<const EngineTensor> inputs,
            std::span<const EngineTensor> outputs)
        : graph_(graph),
          inputs_(inputs.begin(), inputs.end()),
          outputs_(outputs.begin(), outputs.end()) {}

    Status Run() override {
      std::map<std::string, Tensor> values;
      for (const onnx::TensorProto& constant : graph_.initializer()) {
        Tensor& tensor = values[constant.name()];
        tensor.dims.assign(constant.dims().begin(), constant.dims().end());
        tensor.data.resize(constant.raw_data().size() / sizeof(float));
        std::memcpy(tensor.data.data(), constant.raw_data().data(), constant.raw_data().size());
      }
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const auto* const from = static_cast<const float*>(inputs_[i].data);
        values[graph_.input(static_cast<int>(i)).name()] = {
            inputs_[i].dims, {from, from + ElementCount(inputs_[i].dims)}};
      }
      for (const onnx::NodeProto& node : graph_.node()) {
        if (node.op_type() == "Broken") return Fail(ErrorCode::kInternal, "broken on purpose");
        values[node.output(0)] = Compute(node, values);
      }
      for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const Tensor& tensor = values[graph_.output(static_cast<int>(i)).name()];
        if (outputs_[i].data == nullptr) {
          outputs_[i] = {DataType::kFloat32, tensor.dims, nullptr};
        } else if (outputs_[i].dims != tensor.dims) {
          return Fail(ErrorCode::kInternal, "the shape is " + ToString(tensor.dims) +
                                                ", bound is " + ToString(outputs_[i].dims));
        } else if (!tensor.data.empty()) {
          std::memcpy(outputs_[i].data, tensor.data.data(), tensor.data.size() * sizeof(float));
        }
      }
      return {};
    }
    void Stop() override {}
    const std::vector<EngineTensor>& outputs() const override { return outputs_; }

   private:
    static Tensor Compute(const onnx::NodeProto& node, std::map<std::string, Tensor>& values) {
      Tensor y = values[node.input(0)];
      if (node.op_type() == "Twice") {
        for (float& element : y.data) element *= 2;
      } else if (node.op_type() == "Both") {
        const Tensor& other = values[node.input(1)];
        for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] += other.data[i];
      } else if (node.op_type() == "Positive") {
        std::erase_if(y.data, [](float element) { return !(element > 0); });
        y.dims = {static_cast<std::int64_t>(y.data.size())};
      }
      return y;
    }

    const onnx::GraphProto& graph_;
    std::vector<EngineTensor> inputs_, outputs_;
  };

  class Model final : public EngineModel {
   public:
    explicit Model(onnx::ModelProto model) : model_(std::move(model)) {
      for (const onnx::ValueInfoProto& input : model_.graph().input()) {
        TensorSpec& spec = signature_.inputs.emplace_back();
        spec.name = input.name();
        for (const auto& dim : input.type().tensor_type().shape().dim()) {
          spec.dims.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
        }
      }
      for (const onnx::ValueInfoProto& output : model_.graph().output()) {
        signature_.outputs.push_back({output.name(), DataType::kFloat32, {}});
      }
    }
    const EngineSignature& Describe() const override { return signature_; }
    Result<std::unique_ptr<EngineBinding>> Bind(std::span<const EngineTensor> inputs,
                                                std::span<const EngineTensor> outputs) override {
      return std::make_unique<Binding>(model_.graph(), inputs, outputs);
    }

   private:
    const onnx::ModelProto model_;
    EngineSignature signature_;
  };

  const std::string name_ = "test engine";
};

/// A host of an engine of this test.
inline std::shared_ptr<EngineHost> HostOf(const std::shared_ptr<TestEngine>& engine) {
  return std::make_shared<EngineHost>(std::static_pointer_cast<Engine>(engine));
}

}  // namespace lagoon::testing
