#include "ort/capability.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "graph/onnx_model.h"
#include "local/memory_file.h"
#include "ort/api.h"
#include "ort/graph_to_model.h"
#include "ort/partition.h"
#include "program/parts.h"

namespace lagoon::plugin {
namespace {

/// Most parts of a model that is claimed. A later part is imported with made-up shapes.
constexpr std::size_t kMostPartsTried = 8;

// Whether the model might be imported for some contents of the inputs `deciding`: they are ones
// here. A complaint about these contents does not count; another one holds for all contents.
Status TryWithOnes(const OnnxModel& model, const lagoon::GraphInputs& inputs,
                   const std::vector<std::size_t>& deciding) {
  lagoon::GraphInputs ones;
  ones.dims = inputs.dims;
  ones.work = inputs.work;
  for (const std::size_t input : deciding) {
    const DataType type = model.inputs()[input].type;
    const auto count = static_cast<std::size_t>(ElementCount(inputs.dims[input]));
    std::vector<std::byte> bytes(count * SizeOf(type));
    if (IsInteger(type) || type == DataType::kBool) {
      for (std::size_t i = 0; i < count; ++i) bytes[i * SizeOf(type)] = std::byte{1};
    }
    ones.values.emplace(input, AsConstant(type, {inputs.dims[input], bytes}));
  }
  const auto part = model.Instantiate(ones);
  if (part || part.error().code != ErrorCode::kUnimplemented) return {};
  return tl::unexpected<Error>(part.error());
}

// Whether the model can be imported for these inputs. An input whose contents decide shapes does
// not stand against it: the contents come with the run.
Status TryImport(const OnnxModel& model, const lagoon::GraphInputs& inputs, std::size_t parts) {
  std::vector<std::size_t> deciding;
  auto part = model.Instantiate(inputs, &deciding);
  if (!part) {
    if (!deciding.empty()) return TryWithOnes(model, inputs, deciding);
    return tl::unexpected<Error>(std::move(part).error());
  }
  if (!part->links.next) return {};
  const NextPart& next = *part->links.next;
  if (parts == 0) return tl::unexpected<Error>(next.why);
  return TryImport(*next.model, next.model->DefaultInputs(), parts - 1);
}

using OwnedGraph = std::unique_ptr<Graph, void (*)(Graph*)>;

OwnedGraph ViewOf(const Graph* graph, std::vector<const Node*> nodes) {
  Graph* view = nullptr;
  TheApi().Do<GraphView>(graph, nodes.data(), nodes.size(), &view);
  return {view, [](Graph* owned) { TheApi().table().Call<ReleaseGraph>(owned); }};
}

Status CanRunNodes(const Graph* graph, const std::vector<const Node*>& nodes) {
  const OwnedGraph view = ViewOf(graph, nodes);
  try {
    return CanRun(ConvertGraph(view.get()).bytes);
  } catch (const Failed& failed) {
    return Fail(ErrorCode::kUnimplemented, failed.message);
  }
}

std::string LabelOf(const Node* node) {
  const Api& api = TheApi();
  return fmt::format("node '{}' ({})", api.Get<NodeName, const char*>(node),
                     api.Get<NodeOp, const char*>(node));
}

// The nodes with what they read, each tried by itself. `missing`: the first reason against one.
std::vector<PartitionNode> TryNodes(const Graph* graph, const std::vector<const Node*>& nodes,
                                    std::string& missing) {
  const Api& api = TheApi();
  std::map<std::string, std::size_t> makers;
  std::vector<PartitionNode> tried(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto read = [&](const ValueInfo* value) {
      if (value == nullptr) return;
      const auto maker = makers.find(api.Get<ValueInfoName, const char*>(value));
      if (maker != makers.end()) tried[i].inputs.push_back(maker->second);
    };
    for (const ValueInfo* value : api.All<NodeInputCount, NodeInputs, ValueInfo>(nodes[i])) {
      read(value);
    }
    for (const ValueInfo* value : api.All<NodeOuterCount, NodeOuters, ValueInfo>(nodes[i])) {
      read(value);
    }
    for (const ValueInfo* value : api.All<NodeOutputCount, NodeOutputs, ValueInfo>(nodes[i])) {
      if (value != nullptr) makers[api.Get<ValueInfoName, const char*>(value)] = i;
    }
    const Status can = CanRunNodes(graph, {nodes[i]});
    tried[i].supported = can.has_value();
    if (!can && missing.empty()) {
      missing = fmt::format("{}: {}", LabelOf(nodes[i]), can.error().message);
    }
  }
  return tried;
}

}  // namespace

Status CanRun(const std::string& model) {
  LAGOON_ASSIGN_OR_RETURN(const MemoryFile file,
                          MemoryFile::Create(std::as_bytes(std::span(model))));
  ImportOptions options;
  options.folder = "";  // constants are in the model
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<OnnxModel> read,
                          OnnxModel::Read(file.path(), options));
  if (read->HasUnknownOps()) {
    return Fail(ErrorCode::kUnimplemented, "an op that Lagoon does not have");
  }
  std::vector<lagoon::GraphInputs> tries;
  tries.push_back(read->DefaultInputs());
  for (lagoon::GraphInputs& guess : read->Guesses()) tries.push_back(std::move(guess));
  Status last;
  for (const lagoon::GraphInputs& inputs : tries) {
    last = TryImport(*read, inputs, kMostPartsTried);
    if (last || !read->open()) return last;
  }
  return last;
}

Claim ChooseNodes(const Graph* graph, const SessionSettings& settings) {
  const Api& api = TheApi();
  Claim claim;
  // A body that is claimed apart from its node makes an invalid graph.
  if (api.Get<GraphParent, const Node*>(graph) != nullptr) return claim;
  const std::vector<const Node*> nodes = api.All<GraphNodeCount, GraphNodes, Node>(graph);
  claim.nodes = nodes.size();
  if (nodes.empty()) return claim;
  const Status whole = CanRunNodes(graph, nodes);
  if (whole) {
    claim.groups.push_back(nodes);
    claim.claimed = nodes.size();
    return claim;
  }
  if (!settings.partition || nodes.size() <= settings.min_nodes) {
    claim.missing = whole.error().message;
    return claim;
  }
  const std::vector<PartitionNode> tried = TryNodes(graph, nodes, claim.missing);
  if (claim.missing.empty()) claim.missing = whole.error().message;
  for (const std::vector<std::size_t>& group :
       Partition(tried, {settings.min_nodes, settings.max_parts})) {
    std::vector<const Node*> some;
    for (const std::size_t node : group) some.push_back(nodes[node]);
    if (!CanRunNodes(graph, some)) continue;  // one by one they can, together they cannot
    claim.claimed += some.size();
    claim.groups.push_back(std::move(some));
  }
  return claim;
}

}  // namespace lagoon::plugin
