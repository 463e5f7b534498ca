#include "ort/capability.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "graph/onnx_model.h"
#include "local/memory_file.h"
#include "ort/api.h"
#include "ort/comparison.h"
#include "ort/graph_to_model.h"
#include "ort/partition.h"
#include "program/compile.h"
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
Status TryImport(const OnnxModel& model, const lagoon::GraphInputs& inputs, std::size_t parts,
                 ExpectedRun* expected) {
  std::vector<std::size_t> deciding;
  auto part = model.Instantiate(inputs, &deciding);
  if (!part) {
    if (!deciding.empty()) return TryWithOnes(model, inputs, deciding);
    return tl::unexpected<Error>(std::move(part).error());
  }
  if (!part->links.next) {
    if (expected == nullptr) return {};
    expected->dims = inputs.dims;
    LAGOON_ASSIGN_OR_RETURN(expected->time, EstimateTime(std::move(part->graph), "part"));
    return {};
  }
  const NextPart& next = *part->links.next;
  if (parts == 0) return tl::unexpected<Error>(next.why);
  return TryImport(*next.model, next.model->DefaultInputs(), parts - 1, nullptr);
}

using OwnedGraph = std::unique_ptr<Graph, void (*)(Graph*)>;

OwnedGraph ViewOf(const Graph* graph, std::vector<const Node*> nodes) {
  Graph* view = nullptr;
  TheApi().Do<GraphView>(graph, nodes.data(), nodes.size(), &view);
  return {view, [](Graph* owned) { TheApi().table().Call<ReleaseGraph>(owned); }};
}

std::string LabelOf(const Node* node) {
  const Api& api = TheApi();
  return fmt::format("node '{}' ({})", api.Get<NodeName, const char*>(node),
                     api.Get<NodeOp, const char*>(node));
}

// Until version 1.26, a fused node does not get the values that only the bodies of its nodes (If,
// Loop, Scan) read from around them, unless its own nodes make them.
Status CheckOuterValues(const std::vector<const Node*>& nodes) {
  constexpr int kAllValues = 27;
  if (TheOrtMinor() >= kAllValues) return {};
  const Api& api = TheApi();
  std::set<std::string> there;
  const auto add = [&](const ValueInfo* value) {
    if (value != nullptr) there.insert(api.Get<ValueInfoName, const char*>(value));
  };
  for (const Node* node : nodes) {
    for (const ValueInfo* v : api.All<NodeInputCount, NodeInputs, ValueInfo>(node)) add(v);
    for (const ValueInfo* v : api.All<NodeOutputCount, NodeOutputs, ValueInfo>(node)) add(v);
  }
  for (const Node* node : nodes) {
    for (const ValueInfo* v : api.All<NodeOuterCount, NodeOuters, ValueInfo>(node)) {
      const std::string name = v == nullptr ? "" : api.Get<ValueInfoName, const char*>(v);
      if (name.empty() || there.contains(name)) continue;
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("only the body of {} reads '{}', which ONNX Runtime 1.{} and newer "
                              "would hand over",
                              LabelOf(node), name, kAllValues));
    }
  }
  return {};
}

Status CanRunNodes(const Graph* graph, const std::vector<const Node*>& nodes,
                   ExpectedRun* expected = nullptr) {
  LAGOON_RETURN_IF_ERROR(CheckOuterValues(nodes));
  const OwnedGraph view = ViewOf(graph, nodes);
  try {
    const auto weights = std::make_shared<BorrowedWeights>();
    const ConvertedGraph converted = ConvertGraph(view.get(), weights.get());
    return CanRun(converted.bytes, weights, expected);
  } catch (const Failed& failed) {
    return Fail(ErrorCode::kUnimplemented, failed.message);
  }
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

Status CanRun(const std::string& model, std::shared_ptr<const WeightSource> weights,
              ExpectedRun* expected) {
  LAGOON_ASSIGN_OR_RETURN(const MemoryFile file,
                          MemoryFile::Create(std::as_bytes(std::span(model))));
  ImportOptions options;
  options.folder = "";
  options.weights = std::move(weights);
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<OnnxModel> read,
                          OnnxModel::Read(file.path(), options));
  if (read->HasUnknownOps()) {
    return Fail(ErrorCode::kUnimplemented, "an op that Lagoon does not have");
  }
  std::vector<lagoon::GraphInputs> tries = read->Guesses();
  // Open dims of 1 are tried first, because that is fast; but for a time they are too small.
  const auto place = expected == nullptr ? tries.begin() : tries.end();
  tries.insert(place, read->DefaultInputs());
  Status last;
  for (const lagoon::GraphInputs& inputs : tries) {
    last = TryImport(*read, inputs, kMostPartsTried, expected);
    if (last || !read->open()) return last;
  }
  return last;
}

namespace {

// Whether the session wants to know which of the two is faster, and ONNX Runtime is.
bool IsSlower(const Graph* graph, const std::vector<const Node*>& nodes,
              const ExpectedRun& expected, const SessionSettings& settings, LocalDevice& device) {
  if (settings.model.profile_runs == 0 || !expected.time) return false;
  const OwnedGraph view = ViewOf(graph, nodes);
  const std::optional<Comparison> times =
      Compare(view.get(), expected.dims, settings.model, device);
  return times && times->lagoon > times->onnx_runtime;
}

constexpr const char* kSlower = "measured (profile): it is slower on Lagoon";

}  // namespace

Claim ChooseNodes(const Graph* graph, const SessionSettings& settings, LocalDevice& device) {
  const Api& api = TheApi();
  Claim claim;
  // A body that is claimed apart from its node makes an invalid graph.
  if (api.Get<GraphParent, const Node*>(graph) != nullptr) return claim;
  const std::vector<const Node*> nodes = api.All<GraphNodeCount, GraphNodes, Node>(graph);
  claim.nodes = nodes.size();
  if (nodes.empty()) return claim;
  ExpectedRun expected;
  const Status whole =
      CanRunNodes(graph, nodes, settings.model.profile_runs > 0 ? &expected : nullptr);
  if (whole) {
    if (IsSlower(graph, nodes, expected, settings, device)) {
      claim.missing = kSlower;
      return claim;
    }
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
  struct Part {
    std::vector<const Node*> nodes;
    ExpectedRun expected;
    // A part whose time is not known may be long.
    Nanoseconds time() const { return expected.time.value_or(std::chrono::hours(1)); }
  };
  std::vector<Part> parts;
  for (const std::vector<std::size_t>& group : Partition(tried, settings.min_nodes)) {
    Part part;
    for (const std::size_t node : group) part.nodes.push_back(nodes[node]);
    // One by one they can, but perhaps not together.
    if (!CanRunNodes(graph, part.nodes, &part.expected)) continue;
    if (part.time() >= settings.min_time) parts.push_back(std::move(part));
  }
  std::ranges::stable_sort(parts, std::ranges::greater(), &Part::time);
  if (parts.size() > settings.max_parts) parts.resize(settings.max_parts);
  for (Part& part : parts) {
    if (IsSlower(graph, part.nodes, part.expected, settings, device)) continue;
    claim.claimed += part.nodes.size();
    claim.groups.push_back(std::move(part.nodes));
  }
  return claim;
}

}  // namespace lagoon::plugin
