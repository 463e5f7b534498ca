#include "graph/cut/cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "base/text.h"
#include "graph/import/model_file.h"
#include "graph/import/proto_index.h"
#include "graph/import/tensor_import.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string, std::less<>>;

std::int64_t OpsetOf(const onnx::ModelProto& model) {
  for (const onnx::OperatorSetIdProto& opset : model.opset_import()) {
    if (opset.domain().empty() || opset.domain() == "ai.onnx") return opset.version();
  }
  return 0;
}

/// Writes the parts of one file.
class Cutter {
 public:
  Cutter(const onnx::ModelProto& model, ExternalPlace place, PartNodes shared, ValueTypes types)
      : model_(model),
        graph_(model.graph()),
        place_(std::move(place)),
        shared_(std::move(shared)),
        types_(std::move(types)),
        parts_(shared_.nodes.size()) {
    for (int i = 0; i < graph_.initializer_size(); ++i) weights_[graph_.initializer(i).name()] = i;
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (!shared_.constant[static_cast<std::size_t>(i)]) continue;
      for (const std::string& name : graph_.node(i).output()) constants_[name] = i;
    }
    for (std::size_t part = 0; part < parts_.size(); ++part) FindNames(part);
    FindOutputs();
  }

  /// The part as a model.
  Result<onnx::ModelProto> Make(std::size_t part) const {
    onnx::ModelProto made;
    made.set_ir_version(model_.ir_version());
    made.set_producer_name("lagoon");
    *made.mutable_opset_import() = model_.opset_import();
    *made.mutable_functions() = model_.functions();
    onnx::GraphProto& graph = *made.mutable_graph();
    graph.set_name(fmt::format("{} part {}", graph_.name(), part + 1));
    for (const std::string& name : Inputs(part)) {
      LAGOON_RETURN_IF_ERROR(Declare(name, *graph.add_input()));
    }
    LAGOON_RETURN_IF_ERROR(CopyWeights(part, graph));
    for (const int node : parts_[part].constant_nodes) *graph.add_node() = graph_.node(node);
    for (const int node : shared_.nodes[part]) *graph.add_node() = graph_.node(node);
    for (const std::string& name : parts_[part].outputs) {
      LAGOON_RETURN_IF_ERROR(Declare(name, *graph.add_output()));
    }
    return made;
  }

  /// Inputs of the model in the order of the file, then outputs of earlier parts in their order.
  std::vector<std::string> Inputs(std::size_t part) const {
    const Names& reads = parts_[part].reads;
    std::vector<std::string> inputs;
    for (const onnx::ValueInfoProto& input : graph_.input()) {
      if (reads.contains(input.name()) && !weights_.contains(input.name())) {
        inputs.push_back(input.name());
      }
    }
    for (std::size_t before = 0; before < part; ++before) {
      for (const std::string& name : parts_[before].outputs) {
        if (reads.contains(name)) inputs.push_back(name);
      }
    }
    return inputs;
  }
  const std::vector<std::string>& Outputs(std::size_t part) const { return parts_[part].outputs; }

 private:
  struct Part {
    Names reads;   // that no node of the part computes
    Names writes;  // by nodes of the part
    std::set<int> constant_nodes;
    std::vector<std::string> outputs;
  };

  void FindNames(std::size_t number) {
    Part& part = parts_[number];
    for (const int node : shared_.nodes[number]) {
      part.writes.insert(graph_.node(node).output().begin(), graph_.node(node).output().end());
    }
    for (const int node : shared_.nodes[number]) {
      for (const std::string& name : graph_.node(node).input()) Read(name, part);
    }
    if (number + 1 < parts_.size()) return;
    // An output that no node of a part computes is an input or a constant.
    for (const onnx::ValueInfoProto& output : graph_.output()) {
      const bool computed = std::ranges::any_of(
          parts_, [&](const Part& any) { return any.writes.contains(output.name()); });
      if (computed) continue;
      Read(output.name(), part);
      part.outputs.push_back(output.name());
    }
  }

  void Read(const std::string& name, Part& part) {
    if (name.empty() || part.writes.contains(name)) return;
    const auto constant = constants_.find(name);
    if (constant == constants_.end()) {
      part.reads.insert(name);
      return;
    }
    if (!part.constant_nodes.insert(constant->second).second) return;
    for (const std::string& input : graph_.node(constant->second).input()) Read(input, part);
  }

  void FindOutputs() {
    Names wanted;
    for (const onnx::ValueInfoProto& output : graph_.output()) wanted.insert(output.name());
    for (std::size_t part = parts_.size(); part-- > 0;) {
      for (const int node : shared_.nodes[part]) {
        for (const std::string& name : graph_.node(node).output()) {
          if (wanted.contains(name)) parts_[part].outputs.push_back(name);
        }
      }
      wanted.insert(parts_[part].reads.begin(), parts_[part].reads.end());
    }
  }

  Status Declare(const std::string& name, onnx::ValueInfoProto& info) const {
    const auto type = types_.find(name);
    if (type == types_.end()) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("value {} lies between two parts, and its type is not known: the "
                              "file does not declare it",
                              Quoted(name)));
    }
    info.set_name(name);
    *info.mutable_type() = type->second;
    return {};
  }

  Status CopyWeights(std::size_t part, onnx::GraphProto& to) const {
    for (const std::string& name : parts_[part].reads) {
      const auto found = weights_.find(name);
      if (found == weights_.end()) continue;
      onnx::TensorProto& weight = *to.add_initializer();
      weight = graph_.initializer(found->second);
      const Status loaded = LoadExternal(weight);
      if (!loaded) return Annotate("weight " + Quoted(name), loaded.error());
      // Before IR 4 every initialiser is also an input.
      for (const onnx::ValueInfoProto& input : graph_.input()) {
        if (input.name() == name) *to.add_input() = input;
      }
    }
    return {};
  }

  Status LoadExternal(onnx::TensorProto& weight) const {
    if (weight.data_location() != onnx::TensorProto::EXTERNAL) return {};
    LAGOON_ASSIGN_OR_RETURN(const ExternalRange range, ReadExternalRange(weight));
    LAGOON_ASSIGN_OR_RETURN(const File file, File::OpenExternal(place_, range.location));
    if (range.offset > file.size()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("begins at byte {} of {}, which has {}", range.offset,
                              Quoted(range.location), file.size()));
    }
    std::string& bytes = *weight.mutable_raw_data();
    bytes.resize(range.length.value_or(file.size() - range.offset));
    weight.clear_external_data();
    weight.clear_data_location();
    return file.ReadAt(range.offset, std::as_writable_bytes(std::span(bytes)));
  }

  const onnx::ModelProto& model_;
  const onnx::GraphProto& graph_;
  const ExternalPlace place_;
  const PartNodes shared_;
  const ValueTypes types_;
  std::unordered_map<std::string_view, int> weights_;    // initialisers, by name
  std::unordered_map<std::string_view, int> constants_;  // constant nodes, by output
  std::vector<Part> parts_;
};

tl::unexpected<Error> CannotWrite(const std::string& path, const std::string& why) {
  return Fail(ErrorCode::kInternal, fmt::format("cannot write '{}': {}", path, why));
}

Status WriteModel(const onnx::ModelProto& model, const std::string& path) {
  if (model.ByteSizeLong() > std::numeric_limits<int>::max()) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("'{}' would have {} bytes, and protobuf writes at most 2 GiB; cut the "
                            "model into more parts",
                            path, model.ByteSizeLong()));
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (model.SerializeToOstream(&file) && file.flush()) return {};
  return CannotWrite(path, "no such folder, no permission, or the disk is full");
}

}  // namespace

ValueTypes TypesOf(const onnx::GraphProto& graph, const Graph& known, bool fixed) {
  ValueTypes types;
  for (const auto* infos : {&graph.input(), &graph.output(), &graph.value_info()}) {
    for (const onnx::ValueInfoProto& info : *infos) {
      if (info.type().has_tensor_type() && info.type().tensor_type().elem_type() != 0) {
        types.emplace(info.name(), info.type());
      }
    }
  }
  for (const Value& value : known.values) {
    if (!value.shape_known || value.kind != ValueKind::kTensor) continue;
    onnx::TypeProto type;
    onnx::TypeProto::Tensor& tensor = *type.mutable_tensor_type();
    tensor.set_elem_type(static_cast<int>(ToOnnxType(value.type)));
    if (!value.unsized) {  // else not even the rank is known
      tensor.mutable_shape();
      for (const std::int64_t dim : value.dims) {
        auto& to = *tensor.mutable_shape()->add_dim();
        if (fixed && value.sizes == kNoValue) to.set_dim_value(dim);
      }
    }
    types.emplace(value.name, std::move(type));
  }
  return types;
}

Result<std::vector<PartFile>> CutOnnx(const std::string& path, std::span<const CutPoint> cuts,
                                      const Graph& known, bool fixed, const std::string& folder,
                                      std::size_t max_bytes) {
  const auto in_file = [&](Error error) { return Annotate(Quoted(path), std::move(error)); };
  auto file = ReadModelFile(path, max_bytes);
  if (!file) return in_file(std::move(file).error());
  const onnx::ModelProto& model = *file->model;
  if (model.graph().sparse_initializer_size() > 0) {
    return in_file({ErrorCode::kUnimplemented, "has sparse weights, which Lagoon does not cut"});
  }
  auto shared = ShareNodes(model.graph(), OpsetOf(model), cuts);
  if (!shared) return in_file(std::move(shared).error());
  const Cutter cutter(model, PlaceBeside(path), *std::move(shared),
                      TypesOf(model.graph(), known, fixed));

  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) return CannotWrite(folder, failure.message());
  std::vector<PartFile> files;
  for (std::size_t part = 0; part <= cuts.size(); ++part) {
    auto made = cutter.Make(part);
    if (!made) return in_file(std::move(made).error());
    const std::string target = (fs::path(folder) / fmt::format("part-{}.onnx", part + 1)).string();
    LAGOON_RETURN_IF_ERROR(WriteModel(*made, target));
    files.push_back({target, cutter.Inputs(part), cutter.Outputs(part),
                     static_cast<std::size_t>(made->graph().node_size())});
  }
  return files;
}

}  // namespace lagoon
