#include "graph/functions/inline_functions.h"

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "graph/functions/name_scope.h"
#include "graph/graph.h"

namespace lagoon {
namespace {

constexpr std::string_view kAiOnnx = "ai.onnx";
constexpr std::size_t kMaxDepth = 64;  // of calls inside one another

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

std::string_view Normal(std::string_view domain) { return domain == kAiOnnx ? "" : domain; }

std::string Label(const onnx::FunctionProto& function) {
  return fmt::format("function {} of domain {}", Quoted(function.name()),
                     Quoted(function.domain()));
}

// The values of a function's attributes where a call leaves them out. libonnx 1.12 does not know
// this field of FunctionProto and keeps it as bytes.
std::map<std::string, onnx::AttributeProto> DefaultsOf(const onnx::FunctionProto& function) {
  constexpr int kDefaults = 11;
  std::map<std::string, onnx::AttributeProto> defaults;
  const google::protobuf::UnknownFieldSet& fields = function.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() != kDefaults ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    onnx::AttributeProto attribute;
    if (attribute.ParseFromString(field.length_delimited())) {
      defaults.emplace(attribute.name(), std::move(attribute));
    }
  }
  return defaults;
}

// Notes the opset in the nodes of ai.onnx: in `node` and in its sub-graphs.
void WriteOpset(onnx::NodeProto& node, std::int64_t opset) {
  if (Normal(node.domain()).empty()) node.set_domain(fmt::format("{}@{}", kAiOnnx, opset));
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) {
      for (onnx::NodeProto& inner : *attribute.mutable_g()->mutable_node()) {
        WriteOpset(inner, opset);
      }
    }
    for (onnx::GraphProto& graph : *attribute.mutable_graphs()) {
      for (onnx::NodeProto& inner : *graph.mutable_node()) WriteOpset(inner, opset);
    }
  }
}

class Inliner {
 public:
  Inliner(std::int64_t opset, std::size_t max_bytes) : opset_(opset), bytes_left_(max_bytes) {}

  Status Run(onnx::ModelProto& model) {
    for (const onnx::FunctionProto& function : model.functions()) {
      if (!functions_.emplace(KeyOf(function.domain(), function.name()), &function).second) {
        return Fail(ErrorCode::kUnimplemented,
                    Label(function) + " is defined twice; overloads are not supported");
      }
    }
    names_.AddGraph(model.graph());
    LAGOON_RETURN_IF_ERROR(InlineGraph(*model.mutable_graph()));
    model.clear_functions();
    return {};
  }

 private:
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
  using Key = std::pair<std::string, std::string>;
  using Attributes = std::map<std::string, const onnx::AttributeProto*>;

  static Key KeyOf(std::string_view domain, const std::string& name) {
    return {std::string(Normal(domain)), name};
  }

  Status InlineGraph(onnx::GraphProto& graph) {
    Nodes nodes;
    nodes.Swap(graph.mutable_node());
    for (onnx::NodeProto& node : nodes) {
      LAGOON_RETURN_IF_ERROR(Place(std::move(node), *graph.mutable_node()));
    }
    return {};
  }

  // Appends the node, or the nodes of the function that it calls.
  Status Place(onnx::NodeProto node, Nodes& to) {
    const auto found = functions_.find(KeyOf(node.domain(), node.op_type()));
    if (found != functions_.end()) return Call(node, *found->second, to);
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) LAGOON_RETURN_IF_ERROR(InlineGraph(*attribute.mutable_g()));
      for (onnx::GraphProto& inner : *attribute.mutable_graphs()) {
        LAGOON_RETURN_IF_ERROR(InlineGraph(inner));
      }
    }
    *to.Add() = std::move(node);
    return {};
  }

  Status Call(const onnx::NodeProto& call, const onnx::FunctionProto& function, Nodes& to) {
    if (active_.size() >= kMaxDepth) {
      return Fail(
          ErrorCode::kResourceExhausted,
          fmt::format("{}: more than {} calls inside one another", Label(function), kMaxDepth));
    }
    for (const onnx::FunctionProto* const caller : active_) {
      if (caller == &function) return Invalid(Label(function) + " calls itself");
    }
    active_.push_back(&function);
    Status placed = PlaceBody(call, function, to);
    active_.pop_back();
    return placed;
  }

  Status PlaceBody(const onnx::NodeProto& call, const onnx::FunctionProto& function, Nodes& to) {
    const std::string name = call.name().empty() ? function.name() : call.name();
    NameScope scope(names_, fmt::format("{}/", name));
    LAGOON_RETURN_IF_ERROR(BindInputs(call, function, scope));
    LAGOON_RETURN_IF_ERROR(BindOutputs(call, function, scope, to));
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t opset, OpsetOf(function));
    const std::map<std::string, onnx::AttributeProto> defaults = DefaultsOf(function);
    Attributes attributes;
    for (const auto& [key, attribute] : defaults) attributes[key] = &attribute;
    for (const onnx::AttributeProto& given : call.attribute()) attributes[given.name()] = &given;
    for (const onnx::NodeProto& original : function.node()) {
      LAGOON_RETURN_IF_ERROR(Charge(original, function));
      onnx::NodeProto node = original;
      LAGOON_RETURN_IF_ERROR(Substitute(node, attributes, function));
      scope.Rename(node);
      node.set_name(fmt::format("{}/{}", name, node.name().empty() ? node.op_type() : node.name()));
      if (opset != opset_) WriteOpset(node, opset);
      LAGOON_RETURN_IF_ERROR(Place(std::move(node), to));
    }
    return {};
  }

  static Status BindInputs(const onnx::NodeProto& call, const onnx::FunctionProto& function,
                           NameScope& scope) {
    if (call.input_size() > function.input_size()) {
      return Invalid(fmt::format("{} takes {} inputs, a call has {}", Label(function),
                                 function.input_size(), call.input_size()));
    }
    for (int i = 0; i < function.input_size(); ++i) {
      const std::string given = i < call.input_size() ? call.input(i) : std::string();
      if (!scope.Bind(function.input(i), given)) {
        return Invalid(
            fmt::format("{} has input {} twice", Label(function), Quoted(function.input(i))));
      }
    }
    return {};
  }

  // An output that is an input of the function becomes an Identity.
  Status BindOutputs(const onnx::NodeProto& call, const onnx::FunctionProto& function,
                     NameScope& scope, Nodes& to) {
    if (call.output_size() > function.output_size()) {
      return Invalid(fmt::format("{} has {} outputs, a call takes {}", Label(function),
                                 function.output_size(), call.output_size()));
    }
    for (int i = 0; i < call.output_size(); ++i) {
      const std::string& inner = function.output(i);
      if (call.output(i).empty() || scope.Bind(inner, call.output(i))) continue;
      LAGOON_RETURN_IF_ERROR(Charge(call, function));
      onnx::NodeProto& copy = *to.Add();
      copy.set_op_type("Identity");
      copy.add_input(scope.Of(inner));
      copy.add_output(call.output(i));
    }
    return {};
  }

  Result<std::int64_t> OpsetOf(const onnx::FunctionProto& function) const {
    for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
      if (!Normal(import.domain()).empty()) continue;
      if (import.version() >= kMinOpset && import.version() <= kMaxOpset) return import.version();
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("{}: opset {} is not supported, {} to {} are", Label(function),
                              import.version(), kMinOpset, kMaxOpset));
    }
    return opset_;
  }

  // Replaces references to the function's attributes by the call's. Where the call leaves an
  // attribute out, the node's attribute is left out too.
  Status Substitute(onnx::NodeProto& node, const Attributes& attributes,
                    const onnx::FunctionProto& function) {
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> all;
    all.Swap(node.mutable_attribute());
    for (onnx::AttributeProto& attribute : all) {
      if (attribute.ref_attr_name().empty()) {
        LAGOON_RETURN_IF_ERROR(SubstituteInGraphs(attribute, attributes, function));
        *node.add_attribute() = std::move(attribute);
        continue;
      }
      const auto given = attributes.find(attribute.ref_attr_name());
      if (given == attributes.end()) continue;
      LAGOON_RETURN_IF_ERROR(ChargeBytes(given->second->ByteSizeLong(), function));
      onnx::AttributeProto& copy = *node.add_attribute();
      copy = *given->second;
      copy.set_name(attribute.name());
    }
    return {};
  }

  Status SubstituteInGraphs(onnx::AttributeProto& attribute, const Attributes& attributes,
                            const onnx::FunctionProto& function) {
    std::vector<onnx::GraphProto*> graphs;
    if (attribute.has_g()) graphs.push_back(attribute.mutable_g());
    for (onnx::GraphProto& graph : *attribute.mutable_graphs()) graphs.push_back(&graph);
    for (onnx::GraphProto* const graph : graphs) {
      for (onnx::NodeProto& node : *graph->mutable_node()) {
        LAGOON_RETURN_IF_ERROR(Substitute(node, attributes, function));
      }
    }
    return {};
  }

  // Counts a node that is about to be copied.
  Status Charge(const onnx::NodeProto& node, const onnx::FunctionProto& function) {
    if (++nodes_ > kMaxGraphNodes) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("{}: calls of functions give more than {} nodes", Label(function),
                              kMaxGraphNodes));
    }
    return ChargeBytes(node.ByteSizeLong(), function);
  }

  Status ChargeBytes(std::size_t bytes, const onnx::FunctionProto& function) {
    if (bytes > bytes_left_) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("{}: calls of functions give too many bytes of nodes, the limit is "
                              "that of the model",
                              Label(function)));
    }
    bytes_left_ -= bytes;
    return {};
  }

  std::int64_t opset_;
  std::size_t bytes_left_;
  std::size_t nodes_ = 0;
  std::map<Key, const onnx::FunctionProto*> functions_;
  std::vector<const onnx::FunctionProto*> active_;  // the calls under way, the outermost first
  NameTable names_;
};

}  // namespace

Status InlineFunctions(onnx::ModelProto& model, std::int64_t opset, std::size_t max_bytes) {
  if (model.functions_size() == 0) return {};
  return Inliner(opset, max_bytes).Run(model);
}

std::optional<std::int64_t> WrittenInOpset(std::string_view domain) {
  if (!domain.starts_with(kAiOnnx) || domain.size() <= kAiOnnx.size() + 1 ||
      domain[kAiOnnx.size()] != '@') {
    return std::nullopt;
  }
  const std::string_view digits = domain.substr(kAiOnnx.size() + 1);
  std::int64_t opset = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), opset);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || opset < kMinOpset || opset > kMaxOpset) return std::nullopt;
  return opset;
}

}  // namespace lagoon
