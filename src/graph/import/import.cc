#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "graph/budget.h"
#include "graph/fuse/normalize_softmax.h"
#include "graph/graph.h"
#include "graph/graph_edit.h"
#include "graph/guard.h"
#include "graph/import/attributes.h"
#include "graph/import/import_batches.h"
#include "graph/import/model_file.h"
#include "graph/import/proto_index.h"
#include "graph/import/tensor_import.h"
#include "graph/ops/infer.h"

namespace lagoon {
namespace {

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<std::int64_t> FindOpset(const onnx::ModelProto& model) {
  std::optional<std::int64_t> opset;
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    if (!import.domain().empty() && import.domain() != "ai.onnx") continue;
    if (opset.value_or(import.version()) != import.version()) {
      return Invalid(fmt::format("imports both opset {} and {}", *opset, import.version()));
    }
    opset = import.version();
  }
  if (!opset) return Invalid("imports no opset of ai.onnx");
  if (*opset < kMinOpset || *opset > kMaxOpset) {
    return Fail(ErrorCode::kUnimplemented, fmt::format("opset {} is not supported, {} to {} are",
                                                       *opset, kMinOpset, kMaxOpset));
  }
  return *opset;
}

class Importer {
 public:
  Importer(const std::string& path, const ImportOptions& options, onnx::GraphProto& proto,
           std::int64_t opset)
      : options_(options),
        proto_(proto),
        budget_(options.max_bytes),
        source_{std::filesystem::path(path).parent_path().string(), budget_} {
    if (source_.folder.empty()) source_.folder = ".";
    graph_.name = proto.name();
    graph_.opset = opset;
  }

  /// Reads everything that the outputs need. Does not infer shapes.
  Status Read() {
    LAGOON_RETURN_IF_ERROR(CheckProto());
    LAGOON_ASSIGN_OR_RETURN(index_, IndexGraph(proto_, graph_.opset));
    FindBatchDimensions();
    for (const onnx::ValueInfoProto& input : proto_.input()) {
      if (!index_.initialisers.contains(input.name())) LAGOON_RETURN_IF_ERROR(AddInput(input));
    }
    LAGOON_RETURN_IF_ERROR(CheckFixedInputs());
    for (const int node : index_.order) LAGOON_RETURN_IF_ERROR(AddNode(node));
    return AddOutputs();
  }

  /// A copy of the graph for inputs of `batch` rows. Shares the constants.
  Result<Graph> Instantiate(std::int64_t batch) const {
    Graph graph = graph_;
    ByteBudget budget = budget_;
    if (batch != 1) LAGOON_RETURN_IF_ERROR(SetBatch(graph, batch, budget));
    LAGOON_RETURN_IF_ERROR(InferShapes(graph, budget));
    LAGOON_RETURN_IF_ERROR(CheckOutputs(graph));
    NormalizeSoftmax(graph);
    Compact(graph);
    return graph;
  }

 private:
  Status CheckProto() {
    if (proto_.output_size() == 0) return Invalid("the graph has no output");
    for (const onnx::ValueInfoProto& output : proto_.output()) {
      if (output.name().empty()) return Invalid("an output of the graph has no name");
    }
    if (proto_.sparse_initializer_size() > 0) {
      return Fail(ErrorCode::kUnimplemented, "sparse initialisers are not supported");
    }
    for (const auto& [name, size] : options_.dimensions) {
      if (size < 1) return Invalid(fmt::format("dimension {} is set to {}", Quoted(name), size));
    }
    return {};
  }

  /// Finds the batch dimensions: the open first dimensions of inputs, and all dimensions of the
  /// same name.
  void FindBatchDimensions() {
    for (const onnx::ValueInfoProto& input : proto_.input()) {
      const onnx::TensorShapeProto& shape = input.type().tensor_type().shape();
      if (shape.dim_size() > 0 && IsOpen(shape.dim(0)) && !shape.dim(0).dim_param().empty()) {
        batch_names_.insert(shape.dim(0).dim_param());
      }
    }
  }

  bool IsOpen(const onnx::TensorShapeProto::Dimension& dim) const {
    return !dim.has_dim_value() && !options_.dimensions.contains(dim.dim_param());
  }

  Status SetBatch(Graph& graph, std::int64_t batch, ByteBudget& budget) const {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      Value& value = graph.value(graph.inputs[i]);
      if (batch_axes_[i].empty() || batch_axes_[i].front() != 0) {
        return Invalid(
            fmt::format("input {} has shape {}, whose first dimension is fixed: the "
                        "model cannot take a batch of {}",
                        Quoted(value.name), ToString(value.dims), batch));
      }
      for (const std::size_t axis : batch_axes_[i]) value.dims[axis] = batch;
      const std::string label = "input " + Quoted(value.name);
      const Result<std::size_t> bytes = CheckedBytes(value.dims, value.type);
      if (!bytes) return Annotate(label, bytes.error());
      LAGOON_RETURN_IF_ERROR(budget.Charge(*bytes, label));
    }
    return {};
  }

  ValueId AddValue(const std::string& name) {
    const auto id = static_cast<ValueId>(graph_.values.size());
    graph_.values.emplace_back().name = name;
    ids_.emplace(name, id);
    return id;
  }

  Result<std::int64_t> Dimension(const onnx::TensorShapeProto::Dimension& dim) const {
    if (dim.has_dim_value()) {
      if (dim.dim_value() < 0) {
        return Invalid(fmt::format("has a dimension of {}", dim.dim_value()));
      }
      return dim.dim_value() == 0 ? 1 : dim.dim_value();
    }
    const auto bound = options_.dimensions.find(dim.dim_param());
    return bound == options_.dimensions.end() ? 1 : bound->second;
  }

  Status AddInput(const onnx::ValueInfoProto& info) {
    Value& value = graph_.value(AddValue(info.name()));
    const std::string label = "input " + Quoted(info.name());
    if (!info.type().has_tensor_type()) {
      return Fail(ErrorCode::kUnimplemented, label + " is not a tensor");
    }
    const onnx::TypeProto::Tensor& type = info.type().tensor_type();
    const std::optional<DataType> element = ToDataType(type.elem_type());
    if (!element) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("{} has ONNX element type {}, which is not supported", label,
                              type.elem_type()));
    }
    value.type = *element;
    if (!type.has_shape()) return Invalid(label + " has no shape");
    std::vector<std::size_t> batch_axes;
    for (const onnx::TensorShapeProto::Dimension& dim : type.shape().dim()) {
      const Result<std::int64_t> size = Dimension(dim);
      if (!size) return Annotate(label, size.error());
      const bool first = value.dims.empty() && IsOpen(dim);
      if (first || (IsOpen(dim) && batch_names_.contains(dim.dim_param()))) {
        batch_axes.push_back(value.dims.size());
      }
      value.dims.push_back(*size);
    }
    const Result<std::size_t> bytes = CheckedBytes(value.dims, value.type);
    if (!bytes) return Annotate(label, bytes.error());
    value.shape_known = true;
    LAGOON_RETURN_IF_ERROR(budget_.Charge(*bytes, label));
    const auto fixed = options_.inputs.find(info.name());
    if (fixed != options_.inputs.end()) return FixInput(value, fixed->second);
    graph_.inputs.push_back(ids_.at(info.name()));
    batch_axes_.push_back(std::move(batch_axes));
    return {};
  }

  static Status FixInput(Value& value, const Constant& constant) {
    if (constant.type != value.type || constant.dims != value.dims) {
      return Invalid(fmt::format("input {} is {} {}; it is to be fixed to {} {}",
                                 Quoted(value.name), OipName(value.type), ToString(value.dims),
                                 OipName(constant.type), ToString(constant.dims)));
    }
    value.constant = constant;
    return {};
  }

  Status CheckFixedInputs() const {
    for (const auto& [name, constant] : options_.inputs) {
      if (ids_.contains(name)) continue;
      return Invalid(fmt::format("there is no input {} to be fixed", Quoted(name)));
    }
    return {};
  }

  // The value of a node's input. Reads an initialiser at its first use.
  Result<ValueId> Use(const std::string& name) {
    if (name.empty()) return kNoValue;
    if (const auto known = ids_.find(name); known != ids_.end()) return known->second;
    const int initialiser = index_.initialisers.at(name);
    Result<Constant> constant = ImportTensor(*proto_.mutable_initializer(initialiser), source_);
    if (!constant) return Annotate("initialiser " + Quoted(name), constant.error());
    const ValueId id = AddValue(name);
    Value& value = graph_.value(id);
    value.type = constant->type;
    value.dims = constant->dims;
    value.shape_known = true;
    value.constant = *std::move(constant);
    return id;
  }

  Status AddNode(int index) {
    onnx::NodeProto& proto = *proto_.mutable_node(index);
    if (const Status added = FillNode(proto, index); !added) {
      return Annotate(NodeLabel(proto, index, graph_.opset), added.error());
    }
    return {};
  }

  Status FillNode(onnx::NodeProto& proto, int index) {
    if (!proto.domain().empty() && proto.domain() != "ai.onnx") {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("domain {} is not supported", Quoted(proto.domain())));
    }
    Node node;
    node.name = NodeName(proto, index);
    node.op = proto.op_type();
    for (onnx::AttributeProto& attribute : *proto.mutable_attribute()) {
      Result<Attribute> value = ImportAttribute(attribute, source_);
      if (!value) return Annotate("attribute " + Quoted(attribute.name()), value.error());
      if (!node.attributes.emplace(attribute.name(), *std::move(value)).second) {
        return Invalid(fmt::format("has attribute {} twice", Quoted(attribute.name())));
      }
    }
    for (const std::string& name : proto.input()) {
      LAGOON_ASSIGN_OR_RETURN(const ValueId id, Use(name));
      node.inputs.push_back(id);
    }
    while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
    for (const std::string& name : proto.output()) {
      node.outputs.push_back(name.empty() ? kNoValue : AddValue(name));
    }
    while (!node.outputs.empty() && node.outputs.back() == kNoValue) node.outputs.pop_back();
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  Status AddOutputs() {
    std::unordered_set<ValueId> outputs;
    for (const onnx::ValueInfoProto& output : proto_.output()) {
      LAGOON_ASSIGN_OR_RETURN(const ValueId id, Use(output.name()));
      if (!outputs.insert(id).second) {
        return Invalid(fmt::format("output {} is named twice", Quoted(output.name())));
      }
      graph_.outputs.push_back(id);
    }
    return {};
  }

  Status CheckOutputs(const Graph& graph) const {
    for (int i = 0; i < proto_.output_size(); ++i) {
      const Value& value = graph.value(graph.outputs[static_cast<std::size_t>(i)]);
      LAGOON_RETURN_IF_ERROR(CheckDeclared(proto_.output(i), value.dims));
    }
    return {};
  }

  // The shape that the file declares for an output may leave dimensions open, but must not
  // contradict.
  static Status CheckDeclared(const onnx::ValueInfoProto& info, const Dims& dims) {
    if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) return {};
    const onnx::TensorShapeProto& shape = info.type().tensor_type().shape();
    bool same = static_cast<std::size_t>(shape.dim_size()) == dims.size();
    for (int i = 0; same && i < shape.dim_size(); ++i) {
      const std::int64_t declared = shape.dim(i).dim_value();  // 0 if open
      same = declared == 0 || declared == dims[static_cast<std::size_t>(i)];
    }
    if (same) return {};
    Dims declared;
    for (int i = 0; i < std::min<int>(shape.dim_size(), kMaxRank); ++i) {
      declared.push_back(shape.dim(i).dim_value());
    }
    return Invalid(fmt::format("output {} has shape {}, the file declares {} (0: open)",
                               Quoted(info.name()), ToString(dims), ToString(declared)));
  }

  const ImportOptions& options_;
  onnx::GraphProto& proto_;
  ByteBudget budget_;
  TensorSource source_;
  ProtoIndex index_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;
  std::unordered_set<std::string> batch_names_;       // names of dimensions
  std::vector<std::vector<std::size_t>> batch_axes_;  // by graph input
};

// For one batch size outputs may have any shape. For several, the caller relies on outputs with one
// row per input row.
Status CheckBatch(const Graph& graph, std::int64_t batch) {
  for (const ValueId id : graph.outputs) {
    const Value& value = graph.value(id);
    if (!value.dims.empty() && value.dims.front() == batch) continue;
    return Invalid(
        fmt::format("output {} has shape {} for a batch of {}: its first dimension is "
                    "not the batch",
                    Quoted(value.name), ToString(value.dims), batch));
  }
  return {};
}

}  // namespace

Result<std::vector<Graph>> ImportBatches(const std::string& path,
                                         std::span<const std::int64_t> batches,
                                         const ImportOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const auto model, ReadModelFile(path, options.max_bytes));
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t opset, FindOpset(*model));
  Importer importer(path, options, *model->mutable_graph(), opset);
  LAGOON_RETURN_IF_ERROR(importer.Read());
  std::vector<Graph> graphs;
  for (const std::int64_t batch : batches) {
    LAGOON_ASSIGN_OR_RETURN(Graph graph, importer.Instantiate(batch));
    if (batches.size() > 1) LAGOON_RETURN_IF_ERROR(CheckBatch(graph, batch));
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

Result<Graph> ImportOnnx(const std::string& path, const ImportOptions& options) {
  constexpr std::int64_t kOne[] = {1};
  auto graphs = WithoutExceptions([&] { return ImportBatches(path, kOne, options); });
  if (!graphs) return Annotate(path, std::move(graphs).error());
  return std::move(graphs->front());
}

}  // namespace lagoon
