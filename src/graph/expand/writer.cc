#include "graph/expand/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "graph/import/tensor_import.h"
#include "plan/element.h"

namespace lagoon {
Writer::Writer(Graph& graph, Node& node, ByteBudget& budget, Infer infer, ValueId* missing)
    : graph_(graph),
      node_(node),
      context_(graph, node, missing),
      budget_(budget),
      infer_(std::move(infer)),
      first_node_(graph.nodes.size()),
      first_value_(graph.values.size()) {}

void Writer::Need(std::initializer_list<std::size_t> inputs) {
  for (const std::size_t i : inputs) {
    if (In(i) == kNoValue) Refuse(context_.Invalid(fmt::format("input {} is left out", i)));
  }
}

DataType Writer::TypeOf(ValueId value) const {
  return value == kNoValue ? DataType::kFloat32 : graph_.value(value).type;
}

Dims Writer::DimsOf(ValueId value) const {
  return value == kNoValue ? Dims{} : graph_.value(value).dims;
}

std::int64_t Writer::Dim(ValueId value, std::int64_t axis) const {
  const Dims dims = DimsOf(value);
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? dims[static_cast<std::size_t>(axis)] : 1;
}

const Constant* Writer::ConstantOf(ValueId value) const {
  if (value == kNoValue || !graph_.value(value).constant) return nullptr;
  return &*graph_.value(value).constant;
}

std::string Writer::Name(std::string_view op) {
  return fmt::format("{}/{}_{}", node_.name, op, names_++);
}

ValueId Writer::NewValue(const std::string& name) {
  graph_.values.emplace_back().name = name;
  return static_cast<ValueId>(graph_.values.size() - 1);
}

std::vector<ValueId> Writer::Nodes(const std::string& op, std::vector<ValueId> inputs,
                                   Attributes attributes, std::size_t count) {
  if (!status_) return std::vector<ValueId>(count, kNoValue);
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  for (ValueId& input : inputs) {
    if (const auto renamed = renamed_.find(input); renamed != renamed_.end()) {
      input = renamed->second;
    }
  }
  Node node;
  node.name = Name(op);
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.opset = kMaxOpset;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string suffix = i == 0 ? "" : fmt::format(".{}", i);
    node.outputs.push_back(NewValue(node.name + suffix));
  }
  std::vector<ValueId> outputs = node.outputs;
  Check(infer_(std::move(node)));
  return status_ ? outputs : std::vector<ValueId>(count, kNoValue);
}

ValueId Writer::Op(const std::string& op, std::vector<ValueId> inputs, Attributes attributes) {
  return Nodes(op, std::move(inputs), std::move(attributes), 1)[0];
}

ValueId Writer::Scaled(ValueId x, double factor) {
  return factor == 1 ? x : Mul(x, Number(factor, TypeOf(x)));
}

ValueId Writer::Shifted(ValueId x, double term) {
  return term == 0 ? x : Add(x, Number(term, TypeOf(x)));
}

ValueId Writer::Transpose(ValueId x, std::vector<std::int64_t> perm) {
  return Op("Transpose", {x}, {{"perm", std::move(perm)}});
}

ValueId Writer::Unsqueeze(ValueId x, const std::vector<std::int64_t>& axes) {
  return Op("Unsqueeze", {x, Ints(axes)});
}

ValueId Writer::Concat(std::vector<ValueId> parts, std::int64_t axis) {
  return Op("Concat", std::move(parts), {{"axis", axis}});
}

std::vector<ValueId> Writer::Split(ValueId x, const std::vector<std::int64_t>& sizes,
                                   std::int64_t axis) {
  const std::size_t count = sizes.size();
  return Nodes("Split", {x, Ints(sizes)}, {{"axis", axis}}, count);
}

ValueId Writer::Slice(ValueId x, std::int64_t axis, std::int64_t from, std::int64_t to) {
  return Op("Slice", {x, Ints({from}), Ints({to}), Ints({axis})});
}

ValueId Writer::Cast(ValueId x, DataType type) {
  return TypeOf(x) == type ? x : Op("Cast", {x}, {{"to", ToOnnxType(type)}});
}

ValueId Writer::SwapLastAxes(ValueId x) {
  std::vector<std::int64_t> perm(RankOf(x));
  if (perm.size() < 2) {
    Refuse(context_.Invalid("transposes a vector"));
    return kNoValue;
  }
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return Transpose(x, std::move(perm));
}

ValueId Writer::Number(double value, DataType type) {
  if (!status_) return kNoValue;
  if (type == DataType::kString) type = DataType::kFloat32;
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) {
    const T element = ConvertElement<T>(value);
    auto bytes = std::make_shared<std::vector<std::byte>>(sizeof(T));
    std::memcpy(bytes->data(), &element, sizeof(T));
    return AddConstant({type, {}, std::move(bytes)});
  });
}

ValueId Writer::Ints(const std::vector<std::int64_t>& values) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
  return AddConstant(
      {DataType::kInt64, {static_cast<std::int64_t>(values.size())}, std::move(bytes)});
}

std::shared_ptr<std::vector<std::byte>> Writer::Allocate(DataType type, const Dims& dims) {
  if (!status_) return nullptr;
  const Result<std::size_t> bytes = context_.Bytes(dims, type);
  if (!bytes) {
    Refuse(tl::unexpected(bytes.error()));
    return nullptr;
  }
  Check(budget_.Charge(*bytes, fmt::format("node {}: a constant", Quoted(node_.name))));
  if (status_ && from_request()) Check(graph_.work.Charge(*bytes));
  return status_ ? std::make_shared<std::vector<std::byte>>(*bytes) : nullptr;
}

ValueId Writer::AddConstant(Constant constant) {
  if (!status_) return kNoValue;
  const ValueId id = NewValue(Name("Constant"));
  Value& value = graph_.value(id);
  value.type = constant.type;
  value.dims = constant.dims;
  value.shape_known = true;
  value.constant = std::move(constant);
  value.from_request = from_request();
  return id;
}

/// Whether a request decides what the node reads, and so perhaps its constants.
bool Writer::from_request() const {
  return std::ranges::any_of(
      node_.inputs, [&](ValueId id) { return id != kNoValue && graph_.value(id).from_request; });
}

Node* Writer::MakerOf(ValueId value) {
  for (std::size_t i = first_node_; i < graph_.nodes.size(); ++i) {
    const std::vector<ValueId>& outputs = graph_.nodes[i].outputs;
    if (std::find(outputs.begin(), outputs.end(), value) != outputs.end()) return &graph_.nodes[i];
  }
  return nullptr;
}

void Writer::Replace(ValueId value, ValueId by) {
  for (std::size_t i = first_node_; i < graph_.nodes.size(); ++i) {
    Node& node = graph_.nodes[i];
    std::replace(node.inputs.begin(), node.inputs.end(), value, by);
    std::replace(node.outputs.begin(), node.outputs.end(), value, by);
  }
}

void Writer::SetOutput(std::size_t i, ValueId value) {
  if (!status_ || !HasOutput(i) || value == kNoValue) return;
  if (const auto renamed = renamed_.find(value); renamed != renamed_.end()) {
    value = renamed->second;
  }
  const bool own = static_cast<std::size_t>(value) >= first_value_ && MakerOf(value) != nullptr;
  if (!own) value = Op("Identity", {value});
  if (!status_) return;
  const ValueId output = node_.outputs[i];
  const std::string name = graph_.value(output).name;
  graph_.value(output) = graph_.value(value);
  graph_.value(output).name = name;
  Replace(value, output);
  renamed_.emplace(value, output);
}

void Writer::Refuse(tl::unexpected<Error> error) {
  if (status_) status_ = std::move(error);
}

void Writer::Check(const Status& status) {
  if (status_ && !status) status_ = status;
}

}  // namespace lagoon
