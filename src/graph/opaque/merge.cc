// Neighbouring opaque nodes as one, as far as the result is convex.

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "graph/opaque/opaque.h"

namespace lagoon {
namespace {

std::size_t Index(ValueId id) { return static_cast<std::size_t>(id); }

bool MayMerge(const Node& node) { return node.opaque != nullptr && node.opaque->file.empty(); }

/// Puts two opaque nodes together. The second one may read what the first one computes.
class Joiner {
 public:
  void Add(const Node& node) {
    const OpaqueGraph& from = *node.opaque;
    std::unordered_map<ValueId, ValueId> inner;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto known = places_.find(node.inputs[i]);
      const bool is_new = known == places_.end();
      const ValueId place = is_new ? Copy(from, from.graph.inputs[i]) : known->second;
      inner.emplace(from.graph.inputs[i], place);
      if (!is_new) continue;
      places_.emplace(node.inputs[i], place);
      joined_.inputs.push_back(place);
      inputs_.push_back(node.inputs[i]);
    }
    const auto place = [&](ValueId id) {
      if (id == kNoValue) return kNoValue;
      const auto known = inner.find(id);
      return known == inner.end() ? inner.emplace(id, Copy(from, id)).first->second : known->second;
    };
    for (Node part : from.graph.nodes) {
      for (ValueId& id : part.inputs) id = place(id);
      for (ValueId& id : part.outputs) id = place(id);
      joined_.nodes.push_back(std::move(part));
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      places_.emplace(node.outputs[i], place(from.graph.outputs[i]));
      outputs_.push_back(node.outputs[i]);
    }
    ops_.insert(from.ops.begin(), from.ops.end());
    assumed_.insert(assumed_.end(), from.assumed.begin(), from.assumed.end());
    if (why_.empty()) why_ = from.why;
    joined_.opset = from.graph.opset;
    engine_ = from.engine;
    name_ += (name_.empty() ? "" : "+") + node.name;
  }

  /// `read`: by value of the graph, whether another node reads it or it is an output.
  Node Finish(const std::vector<bool>& read) {
    Node node;
    node.name = std::move(name_);
    node.op = kOpaqueOp;
    node.inputs = std::move(inputs_);
    for (const ValueId output : outputs_) {
      if (!read[Index(output)]) continue;
      node.outputs.push_back(output);
      joined_.outputs.push_back(places_.at(output));
    }
    auto opaque = std::make_shared<OpaqueGraph>();
    opaque->graph = std::move(joined_);
    opaque->ops.assign(ops_.begin(), ops_.end());
    opaque->why = std::move(why_);
    opaque->assumed = std::move(assumed_);
    opaque->engine = engine_;
    node.opaque = std::move(opaque);
    return node;
  }

 private:
  ValueId Copy(const OpaqueGraph& from, ValueId id) {
    joined_.values.push_back(from.graph.value(id));
    return static_cast<ValueId>(joined_.values.size() - 1);
  }

  Graph joined_;
  std::unordered_map<ValueId, ValueId> places_;  // in joined_, of values of the graph
  std::vector<ValueId> inputs_, outputs_;        // of the graph
  std::set<std::string> ops_;
  std::vector<std::string> assumed_;
  std::string why_, name_;
  std::shared_ptr<EngineHost> engine_;
};

/// The graph's nodes in topological order, and who reads whom.
class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph) {}

  void Run() {
    if (std::ranges::count_if(graph_.nodes, MayMerge) < 2) return;
    while (MergeOne()) {
    }
  }

 private:
  bool MergeOne() {
    FindReaders();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!MayMerge(graph_.nodes[i])) continue;
      for (const std::size_t j : readers_[i]) {
        if (!MayMerge(graph_.nodes[j]) || !SameOpset(i, j) || !Convex(i, j)) continue;
        Join(i, j);
        return true;
      }
    }
    return false;
  }

  void FindReaders() {
    std::vector<std::size_t> producers(graph_.values.size(), graph_.nodes.size());
    readers_.assign(graph_.nodes.size(), {});
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      std::set<std::size_t> sources;
      for (const ValueId input : graph_.nodes[i].inputs) {
        if (input != kNoValue && producers[Index(input)] < i) {
          sources.insert(producers[Index(input)]);
        }
      }
      for (const std::size_t source : sources) readers_[source].push_back(i);
      for (const ValueId output : graph_.nodes[i].outputs) {
        if (output != kNoValue) producers[Index(output)] = i;
      }
    }
  }

  bool SameOpset(std::size_t i, std::size_t j) const {
    return graph_.nodes[i].opaque->graph.opset == graph_.nodes[j].opaque->graph.opset;
  }

  /// The nodes between i and j that a path from i leads to.
  std::vector<bool> Between(std::size_t i, std::size_t j) const {
    std::vector<bool> reached(graph_.nodes.size(), false);
    reached[i] = true;
    for (std::size_t k = i; k < j; ++k) {
      if (!reached[k]) continue;
      for (const std::size_t reader : readers_[k]) reached[reader] = true;
    }
    return reached;
  }

  /// Whether no path from i to j leads through another node.
  bool Convex(std::size_t i, std::size_t j) const {
    const std::vector<bool> reached = Between(i, j);
    for (std::size_t k = i + 1; k < j; ++k) {
      if (reached[k] && std::ranges::find(readers_[k], j) != readers_[k].end()) return false;
    }
    return true;
  }

  void Join(std::size_t i, std::size_t j) {
    std::vector<bool> read(graph_.values.size(), false);
    for (const ValueId output : graph_.outputs) read[Index(output)] = true;
    for (std::size_t k = 0; k < graph_.nodes.size(); ++k) {
      if (k == i || k == j) continue;
      for (const ValueId input : graph_.nodes[k].inputs) {
        if (input != kNoValue) read[Index(input)] = true;
      }
    }
    Joiner joiner;
    joiner.Add(graph_.nodes[i]);
    joiner.Add(graph_.nodes[j]);
    // Nodes between the two that depend on i move behind the new node; the others stay before it.
    const std::vector<bool> after = Between(i, j);
    std::vector<Node> nodes, later;
    for (std::size_t k = 0; k < graph_.nodes.size(); ++k) {
      if (k == j) {
        nodes.push_back(joiner.Finish(read));
        std::ranges::move(later, std::back_inserter(nodes));
      } else if (k > i && k < j && after[k]) {
        later.push_back(std::move(graph_.nodes[k]));
      } else if (k != i) {
        nodes.push_back(std::move(graph_.nodes[k]));
      }
    }
    graph_.nodes = std::move(nodes);
  }

  Graph& graph_;
  std::vector<std::vector<std::size_t>> readers_;  // by node
};

}  // namespace

void MergeOpaque(Graph& graph) { Merger(graph).Run(); }

}  // namespace lagoon
