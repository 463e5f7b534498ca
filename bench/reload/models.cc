#include "bench/reload/models.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <span>

#include "onnx/onnx_pb.h"

namespace lagoon::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kProducts = 6;
constexpr std::int64_t kWidth = 256;
// Short, so that some dozens of clients fill it.
constexpr std::string_view kQueue =
    "parameters { key: \"lagoon.max_queue_size\" value { string_value: \"8\" } }\n";

void Declare(onnx::ValueInfoProto& value, const std::string& name, const Dims& dims) {
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    auto& declared = *type.mutable_shape()->add_dim();
    dims[axis] < 0 ? declared.set_dim_param(fmt::format("open_{}", axis))
                   : declared.set_dim_value(dims[axis]);
  }
}

void AddNode(onnx::GraphProto& graph, const char* op, const std::vector<std::string>& inputs,
             const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
}

void AddWeights(onnx::GraphProto& graph, const std::string& name, const Dims& dims,
                std::span<const float> values) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(values.data(), values.size_bytes());
}

void FillTower(onnx::GraphProto& graph) {
  Random random(1);
  std::string value = "x";
  for (int i = 0; i < kProducts; ++i) {
    std::vector<float> weights(kWidth * kWidth);
    for (float& weight : weights) weight = static_cast<float>(random.Uniform(-0.1, 0.1));
    const std::string name = fmt::format("w{}", i), product = fmt::format("p{}", i);
    const std::string next = i + 1 == kProducts ? "y" : fmt::format("r{}", i);
    AddWeights(graph, name, {kWidth, kWidth}, weights);
    AddNode(graph, "MatMul", {value, name}, product);
    AddNode(graph, "Relu", {product}, next);
    value = next;
  }
  Declare(*graph.add_input(), "x", {-1, 32, kWidth});
  Declare(*graph.add_output(), "y", {-1, 32, kWidth});
}

void FillMeans(onnx::GraphProto& graph) {
  AddNode(graph, "GlobalAveragePool", {"x"}, "y");
  Declare(*graph.add_input(), "x", {-1, 3, 64, 64});
  Declare(*graph.add_output(), "y", {-1, 3, 1, 1});
}

void FillLine(onnx::GraphProto& graph) {
  constexpr float kTwo[] = {2}, kOne[] = {1};
  AddWeights(graph, "two", {}, kTwo);
  AddWeights(graph, "one", {}, kOne);
  AddNode(graph, "Mul", {"x", "two"}, "doubled");
  AddNode(graph, "Add", {"doubled", "one"}, "y");
  Declare(*graph.add_input(), "x", {-1, -1});
  Declare(*graph.add_output(), "y", {-1, -1});
}

Status Write(const std::string& repository, std::string_view name, const std::string& config,
             void (*fill)(onnx::GraphProto&)) {
  onnx::ModelProto model;
  model.set_ir_version(7);
  model.add_opset_import()->set_version(13);
  model.mutable_graph()->set_name(std::string(name));
  fill(*model.mutable_graph());
  const fs::path folder = fs::path(repository) / name / "1";
  std::error_code error;
  fs::create_directories(folder, error);
  std::ofstream(folder.parent_path() / "config.pbtxt") << config << kQueue;
  std::ofstream file(folder / "model.onnx", std::ios::binary);
  if (!error && model.SerializeToOstream(&file)) return {};
  return Fail(ErrorCode::kInternal, fmt::format("cannot write '{}'", folder.string()));
}

}  // namespace

Status WriteReloadModels(const std::string& repository) {
  LAGOON_RETURN_IF_ERROR(Write(repository, kTower,
                               "max_batch_size: 8\ndynamic_batching { }\n"
                               "optimization { priority: PRIORITY_MAX }\n",
                               FillTower));
  LAGOON_RETURN_IF_ERROR(
      Write(repository, kMeans, "max_batch_size: 16\ndynamic_batching { }\n", FillMeans));
  return Write(repository, kLine, "", FillLine);
}

Dims InputDims(std::string_view model, std::int64_t rows) {
  if (model == kTower) return {rows, 32, kWidth};
  if (model == kMeans) return {rows, 3, 64, 64};
  return {rows, 20};
}

std::vector<float> RandomEighths(std::size_t count, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(random.Below(129)) - 64) / 8;
  return values;
}

}  // namespace lagoon::bench
