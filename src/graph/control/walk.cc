#include "graph/control/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "graph/ops/infer.h"

namespace lagoon {
namespace {

std::size_t Index(ValueId id) { return static_cast<std::size_t>(id); }

/// The inputs that the node reads for certain: only one of the branches of an If runs.
std::span<const ValueId> Needs(const Node& node) {
  return node.op == "If" ? node.formal_inputs() : std::span<const ValueId>(node.inputs);
}

}  // namespace

Status GraphWalk::Run() {
  std::vector<Node> nodes = std::exchange(graph_.nodes, {});
  graph_.nodes.reserve(nodes.size());
  for (const ValueId output : graph_.outputs) Demand(output);
  DemandUnread(nodes);
  DemandInputs(nodes);
  Push(std::move(nodes));
  if (later_ != nullptr) unrolled_.before = later_->unrolled;
  while (!todo_.empty()) {
    Node node = std::move(todo_.back());
    todo_.pop_back();
    Node kept = node;
    missing_ = kNoValue;
    may_be_opaque_ = true;
    Status stepped = Step(std::move(node));
    if (stepped || Postpone(kept, stepped) || TakeOpaque(kept, stepped)) continue;
    return stepped;
  }
  TakeLaterNodes();
  return CheckOutputs();
}

bool GraphWalk::TakeOpaque(const Node& node, const Status& status) {
  if (graph_.engine == nullptr || status.error().code != ErrorCode::kUnimplemented) return false;
  if (!may_be_opaque_) return false;
  const Assume assume = later_ == nullptr ? Assume::kAllowed : later_->assume;
  const Result<bool> taken = AppendOpaque(graph_, node, status.error(), assume);
  if (later_ == nullptr) return taken.has_value();
  if (!taken) {
    later_->engine = tl::unexpected(taken.error());
    return false;
  }
  later_->assumed = later_->assumed || *taken;
  return true;
}

bool GraphWalk::IsLater(ValueId id) const {
  if (id == kNoValue) return false;
  if (Index(id) < is_later_.size() && is_later_[Index(id)]) return true;
  const Value& value = graph_.value(id);
  return value.sizes != kNoValue || value.unsized ||
         std::ranges::any_of(value.elements, [&](ValueId element) { return IsLater(element); });
}

bool GraphWalk::ReadsLater(const Node& node) const {
  return later_ != nullptr &&
         std::ranges::any_of(Needs(node), [&](ValueId id) { return IsLater(id); });
}

bool GraphWalk::Postpone(Node node, const Status& status) {
  may_be_opaque_ = missing_ == kNoValue;
  const bool full = std::exchange(unrolled_.full, false);
  if (later_ == nullptr) return false;
  if (!full && !ReadsLater(node)) {
    if (missing_ == kNoValue) return false;
    const Knows who = later_->who_knows(node, missing_);
    may_be_opaque_ = who == Knows::kNeither;
    if (who != Knows::kLaterPart) return false;
  }
  if (later_->why) later_->why = status;
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    if (is_later_.size() < graph_.values.size()) is_later_.resize(graph_.values.size(), false);
    is_later_[Index(output)] = true;
  }
  waiting_.push_back(std::move(node));
  return true;
}

void GraphWalk::TakeLaterNodes() {
  if (later_ == nullptr) return;
  later_->unrolled += unrolled_.nodes;
  std::vector<bool> needed(graph_.values.size(), false);
  const auto need = [&](ValueId id) {
    std::vector<ValueId> open{id};
    while (!open.empty()) {
      const ValueId next = open.back();
      open.pop_back();
      if (next == kNoValue || needed[Index(next)]) continue;
      needed[Index(next)] = true;
      const std::vector<ValueId>& elements = graph_.value(next).elements;
      open.insert(open.end(), elements.begin(), elements.end());
    }
  };
  std::ranges::for_each(graph_.outputs, need);
  for (auto node = waiting_.rbegin(); node != waiting_.rend(); ++node) {
    const bool used = std::ranges::any_of(
        node->outputs, [&](ValueId id) { return id != kNoValue && needed[Index(id)]; });
    if (!used) continue;
    std::ranges::for_each(node->inputs, need);
    later_->nodes.push_back(std::move(*node));
  }
  std::ranges::reverse(later_->nodes);
}

Status GraphWalk::Step(Node node) {
  if (!std::ranges::any_of(node.outputs, [&](ValueId id) { return Demanded(id); })) {
    Wait(std::move(node));
    return {};
  }
  // Run() takes it out of the graph.
  if (ReadsLater(node)) {
    for (const ValueId input : node.inputs) {
      const Status actual = CheckDimsAreActual(graph_, input, "the node");
      if (!actual) return tl::unexpected(OpContext(graph_, node).Named(actual.error()));
    }
    return Fail(ErrorCode::kUnimplemented, "reads what a later node computes");
  }
  if (std::vector<Node> awaited = TakeAwaited(node); !awaited.empty()) {
    todo_.push_back(std::move(node));
    Push(std::move(awaited));
    return {};
  }
  if (const ControlOp* op = FindControlOp(node.op)) return Replace(node, *op);
  for (const ValueId input : node.inputs) {
    if (input == kNoValue || graph_.value(input).kind == ValueKind::kTensor) continue;
    if (node.op == "Identity") return Replace(node, *FindControlOp("Optional"));
    return OpContext(graph_, node, &missing_)
        .Unimplemented(fmt::format("input {} is a sequence or an optional, takes tensors",
                                   Quoted(graph_.value(input).name)));
  }
  return infer_(std::move(node), missing_);
}

Status GraphWalk::Replace(Node& node, const ControlOp& op) {
  const OpContext context(graph_, node, &missing_);
  if (node.op == op.signature.op) {
    LAGOON_RETURN_IF_ERROR(CheckSignature(context, op.signature));
  }
  if (node.formal_inputs().size() < op.signature.min_inputs) {
    return context.Invalid(fmt::format("has {} inputs, takes at least {}",
                                       node.formal_inputs().size(), op.signature.min_inputs));
  }
  for (const std::string& body : op.bodies) {
    if (node.bodies.contains(body)) continue;
    return context.Invalid(fmt::format("attribute {} is not a graph", Quoted(body)));
  }
  for (const auto& [body, graph] : node.bodies) {
    if (std::ranges::find(op.bodies, body) != op.bodies.end()) continue;
    return context.Unimplemented(
        fmt::format("attribute {} is a graph, which the op does not take", Quoted(body)));
  }
  Replacement replacement(graph_, node, &missing_, budget_, constants_, unrolled_);
  LAGOON_RETURN_IF_ERROR(op.replace(replacement));
  LAGOON_RETURN_IF_ERROR(replacement.charged());
  for (const ValueId id : replacement.awaited()) Demand(id);
  std::vector<Node> nodes = replacement.TakeNodes();
  DemandInputs(nodes);
  Push(std::move(nodes));
  return {};
}

void GraphWalk::Push(std::vector<Node> nodes) {
  if (todo_.empty()) todo_.reserve(nodes.size());
  todo_.insert(todo_.end(), std::make_move_iterator(nodes.rbegin()),
               std::make_move_iterator(nodes.rend()));
}

void GraphWalk::Demand(ValueId id) {
  if (id == kNoValue) return;
  if (demanded_.size() < graph_.values.size()) demanded_.resize(graph_.values.size(), false);
  demanded_[Index(id)] = true;
}

bool GraphWalk::Demanded(ValueId id) const {
  return id != kNoValue && Index(id) < demanded_.size() && demanded_[Index(id)];
}

void GraphWalk::DemandUnread(const std::vector<Node>& nodes) {
  std::vector<bool> read(graph_.values.size(), false);
  for (const Node& node : nodes) {
    for (const ValueId input : node.inputs) {
      if (input != kNoValue) read[Index(input)] = true;
    }
  }
  for (const ValueId output : graph_.outputs) read[Index(output)] = true;
  for (const Node& node : nodes) {
    const bool wanted = std::ranges::any_of(
        node.outputs, [&](ValueId id) { return id != kNoValue && read[Index(id)]; });
    if (wanted) continue;
    for (const ValueId output : node.outputs) Demand(output);
  }
}

void GraphWalk::DemandInputs(const std::vector<Node>& nodes) {
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!std::ranges::any_of(node->outputs, [&](ValueId id) { return Demanded(id); })) continue;
    for (const ValueId input : Needs(*node)) Demand(input);
  }
}

void GraphWalk::Wait(Node node) {
  for (const ValueId output : node.outputs) {
    if (output != kNoValue) waits_for_.emplace(output, waiting_.size());
  }
  waiting_.push_back(std::move(node));
}

std::vector<Node> GraphWalk::TakeAwaited(const Node& node) {
  std::vector<std::size_t> taken;
  std::vector<ValueId> open(Needs(node).begin(), Needs(node).end());
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    const auto found = waits_for_.find(id);
    if (found == waits_for_.end()) continue;
    const std::size_t index = found->second;
    taken.push_back(index);
    for (const ValueId output : waiting_[index].outputs) {
      waits_for_.erase(output);
      Demand(output);
    }
    const auto inputs = Needs(waiting_[index]);
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  std::ranges::sort(taken);
  std::vector<Node> nodes;
  for (const std::size_t index : taken) nodes.push_back(std::exchange(waiting_[index], Node{}));
  return nodes;
}

Status GraphWalk::CheckOutputs() const {
  for (const ValueId output : graph_.outputs) {
    const Value& value = graph_.value(output);
    if (value.kind == ValueKind::kTensor) continue;
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("output {} is a sequence or an optional, only tensors are supported",
                            Quoted(value.name)));
  }
  return {};
}

}  // namespace lagoon
