#include "graph/import/proto_index.h"

#include <fmt/format.h>

#include <functional>
#include <queue>
#include <unordered_set>

#include "base/text.h"

namespace lagoon {
namespace {

constexpr int kNoNode = -1;  // for an input or an initialiser

using Names = std::unordered_set<std::string_view>;

// Adds the names that `graph` reads and does not define, each once, to `free` in order.
void AddFreeNames(const onnx::GraphProto& graph, Names& seen, std::vector<std::string_view>& free) {
  Names defined;
  for (const onnx::ValueInfoProto& input : graph.input()) defined.insert(input.name());
  for (const onnx::TensorProto& tensor : graph.initializer()) defined.insert(tensor.name());
  for (const onnx::NodeProto& node : graph.node()) {
    defined.insert(node.output().begin(), node.output().end());
  }
  const auto read = [&](std::string_view name) {
    if (!name.empty() && !defined.contains(name) && seen.insert(name).second) free.push_back(name);
  };
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& name : node.input()) read(name);
    for (const std::string_view name : NamesCapturedBy(node)) read(name);
  }
  for (const onnx::ValueInfoProto& output : graph.output()) read(output.name());
}

class Indexer {
 public:
  Indexer(const onnx::GraphProto& graph, std::int64_t opset, GraphKind kind)
      : graph_(graph), opset_(opset), kind_(kind) {}

  Result<ProtoIndex> Run() {
    for (const onnx::NodeProto& node : graph_.node()) captured_.push_back(NamesCapturedBy(node));
    LAGOON_RETURN_IF_ERROR(DefineInputs());
    LAGOON_RETURN_IF_ERROR(DefineOutputs());
    LAGOON_RETURN_IF_ERROR(MarkNeeded());
    LAGOON_RETURN_IF_ERROR(Sort());
    return std::move(index_);
  }

 private:
  std::string Label(int node) const { return NodeLabel(graph_.node(node), node, opset_); }

  std::vector<std::string_view> Reads(int node) const {
    std::vector<std::string_view> names = captured_[static_cast<std::size_t>(node)];
    for (const std::string& name : graph_.node(node).input()) {
      if (!name.empty()) names.push_back(name);
    }
    return names;
  }

  /// The node that computes `name`; kNoNode if a node of this graph does not.
  int Producer(std::string_view name) const {
    const auto found = producers_.find(name);
    return found == producers_.end() ? kNoNode : found->second;
  }

  Status DefineInputs() {
    for (const onnx::ValueInfoProto& input : graph_.input()) {
      if (input.name().empty()) return Fail(ErrorCode::kInvalidArgument, "an input has no name");
      if (!producers_.emplace(input.name(), kNoNode).second) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("input {} is defined twice", Quoted(input.name())));
      }
    }
    for (int i = 0; i < graph_.initializer_size(); ++i) {
      const std::string& name = graph_.initializer(i).name();
      if (!index_.initialisers.emplace(name, i).second) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("initialiser {} is defined twice", Quoted(name)));
      }
      producers_.emplace(name, kNoNode);  // may also be an input, whose default it then is
    }
    return {};
  }

  Status DefineOutputs() {
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (const std::string& name : graph_.node(i).output()) {
        if (name.empty()) continue;
        if (!producers_.emplace(name, i).second) {
          return Fail(ErrorCode::kInvalidArgument,
                      fmt::format("{}: output {} is defined twice", Label(i), Quoted(name)));
        }
      }
    }
    return {};
  }

  Status MarkNeeded() {
    needed_.assign(static_cast<std::size_t>(graph_.node_size()), false);
    std::vector<int> open;
    const auto need = [&](std::string_view name) {
      index_.read.insert(name);
      if (!producers_.contains(name)) return kind_ == GraphKind::kBody;
      const int producer = Producer(name);
      if (producer != kNoNode && !needed_[static_cast<std::size_t>(producer)]) {
        needed_[static_cast<std::size_t>(producer)] = true;
        open.push_back(producer);
      }
      return true;
    };
    for (const onnx::ValueInfoProto& output : graph_.output()) {
      if (!need(output.name())) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("nothing defines output {}", Quoted(output.name())));
      }
    }
    while (!open.empty()) {
      const int node = open.back();
      open.pop_back();
      for (const std::string_view name : Reads(node)) {
        if (need(name)) continue;
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}: nothing defines input {}", Label(node), Quoted(name)));
      }
    }
    return {};
  }

  // Kahn's algorithm; of the ready nodes, the first one in the file goes first.
  Status Sort() {
    std::vector<std::vector<int>> readers(needed_.size());
    std::vector<int> missing(needed_.size(), 0);
    std::size_t left = 0;
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (!needed_[static_cast<std::size_t>(i)]) continue;
      ++left;
      for (const std::string_view name : Reads(i)) {
        const int producer = Producer(name);
        if (producer == kNoNode) continue;
        readers[static_cast<std::size_t>(producer)].push_back(i);
        ++missing[static_cast<std::size_t>(i)];
      }
      if (missing[static_cast<std::size_t>(i)] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const int node = ready.top();
      ready.pop();
      index_.order.push_back(node);
      for (const int reader : readers[static_cast<std::size_t>(node)]) {
        if (--missing[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
      }
    }
    if (index_.order.size() == left) return {};
    int stuck = 0;
    while (missing[static_cast<std::size_t>(stuck)] == 0) ++stuck;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is on a cycle or behind one", Label(stuck)));
  }

  const onnx::GraphProto& graph_;
  std::int64_t opset_;
  GraphKind kind_;
  std::vector<std::vector<std::string_view>> captured_;  // by node
  std::unordered_map<std::string_view, int> producers_;
  std::vector<bool> needed_;
  ProtoIndex index_;
};

}  // namespace

Result<ProtoIndex> IndexGraph(const onnx::GraphProto& graph, std::int64_t opset, GraphKind kind) {
  return Indexer(graph, opset, kind).Run();
}

std::vector<std::string_view> NamesCapturedBy(const onnx::NodeProto& node) {
  Names seen;
  std::vector<std::string_view> free;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) AddFreeNames(attribute.g(), seen, free);
  }
  return free;
}

std::string NodeName(const onnx::NodeProto& node, int index) {
  return node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : node.name();
}

std::string NodeLabel(const onnx::NodeProto& node, int index, std::int64_t opset) {
  return fmt::format("node {} ({}, opset {})", Quoted(NodeName(node, index)), Shown(node.op_type()),
                     opset);
}

}  // namespace lagoon
