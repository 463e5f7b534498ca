#include "bench/client/temporary_repository.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "onnx/onnx_pb.h"

namespace lagoon::bench {
namespace fs = std::filesystem;

namespace {

void Declare(onnx::ValueInfoProto& value, const std::string& name,
             std::span<const std::int64_t> dims) {
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t dim : dims) {
    auto& declared = *type.mutable_shape()->add_dim();
    dim < 0 ? declared.set_dim_param("batch") : declared.set_dim_value(dim);
  }
}

}  // namespace

Result<TemporaryRepository> TemporaryRepository::Link(const std::string& zoo,
                                                      const std::vector<std::string>& models) {
  LAGOON_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Make());
  TemporaryRepository repository(std::move(folder));
  for (const std::string& model : models) {
    const fs::path source = fs::absolute(fs::path(zoo) / model);
    if (!fs::exists(source)) {
      return Fail(ErrorCode::kNotFound, fmt::format("'{}' is not there; ./run models {} makes it",
                                                    source.string(), model));
    }
    std::error_code error;
    fs::create_directory_symlink(source, fs::path(repository.path()) / model, error);
    if (error)
      return Fail(ErrorCode::kInternal,
                  fmt::format("'{}': {}", repository.path(), error.message()));
  }
  return repository;
}

Status TemporaryRepository::AddFile(const std::string& name, const std::string& file,
                                    const std::string& config) {
  if (!fs::exists(file)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("'{}' is not there; ./run models and ./run corpus make files", file));
  }
  const fs::path folder = fs::path(path()) / name;
  std::error_code error;
  fs::create_directories(folder / "1", error);
  if (!error) fs::create_symlink(fs::absolute(file), folder / "1" / "model.onnx", error);
  std::ofstream(folder / "config.pbtxt") << config;
  if (!error) return {};
  return Fail(ErrorCode::kInternal, fmt::format("'{}': {}", folder.string(), error.message()));
}

Status TemporaryRepository::AddChannelMeans(const std::string& name,
                                            std::span<const std::int64_t> dims,
                                            const std::string& config) {
  onnx::ModelProto model;
  model.set_ir_version(7);
  model.add_opset_import()->set_version(13);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name(name);
  Declare(*graph.add_input(), "x", dims);
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type("GlobalAveragePool");
  node.add_input("x");
  node.add_output("y");
  const std::int64_t output_dims[] = {dims[0], dims[1], 1, 1};
  Declare(*graph.add_output(), "y", output_dims);

  const fs::path folder = fs::path(path()) / name / "1";
  std::error_code error;
  fs::create_directories(folder, error);
  std::ofstream(folder.parent_path() / "config.pbtxt") << config;
  std::ofstream file(folder / "model.onnx", std::ios::binary);
  if (error || !model.SerializeToOstream(&file)) {
    return Fail(ErrorCode::kInternal, fmt::format("cannot write '{}'", folder.string()));
  }
  return {};
}

}  // namespace lagoon::bench
