#include <fmt/format.h>

#include <string_view>

#include "base/text.h"
#include "graph/cut/cut.h"
#include "graph/import/proto_index.h"

namespace lagoon {
namespace {

constexpr std::size_t kNoPart = static_cast<std::size_t>(-1);

Status RefuseBodies(const onnx::GraphProto& graph, const ProtoIndex& index, std::int64_t opset) {
  for (const int node : index.order) {
    for (const onnx::AttributeProto& attribute : graph.node(node).attribute()) {
      if (!attribute.has_g() && attribute.graphs_size() == 0) continue;
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("{} has a body of its own; Lagoon cuts only files without If, Loop "
                              "and Scan",
                              NodeLabel(graph.node(node), node, opset)));
    }
  }
  return {};
}

class Sharing {
 public:
  Sharing(const onnx::GraphProto& graph, const ProtoIndex& index)
      : graph_(graph), index_(index), part_(Count(), kNoPart), constant_(Count(), false) {
    for (const int node : index.order) {
      for (const std::string& output : graph.node(node).output()) producers_[output] = node;
    }
    std::unordered_map<std::string_view, bool> inputs;
    for (const onnx::ValueInfoProto& input : graph.input()) {
      if (!index.initialisers.contains(input.name())) inputs[input.name()] = true;
    }
    for (const int node : index.order) {
      // A node without inputs may draw at random, and two copies would draw different numbers.
      bool all = graph.node(node).input_size() > 0 || graph.node(node).op_type() == "Constant";
      for (const std::string& input : graph.node(node).input()) {
        const auto producer = producers_.find(input);
        all = all && !inputs.contains(input) &&
              (producer == producers_.end() || constant_[At(producer->second)]);
      }
      constant_[At(node)] = all;
    }
  }

  /// Gives the part the nodes that compute the value `name` and are in no part yet.
  void Take(std::string_view name, std::size_t part) {
    std::vector<std::string_view> open = {name};
    while (!open.empty()) {
      const auto producer = producers_.find(open.back());
      open.pop_back();
      if (producer == producers_.end()) continue;
      const int node = producer->second;
      if (constant_[At(node)] || part_[At(node)] != kNoPart) continue;
      part_[At(node)] = part;
      for (const std::string& input : graph_.node(node).input()) open.push_back(input);
    }
  }

  PartNodes Finish(std::size_t parts) {
    PartNodes shared;
    shared.nodes.resize(parts);
    for (const int node : index_.order) {
      if (constant_[At(node)]) continue;
      const std::size_t part = part_[At(node)];
      shared.nodes[part == kNoPart ? parts - 1 : part].push_back(node);
    }
    shared.constant = std::move(constant_);
    return shared;
  }

 private:
  static std::size_t At(int node) { return static_cast<std::size_t>(node); }
  std::size_t Count() const { return static_cast<std::size_t>(graph_.node_size()); }

  const onnx::GraphProto& graph_;
  const ProtoIndex& index_;
  std::unordered_map<std::string_view, int> producers_;
  std::vector<std::size_t> part_;
  std::vector<bool> constant_;
};

}  // namespace

Result<PartNodes> ShareNodes(const onnx::GraphProto& graph, std::int64_t opset,
                             std::span<const CutPoint> cuts) {
  LAGOON_ASSIGN_OR_RETURN(const ProtoIndex index, IndexGraph(graph, opset));
  LAGOON_RETURN_IF_ERROR(RefuseBodies(graph, index, opset));
  Sharing sharing(graph, index);
  for (std::size_t part = 0; part < cuts.size(); ++part) {
    for (const std::string& name : cuts[part].complete) sharing.Take(name, part);
  }
  PartNodes shared = sharing.Finish(cuts.size() + 1);
  for (std::size_t part = 0; part < shared.nodes.size(); ++part) {
    if (!shared.nodes[part].empty()) continue;
    const std::string until =
        part < cuts.size() ? "which ends after " + cuts[part].after : "the last one";
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("part {} of {}, {}, has no node of the file: its kernels compute only "
                            "what Lagoon has joined with nodes of other parts; cut elsewhere or "
                            "into fewer parts",
                            part + 1, shared.nodes.size(), until));
  }
  return shared;
}

}  // namespace lagoon
