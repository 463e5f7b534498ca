#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/text.h"
#include "graph/budget.h"
#include "graph/functions/inline_functions.h"
#include "graph/fuse/normalize_softmax.h"
#include "graph/graph.h"
#include "graph/graph_edit.h"
#include "graph/guard.h"
#include "graph/import/attributes.h"
#include "graph/import/model_file.h"
#include "graph/import/proto_index.h"
#include "graph/import/scope.h"
#include "graph/import/tensor_import.h"
#include "graph/import/whole_model.h"
#include "graph/onnx_model.h"
#include "graph/opaque/opaque.h"
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

/// Reads a file into a graph whose inputs have no sizes yet, and infers shapes for copies of it.
class Importer final : public OnnxModel {
 public:
  Importer(const std::string& path, const ImportOptions& options)
      : OnnxModel(options, path), budget_(options.max_bytes) {}

  /// Reads everything that the outputs need. Does not infer shapes.
  Status Read() {
    LAGOON_ASSIGN_OR_RETURN(file_, ReadModelFile(path_, options_.max_bytes));
    LAGOON_ASSIGN_OR_RETURN(graph_.opset, FindOpset(*file_.model));
    LAGOON_RETURN_IF_ERROR(InlineFunctions(*file_.model, graph_.opset, options_.max_bytes));
    graph_.name = proto().name();
    graph_.engine = options_.engine;
    for (const onnx::OperatorSetIdProto& import : file_.model->opset_import()) {
      domains_[import.domain()] = import.version();
    }
    LAGOON_RETURN_IF_ERROR(CheckProto());
    Scope scope(proto(), graph_);
    LAGOON_RETURN_IF_ERROR(scope.Index());
    for (const onnx::ValueInfoProto& input : proto().input()) {
      if (scope.index().initialisers.contains(input.name())) continue;
      LAGOON_RETURN_IF_ERROR(AddInput(scope, input));
    }
    LAGOON_RETURN_IF_ERROR(CheckFixedInputs(scope));
    LAGOON_RETURN_IF_ERROR(AddNodes(scope));
    LAGOON_RETURN_IF_ERROR(AddOutputs(scope));
    file_ = {};
    return {};
  }

  const std::vector<DeclaredTensor>& inputs() const override { return inputs_; }
  const std::vector<DeclaredTensor>& outputs() const override { return outputs_; }

  Result<Graph> Import(const GraphInputs& given,
                       std::vector<std::size_t>* deciding) const override {
    Result<Graph> graph = WithoutExceptions([&] { return ImportGraph(given, deciding); });
    if (!graph) return Annotate(path_, std::move(graph).error());
    return graph;
  }

  void ReleaseWeights() const override {
    for (const Value& value : graph_.values) {
      if (value.constant) value.constant->bytes.Release();
    }
  }

 private:
  onnx::GraphProto& proto() { return *file_.model->mutable_graph(); }

  TensorSource source() {
    std::string folder = std::filesystem::path(path_).parent_path().string();
    return {folder.empty() ? "." : std::move(folder), budget_};
  }

  Result<Graph> ImportGraph(const GraphInputs& given, std::vector<std::size_t>* deciding) const {
    LAGOON_RETURN_IF_ERROR(Check(given));
    Graph graph = graph_;
    ByteBudget budget = budget_;
    LAGOON_RETURN_IF_ERROR(SetInputs(graph, given, budget));
    ValueId missing = kNoValue;
    if (const Status inferred = InferShapes(graph, budget, &missing); !inferred) {
      if (deciding != nullptr) AddDeciding(graph, missing, *deciding);
      return tl::unexpected(Explained(given, inferred.error()));
    }
    MergeOpaque(graph);
    NormalizeSoftmax(graph);
    Compact(graph);
    return graph;
  }

  Status SetInputs(Graph& graph, const GraphInputs& given, ByteBudget& budget) const {
    std::vector<ValueId> open;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      Value& value = graph.value(graph.inputs[i]);
      value.dims = given.dims[i];
      value.shape_known = true;
      const std::string label = "input " + Quoted(value.name);
      const Result<std::size_t> bytes = CheckedBytes(value.dims, value.type);
      if (!bytes) return Annotate(label, bytes.error());
      LAGOON_RETURN_IF_ERROR(budget.Charge(*bytes, label));
      const auto contents = given.values.find(i);
      if (contents == given.values.end()) {
        open.push_back(graph.inputs[i]);
      } else {
        LAGOON_RETURN_IF_ERROR(FixInput(value, contents->second));
      }
    }
    graph.inputs = std::move(open);
    return {};
  }

  /// Adds the inputs on which `value` depends, if all of them are small enough to decide a graph.
  void AddDeciding(const Graph& graph, ValueId value, std::vector<std::size_t>& deciding) const {
    std::set<ValueId> sources, open{value};
    std::map<ValueId, const Node*> producers;
    for (const Node& node : graph.nodes) {
      for (const ValueId output : node.outputs) producers[output] = &node;
    }
    while (!open.empty()) {
      const ValueId id = open.extract(open.begin()).value();
      if (id == kNoValue || graph.value(id).constant || !sources.insert(id).second) continue;
      const auto producer = producers.find(id);
      if (producer == producers.end()) continue;
      open.insert(producer->second->inputs.begin(), producer->second->inputs.end());
    }
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (!sources.contains(graph_.inputs[i])) continue;
      if (ElementCount(graph.value(graph_.inputs[i]).dims) > kMaxDecidingElements) return;
      found.push_back(i);
    }
    deciding.insert(deciding.end(), found.begin(), found.end());
  }

  /// `error`, with a note if dims of the same name have different sizes.
  Error Explained(const GraphInputs& given, Error error) const {
    std::map<std::string, std::pair<std::int64_t, const DeclaredTensor*>> sizes;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      for (std::size_t axis = 0; axis < inputs_[i].symbols.size(); ++axis) {
        const std::string& symbol = inputs_[i].symbols[axis];
        if (symbol.empty()) continue;
        const std::int64_t size = given.dims[i][axis];
        const auto [first, is_new] = sizes.emplace(symbol, std::pair(size, &inputs_[i]));
        if (is_new || first->second.first == size) continue;
        error.message += fmt::format(
            " (dimension {} is {} in input {} and {} in input {})", Quoted(symbol),
            first->second.first, Quoted(first->second.second->name), size, Quoted(inputs_[i].name));
        return error;
      }
    }
    return error;
  }

  Status CheckProto() {
    if (proto().output_size() == 0) return Invalid("the graph has no output");
    for (const onnx::ValueInfoProto& output : proto().output()) {
      if (output.name().empty()) return Invalid("an output of the graph has no name");
    }
    if (proto().sparse_initializer_size() > 0) {
      return Fail(ErrorCode::kUnimplemented, "sparse initialisers are not supported");
    }
    for (const auto& [name, size] : options_.dimensions) {
      if (size < 1) return Invalid(fmt::format("dimension {} is set to {}", Quoted(name), size));
    }
    return {};
  }

  /// The dims that the file declares; fixed names have their size.
  Result<DeclaredTensor> Declared(const onnx::ValueInfoProto& info) const {
    DeclaredTensor tensor;
    tensor.name = info.name();
    tensor.shape_known = info.type().tensor_type().has_shape();
    tensor.type = ToDataType(info.type().tensor_type().elem_type()).value_or(tensor.type);
    for (const auto& dim : info.type().tensor_type().shape().dim()) {
      if (dim.dim_value() < -1) {
        return Invalid(fmt::format("has a dimension of {}", dim.dim_value()));
      }
      // Exporters write a size that they do not know as a name, as nothing, as 0 or as -1.
      const bool open = !dim.has_dim_value() || dim.dim_value() <= 0;
      const auto fixed = options_.dimensions.find(dim.dim_param());
      const bool is_fixed = !dim.has_dim_value() && fixed != options_.dimensions.end();
      tensor.dims.push_back(is_fixed ? fixed->second : open ? -1 : dim.dim_value());
      tensor.symbols.push_back(open && !is_fixed ? dim.dim_param() : "");
    }
    return tensor;
  }

  Status AddInput(Scope& scope, const onnx::ValueInfoProto& info) {
    const ValueId id = scope.Add(info.name());
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
    if (!type.has_shape()) return Invalid(label + " has no shape");
    Result<DeclaredTensor> declared = Declared(info);
    if (!declared) return Annotate(label, declared.error());
    declared->type = graph_.value(id).type = *element;
    const auto fixed = options_.inputs.find(info.name());
    if (fixed != options_.inputs.end()) return FixWhole(*declared, id, fixed->second);
    graph_.inputs.push_back(id);
    inputs_.push_back(*std::move(declared));
    return {};
  }

  /// Fixes an input for all graphs.
  Status FixWhole(const DeclaredTensor& declared, ValueId id, const Constant& constant) {
    Value& value = graph_.value(id);
    value.dims = declared.dims;
    for (std::size_t i = 0; i < value.dims.size() && i < constant.dims.size(); ++i) {
      if (value.dims[i] == -1) value.dims[i] = constant.dims[i];
    }
    value.shape_known = true;
    LAGOON_RETURN_IF_ERROR(budget_.Charge(constant.bytes.size(), "input " + Quoted(value.name)));
    return FixInput(value, constant);
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

  Status CheckFixedInputs(const Scope& scope) const {
    for (const auto& [name, constant] : options_.inputs) {
      if (scope.Knows(name)) continue;
      return Invalid(fmt::format("there is no input {} to be fixed", Quoted(name)));
    }
    return {};
  }

  // The value of a node's input. Reads an initialiser, or captures a value of an outer scope, at
  // its first use.
  Result<ValueId> Use(Scope& scope, const std::string& name) {
    if (name.empty()) return kNoValue;
    if (const ValueId known = scope.Find(name); known != kNoValue) return known;
    const auto initialiser = scope.index().initialisers.find(name);
    if (initialiser == scope.index().initialisers.end()) {
      if (!scope.is_body()) return Invalid("nothing defines " + Quoted(name));
      LAGOON_ASSIGN_OR_RETURN(const ValueId outer, Use(scope.outer(), name));
      return scope.Capture(name, outer);
    }
    const auto index = static_cast<std::size_t>(initialiser->second);
    FileRange raw;
    if (!scope.is_body()) raw = {file_.file, file_.raw_data[index].offset};
    Result<Constant> constant =
        ImportTensor(*scope.proto().mutable_initializer(initialiser->second), source(), raw, name);
    if (!constant) return Annotate("initialiser " + Quoted(name), constant.error());
    const ValueId id = scope.Add(name);
    Value& value = scope.graph().value(id);
    value.type = constant->type;
    value.dims = constant->dims;
    value.shape_known = true;
    value.constant = *std::move(constant);
    return id;
  }

  Status AddNodes(Scope& scope) {
    for (const int index : scope.index().order) {
      onnx::NodeProto& node = *scope.proto().mutable_node(index);
      if (const Status added = FillNode(scope, node, index); !added) {
        return Annotate(NodeLabel(node, index, graph_.opset), added.error());
      }
    }
    return {};
  }

  Result<ReadBody> AddBody(Scope& outer, onnx::AttributeProto& attribute) {
    auto graph = std::make_shared<Graph>();
    graph->name = attribute.g().name();
    graph->opset = graph_.opset;
    if (attribute.g().sparse_initializer_size() > 0) {
      return Fail(ErrorCode::kUnimplemented, "sparse initialisers are not supported");
    }
    Scope scope(*attribute.mutable_g(), *graph, &outer);
    LAGOON_RETURN_IF_ERROR(scope.Index());
    LAGOON_RETURN_IF_ERROR(scope.AddFormalInputs());
    LAGOON_RETURN_IF_ERROR(AddNodes(scope));
    for (const onnx::ValueInfoProto& output : scope.proto().output()) {
      if (output.name().empty()) return Invalid("an output has no name");
      LAGOON_ASSIGN_OR_RETURN(const ValueId id, Use(scope, output.name()));
      graph->outputs.push_back(id);
      Declare(output, graph->value(id));
    }
    return ReadBody{attribute.name(), std::move(graph), scope.captured()};
  }

  Status FillNode(Scope& scope, onnx::NodeProto& node_proto, int index) {
    Node node;
    if (const std::optional<std::int64_t> opset = WrittenInOpset(node_proto.domain())) {
      node.opset = *opset;
    } else if (node_proto.domain() != "ai.onnx") {
      node.domain = node_proto.domain();
      node.domain_version = domains_[node.domain];
    }
    node.name = NodeName(node_proto, index);
    node.op = node_proto.op_type();
    std::vector<ReadBody> bodies;
    std::set<std::string> names;
    for (onnx::AttributeProto& attribute : *node_proto.mutable_attribute()) {
      if (!names.insert(attribute.name()).second) {
        return Invalid(fmt::format("has attribute {} twice", Quoted(attribute.name())));
      }
      if (attribute.type() == onnx::AttributeProto::GRAPH) {
        Result<ReadBody> body = AddBody(scope, attribute);
        if (!body) return Annotate("attribute " + Quoted(attribute.name()), body.error());
        bodies.push_back(*std::move(body));
        if (bodies.size() > kMaxBodies) {
          return Fail(ErrorCode::kUnimplemented,
                      fmt::format("has more than {} sub-graphs", kMaxBodies));
        }
        continue;
      }
      Result<Attribute> value = ImportAttribute(attribute, source());
      if (!value) return Annotate("attribute " + Quoted(attribute.name()), value.error());
      node.attributes.emplace(attribute.name(), *std::move(value));
    }
    for (const std::string& name : node_proto.input()) {
      LAGOON_ASSIGN_OR_RETURN(const ValueId id, Use(scope, name));
      node.inputs.push_back(id);
    }
    while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
    AttachBodies(scope.graph(), std::move(bodies), node);
    for (const std::string& name : node_proto.output()) {
      node.outputs.push_back(name.empty() ? kNoValue : scope.Add(name));
    }
    while (!node.outputs.empty() && node.outputs.back() == kNoValue) node.outputs.pop_back();
    scope.graph().nodes.push_back(std::move(node));
    return {};
  }

  Status AddOutputs(Scope& scope) {
    std::unordered_set<ValueId> outputs;
    for (const onnx::ValueInfoProto& output : proto().output()) {
      LAGOON_ASSIGN_OR_RETURN(const ValueId id, Use(scope, output.name()));
      if (!outputs.insert(id).second) {
        return Invalid(fmt::format("output {} is named twice", Quoted(output.name())));
      }
      graph_.outputs.push_back(id);
      Result<DeclaredTensor> declared = Declared(output);
      if (!declared) return Annotate("output " + Quoted(output.name()), declared.error());
      outputs_.push_back(*std::move(declared));
    }
    return {};
  }

  ModelFile file_;                               // empty after Read
  std::map<std::string, std::int64_t> domains_;  // their versions
  ByteBudget budget_;
  std::vector<DeclaredTensor> inputs_, outputs_;
  Graph graph_;
};

}  // namespace

Result<std::unique_ptr<OnnxModel>> OnnxModel::Read(const std::string& path,
                                                   const ImportOptions& options) {
  auto importer = std::make_unique<Importer>(path, options);
  const Status read = WithoutExceptions([&] { return importer->Read(); });
  const bool unknown = !read && read.error().code == ErrorCode::kUnimplemented;
  if (options.engine == nullptr || (!read && !unknown)) {
    if (!read) return Annotate(path, read.error());
    return importer;
  }
  Error why = read ? Error{} : Annotate(path, read.error()).value();
  return WithWholeModel(read ? std::move(importer) : nullptr, path, options, std::move(why));
}

}  // namespace lagoon
