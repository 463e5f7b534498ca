#include "graph/control/replacement.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace lagoon {
namespace {

constexpr std::int64_t kAxesAreInputsSince = 13;  // of Squeeze, Unsqueeze and Split

template <typename T>
Constant MakeConstant(DataType type, Dims dims, std::span<const T> values) {
  auto bytes = std::make_shared<ConstantData::Bytes>(values.size_bytes());
  if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
  return {type, std::move(dims), std::move(bytes)};
}

}  // namespace

Node& Replacement::Write(std::string_view op, std::vector<ValueId> inputs, Attributes attributes,
                         std::vector<ValueId> outputs) {
  Node& node = nodes_.emplace_back();
  node.name = Name(op);
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.outputs = std::move(outputs);
  return node;
}

ValueId Replacement::Write(std::string_view op, std::vector<ValueId> inputs,
                           Attributes attributes) {
  const ValueId output = NewValue();
  Write(op, std::move(inputs), std::move(attributes), {output});
  return output;
}

ValueId Replacement::Unsqueeze(ValueId x, std::int64_t axis) {
  if (context_.opset() >= kAxesAreInputsSince) return Write("Unsqueeze", {x, Ints({axis})});
  return Write("Unsqueeze", {x}, {{"axes", std::vector{axis}}});
}

ValueId Replacement::Squeeze(ValueId x, std::int64_t axis) {
  if (context_.opset() >= kAxesAreInputsSince) return Write("Squeeze", {x, Ints({axis})});
  return Write("Squeeze", {x}, {{"axes", std::vector{axis}}});
}

std::vector<ValueId> Replacement::Split(ValueId x, std::vector<std::int64_t> sizes,
                                        std::int64_t axis) {
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) parts.push_back(NewValue());
  if (context_.opset() >= kAxesAreInputsSince) {
    Write("Split", {x, Ints(sizes)}, {{"axis", axis}}, parts);
  } else {
    Write("Split", {x}, {{"axis", axis}, {"split", std::move(sizes)}}, parts);
  }
  return parts;
}

ValueId Replacement::Pick(ValueId x, std::int64_t index, std::int64_t axis) {
  return Write("Gather", {x, Number(index)}, {{"axis", axis}});
}

std::string Replacement::Name(std::string_view op) {
  return fmt::format("{}/{}_{}", node_.name, op, names_++);
}

ValueId Replacement::NewValue() {
  std::string name = Name("value");
  graph_.values.emplace_back().name = std::move(name);
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId Replacement::AddConstant(Constant constant) {
  const ValueId id = NewValue();
  Value& value = graph_.value(id);
  value.type = constant.type;
  value.dims = constant.dims;
  value.shape_known = true;
  value.constant = std::move(constant);
  return id;
}

ValueId Replacement::Number(std::int64_t value) {
  return AddConstant(MakeConstant<std::int64_t>(DataType::kInt64, {}, std::span(&value, 1)));
}

ValueId Replacement::Flag(bool value) {
  return AddConstant(MakeConstant<bool>(DataType::kBool, {}, std::span(&value, 1)));
}

ValueId Replacement::Ints(const std::vector<std::int64_t>& values) {
  return AddConstant(MakeConstant<std::int64_t>(
      DataType::kInt64, {static_cast<std::int64_t>(values.size())}, values));
}

ValueId Replacement::Sequence(std::vector<ValueId> elements) {
  const ValueId id = NewValue();
  FillSequence(id, std::move(elements));
  return id;
}

void Replacement::FillSequence(ValueId id, std::vector<ValueId> elements) {
  const Status charged = budget_.Charge(elements.size() * sizeof(ValueId), "a sequence");
  if (!charged && charged_) charged_ = tl::unexpected(context_.Named(charged.error()));
  graph_.value(id).kind = ValueKind::kSequence;
  graph_.value(id).elements = std::move(elements);
}

void Replacement::SetOutput(std::size_t i, ValueId value) {
  if (context_.has_output(i)) Write("Identity", {value}, {}, {node_.outputs[i]});
}

void Replacement::SetSequence(std::size_t i, std::vector<ValueId> elements) {
  if (context_.has_output(i)) FillSequence(node_.outputs[i], std::move(elements));
}

void Replacement::SetNothing(std::size_t i) {
  if (context_.has_output(i)) graph_.value(node_.outputs[i]).kind = ValueKind::kNothing;
}

ValueId Replacement::CopyValue(const Graph& body, ValueId id, const std::string& prefix) {
  const bool constant = body.value(id).constant.has_value();
  if (constant) {
    const auto& known = constants_[&body];
    if (const auto found = known.find(id); found != known.end()) return found->second;
  }
  Value value = body.value(id);
  value.name.insert(0, prefix);
  graph_.values.push_back(std::move(value));
  const auto copy = static_cast<ValueId>(graph_.values.size() - 1);
  if (constant) constants_[&body].emplace(id, copy);
  return copy;
}

Result<std::vector<ValueId>> Replacement::Splice(const Graph& body,
                                                 std::span<const ValueId> arguments,
                                                 std::string_view label) {
  if (arguments.size() != body.inputs.size()) {
    return context_.Invalid(fmt::format("the graph {} has {} inputs, gets {}", label,
                                        body.inputs.size(), arguments.size()));
  }
  const std::string prefix = fmt::format("{}/{}/", node_.name, label);
  std::unordered_map<ValueId, ValueId> copies;  // by the body's values
  for (std::size_t i = 0; i < arguments.size(); ++i) copies.emplace(body.inputs[i], arguments[i]);
  const auto copy = [&](ValueId id) {
    ++unrolled_.edges;
    if (id == kNoValue) return kNoValue;
    const auto [place, is_new] = copies.emplace(id, kNoValue);
    if (is_new) place->second = CopyValue(body, id, prefix);
    return place->second;
  };
  const std::size_t values = graph_.values.size();
  unrolled_.edges += arguments.size();
  for (const Node& node : body.nodes) {
    Node& added = nodes_.emplace_back(node);
    added.name.insert(0, prefix);
    for (ValueId& id : added.inputs) id = copy(id);
    for (ValueId& id : added.outputs) id = copy(id);
  }
  std::vector<ValueId> results;
  for (const ValueId output : body.outputs) results.push_back(copy(output));
  unrolled_.nodes += body.nodes.size();
  const std::size_t bytes = body.nodes.size() * (sizeof(Node) + prefix.size()) +
                            (graph_.values.size() - values) * (sizeof(Value) + prefix.size());
  if (const Status charged = budget_.Charge(bytes, "copies of its graph"); !charged) {
    return tl::unexpected(context_.Named(charged.error()));
  }
  if (unrolled_.nodes > kMaxGraphNodes || unrolled_.edges > kMaxGraphEdges) {
    return tl::unexpected(context_.Named(
        {ErrorCode::kResourceExhausted,
         fmt::format("the branches and steps of all sub-graphs have more than {} nodes, or more "
                     "than {} inputs and outputs",
                     kMaxGraphNodes, kMaxGraphEdges)}));
  }
  if (unrolled_.before + unrolled_.nodes > kMaxLoopNodes) {
    return tl::unexpected(context_.Named(
        {ErrorCode::kResourceExhausted,
         fmt::format(
             "the branches and steps of all sub-graphs have more than {} nodes in all parts "
             "of the model",
             kMaxLoopNodes)}));
  }
  return results;
}

tl::unexpected<Error> CannotUnroll(const OpContext& context, std::string_view why) {
  return context.Unimplemented(fmt::format(
      "{}; a loop must have a number of steps that follows from constants and shapes", why));
}

}  // namespace lagoon
