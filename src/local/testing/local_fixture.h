#pragma once

// For tests: a device whose kernels can be held, and small models on it.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "graph/testing/model_builder.h"
#include "local/run.h"
#include "program/testing/held_device.h"

namespace lagoon::testing {

using ModelRun = lagoon::Run;  // gtest's tests have a member of the name Run

/// "y" = "x" [-1,4] + (1, 2, 3, 4).
inline ModelBuilder AddsWeights() {
  ModelBuilder model;
  model.Input("x", {-1, 4}).Floats("w", {4}, {1, 2, 3, 4});
  model.Add("Add", {"x", "w"}, {"y"});
  model.Output("y", {-1, 4});
  return model;
}

/// "y" = "x" [8] once the gate Gates::blocks is open.
inline ModelBuilder Holds() {
  ModelBuilder model;
  model.Input("x", {8});
  model.Add("Floor", {"x"}, {"y"});
  model.Output("y", {8});
  return model;
}

/// "where" = the places [1,n] of the elements of "x" [8] that are not 0.
inline ModelBuilder Finds() {
  ModelBuilder model;
  model.Input("x", {8});
  model.Add("NonZero", {"x"}, {"where"});
  model.Output("where");
  model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  return model;
}

/// "picked" = twice the elements of "x" [8] that are not 0, in a second part; "all" = -x, of the
/// first one.
inline ModelBuilder Picks() {
  ModelBuilder model;
  model.Input("x", {8});
  model.Add("NonZero", {"x"}, {"where"});
  model.Add("Transpose", {"where"}, {"at"}).Ints("perm", {1, 0});
  model.Add("GatherND", {"x", "at"}, {"elements"});
  model.Add("Add", {"elements", "elements"}, {"picked"});
  model.Add("Neg", {"x"}, {"all"});
  for (const char* output : {"picked", "all"}) {
    model.Output(output);
    auto& added = *model.graph().mutable_output(model.graph().output_size() - 1);
    added.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  return model;
}

/// Tensors of a run with one input and one output, as vectors.
template <typename T>
RunTensor TensorOf(std::vector<T>& values, const Dims& dims, DataType type) {
  return {type, dims, values.data(), values.size() * sizeof(T)};
}

class LocalTest : public ::testing::Test {
 protected:
  void Open(LocalDeviceOptions options = {}) {
    options.device = HeldDevice(gates_, 2);
    Result<std::unique_ptr<LocalDevice>> device = LocalDevice::Open(options);
    ASSERT_TRUE(device) << device.error().message;
    device_ = *std::move(device);
  }
  std::unique_ptr<LocalModel> Load(const ModelBuilder& model, LocalModelOptions options = {}) {
    if (options.name.empty()) options.name = "m";
    const std::string bytes = model.Bytes();
    ModelBytes from;
    from.bytes = std::as_bytes(std::span(bytes));
    Result<std::unique_ptr<LocalModel>> loaded = LocalModel::LoadBytes(*device_, from, options);
    if (!loaded) {
      ADD_FAILURE() << loaded.error().message;
      return nullptr;
    }
    return *std::move(loaded);
  }
  /// The model Holds() with the gate closed from now on.
  std::unique_ptr<LocalModel> LoadHeld(LocalModelOptions options = {}) {
    auto model = Load(Holds(), std::move(options));
    gates_->blocks.Close();
    return model;
  }
  void BindHeld(ModelRun& run) {
    ASSERT_EQ(run.SetInput(0, TensorOf(eight_, {8}, DataType::kFloat32)), RunCode::kOk);
  }
  void AwaitHeld() const {
    while (!gates_->blocks.HasWaiting()) std::this_thread::yield();
  }
  void TearDown() override { gates_->blocks.Open(); }

  std::shared_ptr<Gates> gates_ = std::make_shared<Gates>();
  std::unique_ptr<LocalDevice> device_;
  std::vector<float> eight_ = {0, 1, 0, 3, 4, 0, 0, 7};
};

/// The values of an output after a run.
template <typename T>
std::vector<T> ValuesOf(const ModelRun& run, std::size_t output) {
  const T* const data = static_cast<const T*>(run.OutputData(output));
  if (data == nullptr) return {};
  return {data, data + run.OutputBytes(output) / sizeof(T)};
}

}  // namespace lagoon::testing
