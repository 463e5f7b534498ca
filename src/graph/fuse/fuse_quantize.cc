// 8-bit quantisation of floats: a QuantizeLinear and the DequantizeLinear behind it become one
// FakeQuantize, an elementwise function that other nodes can apply.

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

constexpr float kLevels = 255;  // the greatest level minus the least

/// The floats that 8-bit integers stand for: scale * level, with levels from `low` to low + 255.
struct Grid {
  float scale = 1, low = 0;

  // clang-tidy sees a null pointer in the comparison that the compiler writes.
  friend auto operator<=>(const Grid&, const Grid&) = default;  // NOLINT(modernize-use-nullptr)
};

std::optional<float> OneFloat(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.constant || value.type != DataType::kFloat32 || ElementCount(value.dims) != 1) {
    return std::nullopt;
  }
  return value.constant->floats()[0];
}

/// The grid of a QuantizeLinear or DequantizeLinear between fp32 and one type of 8 bits, if the
/// scale and the zero point are constant numbers. `type`: of the integers.
std::optional<Grid> GridOf(const Graph& graph, const Node& node, DataType type) {
  if (node.Int("axis", -1) >= 0 || (type != DataType::kInt8 && type != DataType::kUInt8)) {
    return std::nullopt;
  }
  const std::optional<float> scale = OneFloat(graph, node.inputs[1]);
  if (!scale || !(*scale > 0) || *scale > std::numeric_limits<float>::max()) return std::nullopt;
  const bool is_signed = type == DataType::kInt8;
  const float least = is_signed ? -128 : 0;
  if (node.inputs.size() < 3 || node.inputs[2] == kNoValue) return Grid{*scale, least};
  const Value& zero = graph.value(node.inputs[2]);
  if (!zero.constant || zero.type != type || ElementCount(zero.dims) != 1) return std::nullopt;
  const auto byte = std::to_integer<std::uint8_t>((*zero.constant->bytes)[0]);
  const int point = is_signed ? static_cast<std::int8_t>(byte) : byte;
  return Grid{*scale, least - static_cast<float>(point)};
}

bool IsFloat32(const Graph& graph, ValueId id) {
  return graph.value(id).type == DataType::kFloat32;
}

Grid GridOf(const Node& fake) { return {fake.Float("scale", 1), fake.Float("low", 0)}; }

/// The node that computes each value.
std::vector<std::optional<std::size_t>> ProducersOf(const Graph& graph) {
  std::vector<std::optional<std::size_t>> producers(graph.values.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId output : graph.nodes[i].outputs) {
      if (output != kNoValue) producers[static_cast<std::size_t>(output)] = i;
    }
  }
  return producers;
}

/// How often each value is read. An output of the graph has two more uses.
std::vector<std::size_t> UsesOf(const Graph& graph) {
  std::vector<std::size_t> uses(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const ValueId input : node.inputs) {
      if (input != kNoValue) ++uses[static_cast<std::size_t>(input)];
    }
  }
  for (const ValueId output : graph.outputs) uses[static_cast<std::size_t>(output)] += 2;
  return uses;
}

/// True for ops that only move elements of input 0.
bool Moves(const Node& node) {
  constexpr std::array kOps{"Reshape",  "Transpose",    "Squeeze",     "Unsqueeze", "Flatten",
                            "Identity", "MaxPool",      "Slice",       "Split",     "Gather",
                            "Expand",   "DepthToSpace", "SpaceToDepth"};
  return std::find(kOps.begin(), kOps.end(), node.op) != kOps.end();
}

/// Readers of equal DequantizeLinear nodes read the first one of them.
void ShareDequantized(Graph& graph) {
  std::map<std::vector<ValueId>, ValueId> first;  // by inputs
  std::map<ValueId, ValueId> same;
  for (Node& node : graph.nodes) {
    for (ValueId& input : node.inputs) {
      if (const auto found = same.find(input); found != same.end()) input = found->second;
    }
    if (node.op != "DequantizeLinear" || !IsFloat32(graph, node.outputs[0]) ||
        !GridOf(graph, node, graph.value(node.inputs[0]).type)) {
      continue;
    }
    const ValueId y = node.outputs[0];
    const auto [found, is_new] = first.emplace(node.inputs, y);
    const bool is_output =
        std::find(graph.outputs.begin(), graph.outputs.end(), y) != graph.outputs.end();
    if (!is_new && !is_output) same[y] = found->second;
  }
}

/// Moves DequantizeLinear nodes up through nodes that only move elements, to the QuantizeLinear of
/// the same grid: the greatest of some integers, say, stands for the greatest of their floats.
class DequantizeEarlier {
 public:
  explicit DequantizeEarlier(Graph& graph)
      : graph_(graph), producers_(ProducersOf(graph)), uses_(UsesOf(graph)) {}

  void Run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op != "DequantizeLinear" || !IsFloat32(graph_, node.outputs[0])) continue;
      for (std::size_t at = i, steps = StepsToPair(node); steps > 0; --steps) at = StepUp(at);
    }
  }

 private:
  const Node* ProducerOf(ValueId value) const {
    const auto producer = producers_[static_cast<std::size_t>(value)];
    return producer ? &graph_.nodes[*producer] : nullptr;
  }
  /// The number of nodes between the node and a QuantizeLinear of the same grid; 0 without one.
  std::size_t StepsToPair(const Node& dequantize) const {
    ValueId x = dequantize.inputs[0];
    const DataType type = graph_.value(x).type;
    const std::optional<Grid> grid = GridOf(graph_, dequantize, type);
    if (!grid) return 0;
    for (std::size_t steps = 0;; ++steps) {
      const Node* const node = ProducerOf(x);
      if (node == nullptr || graph_.value(x).sizes != kNoValue) return 0;
      if (node->op == "QuantizeLinear") return GridOf(graph_, *node, type) == grid ? steps : 0;
      const bool alone = uses_[static_cast<std::size_t>(x)] == 1 && node->outputs.size() == 1;
      if (!alone || !Moves(*node)) return 0;
      x = node->inputs[0];
    }
  }
  /// Swaps the node with the one before it; returns its new place.
  std::size_t StepUp(std::size_t at) {
    Node& dequantize = graph_.nodes[at];
    const ValueId between = dequantize.inputs[0];
    const std::size_t before = *producers_[static_cast<std::size_t>(between)];
    Node& moving = graph_.nodes[before];
    // The value between the two nodes becomes the floats of the elements that are moved.
    graph_.value(between).type = DataType::kFloat32;
    graph_.value(between).dims = graph_.value(moving.inputs[0]).dims;
    std::swap(dequantize.outputs[0], moving.outputs[0]);
    std::swap(dequantize.inputs[0], moving.inputs[0]);
    std::swap(dequantize, moving);
    for (const std::size_t i : {before, at}) {
      producers_[static_cast<std::size_t>(graph_.nodes[i].outputs[0])] = i;
    }
    return before;
  }

  Graph& graph_;
  std::vector<std::optional<std::size_t>> producers_;  // by value
  const std::vector<std::size_t> uses_;                // by value
};

/// Turns DequantizeLinear nodes into FakeQuantize. Compact() drops a QuantizeLinear without reader.
void JoinPairs(Graph& graph) {
  const auto producers = ProducersOf(graph);
  for (Node& node : graph.nodes) {
    if (node.op != "DequantizeLinear" || !IsFloat32(graph, node.outputs[0])) continue;
    const std::optional<std::size_t> producer = producers[static_cast<std::size_t>(node.inputs[0])];
    if (!producer || graph.nodes[*producer].op != "QuantizeLinear") continue;
    const Node& quantize = graph.nodes[*producer];
    const DataType type = graph.value(node.inputs[0]).type;
    const std::optional<Grid> grid = GridOf(graph, node, type);
    if (!grid || grid != GridOf(graph, quantize, type)) continue;
    if (!IsFloat32(graph, quantize.inputs[0])) continue;
    node.op = "FakeQuantize";
    node.inputs = {quantize.inputs[0]};
    node.attributes = {{"scale", grid->scale}, {"low", grid->low}};
  }
}

/// Whether the op only moves elements: an elementwise function may run before or after it.
bool Rearranges(const Node& node) {
  constexpr std::array kOps{"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"};
  return std::find(kOps.begin(), kOps.end(), node.op) != kOps.end();
}

/// Relu or Clip with constant bounds as [low, high].
std::optional<std::pair<float, float>> LimitsOf(const Node& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (node.inputs.size() != 1) return std::nullopt;
  if (node.op == "Relu") return std::pair(0.0F, kInfinity);
  if (node.op != "Clip") return std::nullopt;
  return std::pair(node.Float("min", -kInfinity), node.Float("max", kInfinity));
}

/// True if no float of the grid is outside the limits. Then the limits also change no result of a
/// FakeQuantize behind them.
bool Holds(const std::pair<float, float>& limits, const Grid& grid) {
  return limits.first <= grid.scale * grid.low &&
         limits.second >= grid.scale * (grid.low + kLevels);
}

/// Drops nodes that cannot change a value, because an earlier FakeQuantize rounded it already.
class GridWalk {
 public:
  explicit GridWalk(Graph& graph)
      : graph_(graph), grids_(graph.values.size()), same_(graph.values.size()) {
    for (std::size_t i = 0; i < same_.size(); ++i) same_[i] = static_cast<ValueId>(i);
    is_output_.resize(graph.values.size(), false);
    for (const ValueId output : graph.outputs) is_output_[static_cast<std::size_t>(output)] = true;
  }

  void Run() {
    for (Node& node : graph_.nodes) {
      for (ValueId& input : node.inputs) {
        if (input != kNoValue) input = same_[static_cast<std::size_t>(input)];
      }
      if (node.op == "FakeQuantize") {
        VisitFake(node);
      } else if (const auto limits = LimitsOf(node)) {
        const std::optional<Grid> grid = GridAt(node.inputs[0]);
        if (grid && Holds(*limits, *grid)) Replace(node.outputs[0], node.inputs[0]);
      } else if (Moves(node)) {
        for (const ValueId output : node.outputs) SetGrid(output, GridAt(node.inputs[0]));
      } else if (node.op == "Concat") {
        VisitConcat(node);
      }
    }
  }

 private:
  std::optional<Grid> GridAt(ValueId id) const { return grids_[static_cast<std::size_t>(id)]; }
  void SetGrid(ValueId id, std::optional<Grid> grid) {
    if (id != kNoValue) grids_[static_cast<std::size_t>(id)] = grid;
  }
  /// Later nodes read `by` instead of `value`. A graph output stays.
  void Replace(ValueId value, ValueId by) {
    SetGrid(value, GridAt(by));
    if (!is_output_[static_cast<std::size_t>(value)]) same_[static_cast<std::size_t>(value)] = by;
  }
  void VisitFake(const Node& node) {
    const Grid grid = GridOf(node);
    const ValueId x = node.inputs[0], y = node.outputs[0];
    if (GridAt(x) == grid) return Replace(y, x);
    const auto [first, is_new] = fakes_.emplace(std::pair(x, grid), y);
    if (is_new) {
      SetGrid(y, grid);
    } else {
      Replace(y, first->second);
    }
  }
  void VisitConcat(const Node& node) {
    if (node.fused.op == "FakeQuantize") {
      Node fake;
      fake.attributes = node.fused.attributes;
      return SetGrid(node.outputs[0], GridOf(fake));
    }
    const std::optional<Grid> grid = GridAt(node.inputs[0]);
    const bool all = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId id) { return GridAt(id) == grid; });
    if (all) SetGrid(node.outputs[0], grid);
  }

  Graph& graph_;
  std::vector<std::optional<Grid>> grids_;  // by value
  std::vector<ValueId> same_;               // by value: what to read instead
  std::vector<bool> is_output_;             // by value
  std::map<std::pair<ValueId, Grid>, ValueId> fakes_;
};

/// Moves each FakeQuantize up to the node that computes its elements, which may then apply it:
/// through nodes that only rearrange elements, and past limits that the rounding implies.
void MoveUp(Graph& graph) {
  auto producers = ProducersOf(graph);
  const std::vector<std::size_t> uses = UsesOf(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    std::size_t at = i;
    while (graph.nodes[at].op == "FakeQuantize") {
      Node& fake = graph.nodes[at];
      const ValueId x = fake.inputs[0];
      const std::optional<std::size_t> before = producers[static_cast<std::size_t>(x)];
      if (!before || uses[static_cast<std::size_t>(x)] != 1) break;
      Node& node = graph.nodes[*before];
      const auto limits = LimitsOf(node);
      if (limits && Holds(*limits, GridOf(fake))) {
        fake.inputs[0] = node.inputs[0];  // Compact() drops the limits
        continue;
      }
      if (!Rearranges(node) || !IsFloat32(graph, node.inputs[0])) break;
      if (graph.value(x).sizes != kNoValue) break;
      // The value between the two nodes gets the shape that the elements had before.
      graph.value(x).dims = graph.value(node.inputs[0]).dims;
      std::swap(fake.outputs[0], node.outputs[0]);
      std::swap(fake.inputs[0], node.inputs[0]);
      std::swap(fake, node);
      producers[static_cast<std::size_t>(x)] = *before;
      at = *before;
    }
  }
}

/// A FakeQuantize of `x` in place of `fake`'s input. Returns its output.
ValueId AddFake(Graph& graph, Node fake, ValueId x, std::vector<Node>& nodes) {
  Value value;
  value.name = fake.name + ":part" + std::to_string(nodes.size());
  value.type = graph.value(x).type;
  value.dims = graph.value(x).dims;
  value.shape_known = graph.value(x).shape_known;
  graph.values.push_back(std::move(value));
  fake.name = graph.values.back().name;
  fake.inputs = {x};
  fake.outputs = {static_cast<ValueId>(graph.values.size() - 1)};
  nodes.push_back(std::move(fake));
  return nodes.back().outputs[0];
}

/// Whether `value` is rounded, perhaps moved a few times since.
bool IsRounded(const Graph& graph, const std::vector<std::optional<std::size_t>>& producers,
               ValueId value) {
  constexpr int kMostMoves = 8;
  for (int moves = 0; moves <= kMostMoves; ++moves) {
    const std::optional<std::size_t> by = producers[static_cast<std::size_t>(value)];
    if (!by) return false;
    const Node& node = graph.nodes[*by];
    if (node.op == "FakeQuantize") return true;
    if (!Moves(node)) return false;
    value = node.inputs[0];
  }
  return false;
}

/// Fuses a FakeQuantize into the Concat before it if its result is an output of the graph, and so
/// must be fp32, and if most of the joined elements come from inputs of the graph: a cache of a
/// decoder with a new entry. An equal FakeQuantize of a part is then not needed.
void RoundCaches(Graph& graph) {
  const auto producers = ProducersOf(graph);
  const std::vector<std::size_t> uses = UsesOf(graph);
  const auto count_of = [&](ValueId id) { return ElementCount(graph.value(id).dims); };
  const auto is_one_of = [](const std::vector<ValueId>& ids, ValueId id) {
    return std::ranges::find(ids, id) != ids.end();
  };
  /// What `part` rounds to the grid and nothing else reads, or `part` itself.
  const auto unrounded = [&](ValueId part, const Grid& grid) {
    const std::optional<std::size_t> by = producers[static_cast<std::size_t>(part)];
    const bool alone = by && uses[static_cast<std::size_t>(part)] == 1;
    const bool fake = alone && graph.nodes[*by].op == "FakeQuantize";
    return fake && GridOf(graph.nodes[*by]) == grid ? graph.nodes[*by].inputs[0] : part;
  };
  std::vector<bool> dropped(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& fake = graph.nodes[i];
    if (fake.op != "FakeQuantize" || !is_one_of(graph.outputs, fake.outputs[0])) continue;
    const ValueId x = fake.inputs[0];
    const std::optional<std::size_t> before = producers[static_cast<std::size_t>(x)];
    if (!before || uses[static_cast<std::size_t>(x)] != 1) continue;
    Node& join = graph.nodes[*before];
    if (join.op != "Concat" || graph.value(x).sizes != kNoValue) continue;
    std::vector<ValueId> parts;
    std::int64_t given = 0;
    for (const ValueId part : join.inputs) {
      parts.push_back(unrounded(part, GridOf(fake)));
      if (is_one_of(graph.inputs, parts.back())) given += count_of(parts.back());
    }
    if (2 * given < count_of(x)) continue;
    join.inputs = std::move(parts);
    join.outputs = fake.outputs;
    join.fused.activation = ActivationKind::kOp;
    join.fused.op = fake.op;
    join.fused.attributes = fake.attributes;
    dropped[i] = true;
  }
  std::size_t next = 0;
  std::erase_if(graph.nodes, [&](const Node&) { return dropped[next++]; });
}

/// Rounds the parts of a Concat in place of the joined tensor that nothing else reads: then bytes
/// are joined, a quarter of the memory, and the node that computes a part may round it. If all
/// parts are rounded already, their bytes are joined and then moved to the other grid. The
/// exception is a Concat before a batch-norm: the kernel of the batch-norm joins floats itself.
void RoundParts(Graph& graph) {
  const auto is_fake = [](const Node& node) { return node.op == "FakeQuantize"; };
  const auto producers = ProducersOf(graph);
  std::vector<bool> normalized(graph.values.size());  // read by a batch-norm
  for (const Node& node : graph.nodes) {
    if (node.op != "BatchNormalization") continue;
    normalized[static_cast<std::size_t>(node.inputs[0])] = true;
  }
  const std::vector<std::size_t> uses = UsesOf(graph);
  std::vector<std::optional<std::size_t>> fakes(graph.nodes.size());  // by node: what rounds it
  std::vector<bool> dropped(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& fake = graph.nodes[i];
    if (!is_fake(fake)) continue;
    const ValueId x = fake.inputs[0];
    const std::optional<std::size_t> before = producers[static_cast<std::size_t>(x)];
    if (!before || uses[static_cast<std::size_t>(x)] != 1) continue;
    const Node& join = graph.nodes[*before];
    if (join.op != "Concat" || graph.value(x).sizes != kNoValue) continue;
    const bool rounded = std::ranges::all_of(
        join.inputs, [&](ValueId part) { return IsRounded(graph, producers, part); });
    if (rounded && !normalized[static_cast<std::size_t>(fake.outputs[0])]) continue;
    fakes[*before] = i;
    dropped[i] = true;
  }
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dropped[i]) continue;
    Node& node = graph.nodes[i];
    if (fakes[i]) {
      const Node& fake = graph.nodes[*fakes[i]];
      for (ValueId& input : node.inputs) input = AddFake(graph, fake, input, nodes);
      node.outputs = fake.outputs;
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

/// Takes bytes from a large table that stands for floats, and computes the floats of what was
/// taken: the table needs a quarter of the memory, and no time when the model is loaded.
class TakeBytes {
 public:
  explicit TakeBytes(Graph& graph) : graph_(graph) {}

  void Run() {
    if (std::ranges::none_of(graph_.nodes, [&](const Node& node) { return Takes(node); })) return;
    std::vector<Node> nodes;
    for (Node& node : graph_.nodes) {
      if (!Takes(node)) {
        nodes.push_back(std::move(node));
        continue;
      }
      const auto [table, is_new] = tables_.try_emplace(node.inputs[0]);
      if (is_new) table->second = AddTable(node.inputs[0]);
      Node floats;
      floats.name = node.name + ":floats";
      floats.op = "DequantizeLinear";
      floats.outputs = node.outputs;
      const Value& y = graph_.value(node.outputs[0]);
      Value taken;
      taken.name = node.name + ":bytes";
      taken.type = graph_.value(table->second.front()).type;
      taken.dims = y.dims;
      taken.shape_known = y.shape_known;
      node.inputs[0] = table->second.front();
      node.outputs = {Add(std::move(taken))};
      floats.inputs = table->second;
      floats.inputs[0] = node.outputs[0];
      nodes.push_back(std::move(node));
      nodes.push_back(std::move(floats));
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  bool Takes(const Node& node) const {
    if (node.op != "Gather") return false;
    const Value& table = graph_.value(node.inputs[0]);
    if (table.quantized == nullptr || table.type != DataType::kFloat32) return false;
    return ElementCount(table.quantized->scale.dims) == 1 &&
           static_cast<std::size_t>(ElementCount(table.dims)) >= kDeferredBytes &&
           graph_.value(node.outputs[0]).sizes == kNoValue;
  }
  ValueId Add(Value value) {
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }
  /// The only number of `constant`, for all elements.
  ValueId AddNumber(const std::string& name, Constant constant) {
    constant.dims = {};
    return AddConstant(graph_, name, std::move(constant));
  }
  /// The inputs of a DequantizeLinear.
  std::vector<ValueId> AddTable(ValueId id) {
    const std::string name = graph_.value(id).name;
    const std::shared_ptr<const QuantizedConstant> from = graph_.value(id).quantized;
    std::vector<ValueId> inputs = {AddConstant(graph_, name + ":levels", from->levels),
                                   AddNumber(name + ":scale", from->scale)};
    if (from->zero) inputs.push_back(AddNumber(name + ":zero", *from->zero));
    return inputs;
  }

  Graph& graph_;
  std::map<ValueId, std::vector<ValueId>> tables_;  // by the table of floats
};

}  // namespace

void FuseQuantization(Graph& graph) {
  TakeBytes(graph).Run();
  ShareDequantized(graph);
  Compact(graph);
  DequantizeEarlier(graph).Run();
  JoinPairs(graph);
  Compact(graph);  // without the QuantizeLinears of the pairs, which read what is rounded, too
  RoundCaches(graph);
  RoundParts(graph);
  GridWalk(graph).Run();
  Compact(graph);
  MoveUp(graph);
  Compact(graph);
}

}  // namespace lagoon
