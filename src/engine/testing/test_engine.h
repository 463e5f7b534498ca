#pragma once

// A second engine, for tests: a few made-up ops of domain "test", on fp32.

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_host.h"
#include "onnx/onnx_pb.h"
#include "plan/strings.h"

namespace lagoon::testing {

/// The ops: Twice (y = 2 x), Both (y = a + b), Wait (y = x, when a test lets it go), Shout (strings
/// with "!" behind each), Broken (each run fails); Positive and Large (the elements above 0, and
/// those above 10: the shape of y depends on data). A model with other ops is refused. The engine
/// knows the shapes of the first four.
class TestEngine final : public Engine {
 public:
  struct Tensor {
    Dims dims;
    std::vector<float> data;
    bool is_text = false;  // `texts`, in place of `data`
    std::vector<std::string> texts;
    std::vector<StringElement> elements;
  };

  /// Holds back the runs of Wait.
  class Gate {
   public:
    void Close() {
      const std::lock_guard lock(mutex_);
      open_ = false;
    }
    void Open() {
      const std::lock_guard lock(mutex_);
      open_ = true;
      changed_.notify_all();
    }
    /// Returns when so many runs wait.
    void AwaitWaiting(int runs) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return waiting_ >= runs; });
    }
    /// Runs that wait now.
    int waiting() {
      const std::lock_guard lock(mutex_);
      return waiting_;
    }
    void Pass() {
      std::unique_lock lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
      --waiting_;
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = true;
    int waiting_ = 0;
  };

  const std::string& name() const override { return name_; }
  Gate& gate() { return gate_; }

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
    const std::lock_guard lock(mutex_);
    loaded.push_back(model);
    return std::make_unique<Model>(std::move(model), gate_);
  }

  std::vector<onnx::ModelProto> loaded;  // all models so far

 private:
  class Binding final : public EngineBinding {
   public:
    Binding(const onnx::GraphProto& graph, Gate& gate, std::span<const EngineTensor> inputs,
            std::span<const EngineTensor> outputs)
        : graph_(graph),
          gate_(gate),
          inputs_(inputs.begin(), inputs.end()),
          outputs_(outputs.begin(), outputs.end()) {
      for (const EngineTensor& output : outputs_) bound_.push_back(output.data != nullptr);
    }

    Status Run() override {
      std::map<std::string, Tensor>& values = values_;
      values.clear();
      for (const onnx::TensorProto& constant : graph_.initializer()) {
        Tensor& tensor = values[constant.name()];
        tensor.dims.assign(constant.dims().begin(), constant.dims().end());
        tensor.data.resize(constant.raw_data().size() / sizeof(float));
        std::memcpy(tensor.data.data(), constant.raw_data().data(), constant.raw_data().size());
      }
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i].type == DataType::kString) {
          Tensor& tensor = values[graph_.input(static_cast<int>(i)).name()];
          tensor.dims = inputs_[i].dims;
          tensor.is_text = true;
          for (std::size_t at = 0; at < static_cast<std::size_t>(ElementCount(tensor.dims)); ++at) {
            tensor.texts.emplace_back(StringAt(inputs_[i].data, at).text());
          }
          continue;
        }
        const auto* const from = static_cast<const float*>(inputs_[i].data);
        values[graph_.input(static_cast<int>(i)).name()] = {
            inputs_[i].dims, {from, from + ElementCount(inputs_[i].dims)}, false, {}, {}};
      }
      for (const onnx::NodeProto& node : graph_.node()) {
        if (node.op_type() == "Wait") gate_.Pass();
        if (node.op_type() == "Broken") return Fail(ErrorCode::kInternal, "broken on purpose");
        values[node.output(0)] = Compute(node, values);
      }
      for (std::size_t i = 0; i < outputs_.size(); ++i) {
        Tensor& tensor = values[graph_.output(static_cast<int>(i)).name()];
        if (tensor.is_text) {
          for (const std::string& text : tensor.texts) {
            tensor.elements.push_back({text.data(), text.size()});
          }
          outputs_[i] = {DataType::kString, tensor.dims, tensor.elements.data()};
        } else if (!bound_[i]) {
          outputs_[i] = {DataType::kFloat32, tensor.dims, tensor.data.data()};
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
      for (std::string& text : y.texts) text += "!";
      if (node.op_type() == "Twice") {
        for (float& element : y.data) element *= 2;
      } else if (node.op_type() == "Both") {
        const Tensor& other = values[node.input(1)];
        for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] += other.data[i];
      } else if (node.op_type() == "Positive" || node.op_type() == "Large") {
        const float least = node.op_type() == "Large" ? 10.0F : 0.0F;
        std::erase_if(y.data, [least](float element) { return !(element > least); });
        y.dims = {static_cast<std::int64_t>(y.data.size())};
      }
      return y;
    }

    const onnx::GraphProto& graph_;
    Gate& gate_;
    std::vector<EngineTensor> inputs_, outputs_;
    std::vector<bool> bound_;               // by output: the caller made room
    std::map<std::string, Tensor> values_;  // of the last run
  };

  class Model final : public EngineModel {
   public:
    Model(onnx::ModelProto model, Gate& gate) : model_(std::move(model)), gate_(gate) {
      std::map<std::string, Dims> shapes;
      for (const onnx::TensorProto& constant : model_.graph().initializer()) {
        shapes[constant.name()].assign(constant.dims().begin(), constant.dims().end());
      }
      for (const onnx::ValueInfoProto& input : model_.graph().input()) {
        TensorSpec& spec = signature_.inputs.emplace_back();
        spec.name = input.name();
        const int element = input.type().tensor_type().elem_type();
        if (element == onnx::TensorProto::STRING) spec.type = DataType::kString;
        for (const auto& dim : input.type().tensor_type().shape().dim()) {
          spec.dims.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
        }
        shapes[input.name()] = spec.dims;
      }
      bool shouts = false;
      for (const onnx::NodeProto& node : model_.graph().node()) {
        const std::string& op = node.op_type();
        shouts = shouts || op == "Shout";
        if (op == "Positive" || op == "Large" || op == "Broken") continue;
        const auto known = shapes.find(node.input(0));
        if (known != shapes.end()) shapes[node.output(0)] = Dims(known->second);
      }
      for (const onnx::ValueInfoProto& output : model_.graph().output()) {
        signature_.outputs.push_back({output.name(),
                                      shouts ? DataType::kString : DataType::kFloat32,
                                      shapes[output.name()]});
      }
    }
    const EngineSignature& Describe() const override { return signature_; }
    Result<std::unique_ptr<EngineBinding>> Bind(std::span<const EngineTensor> inputs,
                                                std::span<const EngineTensor> outputs) override {
      return std::make_unique<Binding>(model_.graph(), gate_, inputs, outputs);
    }

   private:
    const onnx::ModelProto model_;
    Gate& gate_;
    EngineSignature signature_;
  };

  const std::string name_ = "test engine";
  std::mutex mutex_;
  Gate gate_;
};

/// A host of an engine of this test.
inline std::shared_ptr<EngineHost> HostOf(const std::shared_ptr<TestEngine>& engine) {
  return std::make_shared<EngineHost>(std::static_pointer_cast<Engine>(engine));
}

}  // namespace lagoon::testing
