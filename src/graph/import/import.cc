#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/guard.h"
#include "base/text.h"
#include "graph/budget.h"
#include "graph/functions/inline_functions.h"
#include "graph/graph.h"
#include "graph/graph_edit.h"
#include "graph/import/attributes.h"
#include "graph/import/graph_model.h"
#include "graph/import/model_file.h"
#include "graph/import/proto_index.h"
#include "graph/import/scope.h"
#include "graph/import/tensor_import.h"
#include "graph/import/whole_model.h"
#include "graph/onnx_model.h"
#include "graph/ops/op_context.h"

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
  // Such a model has nodes of other domains only, such as ai.onnx.ml. An engine that computes some
  // of them must know this opset too, and may not know the newest ones.
  constexpr std::int64_t kOpsetOfOthers = 23;
  if (!opset && model.opset_import_size() > 0) return kOpsetOfOthers;
  if (!opset) return Invalid("imports no opset");
  if (*opset < kMinOpset || *opset > kMaxOpset) {
    return Fail(ErrorCode::kUnimplemented, fmt::format("opset {} is not supported, {} to {} are",
                                                       *opset, kMinOpset, kMaxOpset));
  }
  return *opset;
}

/// Reads a file into a graph whose inputs have no sizes yet.
class Importer final : public GraphModel {
 public:
  Importer(const std::string& path, const ImportOptions& options) : GraphModel(options, path) {}

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

 private:
  onnx::GraphProto& proto() { return *file_.model->mutable_graph(); }

  TensorSource source() {
    if (options_.weights != nullptr) return {{}, budget_, options_.weights};
    if (options_.folder) return {{*options_.folder, ""}, budget_, nullptr};
    return {PlaceBeside(path_), budget_, nullptr};
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
    if (node.domain.empty()) DropUnreadOutputs(scope, node);
    DropLastOutputs(node);
    scope.graph().nodes.push_back(std::move(node));
    return {};
  }

  /// Exporters name outputs that exist in training only, such as the statistics of a
  /// BatchNormalization, although nothing reads these outputs.
  static void DropUnreadOutputs(Scope& scope, Node& node) {
    const OpSpec* const spec = FindOp(node.op);
    if (spec == nullptr || node.outputs.size() <= spec->max_outputs) return;
    for (std::size_t i = spec->max_outputs; i < node.outputs.size(); ++i) {
      ValueId& output = node.outputs[i];
      if (output == kNoValue) continue;
      if (!scope.index().read.contains(scope.graph().value(output).name)) output = kNoValue;
    }
  }

  Status AddOutputs(Scope& scope) {
    std::unordered_set<ValueId> outputs;
    for (const onnx::ValueInfoProto& output : proto().output()) {
      LAGOON_ASSIGN_OR_RETURN(const ValueId id, Use(scope, output.name()));
      if (!outputs.insert(id).second) {
        return Invalid(fmt::format("output {} is named twice", Quoted(output.name())));
      }
      const auto& sequence = output.type().sequence_type();
      if (output.type().has_map_type() || sequence.elem_type().has_map_type()) {
        return Fail(ErrorCode::kUnimplemented,
                    fmt::format("output {} is a map or a sequence of maps, only tensors are "
                                "supported: convert the model without ZipMap (zipmap=False)",
                                Quoted(output.name())));
      }
      output_numbers_.push_back(graph_.outputs.size());
      graph_.outputs.push_back(id);
      Result<DeclaredTensor> declared = Declared(output);
      if (!declared) return Annotate("output " + Quoted(output.name()), declared.error());
      outputs_.push_back(*std::move(declared));
    }
    return {};
  }

  ModelFile file_;                               // empty after Read
  std::map<std::string, std::int64_t> domains_;  // their versions
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
